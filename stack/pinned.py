"""The files that the stack may download: every jar and archive with its SHA-256, from ``stack/pinned.toml``.

``make pins`` writes that file. A file that is not named there is not downloaded, and one with another SHA-256
is not used.
"""

from __future__ import annotations

import hashlib
import tomllib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

from stack.coordinate import Coordinate
from stack.errors import DownloadFailed

PINNED_FILE: Final = Path(__file__).with_name("pinned.toml")
_AGAIN: Final = "run `make pins`, and look at what it changed"


class Pinned(NamedTuple):
    """The SHA-256 of each jar, by the set that it belongs to, and of each archive.

    Attributes:
        jars: for the label of each set (``kafka-4.1.0``) all its jars, with those that its roots depend on.
        archives: for the name of each archive (``group:artifact:version:tar.gz:classifier``) its SHA-256.
    """

    jars: Mapping[str, Mapping[Coordinate, str]]
    archives: Mapping[str, str]

    def jars_of(self, label: str, roots: tuple[Coordinate, ...]) -> Mapping[Coordinate, str]:
        """Return all jars of the set ``label``. Every one of ``roots`` must be among them.

        Raises:
            DownloadFailed: the file does not name the set, or one of its roots.
        """
        jars = self.jars.get(label, {})
        if missing := [str(root) for root in roots if root not in jars]:
            known = ", ".join(sorted(self.jars))
            raise DownloadFailed(
                f"{PINNED_FILE.name} has no SHA-256 for {missing[0]} in the set {label}, so that it is not "
                f"downloaded. The sets in it are {known}. If the version was changed on purpose, {_AGAIN}."
            )
        return jars

    def archive(self, name: str) -> str:
        """Return the SHA-256 of the archive ``name``.

        Raises:
            DownloadFailed: the file does not name it.
        """
        if name not in self.archives:
            raise DownloadFailed(
                f"{PINNED_FILE.name} has no SHA-256 for the archive {name}, so that it is not downloaded. "
                f"If the version was changed on purpose, {_AGAIN}."
            )
        return self.archives[name]


@cache
def pinned() -> Pinned:
    """Return the content of the file beside this module."""
    return parse(PINNED_FILE.read_text())


def parse(text: str) -> Pinned:
    """Parse a text in the form of ``stack/pinned.toml``."""
    tables = tomllib.loads(text)
    sets = {
        label: {Coordinate(*name.split(":")): digest for name, digest in jars.items()}
        for label, jars in tables["jars"].items()
    }
    return Pinned(sets, tables["archives"])


def sha256_of(file: Path) -> str:
    """Return the SHA-256 of the content of ``file``, in hex."""
    with file.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


def check_download(file: Path, expected: str) -> None:
    """Check that a downloaded file has the SHA-256 ``expected``.

    Raises:
        DownloadFailed: the file is not there, or it is another file.
    """
    if not file.is_file():
        raise DownloadFailed(f"{file.name} never came, although nothing failed; try again.")
    found = sha256_of(file)
    if found != expected:
        raise DownloadFailed(
            f"{file.name} is not the file that was pinned: its SHA-256 is {found}, and {PINNED_FILE.name} "
            f"says {expected}. Nothing of the download was used. A mirror or a proxy may have sent another "
            "file: find out what it is before you try again."
        )
