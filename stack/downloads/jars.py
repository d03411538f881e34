"""Downloads sets of jars by Maven coordinates, checks their SHA-256, and keeps them outside the checkout."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from stack.coordinate import Coordinate
from stack.downloads import ivy, maven
from stack.downloads.whole import whole_directory
from stack.errors import DownloadFailed
from stack.pinned import Pinned, check_download, pinned
from stack.places import cache_dir


class JarSet(NamedTuple):
    """A named set of jars: some roots, and the jars that they need at run time.

    Attributes:
        name: what the set is for.
        roots: the jars that are asked for; ``stack/pinned.toml`` names all jars that they depend on.
        only: prefixes of the names of the artifacts that are wanted; if it is empty, all are.
        without: names of artifacts that are not looked up, though a root depends on them.
    """

    name: str
    roots: tuple[Coordinate, ...]
    only: tuple[str, ...] = ()
    without: tuple[str, ...] = ()

    @property
    def label(self) -> str:
        """The name of the set in ``stack/pinned.toml``, e.g. ``kafka-4.1.0``."""
        return f"{self.name}-{self.roots[0].version}"


def resolve(jars: JarSet, allowed: Pinned | None = None) -> tuple[Path, ...]:
    """Return the paths of all jars of the set, sorted, after downloading them if the cache lacks any.

    The jars that ``allowed`` lists for this set are asked for, and no others. The default is the list of
    ``stack/pinned.toml``. Their dependencies are not looked up. So Maven and Ivy bring the same files, and no
    later release gets in by itself.

    Raises:
        DownloadFailed: the set is not pinned, there is no tool, the tool failed, or it brought another file.
        JavaMissing: the tool is Ivy, and there is no Java to run it.
    """
    wanted = (allowed or pinned()).jars_of(jars.label, jars.roots)
    home = cache_dir() / "jars" / f"{jars.label}-{_digest(wanted)}"
    return whole_directory(home, lambda into: _fill(wanted, into), pattern="*.jar")


def _digest(wanted: Mapping[Coordinate, str]) -> str:
    """Return a part of the name of the set's directory. With another jar or SHA-256 it is another name."""
    lines = sorted(f"{coordinate} {digest}" for coordinate, digest in wanted.items())
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:12]


def _fill(wanted: Mapping[Coordinate, str], into: Path) -> None:
    if (mvn := maven.find()) is not None:
        maven.download(mvn, wanted, into)
    else:
        ivy.download(ivy.find(), wanted, into)
    for coordinate, expected in wanted.items():
        check_download(into / coordinate.file_name, expected)
    expected_names = {coordinate.file_name for coordinate in wanted}
    if extra := sorted(jar.name for jar in into.glob("*.jar") if jar.name not in expected_names):
        raise DownloadFailed(
            f"{extra[0]} came along, which nobody asked for; nothing of the download was used."
        )
