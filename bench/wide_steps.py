"""The step over many ranges and many feeds, by Python and with the kernel: ``python -m bench.wide_steps``.

All ranges are in one log partition. A heartbeat, or a row, in one of 100,000 ranges should cost as much as in
one of ten ranges. A row that concerns one of a thousand feeds should cost as much as with a single feed.
Times are processor time of this process; the best of a few rounds counts.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from time import process_time
from typing import Final, NamedTuple

from bench.orders import ORDERS_TABLE_ID, orders_table
from bench.store import BenchStore
from bench.workload import BASE_NS, PartitionRecord, bench_feed
from sim.log.sink import WrittenRecord
from tidegate.changefeed.definition.feed import FeedId
from tidegate.changefeed.lifecycle.control import Activate
from tidegate.hlc import NANOS_PER_SECOND, Timestamp
from tidegate.kernel.kernel_mode import KernelMode
from tidegate.kernel.partition_kernel import kernels_for
from tidegate.processor.batch import ControlRecord
from tidegate.processor.config import ProcessorConfig
from tidegate.processor.processor import PartitionProcessor
from tidegate.raftlog.encode import encode_entry, encode_key
from tidegate.raftlog.entry import BROADCAST, DescriptorUpdate, Offset
from tidegate.rows import TableDescriptor, encode_descriptor

_BATCH: Final = 5_000
_ROUNDS: Final = 4
#: Heartbeats and rows of a round, at least: if there are few ranges, each sends several heartbeats in a
#: round.
_BEATS: Final = 10_000
_ROWS: Final = 10_000
_RANGES: Final = (10, 1_000, 10_000, 100_000)
_FEEDS: Final = 1_000
#: The garbage collector of a worker (`app/worker.py`).
_GC_THRESHOLDS: Final = (50_000, 20, 100)
_MODES: Final = (KernelMode.OFF, KernelMode.ON)


class WideCost(NamedTuple):
    """Processor time of a step, in microseconds, among ``ranges`` ranges and ``feeds`` feeds.

    ``of_first`` is the time of a row over that of the first measurement in the same mode.
    """

    kernel: str
    ranges: int
    feeds: int
    heartbeat_us: float
    row_us: float
    of_first: float


class _Log(NamedTuple):
    """A log in memory: how it begins, and rounds of heartbeats and of rows."""

    head: list[PartitionRecord]
    beats: list[list[PartitionRecord]]
    rows: list[list[PartitionRecord]]


def wide_costs(seed: int, ranges: Sequence[int] = _RANGES, feeds: int = _FEEDS) -> Iterator[WideCost]:
    """Measure one feed over each number of ranges, and then each number of feeds, one of which has all the
    rows."""
    first: dict[KernelMode, float] = {}
    for range_count, feed_count in [*((count, 1) for count in ranges), (min(ranges), feeds)]:
        tables = [*_tables(feed_count)]
        log = _log(range_count, tables, seed)
        gc.collect()
        gc.freeze()  # a worker does not hold the log
        for mode in _MODES:
            beat_us, row_us = _cost_us(mode, log, tables)
            over_first = row_us / first.setdefault(mode, row_us)
            yield WideCost(mode.value, range_count, feed_count, beat_us, row_us, over_first)
        gc.unfreeze()


def _tables(count: int) -> Iterator[TableDescriptor]:
    """Yield the table of the rows, and then others that are like it."""
    for number in range(count):
        table = orders_table(Timestamp(1))
        name = table.name if not number else f"{table.name}{number}"
        yield replace(table, id=ORDERS_TABLE_ID + number, name=name)


def _log(ranges: int, tables: Sequence[TableDescriptor], seed: int) -> _Log:
    store = BenchStore(partitions=1, ranges=ranges, seed=seed)
    numbered = _Numbered()
    head = numbered.number((*map(_described, tables[1:]), *store.head(BASE_NS)))
    beats, rows, now_ns = [], [], BASE_NS
    for _ in range(_ROUNDS):
        round_: list[WrittenRecord] = []
        while len(round_) < _BEATS:
            now_ns += NANOS_PER_SECOND
            round_ += store.heartbeats(now_ns)
        beats.append(numbered.number(round_))
    for _ in range(_ROUNDS):
        now_ns += NANOS_PER_SECOND
        rows.append(numbered.number(store.rows(_ROWS, now_ns)))
    return _Log(head, beats, rows)


def _described(table: TableDescriptor) -> WrittenRecord:
    update = DescriptorUpdate(table.id, table.version, table.modified, encode_descriptor(table))
    return WrittenRecord(0, encode_key(BROADCAST), encode_entry(update), BASE_NS // 10**6)


class _Numbered:
    """Gives records their offsets."""

    def __init__(self) -> None:
        self._next = 0

    def number(self, records: Iterable[WrittenRecord]) -> list[PartitionRecord]:
        """Return the records as a client delivers them, with offsets that follow those of the last call."""
        numbered = [
            PartitionRecord(offset, record.key, record.value, record.record_time_ms)
            for offset, record in enumerate(records, self._next)
        ]
        self._next += len(numbered)
        return numbered


def _cost_us(mode: KernelMode, log: _Log, tables: Sequence[TableDescriptor]) -> tuple[float, float]:
    processor = PartitionProcessor(0, 1, ProcessorConfig(kernel=kernels_for(mode), detachable=True))
    thresholds = gc.get_threshold()
    gc.set_threshold(*_GC_THRESHOLDS)
    try:
        processor.control(
            [ControlRecord(Offset(number), _feed(number, table)) for number, table in enumerate(tables)]
        )
        _step(processor, log.head)
        beats = [_step(processor, records) / len(records) for records in log.beats]
        rows = [_step(processor, records) / _ROWS for records in log.rows]
    finally:
        gc.set_threshold(*thresholds)
    return min(beats) * 1e6, min(rows) * 1e6


def _feed(number: int, table: TableDescriptor) -> Activate:
    feed = bench_feed([table])
    return replace(feed, definition=replace(feed.definition, id=FeedId(f"bench-{number}")))


def _step(processor: PartitionProcessor, records: Iterable[PartitionRecord]) -> float:
    """Step the records in batches as a worker does. Return how many seconds that took."""
    rest, took = iter(records), 0.0
    while batch := [*islice(rest, _BATCH)]:
        begun = process_time()
        result = processor.step(batch)
        took += process_time() - begun
        processor.committed(result.serial)
    return took


def main() -> None:
    """Print the costs for each number of ranges that is named; by default for all numbers."""
    for cost in wide_costs(1, [*map(int, sys.argv[1:])] or _RANGES):
        kernel, ranges, feeds, beat_us, row_us, of_first = cost
        print(
            f"kernel {kernel:3} {ranges:7} ranges {feeds:5} feeds: {beat_us:6.1f} us a heartbeat, "
            f"{row_us:6.1f} us a row, {of_first:.2f} of the first",
            flush=True,
        )


if __name__ == "__main__":
    main()
