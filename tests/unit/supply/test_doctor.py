"""``make doctor``: it runs where nothing is installed, and says what is missing and what that means."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from zipfile import ZipFile

import pytest

from stack.downloads.ivy import SYSTEM_IVY, is_new_enough
from stack.places import CHECKOUT
from supply import doctor
from supply.doctor import MachineFact, findings


def _report(*options: str, **environment: str) -> subprocess.CompletedProcess[str]:
    environment = {name: os.environ[name] for name in ("HOME",) if name in os.environ} | environment
    return subprocess.run(
        [sys.executable, *options, "-m", "supply.doctor"],
        cwd=CHECKOUT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_it_runs_on_the_standard_library_alone(tmp_path: Path) -> None:
    report = _report("-S", PATH=str(tmp_path))
    assert not report.stderr
    assert (
        "note     Python packages: without what `make demo` needs, Spark, what the tests need"
        in report.stdout
    )
    assert "`make setup` installs them" in report.stdout
    assert report.returncode == 0, "what `make setup` brings is not missing yet"


def test_what_a_machine_lacks_is_said_with_what_that_means(tmp_path: Path) -> None:
    report = _report(PATH=str(tmp_path))
    assert (
        "Java for Spark: none that will do\n         `make test` skips the tests that start Spark"
        in report.stdout
    )
    system = f"Ivy, {SYSTEM_IVY}" if SYSTEM_IVY.is_file() and is_new_enough(SYSTEM_IVY) else ""
    assert (
        system or "no Maven on PATH\n         Servers' jars are fetched by the Ivy of PySpark instead"
    ) in report.stdout
    assert "\n0 missing, " in report.stdout
    assert report.returncode == 0


@pytest.mark.parametrize(("version", "found"), [("2.5.2", "Ivy, "), ("2.5.1", "no Maven on PATH")])
def test_the_ivy_of_the_system_counts_if_it_is_new_enough(
    version: str, found: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ZipFile(tmp_path / "ivy.jar", "w") as jar:
        jar.writestr("META-INF/MANIFEST.MF", f"Implementation-Version: {version}\n")
    monkeypatch.setattr(doctor, "SYSTEM_IVY", tmp_path / "ivy.jar")
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("TIDEGATE_IVY_JAR", raising=False)
    assert [each.found.startswith(found) for each in findings() if each.what == "download tool"] == [True]


def test_a_package_is_there_whether_it_is_imported_or_not() -> None:
    import faust

    assert faust.__spec__ is None, "this is what makes it hard to find"
    assert all(each.found for each in findings())


def test_a_python_that_is_too_old_bars_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "version_info", (3, 10, 4))
    first = next(findings())
    assert first.bars
    assert str(first).startswith(
        "missing  Python: 3.10.4\n         tidegate needs 3.11 or newer: `make setup PYTHON="
    )


@pytest.mark.parametrize(
    ("finding", "line"),
    [
        (MachineFact("a", "b"), "ok       a: b"),
        (MachineFact("a", "b", "c."), "note     a: b\n         c."),
        (MachineFact("a", "b", "c.", bars=True), "missing  a: b\n         c."),
    ],
)
def test_a_finding_says_how_bad_it_is(finding: MachineFact, line: str) -> None:
    assert str(finding) == line
