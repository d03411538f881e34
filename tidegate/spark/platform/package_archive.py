"""Packs tidegate into the archive that executors import it from, and says which code runs here."""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import sha256
from importlib.metadata import PackageNotFoundError, version
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Final, NamedTuple
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

_PACKAGE: Final = "tidegate"
#: The endings of code and of the files that code reads. The archive's own ending tells Spark that it is a
#: package.
_KINDS: Final = (".py", ".wasm", ".sha256")
#: The part of an installed wheel that executors do not need: see `tidegate.cli.service_tree`.
_SERVICE: Final = f"{_PACKAGE}/service"
_DIGEST_CHARACTERS: Final = 16
ENDING: Final = ".zip"


class RunningCode(NamedTuple):
    """The code that a process runs: its version where that is known, a hash of it, and where it is."""

    version: str
    digest: str
    place: str

    def __str__(self) -> str:
        of_version = f" {self.version}" if self.version else ""
        return f"tidegate{of_version} (code {self.digest or 'unknown'}, {self.place})"


def write_archive(path: Path) -> int:
    """Write the package that runs here to a zip file, and return the count of its files.

    The same package makes the same bytes at any time. Raises ``OSError`` if a file cannot be read or written.
    """
    found = _files()
    with ZipFile(path, "w", ZIP_DEFLATED) as archive:
        for name, file in found:
            archive.writestr(ZipInfo(name), file.read_bytes(), ZIP_DEFLATED)
    return len(found)


def running_code() -> RunningCode:
    """Return the code that runs here. Its digest is that of the files of the archive.

    So the same code has the same digest, whether it comes from a checkout, a wheel or an archive. An archive
    has no version. Raises ``OSError`` if a file cannot be read.
    """
    digest = sha256()
    for name, file in _files():
        content = file.read_bytes()
        digest.update(f"{name} {len(content)}\n".encode() + content)
    try:
        known = version(_PACKAGE)
    except PackageNotFoundError:
        known = ""
    return RunningCode(known, digest.hexdigest()[:_DIGEST_CHARACTERS], str(files(_PACKAGE)))


def _files() -> list[tuple[str, Traversable]]:
    return sorted(_below(files(_PACKAGE), _PACKAGE), key=lambda found: found[0])


def _below(directory: Traversable, place: str) -> Iterator[tuple[str, Traversable]]:
    for each in directory.iterdir():
        name = f"{place}/{each.name}"
        if each.is_dir():
            if name != _SERVICE:
                yield from _below(each, name)
        elif name.endswith(_KINDS):
            yield name, each
