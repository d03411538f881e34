"""Keeps files of a process private to its user: state and spools hold rows (docs/security.md)."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

_OTHERS: Final = 0o077


def keep_files_private() -> None:
    """Let only this user read the files that this process and its children create from now on."""
    os.umask(_OTHERS)


def make_private(directory: Path) -> None:
    """Create the directory if it is missing, and close it to all other users.

    That also closes files in it which an earlier version left open to all. Raises ``OSError``, also for a
    directory of another user that others can enter, and for one that all users share, such as /tmp.
    """
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    mode = directory.stat().st_mode
    if mode & stat.S_ISVTX:
        raise PermissionError(errno.EPERM, "all users share this directory: name one in it", str(directory))
    if mode & _OTHERS:
        directory.chmod(0o700)


def write_new(file: Path, content: bytes) -> None:
    """Write a new file that no other user may read. Raises ``OSError``, also for a file that exists."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    with os.fdopen(os.open(file, flags, 0o600), "wb") as opened:
        opened.write(content)


def make_private_uri(uri: str) -> None:
    """Make the directory private if its URI names one of this machine. Other file systems are left alone."""
    place = urlsplit(uri)
    if place.scheme == "file":
        make_private(Path(unquote(place.path)))
