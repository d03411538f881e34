"""A proxy in front of a server. It loses answers as a network does: the server has done its work, and the
client does not hear of it."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import Final, Self

_CHUNK: Final = 1 << 16


class CutConnection:
    """Passes bytes on between clients and the server at ``host:port``.

    ``cut_when`` is asked for each request, by its first bytes. For ``True`` the answer is read from the
    server and thrown away, and the client's connection is closed. Every part of an answer comes ``slower_s``
    seconds later.
    """

    def __init__(
        self, server: tuple[str, int], cut_when: Callable[[bytes], bool], slower_s: float = 0.0
    ) -> None:
        self._server = server
        self._cut_when = cut_when
        self._slower_s = slower_s
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.cut = 0

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._listener.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with suppress(OSError), client, socket.create_connection(self._server) as server:
            lost = threading.Event()
            answers = threading.Thread(target=self._answer, args=(client, server, lost), daemon=True)
            answers.start()
            while some := client.recv(_CHUNK):
                if self._cut_when(some):
                    lost.set()
                server.sendall(some)
            answers.join(1)

    def _answer(self, client: socket.socket, server: socket.socket, lost: threading.Event) -> None:
        with suppress(OSError):
            while some := server.recv(_CHUNK):
                if lost.is_set():
                    self.cut += 1
                    client.shutdown(socket.SHUT_RDWR)
                    return
                time.sleep(self._slower_s)
                client.sendall(some)
