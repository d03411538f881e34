"""A process that is measured: started in the checkout, its processor time and memory, stopped."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import psutil  # type: ignore[import-untyped]  # no stubs

from stack.places import CHECKOUT
from tidegate.errors import RetryError

_STOP_S: Final = 60.0
_LOOK_AGAIN_S: Final = 0.05
_TAIL_BYTES: Final = 4_000


class MeasuredProcess:
    """``program``, by default this Python, with ``arguments``; its output goes to ``log``."""

    def __init__(
        self,
        arguments: Sequence[str],
        environment: Mapping[str, str],
        log: Path,
        program: Path = Path(sys.executable),
    ) -> None:
        self.log = log
        with log.open("wb") as output:
            self._process = subprocess.Popen(  # noqa: S603 - our own programs
                [program, *arguments],
                cwd=CHECKOUT,
                env={**os.environ, **environment},
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        self._meter = psutil.Process(self._process.pid)

    @property
    def cpu_s(self) -> float:
        """The processor time of all its threads since its start, in seconds."""
        times = self._meter.cpu_times()
        return float(times.user + times.system)

    @property
    def rss_mib(self) -> float:
        """The memory that it has in use, in MiB."""
        return float(self._meter.memory_info().rss) / (1 << 20)

    def require_running(self) -> None:
        """Raise ``RetryError`` with the end of its log when it has ended."""
        if self._process.poll() is not None:
            raise RetryError(f"the measured process ended with {self._process.returncode}:\n{self._tail()}")

    def wait_for(self, text: str, times: int = 1, timeout_s: float = 60.0) -> None:
        """Return once its log has the text ``times`` times."""
        deadline = time.monotonic() + timeout_s
        while self.log.read_text(errors="replace").count(text) < times:
            self.require_running()
            if time.monotonic() > deadline:
                raise RetryError(f"no {text!r} within {timeout_s:.0f} s in the log:\n{self._tail()}")
            time.sleep(_LOOK_AGAIN_S)

    def said_at(self, text: str) -> float:
        """Return when it first wrote a line with the text, in seconds since 1970. The time is the stamp at
        the line's begin."""
        line = next(line for line in self.log.read_text(errors="replace").splitlines() if text in line)
        return datetime.fromisoformat(line.split()[0]).timestamp()

    def wait(self, timeout_s: float) -> None:
        """Return once it has ended by itself, without an error."""
        if self._process.wait(timeout_s):
            raise RetryError(f"the measured process ended with {self._process.returncode}:\n{self._tail()}")

    def suspend(self) -> None:
        """Let it stand still until ``resume``."""
        self._meter.suspend()

    def resume(self) -> None:
        """Let it go on."""
        self._meter.resume()

    def kill(self) -> None:
        """End it as a crash would."""
        self._process.kill()
        self._process.wait()

    def stop(self) -> None:
        """Ask it to end; kill it when it does not."""
        self._process.terminate()
        try:
            self._process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _tail(self) -> str:
        return self.log.read_bytes()[-_TAIL_BYTES:].decode(errors="replace")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
