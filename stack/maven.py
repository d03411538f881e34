"""Download jars and archives with Maven, under the user's own settings."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from pathlib import Path

from stack.coordinate import ARCHIVE_TYPE, Archive, Coordinate
from stack.download_tool import run_tool

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
    "<version>{0.version}</version></dependency>"
)
# Pinned: what the bare prefix means depends on the Maven release.
_PLUGIN = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1"


def find() -> Path | None:
    """The `mvn` on PATH."""
    found = shutil.which("mvn")
    return Path(found) if found else None


def pom(roots: Iterable[Coordinate]) -> str:
    """A project that does nothing but depend on ``roots``."""
    return _POM.format(dependencies="\n".join(map(_DEPENDENCY.format, roots)))


def download(mvn: Path, roots: Iterable[Coordinate], into: Path) -> None:
    """Copy ``roots`` and their runtime dependencies into the directory ``into``.

    Raises:
        DownloadFailed: Maven failed; its last lines are in the message.
    """
    (into / "pom.xml").write_text(pom(roots))
    options = ("--batch-mode", "--quiet", f"-DoutputDirectory={into}", "-DincludeScope=runtime")
    run_tool("Maven", (mvn, *options, f"{_PLUGIN}:copy-dependencies"), cwd=into)


def download_archive(mvn: Path, archive: Archive, into: Path) -> None:
    """Copy ``archive`` itself, and nothing that its artifact depends on, into the directory ``into``.

    Raises:
        DownloadFailed: Maven failed; its last lines are in the message.
    """
    artifact = f"{archive.of}:{ARCHIVE_TYPE}:{archive.classifier}"
    options = ("--batch-mode", "--quiet", f"-DoutputDirectory={into}", f"-Dartifact={artifact}")
    run_tool("Maven", (mvn, *options, f"{_PLUGIN}:copy"), cwd=into)
