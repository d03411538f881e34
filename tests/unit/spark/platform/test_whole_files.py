"""Files that are there as a whole or not at all, on this machine."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from pyarrow import fs

from tests.unit.spark.hdfs import Hdfs
from tidegate.spark.platform.whole_files import (
    TORN,
    read_replaced,
    read_whole,
    remove_file,
    write_first,
    write_whole,
)

_LOCAL = fs.LocalFileSystem()


def test_the_first_content_stays(tmp_path: Path) -> None:
    path = str(tmp_path / "round.json")
    assert write_first(_LOCAL, path, b"one") == b"one"
    assert write_first(_LOCAL, path, b"two") == b"one"
    write_whole(_LOCAL, path, b"three")
    assert write_first(_LOCAL, path, b"four") == b"three"
    assert [file.name for file in tmp_path.iterdir()] == ["round.json"]


def test_of_many_writers_one_is_the_first_and_all_read_it(tmp_path: Path) -> None:
    path = str(tmp_path / "round.json")
    stored: list[bytes] = []

    def write(content: bytes) -> None:
        stored.append(write_first(_LOCAL, path, content))

    writers = [Thread(target=write, args=(str(number).encode(),)) for number in range(32)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert len(stored) == 32
    assert set(stored) == {read_whole(_LOCAL, path)}
    assert [file.name for file in tmp_path.iterdir()] == ["round.json"]


@pytest.mark.parametrize("code", [errno.EPERM, errno.ENOTSUP, errno.ENOSYS, errno.EMLINK])
def test_where_there_are_no_hard_links_the_first_content_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    def refuse(_: str, __: str) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(os, "link", refuse)
    path = str(tmp_path / "round.json")
    assert write_first(_LOCAL, path, b"one") == b"one"
    assert write_first(_LOCAL, path, b"two") == b"one"
    assert [file.name for file in tmp_path.iterdir()] == ["round.json"]


def test_a_link_that_fails_for_another_reason_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: str, __: str) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(os, "link", fail)
    with pytest.raises(OSError, match="Input/output error"):
        write_first(_LOCAL, str(tmp_path / "round.json"), b"one")
    assert [*tmp_path.iterdir()] == []


def test_removing_a_file_that_is_gone_is_no_error(tmp_path: Path) -> None:
    (tmp_path / "old.json").touch()
    for _ in range(2):
        remove_file(_LOCAL, str(tmp_path / "old.json"))
    assert not list(tmp_path.iterdir())


def test_what_a_dead_writer_left_unfinished_is_in_nobodys_way(tmp_path: Path) -> None:
    path = str(tmp_path / "account.json")
    Path(f"{path}{TORN}").write_bytes(b"half")
    assert read_whole(_LOCAL, path) is None
    write_whole(_LOCAL, path, b"whole")
    assert read_whole(_LOCAL, path) == b"whole"
    assert [file.name for file in tmp_path.iterdir()] == ["account.json"]


def test_a_writer_that_dies_between_deleting_and_moving_leaves_the_new_file(tmp_path: Path) -> None:
    path, hdfs = str(tmp_path / "head.json"), Hdfs()
    assert read_replaced(hdfs, path) is None
    write_whole(hdfs, path, b"old")
    assert read_replaced(hdfs, path) == b"old"
    Path(f"{path}{TORN}").write_bytes(b"new")  # it died here
    assert read_replaced(hdfs, path) == b"old"
    Path(path).unlink()  # or here
    assert read_replaced(hdfs, path) == b"new"
    assert read_replaced(_LOCAL, path) is None
    write_whole(hdfs, path, b"newer")
    assert read_replaced(hdfs, path) == b"newer"


class _Failing:
    """The file system of this machine or HDFS, on which one kind of call fails, as on a full disk."""

    def __init__(self, call: str, type_name: str = "local") -> None:
        self.type_name = type_name
        self._call = call

    def _fail(self, *_: str) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def _fail_otherwise(self, _: str) -> None:
        raise OSError(errno.EACCES, os.strerror(errno.EACCES))

    @contextmanager
    def _half(self, path: str) -> Iterator[Any]:
        with _LOCAL.open_output_stream(path) as stream:
            stream.write(b"half")
            self._fail()
            yield stream

    def __getattr__(self, name: str) -> Any:
        if name == self._call:
            return self._half if name == "open_output_stream" else self._fail
        return getattr(_LOCAL, name)


@pytest.mark.parametrize("call", ["open_output_stream", "move"])
@pytest.mark.parametrize("write", [write_whole, write_first])
def test_a_write_that_fails_leaves_no_unfinished_file(
    tmp_path: Path, call: str, write: Callable[[Any, str, bytes], Any]
) -> None:
    path = str(tmp_path / "state")
    with pytest.raises(OSError, match="No space left"):
        write(_Failing(call), path, b"whole")
    assert not list(tmp_path.iterdir())


def test_on_hdfs_a_move_that_fails_leaves_the_only_copy(tmp_path: Path) -> None:
    path = str(tmp_path / "head.json")
    write_whole(_LOCAL, path, b"old")
    with pytest.raises(OSError, match="No space left"):
        write_whole(_Failing("move", "hdfs"), path, b"new")
    assert read_replaced(Hdfs(), path) == b"new"


def test_an_unfinished_file_that_cannot_be_removed_hides_no_fault(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    failing = _Failing("move")
    monkeypatch.setattr(failing, "delete_file", failing._fail_otherwise, raising=False)
    with pytest.raises(OSError, match="No space left"):
        write_whole(failing, str(tmp_path / "state"), b"whole")
