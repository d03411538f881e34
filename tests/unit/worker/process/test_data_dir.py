"""The data directory: one worker at a time, and no layout of the future."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tidegate.access.directory_lock import DirectoryLock
from tidegate.errors import TopologyError
from tidegate.worker.process.data_dir import LAYOUT_VERSION, DataDirectory


def test_a_second_worker_is_told_who_has_it(tmp_path: Path) -> None:
    with DataDirectory(tmp_path / "app"), pytest.raises(TopologyError, match=r"in use by .* process id \d+"):
        DataDirectory(tmp_path / "app")


def test_a_closed_directory_can_be_taken(tmp_path: Path) -> None:
    DataDirectory(tmp_path / "app").close()
    DataDirectory(tmp_path / "app").close()


def test_a_newer_layout_is_refused_and_left_unlocked(tmp_path: Path) -> None:
    (tmp_path / "version").write_text(f"{LAYOUT_VERSION + 1}\n")
    with pytest.raises(TopologyError, match="run the newer worker"):
        DataDirectory(tmp_path)
    (tmp_path / "version").write_text(f"{LAYOUT_VERSION}\n")
    DataDirectory(tmp_path).close()


def test_a_version_with_any_bit_changed_is_refused_by_name_and_left_unlocked(tmp_path: Path) -> None:
    DataDirectory(tmp_path).close()
    good = (tmp_path / "version").read_bytes()
    for bit in range(8 * len(good)):
        changed = bytearray(good)
        changed[bit // 8] ^= 1 << bit % 8
        (tmp_path / "version").write_bytes(changed)
        if changed.strip() != good.strip():
            with pytest.raises(TopologyError, match="is of version"):
                DataDirectory(tmp_path)
        DirectoryLock(tmp_path).close()


@pytest.mark.parametrize(
    "content",
    [
        *(b"", b"0", b"-1", b"+1", b"0_1", b"01", b" 1", b"\x1b[31m1"),
        *("\u00b2".encode(), b"\xff" * 5_000, b"9" * 5_000),
    ],
)
def test_a_version_that_is_no_number_is_refused_by_a_short_sentence(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "version").write_bytes(content)
    with pytest.raises(TopologyError, match="is of version") as caught:
        DataDirectory(tmp_path)
    assert len(str(caught.value)) < 500 + len(str(tmp_path))
    assert str(caught.value).isprintable()


def test_an_exception_that_nobody_foresaw_leaves_the_directory_unlocked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(_: DataDirectory) -> None:
        raise LookupError

    monkeypatch.setattr(DataDirectory, "_check_version", broken)
    with pytest.raises(LookupError) as caught:
        DataDirectory(tmp_path)
    DirectoryLock(tmp_path).close()
    del caught  # its traceback held the lock until here


def test_other_users_cannot_enter_the_directory_nor_one_that_was_open(tmp_path: Path) -> None:
    (tmp_path / "old").mkdir(mode=0o755)
    for name in ("new", "old"):
        DataDirectory(tmp_path / name).close()
        assert (tmp_path / name).stat().st_mode & 0o777 == 0o700
        assert (tmp_path / name / "lock").stat().st_mode & 0o777 == 0o600


def test_a_path_that_cannot_be_a_directory_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(TopologyError, match="cannot be written"):
        DataDirectory(tmp_path / "file" / "app")


def test_the_address_is_there_while_the_worker_is(tmp_path: Path) -> None:
    with DataDirectory(tmp_path) as directory:
        directory.announce("http://127.0.0.1:1234")
        assert json.loads((tmp_path / "worker.json").read_text())["url"] == "http://127.0.0.1:1234"
    assert not (tmp_path / "worker.json").exists()


def test_names_in_the_group_outlast_a_process_that_died(tmp_path: Path) -> None:
    directory = DataDirectory(tmp_path)
    assert directory.members() == ()
    directory.note_members(("a", "b"))
    directory._lock.close()  # as the kernel does
    assert DataDirectory(tmp_path).members() == ("a", "b")


def test_a_process_that_left_its_group_leaves_no_name(tmp_path: Path) -> None:
    with DataDirectory(tmp_path) as directory:
        directory.note_members(("a",))
    with DataDirectory(tmp_path) as directory:
        assert directory.members() == ()


@pytest.mark.parametrize("content", ["", "[", '{"a": 1}', "7"])
def test_a_file_that_nobody_can_read_names_no_member(tmp_path: Path, content: str) -> None:
    (tmp_path / "members.json").write_text(content)
    with DataDirectory(tmp_path) as directory:
        assert directory.members() == ()
