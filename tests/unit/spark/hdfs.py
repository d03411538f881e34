"""A file system of this machine that moves no file over another, as HDFS."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pyarrow import fs

_LOCAL = fs.LocalFileSystem()


class WriterDied(Exception):
    """Whatever it had in memory is gone."""


class Hdfs:
    """A file system. While ``deadly`` is set a writer dies before it gives a file its name."""

    type_name = "hdfs"

    def __init__(self) -> None:
        self.deadly = False

    def move(self, path: str, name: str) -> None:
        """Raises ``OSError`` if there is a file of that name."""
        if self.deadly:
            raise WriterDied
        if Path(name).exists():
            raise OSError(f"{name} exists")
        _LOCAL.move(path, name)

    def __getattr__(self, name: str) -> Any:
        return getattr(_LOCAL, name)
