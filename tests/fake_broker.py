"""A stranger in the place of a broker. It speaks as much of Kafka's protocol as a client needs to log in."""

from __future__ import annotations

import socket
import struct
import threading
from contextlib import suppress
from typing import Any, Final, Self

_API_VERSIONS: Final = 18
_HANDSHAKE: Final = 17
_AUTHENTICATE: Final = 36
_METADATA: Final = 3
_UNSUPPORTED_VERSION: Final = 35
_MECHANISM: Final = b"PLAIN"


class FakeBroker:
    """A listener that offers SASL PLAIN to every client, and keeps all bytes that it is sent. Use it in a
    ``with``."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self.connections = 0
        self.received = bytearray()
        #: Set once a client has sent its login.
        self.told = threading.Event()

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                self.connections += 1
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with client, suppress(OSError, struct.error):
            while True:
                (length,) = struct.unpack(">i", client.recv(4, socket.MSG_WAITALL))
                request = client.recv(length, socket.MSG_WAITALL)
                self.received += request
                key, version, correlation = struct.unpack(">hhi", request[:8])
                answer = struct.pack(">i", correlation) + self._answer(key, version)
                client.sendall(struct.pack(">i", len(answer)) + answer)

    def _answer(self, key: int, version: int) -> bytes:
        if key == _API_VERSIONS:
            known: list[tuple[Any, ...]] = [
                (_API_VERSIONS, 0, 0),
                (_HANDSHAKE, 0, 1),
                (_AUTHENTICATE, 0, 1),
                (_METADATA, 0, 1),
            ]
            error = _UNSUPPORTED_VERSION if version else 0
            return struct.pack(">hi", error, len(known)) + b"".join(
                struct.pack(">hhh", *api) for api in known
            )
        if key == _HANDSHAKE:
            return struct.pack(">hih", 0, 1, len(_MECHANISM)) + _MECHANISM
        if key == _AUTHENTICATE:
            self.told.set()
            return struct.pack(">hhi", 0, -1, 0)
        raise OSError("nothing more is known")
