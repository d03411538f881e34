"""A commit loop over sinks that stop, and a stand-in for the processor: each commit is judged.

The stand-in has one range and as many feeds as sinks.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Final

import pytest

import tidegate.worker.commit.commit_loop
import tidegate.worker.output.spool
from tests.logs import Record
from tests.unit.worker.commit.hand_loop import InPlace
from tests.unit.worker.hand_ids import HandIds
from tidegate.changefeed.definition.feed import FeedDefinition, FeedEpoch, FeedId
from tidegate.changefeed.lifecycle.control import ControlMessage, Failed, Remove, Removed
from tidegate.errors import FeedError, RowRefused
from tidegate.processor.batch import (
    ActiveFeed,
    ControlRecord,
    ExchangeRecord,
    LogRecord,
    OutputRecord,
    PartitionCheckpoint,
    StateChange,
    StateTable,
    StepResult,
)
from tidegate.processor.processor import PartitionProcessor
from tidegate.processor.status import PartitionStatus
from tidegate.raftlog.entry import Offset
from tidegate.worker.commit.commit_loop import CommitLimits, CommitLoop, Threads
from tidegate.worker.kafka.fetched import FetchedBatch
from tidegate.worker.output.barrier import Barrier
from tidegate.worker.output.outlet import OutletLimits, OutletReport, OutletState
from tidegate.worker.output.row_writer import OpenRowWriter, RowWriter

FAST: Final = FeedId("fast")
SLOW: Final = FeedId("slow")
_KEYS: Final = 3
VALUE_BYTES: Final = 100
#: Of a row: its key of one byte, its value, and its header.
ROW_BYTES: Final = 1 + VALUE_BYTES + len("source") + len("here")
STALL_S: Final = 8.0
DRAIN_S: Final = 10.0
POSITION: Final = b"position"
#: Records that one step takes: a batch has more of them now and then.
_MOST_TAKEN: Final = 2
_SETTLED: Final = 60  # turns of the loop, for a few batches and what they bring about


async def settle() -> None:
    """Let the loop turn until nothing happens any more."""
    for _ in range(_SETTLED):
        await asyncio.sleep(0)


def row_of(feed_id: FeedId, offset: int) -> OutputRecord:
    value = b"%0*d" % (VALUE_BYTES, offset)
    return OutputRecord(feed_id, 0, b"%d" % (offset % _KEYS), value, offset, [("source", b"here")])


def offset_of(row: OutputRecord) -> int:
    return int(row.value or b"")


@dataclass(frozen=True)
class _Feed:
    """``gap`` is the first offset whose row may be missing; a feed with a gap is in one of three modes."""

    gap: int | None = None
    mode: str = "catching up"


class _Processor:
    """Each offset of the log is a row of every feed. What is missing is scanned for in the next step."""

    held = False
    held_for: frozenset[FeedId] = frozenset()

    def __init__(self, durable: dict[bytes, bytes]) -> None:
        self.position = int(durable.get(POSITION, b"-1"))
        self.feeds = {
            FeedId(key.decode()): _Feed(int(value) if value else None)
            for key, value in durable.items()
            if key != POSITION
        }
        self._steps: deque[tuple[int, int, dict[FeedId, _Feed]]] = deque()
        self._serial = 0
        self._changed: set[FeedId] = set()

    @property
    def ready(self) -> bool:
        return any(feed.gap is not None and feed.mode == "catching up" for feed in self.feeds.values())

    def step_some(self, records: Sequence[LogRecord], end: int | None = None) -> StepResult:
        del end
        result = self._begun()
        result.taken = min(len(records), _MOST_TAKEN)  # the others come again
        records = records[: result.taken]
        first = self.position + 1
        self.position = max((record.offset for record in records), default=self.position)
        for feed_id, feed in self.feeds.items():
            if feed.gap is not None and feed.mode == "catching up":
                offsets = range(feed.gap, self.position + 1)
                self._set(feed_id, _Feed())
            else:
                offsets = range(first, self.position + 1)
            if feed.mode != "stalled":
                result.outputs[feed_id] = [row_of(feed_id, offset) for offset in offsets]
        return self._ended(result)

    def control(self, records: Sequence[ControlRecord]) -> StepResult:
        result = self._begun()
        for record in records:
            assert isinstance(record.message, Remove)
            self.feeds.pop(record.message.feed_id, None)
            self._changed.add(record.message.feed_id)
            result.acks.append(Removed(record.message.feed_id, record.message.epoch, 0))
        return self._ended(result)

    def committed(self, serial: int) -> None:
        while self._steps and self._steps[0][0] <= serial:
            self._steps.popleft()

    def detach(self, feed_id: FeedId, uncommitted: Sequence[StepResult]) -> StepResult:
        result = self._begun()
        for one in uncommitted:
            _withdraw(feed_id, one)
        if feed_id in self.feeds:
            _, position, feeds = self._steps[0]
            earlier = feeds[feed_id]
            if earlier.gap is None and self.feeds[feed_id].gap is None:
                self._set(feed_id, _Feed(position + 1, "spooling"))
            else:
                self._set(feed_id, _Feed(position + 1 if earlier.gap is None else earlier.gap, "stalled"))
        return self._ended(result)

    def fail_delivery(
        self, feed_id: FeedId, refusal: RowRefused, uncommitted: Sequence[StepResult]
    ) -> StepResult:
        result = self._begun()
        for one in uncommitted:
            _withdraw(feed_id, one)
        if self.feeds.pop(feed_id, None) is not None:
            self._changed.add(feed_id)
            result.acks.append(Failed(feed_id, FeedEpoch(1), 0, str(refusal)))
        return self._ended(result)

    def is_spooling(self, feed_id: FeedId) -> bool:
        feed = self.feeds.get(feed_id)
        return feed is not None and feed.gap is not None and feed.mode == "spooling"

    def attach(self, feed_id: FeedId) -> StepResult:
        assert self.is_spooling(feed_id)
        return self._told(feed_id, _Feed())

    def stall(self, feed_id: FeedId) -> StepResult:
        return self._told(feed_id, replace(self.feeds[feed_id], mode="stalled"))

    def resume(self, feed_id: FeedId) -> StepResult:
        return self._told(feed_id, replace(self.feeds[feed_id], mode="catching up"))

    def full_checkpoint(self) -> PartitionCheckpoint:
        whole = (feed_id for feed_id, feed in self.feeds.items() if feed.gap is None)
        active = tuple(ActiveFeed(feed_id, FeedEpoch(1)) for feed_id in whole)
        return PartitionCheckpoint(0, Offset(self.position), active, ())

    def status(self) -> PartitionStatus:
        return PartitionProcessor(0, 1).status()

    def exchange(self, records: Sequence[ExchangeRecord]) -> StepResult:
        raise NotImplementedError

    def give_up(self, held_s: float) -> StepResult:
        raise NotImplementedError

    def missing_below(self, log_start: Offset) -> StepResult:
        raise NotImplementedError

    def definition_of(self, feed_id: FeedId) -> FeedDefinition:
        raise NotImplementedError

    def is_active(self, feed_id: FeedId) -> bool:
        raise NotImplementedError

    def refuse(self, feed_id: FeedId, error: FeedError, result: StepResult) -> None:
        raise NotImplementedError

    def forget(self, feed_id: FeedId, result: StepResult) -> None:
        raise NotImplementedError

    def _set(self, feed_id: FeedId, feed: _Feed) -> None:
        self.feeds[feed_id] = feed
        self._changed.add(feed_id)

    def _told(self, feed_id: FeedId, feed: _Feed) -> StepResult:
        result = self._begun()
        self._set(feed_id, feed)
        return self._ended(result)

    def _begun(self) -> StepResult:
        self._serial += 1
        self._steps.append((self._serial, self.position, dict(self.feeds)))
        return StepResult(None, serial=self._serial)

    def _ended(self, result: StepResult) -> StepResult:
        result.checkpoint = self.full_checkpoint()
        for feed_id in sorted(self._changed):
            feed = self.feeds.get(feed_id)
            gap = None if feed is None else b"" if feed.gap is None else b"%d" % feed.gap
            result.changes.append(StateChange(StateTable.FEEDS, feed_id.encode(), gap))
        self._changed = set()
        result.changes.append(StateChange(StateTable.RANGES, POSITION, b"%d" % self.position))
        return result


def _withdraw(feed_id: FeedId, result: StepResult) -> None:
    if result.checkpoint is not None:
        kept = tuple(feed for feed in result.checkpoint.feeds if feed.feed_id != feed_id)
        result.checkpoint = replace(result.checkpoint, feeds=kept)


class Sink:
    """A producer with room for so many rows, which come to its topic when they are acknowledged, in order."""

    is_over = False

    def __init__(self, *, is_up: bool) -> None:
        self.is_up = is_up
        self.room = 1_000
        self.queue: deque[tuple[OutputRecord, Barrier]] = deque()
        self.topic: list[OutputRecord] = []

    is_held = False

    def send(self, rows: Sequence[OutputRecord], barrier: Barrier, first: int = 0) -> int:
        taken = rows[first : first + max(0, self.room - len(self.queue))]
        self.queue += [(row, barrier) for row in taken]
        if self.is_up:
            self.acknowledge(len(self.queue))
        return first + len(taken)

    def acknowledge(self, rows: int) -> None:
        """The oldest rows come to the topic."""
        for _ in range(min(rows, len(self.queue))):
            row, barrier = self.queue.popleft()
            self.topic.append(row)
            barrier.row_acknowledged()

    def comes_back(self) -> None:
        """All rows come to the topic, and those that follow at once."""
        self.is_up = True
        self.acknowledge(len(self.queue))

    @property
    def offsets(self) -> list[int]:
        return [offset_of(row) for row in self.topic]

    def first_seen(self) -> dict[bytes, list[int]]:
        """The offsets of each key, copies left out."""
        found: dict[bytes, list[int]] = {}
        for row in self.topic:
            offsets = found.setdefault(row.key, [])
            if offset_of(row) not in offsets:
                offsets.append(offset_of(row))
        return found


class Kafka:
    """The durable records, and the judgement of every transaction."""

    def __init__(self, *feeds: FeedId) -> None:
        self.sinks = {feed_id: Sink(is_up=False) for feed_id in feeds}
        self.state: dict[bytes, bytes] = {feed_id.encode(): b"" for feed_id in feeds}
        self.transactions: list[list[StepResult]] = []
        self.log_end = 0

    def commit(self, results: Sequence[StepResult]) -> None:
        self.transactions.append(list(results))
        for result in results:
            for change in result.changes:
                if change.value is None:
                    del self.state[change.key]
                else:
                    self.state[change.key] = change.value
        self._judge(results)

    @property
    def position(self) -> int:
        return int(self.state.get(POSITION, b"-1"))

    def gap(self, feed_id: FeedId) -> int | None:
        value = self.state[feed_id.encode()]
        return int(value) if value else None

    def named(self, feed_id: FeedId) -> int:
        """Return how far a marker of the feed may go."""
        checkpoints = (one.checkpoint for group in self.transactions for one in group if one.checkpoint)
        named = (
            int(checkpoint.offset)
            for checkpoint in checkpoints
            if feed_id in {feed.feed_id for feed in checkpoint.feeds}
        )
        return max(named, default=-1)

    def sink_of(self, feed_id: FeedId) -> RowWriter:
        """Return where the rows of the feed go now."""
        return self.sinks[feed_id]

    def _judge(self, results: Sequence[StepResult]) -> None:
        for feed_id, sink in self.sinks.items():
            acknowledged = set(sink.offsets)
            assert set(range(self.named(feed_id) + 1)) <= acknowledged, f"a marker of {feed_id} would lie"
            if feed_id.encode() in self.state:
                gap = self.gap(feed_id)
                complete = self.position + 1 if gap is None else gap
                assert set(range(complete)) <= acknowledged, (
                    f"rows of {feed_id} would be lost with a crash now"
                )


@dataclass
class Owner:
    """The commit loop of one process."""

    kafka: Kafka
    directory: Path
    spool_bytes: int = 1 << 20
    memory_bytes: int = 1 << 20
    inflight: int = 3
    now: float = 1_000.0
    processor: _Processor = field(init=False)
    commit_loop: CommitLoop = field(init=False)

    def __post_init__(self) -> None:
        self.processor = _Processor(self.kafka.state)
        self.next = self.processor.position + 1
        outlets = OutletLimits(self.directory, self.memory_bytes, self.spool_bytes, STALL_S, DRAIN_S)
        self.commit_loop = CommitLoop(
            self.processor,
            self.kafka,
            self._opener_of,
            self,
            Threads(InPlace(), InPlace()),
            CommitLimits(
                batch_records=1, inflight_batches=self.inflight, queued_batches=999, outlets=outlets
            ),
            schema_ids=HandIds(),
            clock=lambda: self.now,
        )
        self.commit_loop.start()

    def _opener_of(self, feed_id: FeedId) -> OpenRowWriter:
        """Ask the processor for the feed, as a worker does."""
        assert feed_id in self.processor.feeds, "the processor does not have the feed"
        return partial(self.kafka.sink_of, feed_id)

    def halt(self) -> None:
        """See ``Valve``."""

    proceed = halt

    async def queue_records(self, records: int) -> None:
        """Queue so many records, each a batch of its own."""
        for _ in range(records):
            record = Record(self.next, None, None, 0)
            self.next += 1
            self.kafka.log_end = max(self.kafka.log_end, self.next)
            self.commit_loop.queue_batch(
                FetchedBatch("log", 0, record.offset, self.next, self.next, [record])
            )
        for _ in range(records // 2 + 1):
            await settle()

    async def passes(self, seconds: float) -> None:
        """Time goes by, and is looked at every now and then."""
        step = self.commit_loop.outlets._limits.look_s
        for _ in range(round(seconds / step)):
            self.now += step
            self.commit_loop.control([])
            await settle()

    async def tell(self, message: ControlMessage) -> None:
        self.commit_loop.control([ControlRecord(Offset(0), message)])
        await settle()

    async def acknowledge(self, feed_id: FeedId, rows: int) -> None:
        self.kafka.sinks[feed_id].acknowledge(rows)
        await settle()

    async def comes_back(self, feed_id: FeedId) -> None:
        """The sink takes everything from now on."""
        self.kafka.sinks[feed_id].comes_back()
        for _ in range(20):  # rows of a detached feed are handed over by and by
            await self.passes(1)

    async def flaps(self, feed_id: FeedId) -> int:
        """The sink takes what waits, and nothing of what comes next; gives the seconds until the feed is
        catching up again."""
        self.kafka.sinks[feed_id].acknowledge(1_000)
        self.kafka.sinks[feed_id].is_up = False
        for seconds in range(1_000):
            await self.queue_records(1)
            if self.report(feed_id).state is OutletState.LIVE:
                await self.passes(STALL_S + 2)
                assert self.report(feed_id).state is OutletState.STALLED
                return seconds
            await self.passes(1)
        raise AssertionError("the feed is never resumed")

    def report(self, feed_id: FeedId) -> OutletReport:
        (found,) = (one for one in self.commit_loop.outlets.report() if one.feed_id == feed_id)
        return found

    async def die(self) -> None:
        """Die as by kill -9; what the producers have is lost."""
        for task in self.commit_loop._tasks:
            task.cancel()
        await asyncio.gather(*self.commit_loop._tasks, return_exceptions=True)
        for sink in self.kafka.sinks.values():
            sink.queue.clear()


def started(
    directory: Path, *feeds: FeedId, spool_bytes: int = 1 << 20, memory_bytes: int = 1 << 20
) -> Owner:
    """All sinks but that of the slow feed are up."""
    kafka = Kafka(*(feeds or (FAST, SLOW)))
    for feed_id, sink in kafka.sinks.items():
        sink.is_up = feed_id != SLOW
    return Owner(kafka, directory, spool_bytes, memory_bytes)


async def detached(directory: Path, *, spool_bytes: int = 1 << 20) -> Owner:
    """Three batches wait for the slow feed, and then no more."""
    owner = started(directory, spool_bytes=spool_bytes)
    await owner.queue_records(3)
    await owner.passes(STALL_S + 2)
    assert owner.report(SLOW).state is OutletState.SPOOLING
    return owner


def in_a_loop(scenario: Callable[[], Coroutine[None, None, None]]) -> None:
    """Run the scenario in a loop; the end of the process ends the test."""
    ended: list[BaseException] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tidegate.worker.commit.commit_loop, "end_process", ended.append)
        try:
            asyncio.run(scenario())
        finally:
            if ended:
                raise ended[0]
