"""The data files that one task writes: one for each bucket of its partition, row group after row group.

No two attempts of a task give a file the same name. A file belongs to its table only once a commit names it.
"""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import PurePosixPath
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs

from tidegate.hlc import Timestamp
from tidegate.spark.warehouse.buckets import BucketEnd, day_of, moment
from tidegate.spark.warehouse.columns import META, rows_to_arrays
from tidegate.spark.warehouse.manifest import DataFile, LoadedTable
from tidegate.spark.warehouse.partition_rows import RowChange

_ROWS_PER_GROUP: Final = 20_000
#: Bytes of the records whose rows wait for their row groups: of one bucket, and of all buckets of a task.
_BYTES_PER_GROUP: Final = 16 << 20
_WAITING_BYTES: Final = 64 << 20


def changes_directory(topic: str) -> str:
    """Return the directory of a topic's data files, below the root."""
    return f"{topic}/changes"


def current_directory(topic: str) -> str:
    """Return the directory of the Delta table of a topic's current rows, below the root."""
    return f"{topic}/current"


def changes_schema(table: LoadedTable) -> pa.Schema:
    """Return the Arrow schema of a table of changes."""
    return pa.schema([*META, *table.columns.schema(table.format)])


class BucketFiles:
    """Writes rows of one partition, to one file for each bucket, below ``root`` of ``filesystem``.

    Rows wait in memory until their bucket has a full row group. If the rows of all buckets have too many
    bytes together, those of the bucket that has most are written.
    """

    def __init__(self, filesystem: fs.FileSystem, root: str, table: LoadedTable, partition: int) -> None:
        self._filesystem = filesystem
        self._root = root
        self._table = table
        self._partition = partition
        self._schema = changes_schema(table)
        self._waiting: dict[BucketEnd, _RowGroup] = defaultdict(_RowGroup)
        self._waiting_bytes = 0
        self._open: dict[BucketEnd, _OpenFile] = {}

    def add(self, change: RowChange) -> None:
        """Take a row. Raises ``RowError`` for a value that has no form in the table."""
        group = self._waiting[change.bucket]
        group.add(change)
        self._waiting_bytes += change.record_bytes
        if group.is_full:
            self._write(change.bucket)
        elif self._waiting_bytes >= _WAITING_BYTES:
            self._write(max(self._waiting, key=lambda bucket: self._waiting[bucket].record_bytes))

    def finish(self, closed: BucketEnd) -> list[DataFile]:
        """Finish and return the files of buckets up to ``closed``; throw away those above.

        Raises as ``add`` does.
        """
        for bucket in sorted(self._waiting):
            if bucket <= closed:
                self._write(bucket)
        kept = [self._open.pop(bucket) for bucket in sorted(self._open) if bucket <= closed]
        self.abandon()
        return [file.finish() for file in kept]

    def abandon(self) -> None:
        """Throw away the files that are not finished, and the rows that wait for a file."""
        for file in self._open.values():
            file.abandon()
        self._open.clear()
        self._waiting.clear()
        self._waiting_bytes = 0

    def _write(self, bucket: BucketEnd) -> None:
        group = self._waiting.pop(bucket)
        changes = group.changes
        self._waiting_bytes -= group.record_bytes
        if bucket not in self._open:
            first = changes[0].offset
            name = f"{bucket}-{self._partition}-{first}-{uuid.uuid4().hex}.parquet"
            path = f"{changes_directory(self._table.topic)}/{day_of(bucket)}/{name}"
            empty = DataFile(bucket, self._table.topic, self._partition, path, 0, 0, 2**63 - 1, 0)
            self._open[bucket] = _OpenFile(self._filesystem, self._root, self._schema, empty)
        self._open[bucket].write(self._batch(changes), changes)

    def _batch(self, changes: list[RowChange]) -> pa.Table:
        known = [
            [moment(change.bucket) for change in changes],
            [change.updated.wall for change in changes],
            [change.updated.logical for change in changes],
            [change.row is None for change in changes],
            [_decimal(change.mvcc_timestamp) for change in changes],
            [self._partition] * len(changes),
            [change.offset for change in changes],
        ]
        arrays = [pa.array(values, column.type) for values, column in zip(known, META, strict=True)]
        rows = [(change.key, change.row) for change in changes]
        arrays += rows_to_arrays(self._table.columns, self._table.format, rows)
        return pa.Table.from_arrays(arrays, schema=self._schema)


class _RowGroup:
    """Rows that will be a row group of a file. ``record_bytes`` are those of their records."""

    def __init__(self) -> None:
        self.changes: list[RowChange] = []
        self.record_bytes = 0

    def add(self, change: RowChange) -> None:
        """Take one more row."""
        self.changes.append(change)
        self.record_bytes += change.record_bytes

    @property
    def is_full(self) -> bool:
        """Whether the rows are to be written."""
        return len(self.changes) >= _ROWS_PER_GROUP or self.record_bytes >= _BYTES_PER_GROUP


class _OpenFile:
    """A data file that is being written."""

    def __init__(self, filesystem: fs.FileSystem, root: str, schema: pa.Schema, empty: DataFile) -> None:
        self._filesystem = filesystem
        self._file = empty
        self._path = f"{root}/{empty.path}"
        filesystem.create_dir(str(PurePosixPath(self._path).parent))
        self._writer = pq.ParquetWriter(self._path, schema, filesystem=filesystem)

    def write(self, rows: pa.Table, changes: Sequence[RowChange]) -> None:
        """Write one more row group."""
        self._writer.write_table(rows)
        walls = [change.updated.wall for change in changes]
        self._file = replace(
            self._file,
            rows=self._file.rows + len(walls),
            lowest=min(self._file.lowest, *walls),
            highest=max(self._file.highest, *walls),
        )

    def finish(self) -> DataFile:
        """Close the file, which is whole then, and return it."""
        self._writer.close()
        return replace(self._file, bytes=self._filesystem.get_file_info(self._path).size)

    def abandon(self) -> None:
        """Close and remove the file."""
        self._writer.close()
        self._filesystem.delete_file(self._path)


def remove_unnamed(
    filesystem: fs.FileSystem, root: str, topics: Iterable[str], since: str, named: Iterable[DataFile]
) -> int:
    """Remove data files that are not among ``named``; return how many they were.

    Only directories of the day ``since`` and of later days are looked at.
    """
    kept = {f"{root}/{file.path}" for file in named}
    count = 0
    for topic in topics:
        directory = f"{root}/{changes_directory(topic)}"
        for day in filesystem.get_file_info(fs.FileSelector(directory, allow_not_found=True)):
            if day.type != fs.FileType.Directory or day.base_name < since or day.base_name.startswith("_"):
                continue
            for info in filesystem.get_file_info(fs.FileSelector(day.path)):
                if info.path not in kept:
                    filesystem.delete_file(info.path)
                    count += 1
    return count


def _decimal(timestamp: Timestamp | None) -> str | None:
    return None if timestamp is None else timestamp.decimal()
