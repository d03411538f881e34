"""What one task of a pass does (docs/warehouse.md, step W3): one partition's records, from the position of
the last commit on, to a data file for each bucket that the partition's own markers close.

A task that is run again, or twice at the same time, writes the same rows to other files; what the driver does
not hear of is removed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

from pyarrow import fs

from tidegate.changefeed.encoding.record import RecordDecoder
from tidegate.errors import InputError
from tidegate.hlc import ZERO, Timestamp
from tidegate.spark.warehouse.buckets import NO_BUCKET, BucketEnd, Buckets
from tidegate.spark.warehouse.data_files import BucketFiles
from tidegate.spark.warehouse.manifest import DataFile, LoadedTable, LoadPosition
from tidegate.spark.warehouse.partition_rows import BucketRows, RowChange
from tidegate.verify import TopicPartition, TopicRecord


class TopicReading(Protocol):
    """How a task reads the records of a topic; it travels to executors."""

    def decoder(self) -> RecordDecoder:
        """What reads them."""

    def records(self, place: TopicPartition, start: int, end: int) -> Iterator[TopicRecord]:
        """Committed records of a partition at offsets from ``start`` to below ``end``, in their order."""


@dataclass(frozen=True, slots=True)
class LoadTask:
    """Read ``place`` from ``position`` to below ``end``; ``closed`` is the bound of the last commit.

    It may stop once it has read ``records`` and among them a marker that closes one bucket more (0: it reads
    all). ``root`` is the URI of the warehouse.
    """

    reading: TopicReading
    root: str
    table: LoadedTable
    place: TopicPartition
    buckets: Buckets
    closed: BucketEnd
    position: LoadPosition
    end: int
    records: int = 0


@dataclass(frozen=True, slots=True)
class PartitionAnswer:
    """What a task has found. It read to below ``read_to``, where ``more`` says that this is not the end.

    ``closed`` is the last bucket that the partition's own markers close; ``files`` are of buckets up to it.
    ``first_offsets`` tells of each bucket that is not committed where its first row stands. ``unknown`` are
    members of rows that the table has no columns for, ``fault`` a sentence; with either nothing else counts.
    """

    place: TopicPartition
    read_to: int = 0
    more: bool = False
    closed: BucketEnd = NO_BUCKET
    marker: Timestamp = ZERO
    files: tuple[DataFile, ...] = ()
    first_offsets: tuple[tuple[BucketEnd, int], ...] = ()
    repeats: int = 0
    unknown: tuple[str, ...] = ()
    fault: str = ""

    def position(self, closed: BucketEnd) -> LoadPosition:
        """Where to read on from once buckets up to ``closed`` are committed."""
        waiting = [offset for bucket, offset in self.first_offsets if bucket > closed]
        return LoadPosition(min(waiting, default=self.read_to), self.marker)


class _UnknownColumns(Exception):
    """A row has members that the table has no columns for."""

    def __init__(self, names: set[str]) -> None:
        super().__init__(names)
        self.names = names


def load_partition(task: LoadTask) -> PartitionAnswer:
    """Run a task. What is wrong with the records is in the answer; raises only what passes by itself."""
    filesystem, root = fs.FileSystem.from_uri(task.root)
    files = BucketFiles(filesystem, root, task.table, task.place.partition)
    try:
        return _load(task, files)
    except _UnknownColumns as error:
        return PartitionAnswer(task.place, unknown=tuple(sorted(error.names)))
    except InputError as error:
        return PartitionAnswer(task.place, fault=f"{task.place} cannot be loaded: {error}")
    finally:
        files.abandon()


def _load(task: LoadTask, files: BucketFiles) -> PartitionAnswer:
    position, buckets = task.position, task.buckets
    rows = BucketRows(task.place, task.reading.decoder(), buckets, task.closed)
    known = frozenset(task.table.columns.names)
    read_to, more = max(position.offset, task.end), False
    records = task.reading.records(task.place, position.offset, task.end)
    for count, record in enumerate(records, start=1):
        change = rows.take(record)
        if change is not None:
            _require_known(change, known)
            files.add(change)
        if task.records and count >= task.records and buckets.closed_by(rows.marker) > task.closed:
            read_to, more = record.offset + 1, record.offset + 1 < task.end
            break
    marker = max(position.marker, rows.marker)
    # A marker of an earlier pass may stand behind what was read, if not all was: then it says nothing yet.
    closed = max(task.closed, buckets.closed_by(rows.marker if more else marker))
    return PartitionAnswer(
        task.place,
        read_to,
        more,
        closed,
        marker,
        tuple(files.finish(closed)),
        tuple(sorted(rows.first_offsets.items())),
        rows.repeats,
    )


def _require_known(change: RowChange, known: frozenset[str]) -> None:
    if change.row is not None and not change.row.keys() <= known:
        raise _UnknownColumns(set(change.row) - known)
