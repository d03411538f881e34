"""Ends connections whose peer is gone and did not close them: its machine lost power, or its network."""

from __future__ import annotations

import socket
from typing import Final

#: How many seconds of silence pass until the kernel asks the peer; how many seconds lie between two
#: questions; and after how many questions without an answer the kernel ends the connection. With these
#: numbers it ends after a minute and a half, with the kernel's own numbers after two hours.
_OPTIONS: Final = (("TCP_KEEPIDLE", 45), ("TCP_KEEPINTVL", 15), ("TCP_KEEPCNT", 3))


def keep_alive(connection: socket.socket) -> None:
    """Let the kernel end a connection whose peer does not answer any more.

    If it is set on a listening socket, it holds for every connection that is accepted there.

    If sent bytes are not acknowledged yet, another time of the kernel counts (``tcp_retries2``, a quarter of
    an hour). ``TCP_USER_TIMEOUT`` would shorten that time. But it would also end a client that lives and does
    not read, and a subscription waits for such a client.
    """
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _OPTIONS:
        if (option := getattr(socket, name, None)) is not None:  # some systems lack some of these options
            connection.setsockopt(socket.IPPROTO_TCP, option, value)
