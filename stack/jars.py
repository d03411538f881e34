"""Sets of jars by Maven coordinates, downloaded once and kept outside the checkout."""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path
from typing import NamedTuple

from stack import ivy, ivy_jar, maven
from stack.coordinate import Coordinate
from stack.errors import DownloadFailed
from stack.file_lock import file_lock
from stack.places import cache_dir

_MANIFEST = "manifest.json"


class JarSet(NamedTuple):
    """A name for people and the coordinates whose runtime dependencies make up the set."""

    name: str
    roots: tuple[Coordinate, ...]

    @property
    def key(self) -> str:
        """Directory name in the cache: another version or another root is another directory."""
        digest = hashlib.sha256("\n".join(map(str, self.roots)).encode()).hexdigest()
        return f"{self.name}-{self.roots[0].version}-{digest[:12]}"


def resolve(jars: JarSet) -> tuple[Path, ...]:
    """The paths of all jars of the set, sorted; downloads them unless the cache holds them whole.

    The download goes into a directory of its own that is renamed when it is complete, under a lock: a
    second process waits and then finds the cache filled; an interrupted one leaves nothing half done.

    Raises:
        DownloadFailed: the tool failed, or there was none and pip could not get it.
        JavaMissing: the tool is Ivy and no Java runs it.
    """
    store = cache_dir() / "jars"
    home = store / jars.key
    if (cached := _whole(home)) is not None:
        return cached
    with file_lock(store / f"{jars.key}.lock"):
        if (cached := _whole(home)) is None:
            _fill(home, jars)
            cached = _whole(home)
    if cached is None:
        raise DownloadFailed(f"The jars of {jars.name} vanished from {home} while they were read; try again.")
    return cached


def _fill(home: Path, jars: JarSet) -> None:
    partial = home.with_name(f"{home.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    _download(jars, partial)
    sizes = {jar.name: jar.stat().st_size for jar in sorted(partial.glob("*.jar"))}
    (partial / _MANIFEST).write_text(json.dumps(sizes, indent=1))
    shutil.rmtree(home, ignore_errors=True)
    partial.rename(home)


def _download(jars: JarSet, into: Path) -> None:
    if (mvn := maven.find()) is not None:
        maven.download(mvn, jars.roots, into)
    else:
        ivy.download(ivy.find() or ivy_jar.fetch(), jars.roots, into)


def _whole(home: Path) -> tuple[Path, ...] | None:
    """The set's jars if every one is there in its full size."""
    try:
        sizes: dict[str, int] = json.loads((home / _MANIFEST).read_text())
        complete = all((home / name).stat().st_size == size for name, size in sizes.items())
    except (FileNotFoundError, ValueError):
        return None
    return tuple(home / name for name in sorted(sizes)) if sizes and complete else None
