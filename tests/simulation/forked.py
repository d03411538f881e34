"""Simulations that need not import the workers: each is forked from one process that has done so.

To import them takes a second of processor time, as long as many a run that finds a defect.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryFile
from typing import Final, NamedTuple

from tests.simulation.__main__ import main

_ROOT: Final = Path(__file__).parents[2]


class Simulated(NamedTuple):
    """The exit status of ``python -m tests.simulation``, and all that it printed."""

    status: int
    output: str


class Simulations:
    """A process that has imported ``tests.simulation``. It forks itself for each command that it is given."""

    def __init__(self) -> None:
        environment = os.environ | {"PYTHONHASHSEED": "0"}  # what each would begin once more for
        command = [sys.executable, "-m", __name__]
        self._process = subprocess.Popen(
            command, cwd=_ROOT, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def run(self, *arguments: str) -> Simulated:
        """Do what ``python -m tests.simulation`` does with these arguments."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(arguments) + "\n")
        self._process.stdin.flush()
        while True:  # a test that was given up leaves its answer behind
            asked, status, output = json.loads(self._process.stdout.readline())
            if tuple(asked) == arguments:
                return Simulated(status, output)

    def close(self) -> None:
        """End the process; no simulation outlives it."""
        with self._process:
            assert self._process.stdin is not None
            self._process.stdin.close()


def _serve() -> None:
    for line in sys.stdin:
        arguments = json.loads(line)
        with TemporaryFile() as output:
            child = os.fork()
            if child == 0:
                os.dup2(output.fileno(), 1)
                os.dup2(output.fileno(), 2)
                os._exit(_status(arguments))
            _, ended = os.waitpid(child, 0)
            output.seek(0)
            answer = arguments, os.waitstatus_to_exitcode(ended), output.read().decode()
        print(json.dumps(answer), flush=True)


def _status(arguments: Sequence[str]) -> int:
    try:
        return main(arguments)
    except BaseException:  # a fork must not go on in `_serve`
        traceback.print_exc()
        return 2
    finally:
        sys.stdout.flush()
        sys.stderr.flush()


if __name__ == "__main__":
    _serve()
