"""Packs tidegate into the archive that executors import it from."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

_PACKAGE: Final = Path(__file__).parents[2]
#: Code and the files that code reads. Spark takes the archive for a package by its ending.
_KINDS: Final = frozenset({".py", ".wasm", ".sha256"})
#: The part of an installed wheel that executors have no use for: see `tidegate.cli.service_tree`.
_SERVICE: Final = "service"
ENDING: Final = ".zip"


def write_archive(path: Path) -> int:
    """Write the package that runs here to a zip file, and return the count of its files.

    The same package makes the same bytes, whatever the clock says. Raises ``OSError``.
    """
    files = sorted(_files())
    with ZipFile(path, "w", ZIP_DEFLATED) as archive:
        for name, file in files:
            archive.writestr(ZipInfo(name), file.read_bytes(), ZIP_DEFLATED)
    return len(files)


def _files() -> Iterator[tuple[str, Path]]:
    for file in _PACKAGE.rglob("*"):
        place = file.relative_to(_PACKAGE)
        if file.suffix in _KINDS and place.parts[0] != _SERVICE:
            yield f"{_PACKAGE.name}/{place.as_posix()}", file
