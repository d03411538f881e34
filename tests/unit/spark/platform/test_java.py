"""Tests which Java Spark is started with, and what is said of one that will not do."""

from __future__ import annotations

from pathlib import Path

import pytest

from tidegate.errors import SettingsError
from tidegate.spark.platform.java import require_java


def _java(home: Path, says: str) -> None:
    java = home / "bin" / "java"
    java.parent.mkdir()
    java.write_text(f"#!/bin/sh\necho '{says}' >&2\n")
    java.chmod(0o755)


@pytest.mark.parametrize("version", ["17.0.15", "21", "21.0.1"])
def test_a_java_that_spark_runs_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str) -> None:
    _java(tmp_path, f'openjdk version "{version}" 2025-04-15')
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    require_java()


@pytest.mark.parametrize(
    ("says", "told"),
    [
        ('java version "1.8.0_292"', "is of version 8, which is too old"),
        ('openjdk version "11.0.2" 2019-01-15', "is of version 11, which is too old"),
        ('openjdk version "25" 2025-09-16', "is of version 25, which is too new"),
        ("what?", "does not tell its version"),
    ],
)
def test_a_java_that_will_not_do_is_named_with_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, says: str, told: str
) -> None:
    _java(tmp_path, says)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(SettingsError, match=f"{tmp_path}/bin/java.*{told}.*install a JDK 17 or 21"):
        require_java()


def test_a_java_without_the_module_that_spark_asks_for_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _java(tmp_path, 'openjdk version "21"')
    java = tmp_path / "bin" / "java"
    java.write_text(java.read_text() + 'test "$1" != --add-modules\n')
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(
        SettingsError, match=r"lacks the module jdk\.incubator\.vector.*install a JDK 17 or 21"
    ):
        require_java()


def test_a_java_that_is_not_there_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(SettingsError, match="does not run"):
        require_java()
    monkeypatch.delenv("JAVA_HOME")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SettingsError, match="there is none on the PATH"):
        require_java()
