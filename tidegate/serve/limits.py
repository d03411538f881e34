"""The bounds of what the server holds, or waits for, because of a client."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ServeLimits:
    """The bounds of one server. A client that passes a bound gets an error; other clients notice nothing.

    Attributes:
        connections: clients of PostgreSQL at a time. As many more connections are accepted, to ask for a
            cancel or to be refused.
        web_connections: HTTP connections at a time.
        startup_s: seconds from the connection to the end of the login.
        startup_bytes: bytes of a message before the login, PostgreSQL's own bound.
        message_bytes: bytes of a message after the login, and so of a statement.
        waiting_bytes: bytes that wait in the server for a client that does not read.
        ahead_s: if a client sends more ahead than the server reads while a command of the client runs, its
            connection ends after so many seconds.
        names: prepared statements of a connection. The same bound holds for its portals, for its cursors, and
            for the settings that it sets.
        kept_characters: characters of the names and the texts of a connection's prepared statements. The same
            bound holds for its portals, and for its cursors.
        close_s: seconds until the connection of a client that does not read its last message is cut.
        pong_s: seconds until a WebSocket whose client does not answer a ping is closed. A client answers only
            after it has read what was sent before the ping.
        request_bytes: bytes of an HTTP request's line and headers; a statement stands in the line.
        streams: subscriptions that are open at a time, of both fronts.
        own_readers: subscriptions that have a reader of their own; each reader holds up to 16 MiB of fetched
            records.
        log_bytes: bytes of changes that each table holds for subscribers that are slower than others.
        explained_feeds: feeds that the page of feeds explains at a look; the others are listed.
        table_rows: rows of a table that the server keeps in memory, where it has no directory for them.
        table_bytes: about how many bytes these rows may take.
        own_bytes: about how many bytes all subscriptions together may keep of their own. These are rows for
            LIMIT and OFFSET, rows by key of readers that serve one subscription, batches that clients have
            not taken yet, and rows of snapshots that a table in memory has replaced or deleted.
    """

    connections: int = 100
    web_connections: int = 500
    startup_s: float = 10.0
    startup_bytes: int = 10_000
    message_bytes: int = 256 * 1024
    waiting_bytes: int = 256 * 1024
    ahead_s: float = 10.0
    names: int = 64
    kept_characters: int = 250_000
    close_s: float = 5.0
    pong_s: float = 20.0
    request_bytes: int = 96 * 1024
    streams: int = 1_000
    own_readers: int = 32
    log_bytes: int = 32 * 1024 * 1024
    explained_feeds: int = 50
    table_rows: int = 2_000_000
    table_bytes: int = 4 * 1024 * 1024 * 1024
    own_bytes: int = 4 * 1024 * 1024 * 1024
