"""Directories as small files that are the same each time."""

from __future__ import annotations

import lzma
import tarfile
from collections.abc import Collection
from pathlib import Path


def pack(directory: Path, archive: Path, *, without: Collection[str] = ()) -> None:
    """Write all files below a directory, but those of the names in ``without``, into an archive."""
    with lzma.open(archive, "wb") as file, tarfile.open(fileobj=file, mode="w") as tar:
        for path in sorted(directory.rglob("*")):
            if path.is_file() and path.name not in without:
                tar.add(path, path.relative_to(directory).as_posix(), filter=_anonymous)


def unpack(archive: Path, directory: Path) -> None:
    """Put the files of an archive below a directory."""
    with tarfile.open(archive) as tar:
        tar.extractall(directory, filter="data")


def _anonymous(member: tarfile.TarInfo) -> tarfile.TarInfo:
    member.uid = member.gid = member.mtime = 0
    member.uname = member.gname = ""
    return member
