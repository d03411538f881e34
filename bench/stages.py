"""The stages of a step, each timed by itself on the batches of a whole log.

They are called one after the other as ``PartitionProcessor`` calls them. Times are processor time of this
process, so that other work on the machine disturbs them little; the best of several passes counts.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from time import process_time_ns
from typing import Final, NamedTuple, TypeVar

from bench.workload import BenchLog, PartitionRecord, bench_feed
from tidegate.errors import MalformedEntry
from tidegate.processor.batch import ControlRecord, OutputRecord, StateChange
from tidegate.processor.bounds import BACKLOG_BYTES, BOUNDS
from tidegate.processor.feeds.emitter import Destination, Emission, Emitter
from tidegate.processor.feeds.feed_table import PartitionFeeds
from tidegate.processor.feeds.row_reckoning import RowReckoning
from tidegate.processor.feeds.version_rows import PartitionRows
from tidegate.processor.moving.partition_ranges import PartitionRanges
from tidegate.processor.processor import PartitionProcessor
from tidegate.raftlog.decode import decode_batch
from tidegate.raftlog.entry import Command, DescriptorUpdate, Entry, Offset, Snapshot
from tidegate.ranges.version import Version

#: Log records in a batch: the worker's default.
BATCH_RECORDS: Final = 5_000
_PASSES: Final = 3
_RESULT = TypeVar("_RESULT")


class StageTime(NamedTuple):
    """The time that a stage took for a whole log."""

    stage: str
    us_per_row: float
    us_per_op: float


@dataclass(slots=True)
class Pass:
    """One pass over a log: processor time by stage in nanoseconds, and what came out."""

    ns: dict[str, int] = field(default_factory=dict)
    ops: int = 0
    outputs: list[list[OutputRecord]] = field(default_factory=list)
    changes: list[list[StateChange]] = field(default_factory=list)

    def time(self, stage: str, work: Callable[[], _RESULT]) -> _RESULT:
        """Do the work, and add its time to that of ``stage``."""
        begin = process_time_ns()
        result = work()
        self.ns[stage] = self.ns.get(stage, 0) + process_time_ns() - begin
        return result


class StagedPartition:
    """The parts of a partition processor, with one feed on all tables from the first record on."""

    def __init__(self, log: BenchLog) -> None:
        feed = bench_feed(log.tables)
        feeds, self._rows = PartitionFeeds(0), PartitionRows()
        reckoning = RowReckoning(self._rows, feeds)
        self._ranges = PartitionRanges(0, 1, feeds, None, None, None, None, BOUNDS, reckoning, BACKLOG_BYTES)
        self._spans = [span for target in feed.targets for span in target.spans]
        destinations = {t.table_id: Destination(t.topic, t.partitions) for t in feed.targets}
        self._wanted = destinations.keys()
        self._emitter = Emitter(feed.definition.options, feed.start, destinations)

    def step(self, records: Sequence[PartitionRecord], done: Pass) -> None:
        """Take a batch through all stages. Raises the first error that any of them reports."""
        pairs = [(record.key, record.value) for record in records]
        entries = done.time("decode", lambda: decode_batch(pairs))
        followed = list(self._followed(entries))
        done.ops += sum(len(entry.ops or ()) for entry in followed if isinstance(entry, Command))
        versions = done.time("resolve", lambda: self._resolve(records, entries))
        rows = done.time("row decode", lambda: self._rows.decode(versions, self._wanted))
        emitted: list[OutputRecord] = []
        into = Emission(emitted, [])
        error = done.time("encode", lambda: self._emitter.emit(versions, rows, into))
        changes = done.time("freeze", lambda: self._freeze(Offset(records[-1].offset)))
        if error is not None:
            raise error
        done.outputs.append(emitted)
        done.changes.append(changes)

    def _followed(self, entries: Sequence[Entry | MalformedEntry]) -> Iterator[Entry]:
        """Yield the entries that ranges follow; meanwhile the descriptors are taken in."""
        for entry in entries:
            if isinstance(entry, MalformedEntry):
                raise entry
            if isinstance(entry, DescriptorUpdate):
                self._rows.learn(entry)
                continue
            if isinstance(entry, Snapshot):
                for update in entry.descriptors:
                    self._rows.learn(update)
            yield entry

    def _resolve(
        self, records: Sequence[PartitionRecord], entries: Sequence[Entry | MalformedEntry]
    ) -> list[Version]:
        for record, entry in zip(records, entries, strict=True):
            if not isinstance(entry, DescriptorUpdate | MalformedEntry):
                self._ranges.entries.apply_or_queue(record, entry, passed=False)
        return self._ranges.take_committed().shared

    def _freeze(self, offset: Offset) -> list[StateChange]:
        self._ranges.checkpoints(self._spans)
        return [*self._ranges.freeze(offset, offset), *self._rows.freeze()]


def batches(log: BenchLog, size: int = BATCH_RECORDS) -> Iterator[list[PartitionRecord]]:
    """Return the batches of partition 0."""
    records = log.partition(0)
    return (records[first : first + size] for first in range(0, len(records), size))


def run_stages(log: BenchLog) -> Pass:
    """Measure all stages over the log, which has one partition, and the whole step beside them."""
    best = min((_one_pass(log) for _ in range(_PASSES)), key=lambda done: sum(done.ns.values()))
    best.ns["whole step"] = min(_whole_step_ns(log) for _ in range(_PASSES))
    return best


def stage_times(log: BenchLog, done: Pass) -> list[StageTime]:
    """Return the time of each stage in the pass."""
    return [
        StageTime(stage, ns / log.rows / 1e3, ns / max(done.ops, 1) / 1e3) for stage, ns in done.ns.items()
    ]


def leave_the_log_alone() -> None:
    """Let the garbage collector look at what a step makes, and not at the log, which a worker does not
    hold."""
    gc.collect()
    gc.freeze()


def _one_pass(log: BenchLog) -> Pass:
    log_batches = list(batches(log))
    leave_the_log_alone()
    partition, done = StagedPartition(log), Pass()
    for batch in log_batches:
        partition.step(batch, done)
    return done


def _whole_step_ns(log: BenchLog) -> int:
    log_batches = list(batches(log))
    leave_the_log_alone()
    processor = PartitionProcessor(0, 1)
    processor.control([ControlRecord(Offset(0), bench_feed(log.tables))])
    begin = process_time_ns()
    for batch in log_batches:
        processor.step(batch)
    return process_time_ns() - begin
