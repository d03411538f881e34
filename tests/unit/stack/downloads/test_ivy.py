"""Tests which Ivy is run: none that a downloaded POM can make read files of this machine (CVE-2022-46751)."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from zipfile import ZipFile

import pytest

from stack.downloads import ivy
from stack.errors import DownloadFailed


def ivy_jar(path: Path, version: str) -> Path:
    with ZipFile(path, "w") as jar:
        jar.writestr(
            "META-INF/MANIFEST.MF", f"Manifest-Version: 1.0\r\nImplementation-Version: {version}\r\n"
        )
    return path


@pytest.mark.parametrize("version", ["2.5.2", "2.5.3", "2.10.0", "3.0.0"])
def test_the_ivy_jar_that_is_named_comes_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str
) -> None:
    named = ivy_jar(tmp_path / "ivy.jar", version)
    monkeypatch.setenv("TIDEGATE_IVY_JAR", str(named))
    assert ivy.find() == named


@pytest.mark.parametrize("version", ["2.5.1", "2.5.0-rc1", "1.4.1", "unknown"])
def test_an_ivy_that_lets_a_pom_read_files_is_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str
) -> None:
    old, new = ivy_jar(tmp_path / "old.jar", version), ivy_jar(tmp_path / "new.jar", "2.5.3")
    monkeypatch.setattr(ivy, "_candidates", lambda: iter((old, new)))
    assert ivy.find() == new
    monkeypatch.setattr(ivy, "_candidates", lambda: iter((old,)))
    with pytest.raises(DownloadFailed, match=r"nor an Ivy of 2.5.2 or newer is here .*old.jar is older"):
        ivy.find()


def test_what_is_no_jar_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "ivy.jar").write_text("not a jar")
    monkeypatch.setattr(ivy, "_candidates", lambda: iter((tmp_path / "ivy.jar",)))
    with pytest.raises(DownloadFailed, match=r"install Maven .* extra `spark`.* TIDEGATE_IVY_JAR"):
        ivy.find()


@pytest.mark.skipif(find_spec("pyspark") is None, reason="PySpark brings an Ivy")
def test_the_ivy_of_the_pinned_pyspark_is_new_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TIDEGATE_IVY_JAR", raising=False)
    assert ivy.find().name.startswith("ivy-")
