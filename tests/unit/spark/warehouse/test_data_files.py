"""The data files of a task: how many rows wait in memory for their row groups."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyarrow import fs

from tests.unit.spark.warehouse.feed_histories import COLUMNS, OPTIONS
from tidegate.hlc import Timestamp
from tidegate.spark.warehouse import data_files
from tidegate.spark.warehouse.buckets import BucketEnd
from tidegate.spark.warehouse.data_files import BucketFiles
from tidegate.spark.warehouse.manifest import DataFile, LoadedTable
from tidegate.spark.warehouse.partition_rows import RowChange

_TABLE = LoadedTable("topic", "id", 1, "feed", OPTIONS.format, COLUMNS)


def _change(offset: int, bucket: int, record_bytes: int) -> RowChange:
    return RowChange(BucketEnd(bucket), (offset,), None, Timestamp(offset + 1), None, offset, record_bytes)


def _groups(root: Path, file: DataFile) -> list[int]:
    """The rows of each row group of a file."""
    meta = pq.read_metadata(root / file.path)
    return [meta.row_group(number).num_rows for number in range(meta.num_row_groups)]


def _files(root: Path) -> BucketFiles:
    return BucketFiles(fs.LocalFileSystem(), str(root), _TABLE, 0)


def test_a_row_group_ends_with_its_rows_or_with_the_bytes_of_its_records(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(data_files, "_ROWS_PER_GROUP", 10)
    monkeypatch.setattr(data_files, "_BYTES_PER_GROUP", 1_000)
    files = _files(tmp_path)
    for offset in range(25):
        files.add(_change(offset, 10, 20))
    for offset in range(25, 34):
        files.add(_change(offset, 10, 400))
    (file,) = files.finish(BucketEnd(10))
    assert _groups(tmp_path, file) == [10, 10, 8, 3, 3]


def test_rows_of_many_buckets_that_wait_have_a_bound_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(data_files, "_WAITING_BYTES", 1_000)
    files = _files(tmp_path)
    for offset in range(40):
        files.add(_change(offset, 10 + (0 if offset % 4 else offset % 3), 100))
    written = [_groups(tmp_path, file) for file in files.finish(BucketEnd(12))]
    assert sum(map(sum, written)) == 40
    assert max(map(max, written)) <= 10
    assert sum(map(len, written)) >= 4
