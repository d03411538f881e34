"""The recipes of the servers: how each is configured, started, and asked whether it is ready."""
