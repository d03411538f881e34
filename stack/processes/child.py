"""One server process that this process started."""

from __future__ import annotations

import os
import pwd
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path

from stack.processes.leash import Gate, Leash
from stack.processes.server import Conduct

TERM_BOUND_S = 20.0
_CRASH_BOUND_S = 10.0
_USUAL = Conduct()


class Child:
    """A process that this one started, in a session of its own, so that Ctrl-C does not reach it."""

    def __init__(
        self, command: Sequence[str], log: Path, *, leashed: bool, conduct: Conduct = _USUAL
    ) -> None:
        """Start ``command``. Its output is appended to ``log``. A ``leashed`` process dies with this one."""
        self._conduct = conduct
        self._leash: Leash | None = None
        if leashed:
            self._start_leashed(tuple(command), log)
        else:
            self._process = _spawn(command, subprocess.DEVNULL, log, conduct)

    def _start_leashed(self, command: tuple[str, ...], log: Path) -> None:
        gate = Gate()
        try:
            self._process = _spawn(gate.command(command), gate.stdin, log, self._conduct)
            try:
                self._leash = Leash(self._process.pid)
            except BaseException:
                self._process.kill()
                self._process.wait()
                raise
            gate.open()
        finally:
            gate.close()

    @property
    def pid(self) -> int:
        """The process id of the server itself, even if it is leashed."""
        return self._process.pid

    @property
    def exit_status(self) -> int | None:
        """The exit status: None while it runs, the negative signal number if a signal ended it."""
        status = self._process.poll()
        if status is not None:
            self._release()
        return status

    def pause(self) -> None:
        """Freeze it: connections stay open and nothing answers. Returns once all of its threads stand still.

        It is not enough to send the signal: on a busy machine threads run on for a moment, and may answer.
        """
        self._process.send_signal(signal.SIGSTOP)
        if self._process.returncode is None:  # WNOWAIT: Popen can still read an exit status
            os.waitid(os.P_PID, self.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)

    def resume(self) -> None:
        """Let a frozen process go on."""
        self._process.send_signal(signal.SIGCONT)

    def stop(self) -> None:
        """Ask it to end, and kill it if it has not ended after 20 s. Does nothing if it has ended already."""
        self._end(self._conduct.stop_signal, TERM_BOUND_S)

    def kill(self) -> None:
        """End it without warning, as a power cut would."""
        self._end(self._conduct.crash_signal, _CRASH_BOUND_S)

    def _end(self, number: signal.Signals, bound_s: float) -> None:
        self._process.send_signal(number)
        self.resume()  # a frozen process would not see the request
        try:
            self._process.wait(bound_s)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._release()

    def _release(self) -> None:
        if self._leash is not None:
            leash, self._leash = self._leash, None
            leash.release()


def _spawn(command: Sequence[str], stdin: int, log: Path, conduct: Conduct) -> subprocess.Popen[bytes]:
    account = conduct.account
    with log.open("ab") as output:
        return subprocess.Popen(  # noqa: S603 - the recipe's own command
            command,
            stdin=stdin,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            env={**os.environ, **conduct.environment},
            cwd=None if account is None else "/",  # the account may not be able to enter ours
            user=account,
            group=None if account is None else pwd.getpwnam(account).pw_gid,
            extra_groups=None if account is None else (),
        )
