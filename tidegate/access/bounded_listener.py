"""Accepts connections for an asyncio server. Their number is bounded; those in a TLS handshake count too."""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
import ssl
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from typing import Final

_BACKLOG: Final = 100
#: The time to rest when no connection can be accepted, in seconds.
_REST_S: Final = 1.0
#: The errors which say that a client has gone before it was accepted.
_GONE: Final = frozenset({errno.ECONNABORTED, errno.ECONNRESET, errno.EPROTO, errno.EINTR})

_log: Final = logging.getLogger(__name__)


def listening_sockets(host: str, port: int) -> list[socket.socket]:
    """Return sockets bound to all addresses of ``host``. Raises ``OSError`` if one cannot be bound."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    sockets: list[socket.socket] = []
    try:
        for family, address in dict.fromkeys((family, address) for family, *_, address in found):
            sockets.append(socket.create_server(address[:2], family=family, backlog=_BACKLOG))
    except OSError:
        for each in sockets:
            each.close()
        raise
    return sockets


class BoundedListener:
    """Gives connections of listening sockets to ``protocol``, and holds ``most`` of them at a time.

    ``open_now`` returns how many connections the server holds. Connections in a TLS handshake, which the
    server does not know yet, count too. A connection beyond ``most`` is closed without an answer. A handshake
    may take ``handshake_s`` seconds. asyncio's own servers do not count handshakes, so clients that begin
    many of them could use up all file descriptors of a process.
    """

    def __init__(
        self,
        protocol: Callable[[], asyncio.Protocol],
        open_now: Callable[[], int],
        most: int,
        *,
        tls: ssl.SSLContext | None = None,
        handshake_s: float,
    ) -> None:
        self._protocol = protocol
        self._open_now = open_now
        self._most = most
        self._tls = tls
        self._handshake_s = handshake_s
        self._sockets: list[socket.socket] = []
        self._accepting: list[asyncio.Task[None]] = []
        self._greeted: set[asyncio.Task[None]] = set()

    @property
    def greeted(self) -> int:
        """The number of connections that are in their handshake."""
        return len(self._greeted)

    def listen(self, sockets: Iterable[socket.socket]) -> None:
        """Accept connections from now on. The sockets are bound already. ``close`` closes them."""
        self._sockets = list(sockets)
        for each in self._sockets:
            each.listen(_BACKLOG)
            each.setblocking(False)
        self._accepting = [asyncio.ensure_future(self._accept(each)) for each in self._sockets]

    async def close(self) -> None:
        """Accept no more connections, and end the handshakes that are under way.

        Connections whose handshake is over stay open.
        """
        tasks = [*self._accepting, *self._greeted]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for each in self._sockets:
            each.close()

    async def _accept(self, listening: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                connection, _ = await loop.sock_accept(listening)
            except OSError as error:
                if error.errno not in _GONE:  # for example, no file descriptor is left
                    _log.warning("no connection can be accepted for a second: %s", error.strerror)
                await asyncio.sleep(0 if error.errno in _GONE else _REST_S)
                continue
            if self._open_now() + len(self._greeted) >= self._most:
                connection.close()
                await asyncio.sleep(0)
                continue
            task = asyncio.ensure_future(self._greet(connection))
            self._greeted.add(task)
            task.add_done_callback(partial(self._greeted_one, connection))
            await asyncio.sleep(0)  # lets other tasks run, however many clients come

    async def _greet(self, connection: socket.socket) -> None:
        """Give a connection to the server; with TLS, after its handshake."""
        handshake_s = None if self._tls is None else self._handshake_s
        with suppress(OSError):  # the client's fault
            await asyncio.get_running_loop().connect_accepted_socket(
                self._protocol, connection, ssl=self._tls, ssl_handshake_timeout=handshake_s
            )
            return
        connection.close()

    def _greeted_one(self, connection: socket.socket, task: asyncio.Task[None]) -> None:
        self._greeted.discard(task)
        if task.cancelled():
            connection.close()
