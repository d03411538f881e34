"""What a worker has from its machine."""

from __future__ import annotations

import threading

import pytest

from tidegate.worker.process.machine import REAL


def test_a_thread_that_the_system_does_not_give_is_a_fault_of_the_process(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As a ``RuntimeError`` it would be no fault of the process, and would fail the feeds that meet it."""

    def start(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", start)
    with pytest.raises(OSError, match="can't start new thread"):
        REAL.background(lambda: None, "work")
