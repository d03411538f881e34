"""One server process that we started."""

from __future__ import annotations

import os
import pwd
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path

from stack.server import Conduct

TERM_BOUND_S = 20.0
_CRASH_BOUND_S = 10.0
_USUAL = Conduct()

# The leash. The shell turns itself into the server (`exec`, so the server's pid is `$$`) after leaving a
# watcher behind that reads a pipe whose other end only our process holds. When our process dies, by
# whatever signal, the kernel closes that end, the watcher reads end-of-file and kills the server. A line
# on the pipe sends the watcher home instead. PR_SET_PDEATHSIG would be shorter, but it fires when the
# *thread* that started the server ends, and exists on Linux alone. A process that we fork without exec
# holds the pipe too: the server then lives until the last of us is dead.
_LEASH = 'exec 3<&0 </dev/null; (read -r _ <&3 || kill -KILL $$) & exec "$@" 3<&-'


class Child:
    """A process started by this one, in a session of its own so that Ctrl-C in a terminal spares it."""

    def __init__(
        self, command: Sequence[str], log: Path, *, leashed: bool, conduct: Conduct = _USUAL
    ) -> None:
        """Start ``command`` with its output appended to ``log``; ``leashed`` processes die with this one."""
        self._conduct = conduct
        self._leash: int | None = None
        stdin = subprocess.DEVNULL
        if leashed:
            stdin, self._leash = os.pipe()
            command = ("/bin/sh", "-c", _LEASH, "leash", *command)
        try:
            self._process = _spawn(command, stdin, log, conduct.account)
        except BaseException:
            self._release()
            raise
        finally:
            if leashed:
                os.close(stdin)

    @property
    def pid(self) -> int:
        """Its process id, also of a leashed one."""
        return self._process.pid

    @property
    def exit_status(self) -> int | None:
        """None while it runs; the negative signal number if a signal ended it."""
        status = self._process.poll()
        if status is not None:
            self._release()
        return status

    def pause(self) -> None:
        """Freeze it: connections stay open and nothing answers."""
        self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Let a frozen one go on."""
        self._process.send_signal(signal.SIGCONT)

    def stop(self) -> None:
        """Ask it to end, and kill it if it has not after 20 s. Nothing happens when it has ended already."""
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
        if self._leash is None:
            return
        leash, self._leash = self._leash, None
        try:
            os.write(leash, b"ended\n")
        except BrokenPipeError:
            pass  # the watcher is gone as well
        finally:
            os.close(leash)


def _spawn(command: Sequence[str], stdin: int, log: Path, account: str | None) -> subprocess.Popen[bytes]:
    with log.open("ab") as output:
        return subprocess.Popen(  # noqa: S603 - the recipe's own command
            command,
            stdin=stdin,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            cwd=None if account is None else "/",  # ours may be closed to the account
            user=account,
            group=None if account is None else pwd.getpwnam(account).pw_gid,
            extra_groups=None if account is None else (),
        )
