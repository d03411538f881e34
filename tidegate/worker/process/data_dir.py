"""The data directory of a worker: for one process at a time, and for versions that can read its layout."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Self

from tidegate.access.directory_lock import DirectoryInUse, DirectoryLock
from tidegate.access.private_files import make_private
from tidegate.errors import TopologyError

#: The version of the directory's layout. A newer one is refused.
LAYOUT_VERSION: Final = 1
_MEMBERS: Final = "members.json"
#: Bytes of a version that the error shows.
_SHOWN_BYTES: Final = 20


class DataDirectory:
    """A locked data directory. The lock is the kernel's, and ends with the process, however it dies."""

    def __init__(self, home: Path) -> None:
        """Create ``home`` if it is missing, close it to other users, lock it and check its version.

        Raises ``TopologyError`` if it cannot be written, is in use by another process, was written by a newer
        version, or does not say which version wrote it. On every exception the directory is left unlocked.
        """
        self.home = home
        with self._writing():
            make_private(home)
            self._lock = self._locked()
        try:
            with self._writing():
                self._check_version()
        except BaseException:
            self._lock.close()
            raise

    def partition(self, partition: int) -> Path:
        """Return the directory of a log partition's state."""
        return self.home / f"partition-{partition}"

    def announce(self, url: str) -> None:
        """Note where this worker's status is served, for ``tidegate status``.

        Raises ``TopologyError`` if the directory cannot be written.
        """
        with self._writing():
            self._write("worker.json", json.dumps({"pid": os.getpid(), "url": url}))

    def members(self) -> tuple[str, ...]:
        """Return the names of group members that the former process noted and did not give up.

        A file that cannot be read gives no names: the group itself drops these members when their sessions
        expire.
        """
        try:
            names = json.loads((self.home / _MEMBERS).read_text())
        except (OSError, ValueError, RecursionError):
            return ()
        return tuple(map(str, names)) if isinstance(names, list) else ()

    def note_members(self, names: tuple[str, ...]) -> None:
        """Keep names in the consumer group for the next process.

        Raises ``TopologyError`` if the directory cannot be written.
        """
        with self._writing():
            self._write(_MEMBERS, json.dumps(names))

    def close(self) -> None:
        """Unlock the directory, and forget the names: this process has left the group."""
        (self.home / "worker.json").unlink(missing_ok=True)
        (self.home / _MEMBERS).unlink(missing_ok=True)
        self._lock.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _locked(self) -> DirectoryLock:
        try:
            return DirectoryLock(self.home)
        except DirectoryInUse as error:
            raise TopologyError(
                f"The data directory {self.home} is in use by the worker with process id {error.holder}; "
                "stop it, or give this worker a directory of its own (TIDEGATE_DATA_DIR)"
            ) from None

    def _check_version(self) -> None:
        file = self.home / "version"
        if not file.exists():
            self._write("version", str(LAYOUT_VERSION))
            return
        found = file.read_bytes().removesuffix(b"\n")
        if found not in {b"%d" % version for version in range(1, LAYOUT_VERSION + 1)}:
            shown = found.decode("ascii") if found.isdigit() else repr(found)[2:-1]
            shown = shown[:_SHOWN_BYTES]
            raise TopologyError(
                f"The data directory {self.home} is of version {shown}, but this worker reads version "
                f"{LAYOUT_VERSION}; run the newer worker, or delete the directory to have its content read "
                "again from the changelog topics"
            )

    def _write(self, name: str, line: str) -> None:
        """Write a file of one line, whole or not at all.

        Nobody reads half of it, even if the disk is full. It is not empty after a power failure.
        """
        unfinished = self.home / f"{name}.new"
        with unfinished.open("w") as file:
            file.write(f"{line}\n")
            file.flush()
            os.fsync(file.fileno())
        unfinished.replace(self.home / name)

    @contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise TopologyError(
                f"The data directory {self.home} cannot be written ({error.strerror}); make it writable for "
                "this user, with room on its disk, or set TIDEGATE_DATA_DIR to one that is"
            ) from None
