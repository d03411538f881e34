"""Archives of the cache, with a script in the place of Maven, or of the Java that runs Ivy."""

from __future__ import annotations

import hashlib
import io
import tarfile
from pathlib import Path
from xml.etree import ElementTree

import pytest

from stack.coordinate import Archive, Coordinate
from stack.downloads import ivy, maven
from stack.downloads.archives import unpacked as unpacked_pinned
from stack.errors import DownloadFailed
from stack.pinned import Pinned
from stack.places import cache_dir

PROGRAM = Archive(Coordinate("org.example", "demo", "1.2"), "all", size_mb=7)
NAME = "demo-1.2-all.tar.gz"


def unpacked(archive: Archive, home: Path) -> Path:
    """The archive, whose SHA-256 is pinned as that of what is published now in ``home``."""
    return unpacked_pinned(archive, pinned((home / "published").read_bytes()))


def pinned(content: bytes) -> Pinned:
    return Pinned({}, {str(PROGRAM): hashlib.sha256(content).hexdigest()})


_MVN = """#!/bin/sh
echo "$@" >> {home}/runs
for argument; do
  case "$argument" in -DoutputDirectory=*) into="${{argument#*=}}" ;; esac
done
cp {home}/published "$into/demo-1.2-all.tar.gz"
{then}
"""


def published(home: Path, member: str = "bin/demo.jar") -> Path:
    archive = home / "published"
    with tarfile.open(archive, "w:gz") as tar:
        entry = tarfile.TarInfo(member)
        entry.size = 4
        tar.addfile(entry, io.BytesIO(b"demo"))
    return archive


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file with a line for each run of the script that stands where Maven stands."""
    published(tmp_path)
    install_mvn(tmp_path)
    monkeypatch.setattr(maven, "find", lambda: tmp_path / "mvn")
    return tmp_path / "runs"


def install_mvn(home: Path, then: str = "") -> None:
    script = home / "mvn"
    script.write_text(_MVN.format(home=home, then=then))
    script.chmod(0o755)


def test_an_archive_is_downloaded_once_and_announced(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert unpacked(PROGRAM, runs.parent) == unpacked(PROGRAM, runs.parent)
    assert (unpacked(PROGRAM, runs.parent) / "bin" / "demo.jar").read_bytes() == b"demo"
    assert len(runs.read_text().splitlines()) == 1
    assert capsys.readouterr().err == f"Maven downloads {NAME} (7 MB) once ...\n"


def test_the_archive_alone_is_asked_for(runs: Path) -> None:
    unpacked(PROGRAM, runs.parent)
    assert "-Dartifact=org.example:demo:1.2:tar.gz:all" in runs.read_text().split()


def test_what_was_unpacked_is_not_kept_twice(runs: Path) -> None:
    unpacked(PROGRAM, runs.parent)
    assert not list(cache_dir().rglob("*.tar.gz"))


def test_a_lost_file_is_noticed(runs: Path) -> None:
    (unpacked(PROGRAM, runs.parent) / "bin" / "demo.jar").unlink()
    assert (unpacked(PROGRAM, runs.parent) / "bin" / "demo.jar").exists()
    assert len(runs.read_text().splitlines()) == 2


def test_what_is_no_archive_is_refused_and_not_kept(runs: Path) -> None:
    whole = (runs.parent / "published").read_bytes()
    (runs.parent / "published").write_text("<html>Please log in to the proxy</html>")
    with pytest.raises(DownloadFailed, match=rf"What came as {NAME} cannot be unpacked .* try again"):
        unpacked(PROGRAM, runs.parent)
    (runs.parent / "published").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(DownloadFailed, match="cannot be unpacked"):
        unpacked(PROGRAM, runs.parent)
    (runs.parent / "published").write_bytes(whole)
    assert (unpacked(PROGRAM, runs.parent) / "bin" / "demo.jar").exists()


def test_an_archive_writes_nothing_outside_its_directory(runs: Path) -> None:
    published(runs.parent, member="../../../escaped")
    with pytest.raises(DownloadFailed, match="cannot be unpacked"):
        unpacked(PROGRAM, runs.parent)
    assert not list(runs.parent.rglob("escaped"))


def test_another_archive_than_the_pinned_one_is_not_unpacked(runs: Path) -> None:
    wanted = pinned((runs.parent / "published").read_bytes())
    published(runs.parent, member="bin/tampered.jar")
    for _ in range(2):
        with pytest.raises(DownloadFailed, match=rf"{NAME} is not the file that was pinned: its SHA-256 is "):
            unpacked_pinned(PROGRAM, wanted)
    assert not list(cache_dir().rglob("*.jar"))


def test_an_archive_that_is_not_pinned_is_not_downloaded(runs: Path) -> None:
    with pytest.raises(DownloadFailed, match=r"no SHA-256 for the archive org.example:demo:1.2:tar.gz:all"):
        unpacked_pinned(PROGRAM, Pinned({}, {}))
    assert not runs.exists()


def test_a_failed_download_shows_the_end_of_its_output(runs: Path) -> None:
    install_mvn(runs.parent, then="echo 'Could not transfer demo'; exit 3")
    with pytest.raises(DownloadFailed, match=r"Maven ended with status 3.*\n.*Could not transfer demo"):
        unpacked(PROGRAM, runs.parent)


def test_ivy_is_used_where_maven_is_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    published(tmp_path)
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    # Answers as Java 17 when asked, and else writes the archive where `-retrieve <pattern>` points.
    java.write_text(
        '#!/bin/sh\n[ "$1" = -version ] && { echo \'openjdk version "17"\' >&2; exit; }\n'
        f'while [ "$1" != -retrieve ]; do shift; done\ncp {tmp_path}/published "$(dirname "$2")/{NAME}"\n'
    )
    java.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    monkeypatch.setattr(maven, "find", lambda: None)
    monkeypatch.setattr(ivy, "find", lambda: tmp_path / "ivy.jar")
    assert (unpacked(PROGRAM, tmp_path) / "bin" / "demo.jar").read_bytes() == b"demo"


def test_ivy_is_asked_for_the_archive_alone() -> None:
    (dependency,) = ElementTree.fromstring(ivy.archive_module(PROGRAM)).iter("dependency")
    (artifact,) = dependency
    assert dependency.get("transitive") == "false"
    assert (artifact.get("type"), artifact.get("ext")) == ("tar.gz", "tar.gz")
    assert artifact.get("{http://ant.apache.org/ivy/maven}classifier") == "all"
