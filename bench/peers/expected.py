"""The rows that every contender must write, by tidegate's reference: its step in Python, without a broker."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Final, NamedTuple, Self

from bench.workload import BENCH_OPTIONS, BenchLog, bench_feed
from tidegate.errors import RetryError
from tidegate.processor.batch import ControlRecord, OutputRecord
from tidegate.processor.processor import PartitionProcessor
from tidegate.raftlog.entry import Offset

#: Every row shows the row that it replaces.
WITH_ROW_BEFORE: Final = replace(BENCH_OPTIONS, diff=True)
_BATCH_RECORDS: Final = 5_000
_SHOWN_BYTES: Final = 300


class ExpectedRow(NamedTuple):
    """A row on its output partition."""

    partition: int
    key: bytes
    value: bytes


@dataclass(frozen=True, slots=True)
class Expected:
    """All rows, and the values of each key. The rows of one key are in their right order; rows of different
    keys may be in any order."""

    rows: list[ExpectedRow]
    values: dict[bytes, list[bytes]]

    @classmethod
    def of(cls, log: BenchLog, partitions: int) -> Self:
        """Step a log of ``partitions`` partitions."""
        rows: list[ExpectedRow] = []
        values: dict[bytes, list[bytes]] = defaultdict(list)
        for record in _records(log, partitions):
            assert record.value is not None  # the log deletes nothing
            rows.append(ExpectedRow(record.partition, record.key, record.value))
            values[record.key].append(record.value)
        return cls(rows, dict(values))

    def compare(self, contender: str, written: Iterable[tuple[bytes, bytes]]) -> int:
        """Compare the keys and values that were written with the expected ones, key by key. Return how many
        came.

        Rows may be missing at the end of each key. Raises ``RetryError`` for any other difference.
        """
        came: dict[bytes, int] = defaultdict(int)
        for key, value in written:
            number, values = came[key], self.values.get(key, [])
            if number >= len(values) or values[number] != value:
                wanted = values[number][:_SHOWN_BYTES] if number < len(values) else b"no row"
                raise RetryError(
                    f"{contender} wrote other bytes: row {number} of the key {key!r} is "
                    f"{value[:_SHOWN_BYTES]!r}, and should be {wanted!r}"
                )
            came[key] = number + 1
        return sum(came.values())


def _records(log: BenchLog, partitions: int) -> Iterator[OutputRecord]:
    for partition in range(partitions):
        processor = PartitionProcessor(partition, partitions)
        processor.control([ControlRecord(Offset(0), bench_feed(log.tables, options=WITH_ROW_BEFORE))])
        records = log.partition(partition)
        for first in range(0, len(records), _BATCH_RECORDS):
            for outputs in processor.step(records[first : first + _BATCH_RECORDS]).outputs.values():
                yield from (record for record in outputs if isinstance(record, OutputRecord))
