"""Values that several test processes need. One process makes each value; the others read it from a file."""

from __future__ import annotations

import fcntl
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")


class MadeOnce:
    """Values of a run by their names.

    Attributes:
        directory: where the values of this run stand, for its processes alone. Without one each process makes
            its own.
    """

    def __init__(self, directory: Path | None = None) -> None:
        self.directory = directory

    def value(self, name: str, make: Callable[[], T]) -> T:
        """Return the value of that name. ``make`` makes it if no process has done so. Waits for a process
        that makes it now.

        The name is a file's. The value can be pickled, and is the same whoever makes it.
        """
        if self.directory is None:
            return make()
        self.directory.mkdir(parents=True, exist_ok=True)
        file = self.directory / name
        with file.with_suffix(".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # if the process dies, the lock is released
            if not file.exists():
                unfinished = file.with_suffix(".unfinished")
                unfinished.write_bytes(pickle.dumps(make()))
                unfinished.rename(file)
        found: T = pickle.loads(file.read_bytes())
        return found
