"""Measures catch-ups beside live feeds: through the processor alone, with a simulated store's answers.

A store writes rows; a live feed takes them as they come. Then another feed is activated, which misses all of
them because it begins with a scan or at a cursor in the past; the store answers its scan requests in the log.
This is measured twice: while nothing else happens, and while the store goes on to write. In the second case
the pace is such that the feed catches up for about as long as the store wrote before. Records that answer
scans are stepped in batches of their own, so that their time and the time of live rows are measured apart.
Each log is written once, and then stepped by several processors. Times are processor time, the best of
several passes.
"""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import groupby
from random import Random
from time import process_time_ns
from typing import Final, NamedTuple, Self

from bench.orders import order_row, orders_table
from bench.stages import BATCH_RECORDS
from bench.workload import BASE_NS, BENCH_OPTIONS, PartitionRecord, bench_feed
from sim.log.history import NoHistory
from sim.log.sink import ListSink
from sim.options import StoreOptions
from sim.plan import SimTable, TransactionPlan, Write
from sim.simulation import Simulation
from sim.workload_tables import place_table
from tidegate.changefeed.definition.feed import FeedId
from tidegate.changefeed.definition.options import FeedOptions, InitialScan
from tidegate.changefeed.lifecycle.control import Activate
from tidegate.hlc import NANOS_PER_MS, ZERO, Timestamp
from tidegate.kernel.kernel_mode import KernelMode
from tidegate.kernel.partition_kernel import kernels_for
from tidegate.processor.batch import ControlRecord, StepResult
from tidegate.processor.config import ProcessorConfig
from tidegate.processor.processor import PartitionProcessor
from tidegate.raftlog.decode import decode_entry
from tidegate.raftlog.entry import Offset, ScanChunk
from tidegate.rows import TableCodec, TableDescriptor, decode_descriptor

_RANGES: Final = 4
_VERSIONS_OF_KEY: Final = 4
_OPS_MAX: Final = 8
_WRITE_RATE: Final = 5_000
_CHUNKS: Final = 5  # in a batch: about as many rows as a batch of commands has
_ROUND_MS: Final = 500
_PASSES: Final = 3
_LIVE: Final = FeedId("live0")
_LATE: Final = FeedId("late")
_BEFORE_ALL: Final = Timestamp(1)


class CatchUpSpeed(NamedTuple):
    """Rows of a feed that catches up while nothing else happens. ``ratio`` is its speed over that of a live
    feed on the same log."""

    start: str
    versions: int
    rows: int
    rows_per_s: float
    live_rows_per_s: float
    ratio: float


class CatchUpBeside(NamedTuple):
    """The same log, with answers to scans in it, stepped for a live feed alone, for two live feeds, and for a
    live feed beside one that catches up. The speeds of live rows leave out the answers, which take
    ``answers_percent`` of all time; ``slowdown_percent`` says how much slower live rows are because of the
    feed that catches up. ``held_mib`` is the most memory that was held for that feed."""

    live_rows: int
    alone_rows_per_s: float
    two_live_rows_per_s: float
    beside_rows_per_s: float
    slowdown_percent: float
    catch_up_rows_per_s: float
    answers_percent: float
    held_mib: float


class CatchUpCosts(NamedTuple):
    """All results of this module, in one mode of the kernel."""

    kernel: str
    speeds: list[CatchUpSpeed]
    beside: CatchUpBeside


def catch_up_costs(
    versions: int, seed: int, modes: Sequence[KernelMode] = (KernelMode.OFF,)
) -> list[CatchUpCosts]:
    """Measure over about ``versions`` versions, in each mode of the kernel over the same logs."""
    with_scan = replace(BENCH_OPTIONS, initial_scan=InitialScan.YES)
    with_cursor = replace(BENCH_OPTIONS, cursor=_BEFORE_ALL)
    scan = write_log(versions, seed, with_scan, write_on=False)
    cursor = write_log(versions, seed, with_cursor, write_on=False)
    written_on = write_log(versions, seed, with_cursor, write_on=True)
    return [
        CatchUpCosts(
            mode.value,
            [speed("initial scan", scan, mode), speed("cursor", cursor, mode)],
            beside(written_on, mode),
        )
        for mode in modes
    ]


# ---- the log ----


class _Orders:
    """The bench row as a workload: each row is written several times, half of the rows by intents."""

    def __init__(self, keys: int, seed: int) -> None:
        self._keys_of_range = keys // _RANGES
        self._seed = seed

    def tables(self, modified: Timestamp) -> Sequence[SimTable]:
        """See ``Workload``."""
        table = orders_table(modified)
        codec = TableCodec(table)
        splits = [codec.encode_key({"id": number * self._keys_of_range}) for number in range(1, _RANGES)]
        return [place_table(table, splits)]

    def plans(self) -> Iterator[TransactionPlan]:
        """See ``Workload``: transactions of one range each, without end."""
        rng, codec, one_phase = Random(self._seed), TableCodec(orders_table(_BEFORE_ALL)), True
        while True:
            first = rng.randrange(_RANGES) * self._keys_of_range
            orders = rng.sample(range(first, first + self._keys_of_range), rng.randint(1, _OPS_MAX))
            writes = tuple(Write(*codec.encode(order_row(rng, order))) for order in orders)
            yield TransactionPlan(writes, one_phase=one_phase)
            one_phase = not one_phase


class Batch(NamedTuple):
    """Records of the log that one step takes together. ``answers``: all of them answer scans; otherwise none
    does."""

    answers: bool
    records: list[PartitionRecord]


class CatchUpLog(NamedTuple):
    """A log of one partition: what was written ``before`` the ``late`` feed is activated, and from then on
    until it has caught up."""

    tables: tuple[TableDescriptor, ...]
    late: Activate
    before: list[Batch]
    after: list[Batch]


def write_log(versions: int, seed: int, options: FeedOptions, *, write_on: bool) -> CatchUpLog:
    """Return a log of about ``versions`` versions, and then the store's answers to the late feed's scan
    requests.

    With ``write_on`` the store goes on to write, and takes about as long for its answers as for the versions.
    """
    sink, options_of_store = ListSink(), StoreOptions(partitions=1, write_rate=_WRITE_RATE, prev_values=False)
    write_ms = versions * 1_000 // _WRITE_RATE
    if write_on:
        chunks = (
            versions / _RANGES / options_of_store.scan_chunk_rows
        )  # of a range; all are scanned at the same time
        options_of_store = replace(options_of_store, scan_gap_ms=max(int(2 * write_ms / max(chunks, 1)), 1))
    keys = max(versions // _VERSIONS_OF_KEY, _RANGES * _OPS_MAX)
    simulation = Simulation(
        _Orders(keys, seed), sink, NoHistory(), options_of_store, seed=seed, base_ns=BASE_NS
    )
    simulation.advance_to(BASE_NS + write_ms * NANOS_PER_MS)
    if not write_on:
        simulation.finish()
    tables = tuple(decode_descriptor(update.descriptor) for update in simulation.store.descriptors)
    late = _feed(tables, _LATE, options, options.cursor or Timestamp(simulation.present.ns))
    log = CatchUpLog(tables, late, list(_batches(sink, 0)), [])
    follow = Passage(log, late=True)
    result = follow.processor.step(())
    while result.requests or follow.processor.status().with_gaps:
        taken = len(sink.records)
        for request in result.requests:
            simulation.answer(request)
        simulation.advance_to(simulation.present.ns + _ROUND_MS * NANOS_PER_MS)
        result = StepResult(None)
        for batch in _batches(sink, taken):
            log.after.append(batch)
            result.requests += follow.processor.step(batch.records).requests
    return log


def _batches(sink: ListSink, first: int) -> Iterator[Batch]:
    """Yield the records from number ``first`` on."""
    records = [
        PartitionRecord(offset, record.key, record.value, record.record_time_ms)
        for offset, record in enumerate(sink.records[first:], first)
    ]
    for answers, alike in groupby(records, _is_answer):
        left, most = list(alike), _CHUNKS if answers else BATCH_RECORDS
        for start in range(0, len(left), most):
            yield Batch(answers, left[start : start + most])


def _is_answer(record: PartitionRecord) -> bool:
    return isinstance(decode_entry(record.key, record.value), ScanChunk)


def _feed(
    tables: Sequence[TableDescriptor], feed_id: FeedId, options: FeedOptions, start: Timestamp
) -> Activate:
    made = bench_feed(tables, options=options)
    return Activate(replace(made.definition, id=feed_id), start, made.targets)


# ---- what it takes ----


class Passage:
    """One processor that steps a log. It counts nanoseconds and rows of the feeds, apart for batches that
    hold answers and for others.

    The ``live`` feeds take everything. The ``late`` feed is activated in the middle of the log.
    """

    def __init__(
        self, log: CatchUpLog, *, live: int = 1, late: bool = False, kernel: KernelMode = KernelMode.OFF
    ) -> None:
        self.processor = PartitionProcessor(0, 1, ProcessorConfig(kernel=kernels_for(kernel)))
        self.ns = {True: 0, False: 0}
        self.rows: Counter[tuple[bool, FeedId]] = Counter()
        self.before_ns = 0
        self.held_bytes = 0
        feeds = [_feed(log.tables, FeedId(f"live{number}"), BENCH_OPTIONS, ZERO) for number in range(live)]
        self.processor.control([ControlRecord(Offset(at), feed) for at, feed in enumerate(feeds)])
        for batch in log.before:
            self._step(batch)
        self.before_ns, self.ns[False] = self.ns[False], 0
        self.before_rows = self.rows[False, _LIVE]
        self.rows.clear()
        if late:
            self.processor.control([ControlRecord(Offset(live), log.late)])

    def step(self, batches: Sequence[Batch]) -> Self:
        """Step the rest of the log."""
        self.processor.step(())
        for batch in batches:
            self._step(batch)
            held = sum(feed.held_bytes for feed in self.processor.status().with_gaps)
            self.held_bytes = max(self.held_bytes, held)
        return self

    def _step(self, batch: Batch) -> None:
        begin = process_time_ns()
        result = self.processor.step(batch.records)
        self.ns[batch.answers] += process_time_ns() - begin
        for feed_id, records in result.outputs.items():
            self.rows[batch.answers, feed_id] += len(records)

    def rows_per_s(self, feed_id: FeedId, *, answers: bool) -> float:
        """Return the rows/s of a feed in all batches of one kind: those with ``answers`` to scans, or the
        others."""
        return self.rows[answers, feed_id] * 1e9 / max(self.ns[answers], 1)


def speed(start: str, log: CatchUpLog, kernel: KernelMode = KernelMode.OFF) -> CatchUpSpeed:
    """Measure a feed that catches up with a finished log, beside the same log taken live."""
    best = _best(log, kernel, live=1, late=True)
    rows = best.rows[True, _LATE]
    live = best.before_rows * 1e9 / best.before_ns
    late = best.rows_per_s(_LATE, answers=True)
    return CatchUpSpeed(start, best.before_rows, rows, late, live, late / live)


def beside(log: CatchUpLog, kernel: KernelMode = KernelMode.OFF) -> CatchUpBeside:
    """Measure live rows beside a feed that catches up."""
    both = _best(log, kernel, late=True)
    others = (_best(log, kernel), _best(log, kernel, live=2))
    alone, two, during = (found.rows_per_s(_LIVE, answers=False) for found in (*others, both))
    return CatchUpBeside(
        both.rows[False, _LIVE],
        alone,
        two,
        during,
        slowdown_percent=100 * (1 - during / alone),
        catch_up_rows_per_s=both.rows_per_s(_LATE, answers=True),
        answers_percent=100 * both.ns[True] / (both.ns[True] + both.ns[False]),
        held_mib=both.held_bytes / (1 << 20),
    )


def _best(log: CatchUpLog, kernel: KernelMode, *, live: int = 1, late: bool = False) -> Passage:
    passes = (_pass(log, kernel, live, late) for _ in range(_PASSES))
    return min(passes, key=lambda done: sum(done.ns.values()))


def _pass(log: CatchUpLog, kernel: KernelMode, live: int, late: bool) -> Passage:
    gc.collect()
    gc.freeze()  # a worker does not hold the log: let the collector look only at what a step makes
    return Passage(log, live=live, late=late, kernel=kernel).step(log.after)
