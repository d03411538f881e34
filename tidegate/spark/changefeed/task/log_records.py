"""The log's records as Spark hands them to a task."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from tidegate.processor.batch import LogRecord
from tidegate.spark.platform.task_clock import TaskClock

#: The columns of the log's records in a task.
TASK_COLUMNS: Final = ("partition", "offset", "timestamp_ms", "key", "value")


class LogEntryRecord(NamedTuple):
    """A record of the log, as ``PartitionProcessor.step`` takes it."""

    offset: int
    key: bytes | None
    value: bytes | None
    timestamp: int


class RecordReader:
    """Gives the records of a task, with their partition. An Arrow batch is cut where a partition begins.

    ``clock`` counts the time for reading, and belongs to the partition that is read.
    """

    def __init__(self, batches: Iterable[pa.RecordBatch]) -> None:
        self.clock = TaskClock()
        self._batches = batches

    def __iter__(self) -> Iterator[tuple[int, list[LogRecord]]]:
        for batch in self._batches:
            runs = pc.run_end_encode(batch.column(TASK_COLUMNS[0]))
            begin = 0
            for partition, end in zip(runs.values.to_pylist(), runs.run_ends.to_pylist(), strict=True):
                records = _records_of(batch.slice(begin, end - begin))
                self.clock.lap("read")
                yield partition, records
                begin = end


def _records_of(batch: pa.RecordBatch) -> list[LogRecord]:
    offsets, times, keys, values = (batch.column(name).to_pylist() for name in TASK_COLUMNS[1:])
    return [*map(LogEntryRecord._make, zip(offsets, keys, values, times, strict=True))]
