"""Ends a server when the process that started it has died, by whatever signal."""

from __future__ import annotations

import os
import subprocess
from typing import Final

# PR_SET_PDEATHSIG would be shorter, but it fires when the *thread* that started the server ends, and exists
# on Linux alone.
_WATCHER: Final = 'read -r _ || kill -KILL "$1"'
#: This shell becomes the server once it has read a line; with `exec`, so that its pid is the server's. End of
#: file means that the starting process died before a watcher was there: then no server must start.
_GATE: Final = 'read -r _ || exit 1; exec "$@" </dev/null'


class Leash:
    """A watcher beside one server: a small process that kills the server when our process is dead.

    The watcher reads a pipe whose other end only this process holds. When this process dies, the kernel
    closes that end, and the watcher reads end of file and kills the server. A line on the pipe ends the
    watcher instead. A process that we fork without exec holds the pipe too: then the server lives until this
    process and all such forks are dead.
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
        """End the watcher, and wait until it is gone."""
        try:
            os.write(self._pipe, b"ended\n")
        except BrokenPipeError:
            pass  # the watcher is gone already
        finally:
            os.close(self._pipe)
        self._watcher.wait()


class Gate:
    """A gate that holds a server back until its leash is on."""

    def __init__(self) -> None:
        self.stdin, self._pipe = os.pipe()

    def command(self, server: tuple[str, ...]) -> tuple[str, ...]:
        """Return the command to run in place of ``server``, with `stdin` as its standard input."""
        return ("/bin/sh", "-c", _GATE, "gate", *server)

    def open(self) -> None:
        """Let the server start."""
        os.write(self._pipe, b"go\n")

    def close(self) -> None:
        """Close the pipe. A server that still waits at the gate ends."""
        os.close(self.stdin)
        os.close(self._pipe)
