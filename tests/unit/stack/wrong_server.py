"""A program that listens where an HTTP server should be, and does not talk HTTP."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from stack.ports import LOOPBACK


@contextmanager
def saying(text: bytes) -> Iterator[str]:
    """The address of a program that says so much, whatever it is asked, and does not hang up."""
    with socket.create_server((LOOPBACK, 0)) as listener:

        def answer() -> None:
            with listener.accept()[0] as client:
                client.sendall(text)
                while client.recv(1 << 16):
                    continue

        thread = threading.Thread(target=answer)
        thread.start()
        yield f"http://{LOOPBACK}:{listener.getsockname()[1]}"
        thread.join()
