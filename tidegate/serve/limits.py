"""How much a client can have the server hold or wait for."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ServeLimits:
    """Bounds of one server. A client beyond one gets a sentence; other clients notice nothing.

    Attributes:
        connections: clients of PostgreSQL at a time; as many again may ask for a cancel or be refused.
        web_connections: HTTP connections at a time.
        startup_s: seconds from the connection to the end of the login.
        startup_bytes: bytes of a message before the login, PostgreSQL's own bound.
        message_bytes: bytes of a message after it, and so of a statement.
        waiting_bytes: bytes that wait in the server for a client that does not read.
        names: prepared statements, portals and cursors of a connection, and settings that it sets.
        close_s: seconds until a client that does not read its last message is dropped.
        request_bytes: bytes of an HTTP request's line and headers; a statement stands in the line.
    """

    connections: int = 100
    web_connections: int = 500
    startup_s: float = 10.0
    startup_bytes: int = 10_000
    message_bytes: int = 256 * 1024
    waiting_bytes: int = 256 * 1024
    names: int = 64
    close_s: float = 5.0
    request_bytes: int = 96 * 1024
