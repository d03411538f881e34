"""The server of subscriptions: for clients of PostgreSQL, and for browsers and HTTP."""
