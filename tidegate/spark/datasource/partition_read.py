"""The read of one Spark task: a partition of an output topic, from a position to a closed cut."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Final, TypeAlias

import pyarrow as pa
from pyspark.sql.datasource import InputPartition

from tidegate.changefeed.encoding.record import RowRecord
from tidegate.client.subscribe.feed_reader import FeedReader
from tidegate.client.subscribe.feed_term import ALONE, FeedTerm
from tidegate.errors import BrokerUnavailable
from tidegate.hlc import Timestamp
from tidegate.spark.datasource.cut_rows import CutRows
from tidegate.spark.datasource.frame_columns import FrameColumns
from tidegate.spark.datasource.frame_rows import FrameRowReader
from tidegate.spark.datasource.source_feed import FrameTable
from tidegate.spark.warehouse.load_source import KafkaReading
from tidegate.subscribe.gate.feed_record import FeedPartition, RecordColumns
from tidegate.subscribe.gate.row_chunk import RowChunk, int_column, joined_chunks

#: A record batch ends after so many rows, or so many bytes of rows. With these its own cost is small.
_BATCH_ROWS: Final = 10_000
_BATCH_BYTES: Final = 32 << 20
_POLL_S: Final = 0.5
#: How long nothing may come before the task fails, and Spark tries it again. The marker that ends the
#: partition's part was there when the batch was planned.
_SILENT_S: Final = 60.0

#: Wall, logical part, offset, key and value of a row, and the decoded row if it is decoded.
_Version: TypeAlias = tuple[int, int, int, bytes, bytes | None, RowRecord | None]


@dataclass(frozen=True, slots=True)
class PartitionRead(InputPartition):
    """The rows of ``place`` above ``above`` and at or below ``closed``, from the offset ``position`` on.

    With ``newest`` these are the newest versions of all keys, without deletions: the partition's rows as of
    ``closed``. ``term`` says which records are the feed's.
    """

    reading: KafkaReading
    table: FrameTable
    columns: FrameColumns
    place: FeedPartition
    position: int
    above: Timestamp
    closed: Timestamp
    newest: bool = False
    term: FeedTerm = ALONE


def read_partition(task: PartitionRead) -> Iterator[pa.RecordBatch]:
    """Yield the rows in batches.

    Raises ``HistoryLost`` if rows are deleted, ``ObjectDropped`` if the topic is, and ``PromiseBroken`` if
    rows contradict a marker. Raises ``UnreadableRow``, ``InputError`` and ``RowError`` for rows that cannot
    be shown, and ``BrokerUnavailable`` if Kafka does not answer.
    """
    decoder = task.reading.decoder()
    cut = CutRows(task.place, decoder, task.above, task.closed, task.term)
    reader = FrameRowReader(task.table, decoder, cut.decoded, tells_before=task.columns.tells_before)
    for chunk in _newest(cut, task) if task.newest else _all(cut, task):
        rows = reader.read(chunk)
        yield task.columns.batch(task.table, rows.without_deletions() if task.newest else rows, task.closed)


def _all(cut: CutRows, task: PartitionRead) -> Iterator[RowChunk]:
    """Yield all new rows. Chunks are joined, since markers often leave few rows in each."""
    waiting, rows, memory_bytes = list[RowChunk](), 0, 0
    for records in _records(cut, task):
        for chunk in cut.new_rows(records):
            waiting.append(chunk)
            rows += chunk.rows
            memory_bytes += chunk.memory_bytes
            if rows >= _BATCH_ROWS or memory_bytes >= _BATCH_BYTES:
                yield joined_chunks(waiting)
                waiting, rows, memory_bytes = [], 0, 0
    if waiting:
        yield joined_chunks(waiting)


def _newest(cut: CutRows, task: PartitionRead) -> Iterator[RowChunk]:
    """Yield the newest version of each key. All keys are in memory, as bytes."""
    newest: dict[bytes, _Version] = {}
    for records in _records(cut, task):
        for chunk in cut.new_rows(records):
            columns = (chunk.walls.tolist(), chunk.logicals.tolist(), chunk.offsets.tolist())
            for version in zip(*columns, chunk.keys, chunk.values, chunk.records, strict=True):
                known = newest.get(version[3])
                if known is None or known[:2] < version[:2]:
                    newest[version[3]] = version
    versions = iter(newest.values())
    while part := list(islice(versions, _BATCH_ROWS)):
        walls, logicals, offsets, keys, values, decoded = map(list, zip(*part, strict=True))
        yield RowChunk(int_column(offsets), int_column(walls), int_column(logicals), keys, values, decoded, 0)


def _records(cut: CutRows, task: PartitionRead) -> Iterator[RecordColumns]:
    """Yield the partition's records until its rows are complete; then check that the topic is the same."""
    ids = {task.table.topic: task.table.topic_id}
    reader = FeedReader(task.reading.connection, {task.place: task.position}, ids)
    try:
        heard = time.monotonic()
        while not cut.complete:
            came = reader.poll(_POLL_S)
            for _, records in came:
                yield records
            heard = time.monotonic() if came else heard
            _require_heard(heard, task)
        reader.ask_topics()
        while not reader.same_topics(_POLL_S):
            _require_heard(heard, task)
    finally:
        reader.close()


def _require_heard(heard: float, task: PartitionRead) -> None:
    if time.monotonic() - heard > _SILENT_S:
        raise BrokerUnavailable(
            f"Nothing came of {task.place} for {_SILENT_S:.0f} s, and no marker at or above {task.closed} "
            f"yet: check that Kafka at {task.reading.connection.bootstrap_servers} runs, and that "
            "executors reach it."
        )
