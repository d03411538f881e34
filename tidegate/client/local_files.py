"""Keeps files in a private directory of this machine: no other user may read them."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

from tidegate.access.private_files import make_private

_UNFINISHED: Final = ".unfinished"


class LocalFiles:
    """See ``tidegate.client.refused_records.RefusedFiles``. One process at a time writes."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def sizes(self) -> Mapping[str, int]:
        """Return the names of the files with their sizes in bytes; none if the directory does not exist."""
        sizes: dict[str, int] = {}
        with suppress(FileNotFoundError), os.scandir(self._directory) as entries:
            for each in entries:
                with suppress(FileNotFoundError):  # another process has removed it since
                    if each.is_file():
                        sizes[each.name] = each.stat().st_size
        return sizes

    def read(self, name: str) -> bytes:
        """Return the content of a file."""
        return (self._directory / name).read_bytes()

    def write(self, name: str, content: bytes) -> None:
        """Write a whole file. A file that a full disk would cut short does not appear."""
        make_private(self._directory)
        unfinished = self._directory / _UNFINISHED
        try:
            flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW
            with os.fdopen(os.open(unfinished, flags, 0o600), "wb") as file:
                file.write(content)
            unfinished.replace(self._directory / name)
        except OSError:
            with suppress(OSError):
                unfinished.unlink()
            raise

    def remove(self, name: str) -> None:
        """Remove a file, if it still exists."""
        (self._directory / name).unlink(missing_ok=True)
