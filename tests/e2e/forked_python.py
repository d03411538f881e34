"""Worker processes that need not import the worker: each is forked from one process that has done so.

To import what a worker is made of takes a second and a half of processor time, more than most tests need of
it afterwards. So the first worker of a test process starts another process, which imports all this and does
nothing else. Every worker is a fork of that process, with an environment, arguments, signals, output and an
exit status of its own, as when ``python -m`` starts it. The import starts no thread, reads no setting and
connects to nothing. The only thing that it makes is the compiled kernel.
"""

from __future__ import annotations

import os
import runpy
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from importlib.machinery import PathFinder
from multiprocessing import get_context
from pathlib import Path
from typing import Final

import faust

from stack.places import CHECKOUT

#: What a worker imports; Faust looks for its commands only when it is called.
_IMPORTED: Final = [
    "app.main",
    "app.worker",
    "faust.cli.faust",
    "faust.cli.worker",
    "tests.e2e.kernel_for_forks",
    __name__,
]

_FORKS: Final = get_context("forkserver")
_FORKS.set_forkserver_preload(_IMPORTED)


class ForkedPython:
    """A process that runs ``python`` in the checkout with ``arguments``, which name a module. It is used like
    a `subprocess.Popen`."""

    def __init__(self, arguments: Sequence[str], environment: Mapping[str, str], log: Path) -> None:
        """Start it. Its output is appended to ``log``. It does not outlive this process's orderly end."""
        self.args = tuple(arguments)
        self._process = _FORKS.Process(target=_run, args=(self.args, dict(environment), log), daemon=True)
        self._process.start()

    @property
    def pid(self) -> int:
        """The process id."""
        assert self._process.pid is not None
        return self._process.pid

    @property
    def returncode(self) -> int | None:
        """None while it runs; the negative signal number if a signal ended it."""
        return self._process.exitcode

    def poll(self) -> int | None:
        """Return ``returncode`` as it is now."""
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Return its exit status, once it has ended. Raises `subprocess.TimeoutExpired`."""
        self._process.join(timeout)
        if self.returncode is None:
            raise subprocess.TimeoutExpired(self.args, timeout or 0)
        return self.returncode

    def send_signal(self, number: signal.Signals) -> None:
        """Send it a signal, unless it has ended."""
        if self.returncode is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        """Ask it to end."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """End it without warning."""
        self.send_signal(signal.SIGKILL)


def _run(arguments: Sequence[str], environment: Mapping[str, str], log: Path) -> None:
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(CHECKOUT)
    with log.open("ab") as output:
        os.dup2(output.fileno(), 1)
        os.dup2(output.fileno(), 2)
    # Faust puts an object without a specification into the place of its module; `runpy` looks for it there.
    faust.__spec__ = PathFinder.find_spec("faust")
    _, module, *rest = arguments  # -m
    sys.argv = [module, *rest]
    runpy.run_module(module, run_name="__main__", alter_sys=True)
