"""The server of subscriptions. Its clients speak PostgreSQL's protocol, or HTTP as browsers do."""
