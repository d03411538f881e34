"""The lock of a directory."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tidegate.access.directory_lock import DirectoryInUse, DirectoryLock


def test_one_at_a_time_has_a_directory(tmp_path: Path) -> None:
    lock = DirectoryLock(tmp_path)
    with pytest.raises(DirectoryInUse) as caught:
        DirectoryLock(tmp_path)
    assert caught.value.holder == str(os.getpid())
    lock.close()
    lock.close()
    DirectoryLock(tmp_path).close()


def test_a_holder_that_has_not_said_who_it_is_is_unknown(tmp_path: Path) -> None:
    lock = DirectoryLock(tmp_path)
    (tmp_path / "lock").write_text("")
    with pytest.raises(DirectoryInUse, match="unknown"):
        DirectoryLock(tmp_path)
    lock.close()


def test_a_link_in_the_place_of_the_lock_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "other").write_text("kept")
    (tmp_path / "lock").symlink_to(tmp_path / "other")
    with pytest.raises(OSError, match="symbolic"):
        DirectoryLock(tmp_path)
    assert (tmp_path / "other").read_text() == "kept"
