"""Identifies a process by more than its pid, so that a later process with that pid is not taken for it."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Self

_PROC = Path("/proc")
_STATE, _START = 0, 19  # fields of /proc/<pid>/stat after the command's closing bracket (man 5 proc)
_POLL_S = 0.05
_EXEC_BOUND_S = 10.0


@dataclass(frozen=True, slots=True)
class ProcessIdentity:
    """The identity of a process: its pid, with facts that no other process of that pid shares.

    Attributes:
        pid: the process id.
        started: when the process began, in the system's own form: clock ticks since boot, or a date.
        command: its full command line.
    """

    pid: int
    started: str
    command: str

    @classmethod
    def of(cls, pid: int) -> Self | None:
        """Return the process that has ``pid`` now; None if there is none, or if it has ended."""
        facts = _facts(pid)
        return cls(pid, *facts) if facts else None

    @classmethod
    def of_new(cls, pid: int) -> Self | None:
        """Return the identity of a process that was started just now; None as in ``of``.

        This waits for the command line, which can be read only a moment after the process is there.
        """
        deadline = time.monotonic() + _EXEC_BOUND_S
        while (identity := cls.of(pid)) is not None and not identity.command:
            if time.monotonic() >= deadline:
                break
            time.sleep(_POLL_S)
        return identity

    def alive(self) -> bool:
        """Whether this very process still runs."""
        return ProcessIdentity.of(self.pid) == self

    def end(
        self,
        term_bound_s: float,
        kill_bound_s: float = 5.0,
        stop_signal: signal.Signals = signal.SIGTERM,
    ) -> bool:
        """Ask it to end, and kill it after ``term_bound_s`` seconds. Returns whether it is gone.

        After the kill it has ``kill_bound_s`` seconds to end.
        """
        self._send(stop_signal)
        self._send(signal.SIGCONT)  # a frozen process would not see the request
        if self._gone_within(term_bound_s):
            return True
        self._send(signal.SIGKILL)
        return self._gone_within(kill_bound_s)

    def _send(self, number: signal.Signals) -> None:
        if not self.alive():
            return
        try:
            os.kill(self.pid, number)
        except ProcessLookupError:
            return  # it ended meanwhile

    def _gone_within(self, bound_s: float) -> bool:
        deadline = time.monotonic() + bound_s
        while self.alive():
            if time.monotonic() >= deadline:
                return False
            time.sleep(_POLL_S)
        return True


def _from_proc(pid: int) -> tuple[str, str] | None:
    try:
        stat = (_PROC / str(pid) / "stat").read_text(errors="replace")
        command = (_PROC / str(pid) / "cmdline").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return None
    # The command in brackets may itself hold brackets and spaces: count from the last one.
    fields = stat.rpartition(")")[2].split()
    if fields[_STATE] == "Z":
        return None
    return fields[_START], command.replace(b"\0", b" ").decode(errors="replace").strip()


def _from_ps(pid: int) -> tuple[str, str] | None:
    done = subprocess.run(  # noqa: S603 - fixed arguments
        ["/bin/ps", "-ww", "-o", "stat=,lstart=,command=", "-p", str(pid)],
        capture_output=True,
        text=True,
        env={"LC_ALL": "C"},
        check=False,
    )
    # "Ss   Thu Nov 20 07:10:11 2025 command ...": a state, five words of a date, the command.
    words = done.stdout.split(None, 6)
    if len(words) < 7 or words[0].startswith("Z"):
        return None
    return " ".join(words[1:6]), words[6].strip()


_facts = _from_proc if _PROC.joinpath("self").exists() else _from_ps
