"""The log in a file."""

from __future__ import annotations

from pathlib import Path

import pytest

from sim.log.sink import FileSink, WrittenRecord, read_log
from tidegate.errors import StateError

_RECORDS = [WrittenRecord(0, b"k", b"value", 1_700_000_000_000), WrittenRecord(3, b"", b"", -1)]


def _write(path: Path) -> None:
    sink = FileSink(path)
    for record in _RECORDS:
        sink.append(*record)
    sink.close()


def test_records_are_read_as_they_were_appended(tmp_path: Path) -> None:
    _write(tmp_path / "log")
    assert list(read_log(tmp_path / "log")) == _RECORDS


def test_flushed_records_can_be_read_before_the_file_is_closed(tmp_path: Path) -> None:
    sink = FileSink(tmp_path / "log")
    sink.append(*_RECORDS[0])
    sink.flush()
    assert list(read_log(tmp_path / "log")) == _RECORDS[:1]
    sink.close()


def test_a_torn_log_is_refused(tmp_path: Path) -> None:
    _write(tmp_path / "log")
    (tmp_path / "log").write_bytes((tmp_path / "log").read_bytes()[:-1])
    with pytest.raises(StateError):
        list(read_log(tmp_path / "log"))
