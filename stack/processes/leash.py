"""What ends a server when the process that started it has died, by whatever signal."""

from __future__ import annotations

import os
import subprocess
from typing import Final

# PR_SET_PDEATHSIG would be shorter, but it fires when the *thread* that started the server ends, and exists
# on Linux alone.
_WATCHER: Final = 'read -r _ || kill -KILL "$1"'
#: Becomes the server (`exec`, so the pid is the server's own) once a line has come. End of file means that
#: the starting process died before anything watched the server: then there shall be none.
_GATE: Final = 'read -r _ || exit 1; exec "$@" </dev/null'


class Leash:
    """A watcher beside one server: a small process that kills the server when this one is dead.

    The watcher reads a pipe whose other end only this process holds. When this process dies the kernel closes
    that end, the watcher reads end of file and kills the server; a line on the pipe sends the watcher home
    instead. A process that we fork without exec holds the pipe too: the server then lives until the last of
    us is dead.
    """

    def __init__(self, pid: int) -> None:
        """Watch the process ``pid``."""
        stdin, self._pipe = os.pipe()
        try:
            self._watcher = subprocess.Popen(  # noqa: S603 - a command of our own
                ("/bin/sh", "-c", _WATCHER, "watcher", str(pid)),
                stdin=stdin,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
                cwd="/",
            )
        except BaseException:
            os.close(self._pipe)
            raise
        finally:
            os.close(stdin)

    def release(self) -> None:
        """Send the watcher home; returns when it is gone."""
        try:
            os.write(self._pipe, b"ended\n")
        except BrokenPipeError:
            pass  # it is gone already
        finally:
            os.close(self._pipe)
        self._watcher.wait()


class Gate:
    """Holds a server back until its leash is on."""

    def __init__(self) -> None:
        self.stdin, self._pipe = os.pipe()

    def command(self, server: tuple[str, ...]) -> tuple[str, ...]:
        """What to run in the server's place, with `stdin` as its standard input."""
        return ("/bin/sh", "-c", _GATE, "gate", *server)

    def open(self) -> None:
        """Let the server start."""
        os.write(self._pipe, b"go\n")

    def close(self) -> None:
        """Forget the pipe; a server that still waits at it ends."""
        os.close(self.stdin)
        os.close(self._pipe)
