"""An address that comes to mean another server, such as a DNS name that gets a new address, or a virtual
address.

Existing connections stay with their server, as they do when a name gets a new address. ``cut`` ends them, as
a fail-over does.
"""

from __future__ import annotations

import socket
import threading
from contextlib import suppress
from typing import Final

_CHUNK_BYTES: Final = 65_536


class MovingAddress:
    """Passes each connection on to the server that its address ``means`` at that moment."""

    def __init__(self, means: str = "") -> None:
        self.means = means
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self._lock = threading.Lock()
        self._open: set[socket.socket] = set()
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self) -> None:
        """End the existing connections."""
        with self._lock:
            ends, self._open = self._open, set()
        for end in ends:
            _shut(end)

    def close(self) -> None:
        """Take no more connections, and end all."""
        _shut(self._listener)
        self._listener.close()
        self.cut()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return  # closed
            meant = self.means
            host, _, port = meant.rpartition(":")
            try:
                server = socket.create_connection((host, int(port or 0)))
            except OSError:  # no server answers, for example while the address means none yet
                client.close()
                continue
            with self._lock:
                is_still_meant = self.means == meant
                if is_still_meant:
                    self._open |= {client, server}
            if not is_still_meant:  # otherwise a `cut` that came meanwhile would have missed it
                client.close()
                server.close()
                continue
            for source, target in ((client, server), (server, client)):
                threading.Thread(target=self._pass_on, args=(source, target), daemon=True).start()

    def _pass_on(self, source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):
            while chunk := source.recv(_CHUNK_BYTES):
                target.sendall(chunk)
        _shut(target)
        with self._lock:
            self._open.discard(source)
        source.close()


def _shut(end: socket.socket) -> None:
    with suppress(OSError):
        end.shutdown(socket.SHUT_RDWR)
