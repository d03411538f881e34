"""Files of a process that no other user may read: state and spools hold rows (docs/security.md)."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

_OTHERS: Final = 0o077


def keep_files_private() -> None:
    """Have every file that this process and its children create from now on belong to its user alone."""
    os.umask(_OTHERS)


def make_private(directory: Path) -> None:
    """Create the directory where it is missing, and close it to all others.

    What an earlier version wrote in there, open to all, is closed with it. Raises ``OSError``, also for a
    directory that others can enter and that is not this user's.
    """
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    if directory.stat().st_mode & _OTHERS:
        directory.chmod(0o700)


def make_private_uri(uri: str) -> None:
    """The same for the URI of a directory of this machine; nothing is done to other file systems'."""
    place = urlsplit(uri)
    if place.scheme == "file":
        make_private(Path(unquote(place.path)))
