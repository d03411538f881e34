"""The lock of a directory: one process at a time has it."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path
from typing import Final

_LOCK: Final = "lock"
_MOST_BYTES: Final = 32


class DirectoryInUse(Exception):
    """Another process has the directory. The caller makes a message of this error.

    ``holder`` is the id of that process, or ``unknown`` if the locked file does not name it.
    """

    def __init__(self, holder: str) -> None:
        super().__init__(holder)
        self.holder = holder


class DirectoryLock:
    """The locked file ``lock`` in a directory.

    The operating system keeps the lock. So the lock ends with the process, however the process dies.
    """

    __slots__ = ("_file",)

    def __init__(self, directory: Path) -> None:
        """Lock the directory.

        Raises ``DirectoryInUse`` if another process has it, and ``OSError`` if the file cannot be written.
        """
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        self._file = os.open(directory / _LOCK, flags, 0o600)
        try:
            self._lock()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Unlock the directory. A second call does nothing."""
        file, self._file = self._file, -1
        if file >= 0:
            os.close(file)

    def _lock(self) -> None:
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(self._file, _MOST_BYTES, 0).decode(errors="replace").strip()
            raise DirectoryInUse(holder or "unknown") from None
        os.ftruncate(self._file, 0)
        os.pwrite(self._file, f"{os.getpid()}\n".encode(), 0)
