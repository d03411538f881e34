"""Downloads jars and archives with Maven, by the user's own settings.

Maven itself compares each file with the checksum that its repository gives (``--strict-checksums``); by
default it only warns. The caller compares it with ``stack/pinned.toml``, which says what the file must be.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from pathlib import Path

from stack.coordinate import Archive, Coordinate
from stack.downloads.download_tool import run_tool

_POM = """\
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>tidegate</groupId>
  <artifactId>stack</artifactId>
  <version>1</version>
  <packaging>pom</packaging>
  <dependencies>
{dependencies}
  </dependencies>
</project>
"""
_DEPENDENCY = (
    "    <dependency><groupId>{0.group}</groupId><artifactId>{0.artifact}</artifactId>"
    "<version>{0.version}</version>{1}</dependency>"
)
_WITHOUT = "<exclusions>{}</exclusions>"
_LEFT_OUT = "<exclusion><groupId>*</groupId><artifactId>{}</artifactId></exclusion>"
_ALONE = _WITHOUT.format(_LEFT_OUT.format("*"))
_OPTIONS = ("--batch-mode", "--quiet", "--strict-checksums")
# The version is named, since the meaning of the prefix alone depends on the Maven release.
_PLUGIN = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1"


def find() -> Path | None:
    """Find `mvn` on PATH. Returns None if there is none."""
    found = shutil.which("mvn")
    return Path(found) if found else None


def pom(wanted: Iterable[Coordinate], *, transitive: bool = False, without: Iterable[str] = ()) -> str:
    """Return a project that only depends on ``wanted``.

    If ``transitive``, it also depends on what they depend on, except for the artifacts ``without``.
    """
    left_out = _WITHOUT.format("".join(map(_LEFT_OUT.format, without))) if without else ""
    exclusions = left_out if transitive else _ALONE
    return _POM.format(dependencies="\n".join(_DEPENDENCY.format(each, exclusions) for each in wanted))


def download(mvn: Path, wanted: Iterable[Coordinate], into: Path) -> None:
    """Copy the jars ``wanted``, and nothing that they depend on, into the directory ``into``.

    Raises:
        DownloadFailed: Maven failed; its last lines are in the message.
    """
    (into / "pom.xml").write_text(pom(wanted))
    run_tool("Maven", (mvn, *_OPTIONS, f"-DoutputDirectory={into}", f"{_PLUGIN}:copy-dependencies"), cwd=into)


def download_all(
    mvn: Path, roots: Iterable[Coordinate], into: Path, without: Iterable[str] = ()
) -> dict[Coordinate, Path]:
    """Copy ``roots`` and their runtime dependencies into ``into``, except for the artifacts ``without``.

    Returns the jar of each.

    Raises:
        DownloadFailed: Maven failed; its last lines are in the message.
    """
    (into / "pom.xml").write_text(pom(roots, transitive=True, without=without))
    options = (f"-DoutputDirectory={into}", "-DincludeScope=runtime", "-Dmdep.useRepositoryLayout=true")
    run_tool("Maven", (mvn, *_OPTIONS, *options, f"{_PLUGIN}:copy-dependencies"), cwd=into)
    return {_coordinate(jar.relative_to(into)): jar for jar in into.rglob("*.jar")}


def _coordinate(path: Path) -> Coordinate:
    """Return the coordinate of a path such as
    ``org/apache/kafka/kafka-clients/4.1.0/kafka-clients-4.1.0.jar``.
    """
    *group, artifact, version, _ = path.parts
    return Coordinate(".".join(group), artifact, version)


def download_archive(mvn: Path, archive: Archive, into: Path) -> None:
    """Copy ``archive`` itself, and nothing that its artifact depends on, into the directory ``into``.

    Raises:
        DownloadFailed: Maven failed; its last lines are in the message.
    """
    options = (f"-DoutputDirectory={into}", f"-Dartifact={archive}")
    run_tool("Maven", (mvn, *_OPTIONS, *options, f"{_PLUGIN}:copy"), cwd=into)
