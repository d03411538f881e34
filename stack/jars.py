"""Sets of jars by Maven coordinates, downloaded once and kept outside the checkout."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import NamedTuple

from stack import ivy, ivy_jar, maven
from stack.coordinate import Coordinate
from stack.places import cache_dir
from stack.whole import whole_directory


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

    Raises:
        DownloadFailed: the tool failed, or there was none and pip could not get it.
        JavaMissing: the tool is Ivy and no Java runs it.
    """
    home = cache_dir() / "jars" / jars.key
    return whole_directory(home, lambda into: _download(jars, into), pattern="*.jar")


def _download(jars: JarSet, into: Path) -> None:
    if (mvn := maven.find()) is not None:
        maven.download(mvn, jars.roots, into)
    else:
        ivy.download(ivy.find() or ivy_jar.fetch(), jars.roots, into)
