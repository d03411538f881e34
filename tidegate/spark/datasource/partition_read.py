"""What a task of Spark reads: one partition of an output topic, from a position to a closed cut."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Final

import pyarrow as pa
from pyspark.sql.datasource import InputPartition

from tidegate.changefeed.encoding.record import RowRecord
from tidegate.client.subscribe.feed_reader import FeedReader
from tidegate.errors import BrokerUnavailable
from tidegate.hlc import Timestamp
from tidegate.spark.datasource.cut_rows import CutRows
from tidegate.spark.datasource.frame_columns import FrameColumns
from tidegate.spark.datasource.source_feed import FrameTable
from tidegate.spark.warehouse.load_source import KafkaReading
from tidegate.subscribe.gate.feed_record import FeedPartition, FeedRecord, RecordColumns

#: Rows of one record batch: enough that its own cost is spread.
_BATCH_ROWS: Final = 10_000
_POLL_S: Final = 0.5
#: How long nothing may come before the task fails, and Spark tries it again. The marker that ends the
#: partition's part was there when the batch was planned.
_SILENT_S: Final = 60.0


@dataclass(frozen=True, slots=True)
class PartitionRead(InputPartition):
    """The rows of ``place`` above ``above`` and at or below ``closed``, from the offset ``position`` on.

    With ``newest`` these are the newest versions of all keys, without deletions: the partition's rows as of
    ``closed``.
    """

    reading: KafkaReading
    table: FrameTable
    columns: FrameColumns
    place: FeedPartition
    position: int
    above: Timestamp
    closed: Timestamp
    newest: bool = False


def read_partition(task: PartitionRead) -> Iterator[pa.RecordBatch]:
    """Yield the rows in batches.

    Raises ``HistoryLost`` where they are deleted, ``ObjectDropped`` and ``PromiseBroken``,
    ``UnreadableRow`` and ``RowError`` for rows that cannot be shown, and ``BrokerUnavailable``.
    """
    rows = CutRows(task.place, task.reading.decoder(), task.above, task.closed)
    found = _newest(rows, task) if task.newest else _all(rows, task)
    while part := list(islice(found, _BATCH_ROWS)):
        yield task.columns.batch(task.table, part, task.closed)


def _all(rows: CutRows, task: PartitionRead) -> Iterator[RowRecord]:
    for records in _records(rows, task):
        for _, record, row in rows.take(records):
            yield row or rows.decoded(record)


def _newest(rows: CutRows, task: PartitionRead) -> Iterator[RowRecord]:
    """Yield the newest version of each key that is no deletion. All keys are in memory, as bytes."""
    newest: dict[bytes | None, tuple[Timestamp, FeedRecord, RowRecord | None]] = {}
    for records in _records(rows, task):
        for version in rows.take(records):
            updated, record, _ = version
            known = newest.get(record.key)
            if known is None or known[0] < updated:
                newest[record.key] = version
    for _, record, decoded in newest.values():
        row = decoded or rows.decoded(record)
        if not row.deleted:
            yield row


def _records(rows: CutRows, task: PartitionRead) -> Iterator[RecordColumns]:
    """Yield the records of the partition until its rows are complete, and the topic is still the same."""
    ids = {task.table.topic: task.table.topic_id}
    reader = FeedReader(task.reading.connection, {task.place: task.position}, ids)
    try:
        heard = time.monotonic()
        while not rows.complete:
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
