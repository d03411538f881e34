"""Makes directories of the cache that are complete, or not there at all."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

from stack.errors import DownloadFailed
from stack.file_lock import file_lock

_MANIFEST = "manifest.json"


def whole_directory(home: Path, fill: Callable[[Path], None], *, pattern: str) -> tuple[Path, ...]:
    """Return the files of ``home`` that match ``pattern``, sorted. ``fill`` makes them unless all are there.

    ``fill`` gets a directory beside ``home``, which is renamed when it is complete. This happens under a
    lock. So a second process waits, and then finds the files; and an interrupted process leaves no ``home``
    that is half done. The names and sizes of matching files are kept, so that a file that is lost or cut
    later is noticed.

    Raises:
        DownloadFailed: ``fill`` made no file that matches, or a file vanished again.
        Exception: whatever ``fill`` raises.
    """
    if (cached := _whole(home)) is not None:
        return cached
    with file_lock(home.with_name(f"{home.name}.lock")):
        if (cached := _whole(home)) is None:
            _replace(home, fill, pattern)
            cached = _whole(home)
    if cached is None:
        raise DownloadFailed(f"The files of {home} vanished, or never came, while they were read; try again.")
    return cached


def _replace(home: Path, fill: Callable[[Path], None], pattern: str) -> None:
    partial = home.with_name(f"{home.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    fill(partial)
    files = sorted(path for path in partial.glob(pattern) if path.is_file())
    sizes = {path.relative_to(partial).as_posix(): path.stat().st_size for path in files}
    (partial / _MANIFEST).write_text(json.dumps(sizes, indent=1))
    shutil.rmtree(home, ignore_errors=True)
    partial.rename(home)


def _whole(home: Path) -> tuple[Path, ...] | None:
    """Return the files that the manifest lists, if all are there in their full sizes; else None."""
    try:
        sizes: dict[str, int] = json.loads((home / _MANIFEST).read_text())
        complete = all((home / name).stat().st_size == size for name, size in sizes.items())
    except (FileNotFoundError, ValueError):
        return None
    return tuple(home / name for name in sorted(sizes)) if sizes and complete else None
