"""A fork of the process that has imported the worker is a process as ``python -m`` starts it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from stack.places import CHECKOUT
from tests.e2e.forked_python import ForkedPython
from tests.e2e.worker_process import WorkerProcess
from tidegate.kernel import artefact

_SELF = ("-m", "tests.e2e.test_forked_python")


def told_by(process: ForkedPython, log: Path) -> Any:
    assert process.wait(60) == 0, log.read_text()
    return json.loads(log.read_text())


def test_it_has_arguments_an_environment_and_an_output_of_its_own(tmp_path: Path) -> None:
    told = [
        told_by(ForkedPython((*_SELF, "tell", name), {"NAME": name}, tmp_path / name), tmp_path / name)
        for name in ("one", "two")
    ]
    assert [(each["arguments"], each["environment"]) for each in told] == [
        (["tell", "one"], {"NAME": "one"}),
        (["tell", "two"], {"NAME": "two"}),
    ]
    assert {each["directory"] for each in told} == {str(CHECKOUT)}


def test_the_worker_is_imported_and_nothing_of_it_runs(tmp_path: Path) -> None:
    told = told_by(ForkedPython((*_SELF, "tell"), {}, tmp_path / "log"), tmp_path / "log")
    assert told["imported"]
    assert told["kernels"] == 1
    assert told["threads"] == 1


@pytest.mark.parametrize("status", [0, 1, 70])
def test_its_exit_status_is_known(status: int, tmp_path: Path) -> None:
    assert ForkedPython((*_SELF, "end", str(status)), {}, tmp_path / "log").wait(60) == status


def test_what_nobody_caught_is_in_its_log_and_its_status_is_1(tmp_path: Path) -> None:
    assert ForkedPython((*_SELF, "nonsense"), {}, tmp_path / "log").wait(60) == 1
    assert "KeyError: 'nonsense'" in (tmp_path / "log").read_text()


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_signals_end_it(number: signal.Signals, tmp_path: Path) -> None:
    process = ForkedPython((*_SELF, "wait"), {}, tmp_path / "log")
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(0.01)
    assert process.poll() is None
    process.send_signal(number)
    assert process.wait(60) == -number
    process.send_signal(number)  # to nobody


def test_a_fresh_worker_has_imported_nothing(tmp_path: Path) -> None:
    worker = WorkerProcess(tmp_path, {}, (*_SELF, "tell"), fresh=True)
    assert worker.wait() == 0
    told = json.loads(worker.text)
    assert not told["imported"]
    assert told["kernels"] == 0


def tell() -> None:
    """Write what this process is."""
    told = {
        "arguments": sys.argv[1:],
        "environment": dict(os.environ),
        "directory": str(Path.cwd()),
        "imported": "app.main" in sys.modules,
        "kernels": artefact.compiled.cache_info().currsize,
        "threads": len(list(Path("/proc/self/task").iterdir())),
    }
    sys.stdout.write(json.dumps(told))


if __name__ == "__main__":
    does = {"tell": tell, "end": lambda: sys.exit(int(sys.argv[2])), "wait": signal.pause}
    does[sys.argv[1]]()
