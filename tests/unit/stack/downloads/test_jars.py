from __future__ import annotations

import hashlib
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

import pytest

from stack.coordinate import Coordinate
from stack.downloads import ivy, maven
from stack.downloads.jars import JarSet
from stack.downloads.jars import resolve as resolve_pinned
from stack.errors import DownloadFailed
from stack.pinned import Pinned
from stack.places import CHECKOUT, cache_dir

DEMO = Coordinate("org.example", "demo", "1.2")
DEPENDENCY = Coordinate("org.example", "dependency", "7")
SET = JarSet("demo", (DEMO,))


def pinned(**contents: str) -> Pinned:
    """Return what may come of the set: the jars of these names, with these contents."""
    jars = {each: hashlib.sha256(contents[each.artifact].encode()).hexdigest() for each in (DEMO, DEPENDENCY)}
    return Pinned({"demo-1.2": jars}, {})


PINNED = pinned(demo="demo\n", dependency="dependency\n")


def resolve(jars: JarSet, allowed: Pinned = PINNED) -> tuple[Path, ...]:
    return resolve_pinned(jars, allowed)


# Stands where Maven stands: counts its runs, and writes two jars where it is told to.
_MVN = """#!/bin/sh
echo run >> {runs}
for argument; do
  case "$argument" in -DoutputDirectory=*) into="${{argument#*=}}" ;; esac
done
echo demo > "$into/demo-1.2.jar"
echo dependency > "$into/dependency-7.jar"
{then}
"""


def fake_mvn(home: Path, then: str = "") -> Path:
    """A `mvn` script in ``home``; returns the file with a line for each of its runs."""
    runs = home / "runs"
    script = home / "mvn"
    script.write_text(_MVN.format(runs=runs, then=then))
    script.chmod(0o755)
    return runs


def with_mvn(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(maven, "find", lambda: home / "mvn")


def test_all_jars_are_resolved_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_mvn(tmp_path)
    with_mvn(tmp_path, monkeypatch)
    assert [path.name for path in resolve(SET)] == ["demo-1.2.jar", "dependency-7.jar"]
    assert all(path.is_file() for path in resolve(SET))


def test_a_whole_cache_is_never_downloaded_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runs = fake_mvn(tmp_path)
    with_mvn(tmp_path, monkeypatch)
    assert resolve(SET) == resolve(SET)
    assert runs.read_text() == "run\n"


@pytest.mark.parametrize("damage", [Path.unlink, lambda jar: jar.write_bytes(b"")], ids=["missing", "cut"])
def test_a_damaged_cache_is_filled_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, damage: Callable[[Path], object]
) -> None:
    runs = fake_mvn(tmp_path)
    with_mvn(tmp_path, monkeypatch)
    damage(resolve(SET)[0])
    assert resolve(SET)[0].read_text() == "demo\n"
    assert runs.read_text() == "run\n" * 2


def test_another_hash_is_another_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_mvn(tmp_path)
    with_mvn(tmp_path, monkeypatch)
    first = resolve(SET)[0]
    fake_mvn(tmp_path, then='echo newer > "$into/dependency-7.jar"')
    other = resolve(SET, pinned(demo="demo\n", dependency="newer\n"))
    assert other[0].parent != first.parent
    assert [jar.read_text() for jar in other] == ["demo\n", "newer\n"]


@pytest.mark.parametrize("jar", ["demo-1.2.jar", "dependency-7.jar"])
def test_another_file_than_the_pinned_one_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, jar: str
) -> None:
    runs = fake_mvn(tmp_path, then=f'echo tampered > "$into/{jar}"')
    with_mvn(tmp_path, monkeypatch)
    for _ in range(2):
        with pytest.raises(DownloadFailed, match=rf"{jar} is not the file that was pinned: its SHA-256 is "):
            resolve(SET)
    assert runs.read_text() == "run\n" * 2, "nothing of it is kept"
    fake_mvn(tmp_path)
    assert len(resolve(SET)) == 2


def test_a_jar_that_nobody_asked_for_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_mvn(tmp_path, then='echo more > "$into/more-1.jar"')
    with_mvn(tmp_path, monkeypatch)
    with pytest.raises(DownloadFailed, match=r"more-1.jar came along, which nobody asked for"):
        resolve(SET)


@pytest.mark.parametrize(
    "jars",
    [
        JarSet("demo", (Coordinate("org.example", "demo", "1.3"),)),
        JarSet("demo", (DEMO, Coordinate("org.example", "other", "1"))),
        JarSet("unknown", (DEMO,)),
    ],
    ids=["version", "root", "set"],
)
def test_what_is_not_pinned_is_not_downloaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, jars: JarSet
) -> None:
    runs = fake_mvn(tmp_path)
    with_mvn(tmp_path, monkeypatch)
    with pytest.raises(DownloadFailed, match=r"has no SHA-256 for org.example:.* run `make pins`"):
        resolve(jars)
    assert not runs.exists()


def test_a_failed_download_leaves_no_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runs = fake_mvn(tmp_path, then='echo "[ERROR] Could not transfer demo-1.2.jar"; exit 3')
    with_mvn(tmp_path, monkeypatch)
    for _ in range(2):
        with pytest.raises(DownloadFailed, match=r"Maven ended with status 3.*\n.*Could not transfer demo"):
            resolve(SET)
    assert runs.read_text() == "run\n" * 2
    fake_mvn(tmp_path)
    assert len(resolve(SET)) == 2


def test_a_tool_that_brings_nothing_is_not_believed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_mvn(tmp_path, then='rm "$into"/*.jar')
    with_mvn(tmp_path, monkeypatch)
    with pytest.raises(DownloadFailed, match=r"demo-1.2.jar never came"):
        resolve(SET)


def test_two_processes_download_once(tmp_path: Path) -> None:
    runs = fake_mvn(tmp_path, then="sleep 0.3")  # long enough for the other one to arrive
    program = (
        "import pathlib; from stack.downloads import maven; "
        "from tests.unit.stack.downloads.test_jars import SET, resolve;"
        f"maven.find = lambda: pathlib.Path({str(tmp_path / 'mvn')!r}); print(len(resolve(SET)))"
    )
    both = [
        subprocess.Popen([sys.executable, "-c", program], cwd=CHECKOUT, stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    assert [process.communicate(timeout=60)[0] for process in both] == ["2\n", "2\n"]
    assert runs.read_text() == "run\n"


def test_ivy_is_used_where_maven_is_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    # Answers as Java 17 when asked, and else writes what `-retrieve <pattern>` asks for.
    java.write_text(
        '#!/bin/sh\n[ "$1" = -version ] && { echo \'openjdk version "17"\' >&2; exit; }\n'
        'while [ "$1" != -retrieve ]; do shift; done\ninto="$(dirname "$2")"\n'
        'echo ivy > "$into/demo-1.2.jar"; echo ivy > "$into/dependency-7.jar"\n'
    )
    java.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    monkeypatch.setattr(maven, "find", lambda: None)
    monkeypatch.setattr(ivy, "find", lambda: tmp_path / "ivy.jar")
    came = resolve(SET, pinned(demo="ivy\n", dependency="ivy\n"))
    assert [path.read_text() for path in came] == ["ivy\n", "ivy\n"]


def test_a_tool_is_asked_for_the_pinned_jars_and_for_nothing_that_they_depend_on() -> None:
    both = (DEMO, DEPENDENCY)
    namespace = {"": "http://maven.apache.org/POM/4.0.0"}
    dependencies = ElementTree.fromstring(maven.pom(both)).findall(".//dependency", namespace)
    assert len(dependencies) == len(both)
    for dependency in dependencies:
        (exclusion,) = dependency.findall("exclusions/exclusion", namespace)
        assert [part.text for part in exclusion] == ["*", "*"]
    modules = ElementTree.fromstring(ivy.module(both)).findall("dependencies/dependency")
    assert [each.get("transitive") for each in modules] == ["false", "false"]


def test_a_tool_that_cannot_be_run_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mvn").write_text("not a program")
    with_mvn(tmp_path, monkeypatch)
    with pytest.raises(DownloadFailed, match=r"Maven \(.*mvn\) cannot be run"):
        resolve(SET)


def test_tools_are_given_no_repository(tmp_path: Path) -> None:
    assert "repositor" not in maven.pom(SET.roots) + ivy.module(SET.roots)


def test_jars_are_kept_outside_the_checkout(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TIDEGATE_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", "/elsewhere")
    assert cache_dir() == Path("/elsewhere/tidegate")
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert cache_dir() == Path.home() / ".cache" / "tidegate"
