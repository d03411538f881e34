"""A run ends where its broker has stopped answering, and says what the broker did last."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from queue import Queue
from types import SimpleNamespace
from typing import Any

import pytest

from tests.broker_watch import BrokerWatch

#: Writes what its threads do when it is asked for that, as Java does.
_SERVER = """
import faulthandler, signal, sys, time
faulthandler.register(signal.SIGQUIT)
print("ready", flush=True)
time.sleep(600)
"""


@pytest.fixture
def server(tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    with (
        (tmp_path / "log").open("wb") as log,
        subprocess.Popen([sys.executable, "-c", _SERVER], stdout=subprocess.PIPE, stderr=log) as process,
    ):
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        yield process
        process.kill()


def test_a_broker_that_accepts_nothing_any_more_ends_the_run_once(
    tmp_path: Path, server: subprocess.Popen[bytes]
) -> None:
    ended = Queue[str]()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = f"127.0.0.1:{listener.getsockname()[1]}"
        broker: Any = SimpleNamespace(address=address, log=tmp_path / "log", pid=server.pid)
        watch = BrokerWatch(broker, ended.put, look_s=0.02, silent_s=0.3)
        with listener.accept()[0], listener.accept()[0]:
            assert ended.empty(), "it accepts connections"
    report = ended.get(timeout=60)
    assert f"The broker of all tests at {address} has accepted no connection" in report
    assert 'File "<string>", line 5' in report, "what its threads do"
    watch.close()
    assert ended.empty()


def test_a_watch_that_is_closed_ends_nothing(tmp_path: Path) -> None:
    ended = Queue[str]()
    broker: Any = SimpleNamespace(address="127.0.0.1:1", log=tmp_path / "log", pid=0)
    watch = BrokerWatch(broker, ended.put, look_s=3_600, silent_s=0)
    watch.close()
    assert ended.empty()
