"""The web front: subscriptions as NDJSON, server-sent events and WebSocket, and a page that shows them."""
