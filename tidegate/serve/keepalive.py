"""Connections whose peer has gone without a word: its machine lost power, or its network."""

from __future__ import annotations

import socket
from typing import Final

#: Seconds of silence until the kernel asks the peer, and between two questions; questions without an answer
#: until it ends the connection. That is after a minute and a half, by the kernel's own figures after two
#: hours.
_OPTIONS: Final = (("TCP_KEEPIDLE", 45), ("TCP_KEEPINTVL", 15), ("TCP_KEEPCNT", 3))


def keep_alive(connection: socket.socket) -> None:
    """Have the kernel end a connection whose peer answers no more.

    On a listening socket it counts for every connection that is accepted there.

    Bytes that are on their way have the kernel's time (``tcp_retries2``, a quarter of an hour).
    ``TCP_USER_TIMEOUT`` would shorten that, and end as well a client that lives and does not read: but a
    subscription waits for its client.
    """
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _OPTIONS:
        if (option := getattr(socket, name, None)) is not None:  # not each system has all of them
            connection.setsockopt(socket.IPPROTO_TCP, option, value)
