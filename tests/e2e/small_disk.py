"""A disk that can be full: a file system of its own, in memory, that only the worker and this test see.

It needs no privilege: the file system is mounted in a user namespace, which an unprivileged process may
have on most kernels. ``python -m tests.e2e.small_disk <holder> <arguments>`` runs Python in it.
"""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import pytest

_HOLD: Final = 'mount -t tmpfs -o "size=$2" tmpfs "$1" && echo mounted && exec sleep infinity'
_PIECE: Final = 64 << 10


class SmallDisk:
    """``size_bytes`` of space at ``mounted_at``, for processes that run by ``arguments``.

    This process sees it at ``path``.
    """

    def __init__(self, path: Path, size_bytes: int) -> None:
        """Mount it. Skips the test if the kernel does not allow that."""
        path.mkdir(parents=True, exist_ok=True)
        hold = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", _HOLD, "hold"]
        self._holder = subprocess.Popen(
            [*hold, str(path), str(size_bytes)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        assert self._holder.stdout is not None
        said = self._holder.stdout.readline()
        if said != "mounted\n":
            self.close()
            pytest.skip(f"no file system of its own can be mounted here: {said}")
        #: Where its processes see it.
        self.mounted_at = path
        #: Where this process sees it.
        self.path = Path(f"/proc/{self._holder.pid}/root{path}")
        self._ballast = self.path / "ballast"

    def arguments(self, *python: str) -> tuple[str, ...]:
        """Return what to give to Python instead of the arguments ``python``, so that it runs with the disk at
        ``mounted_at``."""
        return ("-m", "tests.e2e.small_disk", str(self._holder.pid), *python)

    def fill(self) -> None:
        """Leave no byte of space."""
        with self._ballast.open("ab", buffering=0) as ballast:
            for size in (_PIECE, 1):
                try:
                    while True:
                        ballast.write(bytes(size))
                except OSError as error:
                    if error.errno != errno.ENOSPC:
                        raise

    def free(self) -> None:
        """Give the space back."""
        self._ballast.unlink()

    def close(self) -> None:
        """Unmount it, with what is on it."""
        self._holder.kill()
        self._holder.communicate()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


if __name__ == "__main__":
    _, holder, *python = sys.argv
    enter = ["nsenter", "--user", "--mount", "--preserve-credentials", "--target", holder]
    os.chdir("/")
    os.execvp("nsenter", [*enter, f"--wd={Path(__file__).parents[2]}", sys.executable, *python])
