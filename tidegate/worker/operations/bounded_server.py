"""An HTTP server whose connections are bounded in number, in time, and in the size of their headers."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Sequence
from typing import Any

from aiohttp import web

from tidegate.access.bounded_listener import BoundedListener
from tidegate.access.http_access import (
    CONNECTION_S,
    MOST_CONNECTIONS,
    MOST_HEADER_BYTES,
    MOST_HEADERS,
)

_FULL_S = 0.1


class BoundedServer(web.Server):
    """A server that ends each connection after ``connection_s`` seconds, even within its headers.

    A handshake of TLS comes before the connection, and has as many seconds of its own. If ``most``
    connections are open, a further one is closed after a tenth of a second. If twice ``most`` are open, those
    in a handshake included, a further one is closed immediately, and nothing is read from it.
    """

    def __init__(
        self, handler: Any, *, connection_s: float = CONNECTION_S, most: int = MOST_CONNECTIONS
    ) -> None:
        super().__init__(
            handler,
            access_log=None,
            max_headers=MOST_HEADERS,
            max_line_size=MOST_HEADER_BYTES,
            max_field_size=MOST_HEADER_BYTES,
            lingering_time=0,
        )
        self._connection_s = connection_s
        self._most = most

    def listen(self, sockets: Sequence[socket.socket], tls: ssl.SSLContext | None = None) -> BoundedListener:
        """Begin to serve on sockets, which belong to the returned listener from then on."""
        listener = BoundedListener(
            self, lambda: len(self.connections), 2 * self._most, tls=tls, handshake_s=self._connection_s
        )
        listener.listen(sockets)
        return listener

    def connection_made(self, handler: Any, transport: asyncio.Transport) -> None:
        """Count a connection, after its handshake if it has one, and set the time of its end."""
        full = len(self.connections) >= self._most
        super().connection_made(handler, transport)
        asyncio.get_running_loop().call_later(_FULL_S if full else self._connection_s, transport.abort)
