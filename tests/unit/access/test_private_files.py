"""Directories of state are closed to other users."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tidegate.access.private_files import keep_files_private, make_private, make_private_uri, write_new


@pytest.fixture(autouse=True)
def usual_umask() -> Iterator[None]:
    before = os.umask(0o022)
    yield
    os.umask(before)


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


def test_directories_are_made_for_their_user_and_closed_where_they_were_open(tmp_path: Path) -> None:
    make_private(tmp_path / "new")
    (tmp_path / "open").mkdir(mode=0o755)
    make_private(tmp_path / "open")
    assert (mode(tmp_path / "new"), mode(tmp_path / "open")) == (0o700, 0o700)


def test_a_uri_of_this_machine_is_closed_and_others_are_left_alone(tmp_path: Path) -> None:
    place = tmp_path / "a b"
    make_private_uri(place.as_uri())
    make_private_uri("s3://bucket/place")
    assert mode(place) == 0o700


def test_files_of_the_process_are_its_users_alone(tmp_path: Path) -> None:
    keep_files_private()
    (tmp_path / "file").write_text("")
    (tmp_path / "folder").mkdir()
    assert (mode(tmp_path / "file"), mode(tmp_path / "folder")) == (0o600, 0o700)


def test_a_directory_that_all_users_share_is_closed_to_nobody(tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o1777)
    with pytest.raises(PermissionError, match="all users share this directory"):
        make_private(shared)
    assert shared.stat().st_mode & 0o7777 == 0o1777


def test_a_new_file_is_its_users_alone_and_replaces_none(tmp_path: Path) -> None:
    file = tmp_path / "file"
    write_new(file, b"rows")
    assert (mode(file), file.read_bytes()) == (0o600, b"rows")
    with pytest.raises(FileExistsError):
        write_new(file, b"others")
    assert file.read_bytes() == b"rows"
