"""Tests what a command is told at the address of a worker, where anything may answer."""

from __future__ import annotations

import os
import select
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

import tidegate.client.why.worker_status
from tidegate.client.why.worker_status import fetch_status
from tidegate.errors import InputError

_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\n\r\n"


@contextmanager
def answering(chunk: bytes, pause_s: float) -> Iterator[str]:
    """A server that goes on with its answer until the client breaks off."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            client = server.accept()[0]
            with client:
                client.recv(1 << 16)
                client.sendall(_HEAD)
                try:
                    while True:
                        client.sendall(chunk)
                        time.sleep(pause_s)
                except OSError:
                    return

        thread = threading.Thread(target=answer, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.getsockname()[1]}"
        thread.join(10)
        assert not thread.is_alive(), "the client did not break off"


def test_an_answer_without_an_end_is_broken_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tidegate.client.why.worker_status, "_MOST_BYTES", 1 << 20)
    with answering(b" " * 65_536, 0) as url, pytest.raises(InputError, match="is not a worker: it sent"):
        fetch_status(url, 10)


def test_an_answer_that_drips_is_broken_off(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each byte comes before the timeout of a read."""
    monkeypatch.setattr(tidegate.client.why.worker_status, "_ANSWER_S", 0.2)
    with answering(b" ", 0.01) as url, pytest.raises(InputError, match=r"in 0\.2 s"):
        fetch_status(url, 10)


_ASK = """
from tidegate.client.why.worker_status import fetch_status
from tidegate.errors import RetryError

try:
    fetch_status("http://127.0.0.1:1", 10)
except RetryError:
    print("nobody is there")
"""


def test_no_proxy_is_told_the_token() -> None:
    """The environment names one for all programs of the machine."""
    with socket.create_server(("127.0.0.1", 0)) as proxy:
        named = {"http_proxy": f"http://127.0.0.1:{proxy.getsockname()[1]}", "no_proxy": ""}
        environment = {**os.environ, **named, "TIDEGATE_METRICS_TOKEN": "for-the-worker"}
        command = [sys.executable, "-c", _ASK]
        asked = subprocess.run(
            command, env=environment, capture_output=True, text=True, timeout=200, check=False
        )
        assert asked.stdout == "nobody is there\n", asked.stderr
        assert select.select([proxy], [], [], 0)[0] == []
