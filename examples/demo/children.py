"""The demo's processes: each with a log file of its own, ended by the demo that started it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Final

from tidegate.errors import FatalError

_KILL_AFTER_S: Final = 40.0
_SHOWN_LINES: Final = 15


class Child:
    """A Python module run as a process. ``output`` can be read if ``read_output`` asked for it."""

    def __init__(
        self,
        name: str,
        arguments: Sequence[str],
        log: Path,
        *,
        environment: Mapping[str, str] | None = None,
        read_output: bool = False,
    ) -> None:
        self.name = name
        self.log = log
        with log.open("ab") as output:
            self._process = subprocess.Popen(  # noqa: S603 - our own modules
                [sys.executable, "-m", *arguments],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE if read_output else output,
                stderr=output,
                env={**os.environ, **(environment or {})},
                text=True,
            )

    @property
    def output(self) -> IO[str]:
        """The standard output of the process."""
        if self._process.stdout is None:
            raise ValueError(f"the output of {self.name} goes to {self.log}")
        return self._process.stdout

    @property
    def running(self) -> bool:
        """Whether it has not ended yet."""
        return self._process.poll() is None

    def require_running(self) -> None:
        """Raise ``FatalError`` with the end of its log when it has ended."""
        if not self.running:
            raise FatalError(
                f"the {self.name} ended early with exit status {self._process.returncode}. The end of "
                f"{self.log}:\n{self._tail()}"
            )

    def ask_to_stop(self) -> None:
        """Send SIGTERM; it ends in its own time."""
        if self.running:
            self._process.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """End it as a crash would."""
        self._process.kill()
        self._process.wait()

    def wait(self) -> None:
        """Wait for its end. Raises ``FatalError`` when it did not end well."""
        status = self._process.wait()
        if status != 0:
            raise FatalError(
                f"the {self.name} ended with exit status {status}. The end of {self.log}:\n{self._tail()}"
            )

    def end(self) -> None:
        """Stop it, by force if it takes too long."""
        self.ask_to_stop()
        try:
            self._process.wait(_KILL_AFTER_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _tail(self) -> str:
        lines = self.log.read_text(errors="replace").splitlines()[-_SHOWN_LINES:]
        return "\n".join(f"    {line}" for line in lines)
