"""One task of a pass (docs/warehouse.md, step W3): it reads one partition from the position of the last
commit on, and writes a data file for each bucket that the partition's own markers close.

A task that runs again, or twice at the same time, writes the same rows to other files. Files that the driver
is not told of are removed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from tidegate.changefeed.encoding.record import RecordDecoder
from tidegate.client.subscribe.feed_term import ALONE, FeedTerm
from tidegate.errors import InputError, SettingsError, UnreadableRow, brief
from tidegate.hlc import ZERO, Timestamp
from tidegate.spark.platform.file_systems import opened_by_arrow
from tidegate.spark.warehouse.buckets import NO_BUCKET, BucketEnd, Buckets
from tidegate.spark.warehouse.data_files import BucketFiles
from tidegate.spark.warehouse.manifest import DataFile, LoadedTable, LoadPosition
from tidegate.spark.warehouse.partition_rows import BucketRows, RowChange
from tidegate.verify import TopicPartition, TopicRecord


class TopicReading(Protocol):
    """Reads the records of a topic for a task. It travels to executors."""

    def decoder(self) -> RecordDecoder:
        """Return the decoder of the topic's records."""

    def records(self, place: TopicPartition, start: int, end: int) -> Iterator[TopicRecord]:
        """Yield the committed records of a partition, in order, at offsets from ``start`` to below
        ``end``.
        """


@dataclass(frozen=True, slots=True)
class LoadTask:
    """The reading of ``place`` from ``position`` to below ``end``.

    ``closed`` is the bound of the last commit. The task may stop once it has read ``records`` records, if one
    of them is a marker that closes one bucket more (0: it reads all). It stops at the first marker that is
    later than ``term``, and passes over rows above ``last``, which are a later feed's. ``root`` is the URI of
    the warehouse.
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
    term: FeedTerm = ALONE
    last: Timestamp | None = None


@dataclass(frozen=True, slots=True)
class PartitionAnswer:
    """The result of a task. It has read to below ``read_to``; ``more`` says that it stopped before the end.

    ``known_to`` is the offset below which this task or earlier passes have read, and ``marker`` is the
    highest marker below it. ``closed`` is the last bucket that the partition's own markers close, and
    ``files`` are those of buckets up to it. ``first_offsets`` has the offset of the first row of each bucket
    that is not committed. ``later`` is the marker of a later feed at which the task has stopped, at the
    offset ``read_to``. ``unknown`` are members of rows for which the table has no column, and ``fault`` is a
    sentence; with either of them nothing else counts.
    """

    place: TopicPartition
    read_to: int = 0
    known_to: int = 0
    more: bool = False
    closed: BucketEnd = NO_BUCKET
    marker: Timestamp = ZERO
    files: tuple[DataFile, ...] = ()
    first_offsets: tuple[tuple[BucketEnd, int], ...] = ()
    repeats: int = 0
    later: Timestamp | None = None
    unknown: tuple[str, ...] = ()
    fault: str = ""

    def position(self, closed: BucketEnd) -> LoadPosition:
        """Return where to read on from once buckets up to ``closed`` are committed."""
        waiting = [offset for bucket, offset in self.first_offsets if bucket > closed]
        return LoadPosition(min(waiting, default=self.read_to), self.marker, self.known_to)


class _UnknownColumns(Exception):
    """Raised for a row with members for which the table has no column."""

    def __init__(self, names: set[str]) -> None:
        super().__init__(names)
        self.names = names


def load_partition(task: LoadTask) -> PartitionAnswer:
    """Run a task. Faults of the records are in the answer; raises only faults that may pass."""
    try:
        filesystem, root = opened_by_arrow(task.root)
    except SettingsError as error:
        return PartitionAnswer(task.place, fault=f"A task cannot write. {error}")
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
    rows = BucketRows(task.place, task.reading.decoder(), buckets, task.closed, task.term, task.last)
    columns = task.table.columns
    known = frozenset(columns.names)
    read_to, more = max(position.offset, task.end), False
    records = task.reading.records(task.place, position.offset, task.end)
    for count, record in enumerate(records, start=1):
        change = rows.read_row(record)
        if rows.later is not None:
            read_to = record.offset
            break
        if change is not None:
            _require_known(change, known)
            _require_key(change, columns.key, task.place)
            files.add(change)
        if task.records and count >= task.records and buckets.closed_by(rows.marker) > task.closed:
            read_to, more = record.offset + 1, record.offset + 1 < task.end
            break
    marker = max(position.marker, rows.marker)
    # An earlier pass may have seen its marker after the records at which this pass stopped. Such a marker
    # closes nothing yet.
    closing = marker if read_to >= position.read_to else rows.marker
    closed = max(task.closed, buckets.closed_by(closing))
    return PartitionAnswer(
        task.place,
        read_to,
        max(read_to, position.read_to),
        more,
        closed,
        marker,
        tuple(files.finish(closed)),
        tuple(sorted(rows.first_offsets.items())),
        rows.repeats,
        rows.later,
    )


def _require_key(change: RowChange, key: Sequence[str], place: TopicPartition) -> None:
    """Raise ``UnreadableRow`` for a record whose key is not made of the columns in ``key``."""
    if len(change.key) != len(key):
        why = f"has a key of {len(change.key)} values, and the table's has {len(key)}: {', '.join(key)}"
    elif other := _differing(change, key):
        name, in_key, in_row = other
        why = f"has {brief(repr(in_key))} in its key for {name}, and {brief(repr(in_row))} in its row"
    else:
        return
    raise UnreadableRow(
        f"The record at offset {change.offset} of {place} {why}. The primary key was changed, or another feed"
        " has written to the topic. Begin a new load in another directory, from a new feed with an initial"
        " scan",
        place.topic,
        place.partition,
        change.offset,
    )


def _differing(change: RowChange, key: Sequence[str]) -> tuple[str, Any, Any] | None:
    """Return a column that has another value in the key than in the row, with both values, or ``None``.

    A virtual column may be NULL in the row.
    """
    row = change.row or {}
    for name, value in zip(key, change.key, strict=True):
        if row.get(name) not in (None, value):
            return name, value, row[name]
    return None


def _require_known(change: RowChange, known: frozenset[str]) -> None:
    if change.row is not None and not change.row.keys() <= known:
        raise _UnknownColumns(set(change.row) - known)
