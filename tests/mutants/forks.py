"""Work in child processes that are forks of this one: all that is imported here, they have."""

from __future__ import annotations

import ctypes
import os
import resource
import select
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

Key = TypeVar("Key")

#: Ten times what tests need: a loop that never ends may collect what it finds. What is reserved and not used
#: does not count.
MEMORY: Final = 8 << 30
#: A pipe takes this much at once, though nobody reads yet.
_TOLD_BYTES: Final = 4096
_PR_SET_PDEATHSIG: Final = 1


@dataclass(frozen=True, slots=True)
class _Child(Generic[Key]):
    key: Key
    pid: int
    pipe: int
    deadline: float


class Forks(Generic[Key]):
    """At most ``jobs`` children at a time. What a child returns is text of at most 4,096 bytes."""

    def __init__(self, jobs: int) -> None:
        self._jobs = jobs
        self._children: list[_Child[Key]] = []

    def __len__(self) -> int:
        return len(self._children)

    @property
    def is_full(self) -> bool:
        """Whether there are as many children as there may be."""
        return len(self._children) >= self._jobs

    def start(self, key: Key, work: Callable[[], str], limit_s: float) -> None:
        """Do the work in a child, which is killed after so many seconds with all that it has started."""
        reading, writing = os.pipe()
        pid = os.fork()
        if pid:
            os.close(writing)
            self._children.append(_Child(key, pid, reading, time.monotonic() + limit_s))
            return
        try:
            _be_alone()
            told = work()
        except BaseException:
            told = traceback.format_exc()[-_TOLD_BYTES // 4 :]
        os.write(writing, told.encode()[:_TOLD_BYTES])
        os._exit(0)

    def wait(self) -> Iterator[tuple[Key, str | None]]:
        """Wait until children end. Gives what each one has returned, ``None`` where it was killed."""
        while self._children:
            ready, _, _ = select.select([child.pipe for child in self._children], [], [], 1.0)
            now = time.monotonic()
            ended = [child for child in self._children if child.pipe in ready or now > child.deadline]
            for child in ended:
                self._children.remove(child)
                told = os.read(child.pipe, _TOLD_BYTES).decode() if child.pipe in ready else None
                with suppress(ProcessLookupError):
                    os.killpg(child.pid, signal.SIGKILL)
                os.waitpid(child.pid, 0)
                os.close(child.pipe)
                yield child.key, told
            if ended:
                return


def _be_alone() -> None:
    """Be a group of processes of its own, with bounded memory, and with nobody who hears.

    On Linux it ends with its parent.
    """
    os.setpgid(0, 0)
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    nowhere = os.open(os.devnull, os.O_RDWR)
    for descriptor in range(3):
        os.dup2(nowhere, descriptor)
    hard = resource.getrlimit(resource.RLIMIT_DATA)[1]
    if hard == resource.RLIM_INFINITY or hard > MEMORY:
        resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))
