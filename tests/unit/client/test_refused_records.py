"""Records that are kept aside: what is kept, what is bounded, and that keeping them breaks nothing."""

from __future__ import annotations

import logging
import resource
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

from tidegate.client import refused_records
from tidegate.client.local_files import LocalFiles
from tidegate.client.refused_records import KeptRecord, RefusedRecords, kept_names, read_kept
from tidegate.errors import InputError
from tidegate.processor.refused import RefusedRecord, RefusedRow, Source

_TOPICS: Final = {Source.LOG: "raftlog", Source.ROW: "raftlog", Source.CONTROL: "bank-control"}


class _Clock:
    """Goes on by hand, in seconds."""

    def __init__(self) -> None:
        self.now = 1_800_000_000.0

    def __call__(self) -> float:
        self.now += 0.001
        return self.now


def _record(offset: int = 7, value: bytes | None = b"\xff\x00", place: str = "a.py, line 1") -> RefusedRecord:
    exception = f"ArithmeticError ({place})"
    return RefusedRecord(Source.LOG, offset, 1_700, b"key", value, exception, "nobody foresaw it")


def _records(directory: Path, clock: _Clock | None = None) -> RefusedRecords:
    return RefusedRecords(lambda: LocalFiles(directory), _TOPICS, clock or _Clock())


def _kept(directory: Path) -> list[KeptRecord]:
    files = LocalFiles(directory)
    return [read_kept(files, name) for name in kept_names(files)]


def _row(previous: bytes | None) -> RefusedRecord:
    return _record()._replace(source=Source.ROW, row=RefusedRow("bank", "17.0", previous, b"descriptor"))


@pytest.mark.parametrize(
    "record",
    [
        _record(),
        _record(value=None)._replace(key=None),
        _record()._replace(source=Source.CONTROL, timestamp_ms=0),
        _record()._replace(source=Source.HAND_OFFS),
        _row(b"before"),
        _row(None),
    ],
)
def test_a_record_is_kept_as_it_came(record: RefusedRecord, tmp_path: Path) -> None:
    _records(tmp_path / "refused").keep(3, record)
    (kept,) = _kept(tmp_path / "refused")
    assert kept.record == record
    assert (kept.topic, kept.partition, kept.left_out) == (_TOPICS.get(record.source, ""), 3, 0)
    assert kept.version


def test_nobody_else_of_the_machine_reads_it(tmp_path: Path) -> None:
    directory = tmp_path / "home" / "refused"
    _records(directory).keep(0, _record())
    (file,) = directory.iterdir()
    modes = [stat.S_IMODE(place.stat().st_mode) for place in (directory, file)]
    assert modes == [0o700, 0o600]


def test_a_record_that_is_met_again_is_kept_once(tmp_path: Path) -> None:
    records = _records(tmp_path)
    for partition in (0, 0, 1):
        records.keep(partition, _record())
    assert [kept.partition for kept in _kept(tmp_path)] == [0, 1]


def test_another_record_at_the_same_offset_is_kept_beside_it(tmp_path: Path) -> None:
    records = _records(tmp_path)
    records.keep(0, _record(value=b"of a topic that was made anew"))
    records.keep(0, _record(value=b"before"))
    assert len(_kept(tmp_path)) == 2


def test_the_oldest_go_first_where_there_are_too_many(tmp_path: Path) -> None:
    clock = _Clock()
    records = _records(tmp_path, clock)
    for offset in range(refused_records.FILES_MAX + 30):
        clock.now += 600
        records.keep(0, _record(offset))
    kept = [each.record.offset for each in _kept(tmp_path)]
    assert kept == [*range(30, refused_records.FILES_MAX + 30)]


@pytest.mark.long
def test_the_oldest_go_first_where_they_are_too_large(tmp_path: Path) -> None:
    records = _records(tmp_path)
    value = bytes(refused_records.RECORD_BYTES_MAX - 100)
    for offset in range(9):
        records.keep(0, _record(offset, value))
    kept = _kept(tmp_path)
    assert [each.record.offset for each in kept] == [4, 5, 6, 7, 8]
    assert sum(file.stat().st_size for file in tmp_path.iterdir()) <= refused_records.BYTES_MAX


def test_files_of_others_stay(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_bytes(bytes(refused_records.BYTES_MAX))
    _records(tmp_path).keep(0, _record())
    assert (tmp_path / "notes.txt").exists()
    assert len(_kept(tmp_path)) == 1


def test_a_record_that_is_too_large_leaves_its_place(tmp_path: Path) -> None:
    record = _record(value=bytes(refused_records.RECORD_BYTES_MAX))
    _records(tmp_path).keep(2, record)
    (kept,) = _kept(tmp_path)
    assert kept.record == record._replace(key=None, value=None)
    assert kept.left_out == refused_records.RECORD_BYTES_MAX + len(b"key")


def test_a_flood_of_one_kind_leaves_room_for_others_and_is_kept_again_in_the_next_hour(
    tmp_path: Path,
) -> None:
    clock = _Clock()
    records = _records(tmp_path, clock)
    for offset in range(1_000):
        records.keep(0, _record(offset))
    records.keep(0, _record(5_000, place="b.py, line 2"))
    kept = [each.record.offset for each in _kept(tmp_path)]
    assert kept == [*range(refused_records.OF_ONE_PLACE), 5_000]
    clock.now += 3_600
    records.keep(0, _record(6_000))
    assert _kept(tmp_path)[-1].record.offset == 6_000


def test_floods_of_many_kinds_end_as_well(tmp_path: Path) -> None:
    records = _records(tmp_path)
    for offset in range(300):
        records.keep(0, _record(offset, place=f"a.py, line {offset}"))
    assert len(_kept(tmp_path)) == refused_records.OF_ALL


@contextmanager
def _files_of(limit: int) -> Iterator[None]:
    """Let no file become larger, as on a disk that becomes full."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_full_disk_leaves_no_part_of_a_file_and_is_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    records = _records(tmp_path)
    with _files_of(1_000), caplog.at_level(logging.WARNING):
        records.keep(0, _record(value=bytes(10_000)))
    assert [*tmp_path.iterdir()] == []
    assert "the record at offset 7 is not kept aside" in caplog.text
    records.keep(0, _record())
    assert len(_kept(tmp_path)) == 1


def test_a_directory_that_cannot_be_written_is_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "refused").write_text("a file")
    _records(tmp_path / "refused").keep(0, _record())
    assert "is not kept aside" in caplog.text


class _Broken(LocalFiles):
    """Fails by what no file system is known to raise."""

    def sizes(self) -> Mapping[str, int]:
        raise ArithmeticError("nobody foresaw this either")


def test_whatever_happens_it_breaks_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    RefusedRecords(lambda: _Broken(tmp_path), _TOPICS).keep(0, _record())
    assert "nobody foresaw this either" in caplog.text


def test_a_link_is_not_followed(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    victim = tmp_path / "victim"
    directory = tmp_path / "refused"
    directory.mkdir(mode=0o700)
    (directory / ".unfinished").symlink_to(victim)
    _records(directory).keep(0, _record())
    assert not victim.exists()
    assert "is not kept aside" in caplog.text


@pytest.mark.parametrize("content", [b"", b"{}", b"[]", b"null", b"\xff", b'{"v":1}', b"[" * 100_000])
def test_a_damaged_file_is_told_by_its_name(content: bytes, tmp_path: Path) -> None:
    _records(tmp_path).keep(0, _record())
    (name,) = kept_names(LocalFiles(tmp_path))
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError, match=f"{name} cannot be read"):
        read_kept(LocalFiles(tmp_path), name)


def test_a_file_of_a_newer_version_is_told(tmp_path: Path) -> None:
    _records(tmp_path).keep(0, _record())
    (name,) = kept_names(LocalFiles(tmp_path))
    text = (tmp_path / name).read_text()
    (tmp_path / name).write_text(text.replace('"v": 1', '"v": 2'))
    with pytest.raises(InputError, match="its version is 2"):
        read_kept(LocalFiles(tmp_path), name)
