"""Things that several test processes need and one of them makes: the others read them from a file."""

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
        """The value of that name, from ``make`` if no process has made it; waits for one that makes it now.

        The name is a file's. The value can be pickled, and is the same whoever makes it.
        """
        if self.directory is None:
            return make()
        self.directory.mkdir(parents=True, exist_ok=True)
        file = self.directory / name
        with file.with_suffix(".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # a process that dies lets it go
            if not file.exists():
                unfinished = file.with_suffix(".unfinished")
                unfinished.write_bytes(pickle.dumps(make()))
                unfinished.rename(file)
        found: T = pickle.loads(file.read_bytes())
        return found
