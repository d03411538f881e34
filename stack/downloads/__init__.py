"""Jars and archives of the servers, each held to its hash."""
