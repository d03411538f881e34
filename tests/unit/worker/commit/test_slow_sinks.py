"""Sinks that do not follow: docs/catch-up.md, steps K1 to K6.

The processor is a stand-in with one range and as many feeds as sinks; what is committed is judged each time.
"""

from __future__ import annotations

import asyncio
import os
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import Executor, Future
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from tempfile import mkdtemp
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

import tidegate.worker.commit.commit_loop
import tidegate.worker.output.spool
from tests.logs import Record
from tests.unit.worker.commit.test_commit_loop import InPlace
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
from tidegate.worker.output.outlet import OpenSink, OutletLimits, OutletReport, OutletState, RowSink
from tidegate.worker.output.row_producer import Barrier

_FAST: Final = FeedId("fast")
_SLOW: Final = FeedId("slow")
_KEYS: Final = 3
_VALUE_BYTES: Final = 100
_STALL_S: Final = 8.0
_DRAIN_S: Final = 10.0
_POSITION: Final = b"position"
_SETTLED: Final = 60  # turns of the loop, for a few batches and what they bring about


async def settle() -> None:
    """Let the loop turn until nothing happens any more."""
    for _ in range(_SETTLED):
        await asyncio.sleep(0)


async def until(true: Callable[[], bool]) -> None:
    """Return once ``true``: for what waits for real time."""
    while True:
        if true():
            return
        await asyncio.sleep(0.001)


def _row(feed_id: FeedId, offset: int) -> OutputRecord:
    value = b"%0*d" % (_VALUE_BYTES, offset)
    return OutputRecord(feed_id, 0, b"%d" % (offset % _KEYS), value, offset, [("source", b"here")])


def _offset(row: OutputRecord) -> int:
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
        self.position = int(durable.get(_POSITION, b"-1"))
        self.feeds = {
            FeedId(key.decode()): _Feed(int(value) if value else None)
            for key, value in durable.items()
            if key != _POSITION
        }
        self._steps: deque[tuple[int, int, dict[FeedId, _Feed]]] = deque()
        self._serial = 0
        self._changed: set[FeedId] = set()

    @property
    def ready(self) -> bool:
        return any(feed.gap is not None and feed.mode == "catching up" for feed in self.feeds.values())

    def step(self, records: Sequence[LogRecord], end: int | None = None) -> StepResult:
        del end
        result = self._begun()
        first = self.position + 1
        self.position = max((record.offset for record in records), default=self.position)
        for feed_id, feed in self.feeds.items():
            if feed.gap is not None and feed.mode == "catching up":
                offsets = range(feed.gap, self.position + 1)
                self._set(feed_id, _Feed())
            else:
                offsets = range(first, self.position + 1)
            if feed.mode != "stalled":
                result.outputs[feed_id] = [_row(feed_id, offset) for offset in offsets]
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
        result.changes.append(StateChange(StateTable.RANGES, _POSITION, b"%d" % self.position))
        return result


def _withdraw(feed_id: FeedId, result: StepResult) -> None:
    if result.checkpoint is not None:
        kept = tuple(feed for feed in result.checkpoint.feeds if feed.feed_id != feed_id)
        result.checkpoint = replace(result.checkpoint, feeds=kept)


class _Sink:
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
            barrier.delivered(None, None)

    def comes_back(self) -> None:
        """All rows come to the topic, and those that follow at once."""
        self.is_up = True
        self.acknowledge(len(self.queue))

    @property
    def offsets(self) -> list[int]:
        return [_offset(row) for row in self.topic]

    def first_seen(self) -> dict[bytes, list[int]]:
        """The offsets of each key, copies left out."""
        found: dict[bytes, list[int]] = {}
        for row in self.topic:
            offsets = found.setdefault(row.key, [])
            if _offset(row) not in offsets:
                offsets.append(_offset(row))
        return found


class _Kafka:
    """What is durable, and the judgement of every transaction."""

    def __init__(self, *feeds: FeedId) -> None:
        self.sinks = {feed_id: _Sink(is_up=False) for feed_id in feeds}
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
        return int(self.state.get(_POSITION, b"-1"))

    def gap(self, feed_id: FeedId) -> int | None:
        value = self.state[feed_id.encode()]
        return int(value) if value else None

    def named(self, feed_id: FeedId) -> int:
        """How far a marker of the feed may go."""
        checkpoints = (one.checkpoint for group in self.transactions for one in group if one.checkpoint)
        named = (
            int(checkpoint.offset)
            for checkpoint in checkpoints
            if feed_id in {feed.feed_id for feed in checkpoint.feeds}
        )
        return max(named, default=-1)

    def sink_of(self, feed_id: FeedId) -> RowSink:
        """Where the rows of the feed go now."""
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
class _Owner:
    """The pipeline of one process."""

    kafka: _Kafka
    directory: Path
    spool_bytes: int = 1 << 20
    memory_bytes: int = 1 << 20
    inflight: int = 3
    now: float = 1_000.0
    processor: _Processor = field(init=False)
    pipeline: CommitLoop = field(init=False)

    def __post_init__(self) -> None:
        self.processor = _Processor(self.kafka.state)
        self.next = self.processor.position + 1
        outlets = OutletLimits(self.directory, self.memory_bytes, self.spool_bytes, _STALL_S, _DRAIN_S)
        self.pipeline = CommitLoop(
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
        self.pipeline.start()

    def _opener_of(self, feed_id: FeedId) -> OpenSink:
        """Ask the processor for the feed, as a worker does."""
        assert feed_id in self.processor.feeds, "the processor does not have the feed"
        return partial(self.kafka.sink_of, feed_id)

    def halt(self) -> None:
        """See ``Valve``."""

    proceed = halt

    async def offer(self, records: int) -> None:
        """So many records, each a batch of its own."""
        for _ in range(records):
            record = Record(self.next, None, None, 0)
            self.next += 1
            self.kafka.log_end = max(self.kafka.log_end, self.next)
            self.pipeline.offer(FetchedBatch("log", 0, record.offset, self.next, self.next, [record]))
        for _ in range(records // 2 + 1):
            await settle()

    async def passes(self, seconds: float) -> None:
        """Time goes by, and is looked at every now and then."""
        step = self.pipeline.outlets._limits.look_s
        for _ in range(round(seconds / step)):
            self.now += step
            self.pipeline.control([])
            await settle()

    async def tell(self, message: ControlMessage) -> None:
        self.pipeline.control([ControlRecord(Offset(0), message)])
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
            await self.offer(1)
            if self.report(feed_id).state is OutletState.LIVE:
                await self.passes(_STALL_S + 2)
                assert self.report(feed_id).state is OutletState.STALLED
                return seconds
            await self.passes(1)
        raise AssertionError("the feed is never resumed")

    def report(self, feed_id: FeedId) -> OutletReport:
        (found,) = (one for one in self.pipeline.outlets.report() if one.feed_id == feed_id)
        return found

    async def die(self) -> None:
        """As kill -9 does it; what the producers have is lost."""
        for task in self.pipeline._tasks:
            task.cancel()
        await asyncio.gather(*self.pipeline._tasks, return_exceptions=True)
        for sink in self.kafka.sinks.values():
            sink.queue.clear()


def _started(
    directory: Path, *feeds: FeedId, spool_bytes: int = 1 << 20, memory_bytes: int = 1 << 20
) -> _Owner:
    """All sinks but that of the slow feed are up."""
    kafka = _Kafka(*(feeds or (_FAST, _SLOW)))
    for feed_id, sink in kafka.sinks.items():
        sink.is_up = feed_id != _SLOW
    return _Owner(kafka, directory, spool_bytes, memory_bytes)


async def _detached(directory: Path, *, spool_bytes: int = 1 << 20) -> _Owner:
    """Three batches wait for the slow feed, and then no more."""
    owner = _started(directory, spool_bytes=spool_bytes)
    await owner.offer(3)
    await owner.passes(_STALL_S + 2)
    assert owner.report(_SLOW).state is OutletState.SPOOLING
    return owner


def _run(scenario: Callable[[], Coroutine[None, None, None]]) -> None:
    """What ends the process ends the test."""
    ended: list[BaseException] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tidegate.worker.commit.commit_loop, "end_process", ended.append)
        try:
            asyncio.run(scenario())
        finally:
            if ended:
                raise ended[0]


def test_a_slow_sink_is_waited_for_no_longer_than_the_limit(tmp_path: Path) -> None:
    async def scenario() -> None:
        owner = _started(tmp_path)
        await owner.offer(3)
        await owner.passes(_STALL_S - 1)
        assert owner.kafka.position == -1
        await owner.passes(3)
        assert (owner.kafka.position, owner.kafka.gap(_SLOW), owner.kafka.gap(_FAST)) == (2, 0, None)
        await owner.offer(20)
        assert (owner.kafka.position, owner.kafka.named(_FAST), owner.kafka.named(_SLOW)) == (22, 22, -1)
        assert owner.kafka.sinks[_FAST].offsets == list(range(23))
        await owner.die()

    _run(scenario)


def test_the_sink_is_back_and_everything_is_as_it_was(tmp_path: Path) -> None:
    async def scenario() -> None:
        owner = await _detached(tmp_path)
        await owner.offer(20)
        assert owner.report(_SLOW).spool_bytes > 20 * _VALUE_BYTES
        await owner.comes_back(_SLOW)
        assert owner.kafka.sinks[_SLOW].offsets == list(range(23)), "in order, and nothing twice"
        assert owner.kafka.sinks[_SLOW].topic[-1] == _row(_SLOW, 22)
        assert (owner.kafka.gap(_SLOW), owner.kafka.named(_SLOW)) == (None, 22)
        assert owner.report(_SLOW) == OutletReport(_SLOW)
        await owner.pipeline.drain()

    _run(scenario)


def test_a_sink_that_comes_back_in_time_is_not_detached(tmp_path: Path) -> None:
    async def scenario() -> None:
        owner = _started(tmp_path)
        for _ in range(5):
            await owner.offer(2)
            await owner.passes(_STALL_S - 2)
            await owner.acknowledge(_SLOW, 2)
        assert all(not result.acks for group in owner.kafka.transactions for result in group)
        assert (owner.report(_SLOW).state, owner.kafka.named(_SLOW)) == (OutletState.LIVE, 9)
        await owner.die()

    _run(scenario)


def test_a_batch_may_wait_as_long_as_the_limit_once_it_is_the_oldest(tmp_path: Path) -> None:
    """A sink that is only busy acknowledges one after the other."""

    async def scenario() -> None:
        owner = _started(tmp_path)
        await owner.offer(3)
        for _ in range(3):
            await owner.passes(_STALL_S - 2)
            await owner.acknowledge(_SLOW, 1)
        assert (owner.report(_SLOW).state, owner.kafka.position) == (OutletState.LIVE, 2)
        await owner.die()

    _run(scenario)


def test_time_in_which_nobody_looked_does_not_count(tmp_path: Path) -> None:
    async def scenario() -> None:
        owner = _started(tmp_path)
        await owner.offer(1)
        await owner.passes(1)
        owner.now += 3_600
        await owner.passes(2)
        assert owner.report(_SLOW).state is OutletState.LIVE
        await owner.passes(_STALL_S)
        assert owner.report(_SLOW).state is OutletState.SPOOLING
        await owner.die()

    _run(scenario)


def test_too_much_in_memory_is_waited_for_a_quarter_of_the_time(tmp_path: Path) -> None:
    async def scenario() -> None:
        owner = _started(tmp_path, memory_bytes=_VALUE_BYTES)
        await owner.offer(3)
        assert owner.processor.position == 0, "nothing more is stepped"
        await owner.passes(_STALL_S / 2)
        assert owner.report(_SLOW).state is OutletState.LIVE, "a single batch could not come in parts"
        owner.pipeline.outlets._outlets[_SLOW]._limits = replace(
            owner.pipeline.outlets._limits, memory_bytes=_VALUE_BYTES * 3 // 2
        )
        await owner.passes(2)
        assert owner.processor.position == 1
        await owner.passes(_STALL_S / 4)
        assert owner.report(_SLOW).state is OutletState.SPOOLING
        await owner.die()

    _run(scenario)


def test_messages_about_feeds_are_taken_up_while_there_is_too_much_in_memory(tmp_path: Path) -> None:
    async def scenario() -> None:
        owner = _started(tmp_path, memory_bytes=_VALUE_BYTES)
        await owner.offer(3)
        await owner.tell(Remove(_SLOW, FeedEpoch(1)))
        assert (owner.processor.position, list(owner.processor.feeds)) == (0, [_FAST])
        await owner.passes(_STALL_S + 2)
        assert (owner.kafka.position, list(owner.kafka.state)) == (2, [_FAST.encode(), _POSITION])
        await owner.pipeline.drain()

    _run(scenario)


def test_a_feed_that_is_dropped_is_given_no_more_time_for_having_flapped(tmp_path: Path) -> None:
    async def scenario() -> None:
        owner = await _detached(tmp_path, spool_bytes=0)
        await owner.offer(60)
        for _ in range(6):
            await owner.flaps(_SLOW)
        while owner.report(_SLOW).state is not OutletState.LIVE:
            await owner.acknowledge(_SLOW, 100)
            await owner.passes(1)
        committed = owner.kafka.position
        await owner.offer(1)
        await owner.tell(Remove(_SLOW, FeedEpoch(1)))
        for _ in range(int(_STALL_S) + 2):
            await owner.acknowledge(_SLOW, 1)
            await owner.passes(1)
        assert owner.kafka.position > committed
        assert _SLOW.encode() not in owner.kafka.state
        await owner.die()

    _run(scenario)


def test_batches_without_rows_of_the_feed_are_not_committed_before_the_gap(tmp_path: Path) -> None:
    """What waited for the feed and the gap are one transaction."""

    async def scenario() -> None:
        owner = await _detached(tmp_path)
        waited = [group for group in owner.kafka.transactions if any(result.outputs for result in group)]
        assert [result.serial for result in waited[0]] == [1, 2, 3, 4]
        await owner.die()
        successor = _Owner(owner.kafka, tmp_path)
        owner.kafka.sinks[_SLOW].comes_back()
        await successor.offer(2)
        assert owner.kafka.sinks[_SLOW].first_seen() == {b"0": [0, 3], b"1": [1, 4], b"2": [2]}
        await successor.pipeline.drain()

    _run(scenario)


def test_the_spool_dies_with_the_process(tmp_path: Path) -> None:
    async def scenario() -> None:
        owner = await _detached(tmp_path)
        await owner.offer(5)
        await owner.acknowledge(_SLOW, 2)
        assert os.listdir(tmp_path) == [], "files have no names"
        await owner.die()
        successor = _Owner(owner.kafka, tmp_path)
        await successor.offer(1)
        await successor.comes_back(_SLOW)
        assert owner.kafka.sinks[_SLOW].offsets == [0, 1, *range(9)], "copies, then what is new"
        assert owner.kafka.named(_SLOW) == 8
        await successor.pipeline.drain()

    _run(scenario)


def test_a_batch_between_that_waits_for_another_feed_holds_the_whole_group(tmp_path: Path) -> None:
    async def scenario() -> None:
        owner = _started(tmp_path)
        fast = owner.kafka.sinks[_FAST]
        await owner.offer(1)
        await owner.passes(_STALL_S - 1)
        fast.is_up = False
        await owner.offer(1)
        await owner.passes(2)
        assert owner.report(_SLOW).state is OutletState.SPOOLING
        assert owner.kafka.position == -1, "the gap is not to be had without the batch before it"
        fast.comes_back()
        await settle()
        assert (owner.kafka.position, owner.kafka.gap(_SLOW)) == (1, 0)
        await owner.die()

    _run(scenario)


def test_two_feeds_that_wait_for_each_other_are_detached_together(tmp_path: Path) -> None:
    async def scenario() -> None:
        owner = _started(tmp_path)
        owner.kafka.sinks[_FAST].is_up = False
        await owner.offer(3)
        await owner.passes(_STALL_S + 3)
        assert (owner.kafka.position, owner.kafka.gap(_SLOW), owner.kafka.gap(_FAST)) == (2, 0, 0)
        await owner.offer(5)
        await owner.comes_back(_FAST)
        await owner.comes_back(_SLOW)
        assert owner.kafka.named(_FAST) == owner.kafka.named(_SLOW) == 7
        assert owner.kafka.sinks[_SLOW].offsets == owner.kafka.sinks[_FAST].offsets == list(range(8))
        await owner.pipeline.drain()

    _run(scenario)


def test_a_row_that_is_thrown_away_lets_no_batch_go_alone(tmp_path: Path) -> None:
    """The spool is lost while the batches and the gap still wait for another feed."""

    async def scenario() -> None:
        owner = _started(tmp_path, spool_bytes=0)
        slow, fast = owner.kafka.sinks[_SLOW], owner.kafka.sinks[_FAST]
        slow.room = 0
        await owner.offer(1)
        await owner.passes(_STALL_S - 1)
        fast.is_up = False
        await owner.offer(1)
        await owner.passes(2)
        await owner.offer(1)
        assert owner.report(_SLOW).state is not OutletState.LIVE
        await owner.acknowledge(_FAST, 0)
        assert owner.kafka.position == -1
        fast.comes_back()
        await settle()
        assert (owner.kafka.position, owner.kafka.gap(_SLOW)) == (2, 0)
        await owner.die()

    _run(scenario)


class _Later(Executor):
    """Runs work some turns of the loop later; ``meanwhile`` comes before."""

    def __init__(self, meanwhile: Callable[[], None]) -> None:
        self._meanwhile = meanwhile

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()

        async def run() -> None:
            self._meanwhile()
            for _ in range(20):
                await asyncio.sleep(0)
            future.set_result(fn(*args, **kwargs))

        self._running = asyncio.ensure_future(run())
        return future


def test_nothing_is_committed_while_it_is_changed(tmp_path: Path) -> None:
    """The last row is acknowledged when the step begins that detaches the feed."""

    async def scenario() -> None:
        owner = _started(tmp_path)
        await owner.offer(2)
        await owner.passes(_STALL_S - 1)
        detach = owner.processor.detach
        committed: list[int] = []

        def patched(feed_id: FeedId, uncommitted: Sequence[StepResult]) -> StepResult:
            done = {result.serial for group in owner.kafka.transactions for result in group}
            committed.extend(result.serial for result in uncommitted if result.serial in done - {0})
            return detach(feed_id, uncommitted)

        owner.processor.detach = patched  # type: ignore[method-assign]
        later = _Later(lambda: owner.kafka.sinks[_SLOW].acknowledge(9))
        owner.pipeline._stepper._thread = later
        await owner.passes(2)
        assert committed == []
        assert (owner.kafka.position, owner.kafka.named(_SLOW)) == (1, 1), "and attached again"
        await owner.pipeline.drain()

    _run(scenario)


def test_a_full_producer_holds_back_its_own_feeds_only(tmp_path: Path) -> None:
    async def scenario() -> None:
        owner = _started(tmp_path, _SLOW, _FAST)
        owner.kafka.sinks[_SLOW].room = 0
        await owner.offer(3)
        assert owner.kafka.sinks[_FAST].offsets == [0, 1, 2]
        owner.kafka.sinks[_SLOW].room = 1
        await until(lambda: bool(owner.kafka.sinks[_SLOW].queue))  # nobody tells of room: it is asked for
        await owner.acknowledge(_SLOW, 1)
        assert [_offset(row) for row, _ in owner.kafka.sinks[_SLOW].queue] == [1]
        await owner.die()

    _run(scenario)


def test_rows_that_were_never_handed_over_come_before_the_spool(tmp_path: Path) -> None:
    async def scenario() -> None:
        owner = _started(tmp_path)
        slow = owner.kafka.sinks[_SLOW]
        slow.room = 0
        await owner.offer(3)
        await owner.passes(_STALL_S + 2)
        await owner.offer(3)
        slow.room = 1_000
        await owner.comes_back(_SLOW)
        assert slow.offsets == list(range(6))
        await owner.pipeline.drain()

    _run(scenario)


def test_a_feed_that_lacks_rows_from_elsewhere_is_not_attached(tmp_path: Path) -> None:
    """Keys with a gap came to the partition meanwhile: the spool does not have what they lack."""

    async def scenario() -> None:
        owner = await _detached(tmp_path)
        feed = owner.processor.feeds[_SLOW]
        owner.processor.feeds[_SLOW] = replace(feed, mode="stalled")
        await owner.comes_back(_SLOW)
        assert owner.kafka.sinks[_SLOW].offsets == [0, 1, 2, 0, 1, 2]
        assert owner.kafka.named(_SLOW) == 2
        await owner.pipeline.drain()

    _run(scenario)


def test_a_full_spool_stalls_the_feed(tmp_path: Path) -> None:
    async def scenario() -> None:
        owner = await _detached(tmp_path, spool_bytes=5 * _VALUE_BYTES)
        await owner.offer(10)
        assert owner.report(_SLOW) == OutletReport(_SLOW, OutletState.STALLED, 3 * (_VALUE_BYTES + 1), 0)
        assert owner.kafka.position == 12
        await owner.comes_back(_SLOW)
        assert owner.kafka.sinks[_SLOW].offsets == [0, 1, 2, *range(13)], "scanned for, from the gap on"
        assert (owner.kafka.named(_SLOW), owner.kafka.gap(_SLOW)) == (12, None)
        await owner.offer(1)
        assert owner.kafka.named(_SLOW) == 13
        await owner.pipeline.drain()

    _run(scenario)


def test_what_a_stalled_feed_has_thrown_away_waits_no_more(tmp_path: Path) -> None:
    async def scenario() -> None:
        owner = _started(tmp_path, spool_bytes=2 * _VALUE_BYTES)
        owner.kafka.sinks[_SLOW].room = 1
        await owner.offer(3)
        await owner.passes(_STALL_S + 2)
        await owner.offer(10)
        assert owner.report(_SLOW) == OutletReport(_SLOW, OutletState.STALLED, _VALUE_BYTES + 1, 0)
        await owner.pipeline.drain()

    _run(scenario)


def test_a_spool_that_cannot_be_written_stalls_the_feed(tmp_path: Path) -> None:
    async def scenario() -> None:
        (tmp_path / "file").write_bytes(b"")
        owner = await _detached(tmp_path / "file")
        await owner.offer(1)
        assert owner.report(_SLOW).state is OutletState.STALLED
        await owner.comes_back(_SLOW)
        assert owner.kafka.named(_SLOW) == 3
        await owner.pipeline.drain()

    _run(scenario)


def test_a_spool_that_cannot_be_read_stalls_the_feed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        owner = await _detached(tmp_path)
        await owner.offer(4)

        def broken(file: object) -> OutputRecord:
            raise OSError(5, "Input/output error")

        monkeypatch.setattr(tidegate.worker.output.spool, "_read", broken)
        await owner.comes_back(_SLOW)
        assert owner.kafka.sinks[_SLOW].offsets == [0, 1, 2, *range(7)]
        assert owner.kafka.named(_SLOW) == 6
        await owner.pipeline.drain()

    _run(scenario)


def test_a_feed_that_is_catching_up_is_stalled_when_its_sink_stops_again(tmp_path: Path) -> None:
    async def scenario() -> None:
        owner = await _detached(tmp_path)
        await owner.die()
        successor = _Owner(owner.kafka, tmp_path)
        await successor.offer(3)
        await successor.passes(_STALL_S + 2)
        assert successor.report(_SLOW).state is OutletState.STALLED
        assert (owner.kafka.position, owner.kafka.gap(_SLOW)) == (5, 0)
        await successor.comes_back(_SLOW)
        assert owner.kafka.named(_SLOW) == 5
        await successor.pipeline.drain()

    _run(scenario)


def test_the_pause_before_a_feed_is_resumed_grows_while_its_sink_flaps(tmp_path: Path) -> None:
    async def scenario() -> None:
        owner = await _detached(tmp_path, spool_bytes=0)
        await owner.offer(1)
        pauses = [await owner.flaps(_SLOW) for _ in range(4)]
        asked = [0, _STALL_S, 2 * _STALL_S, 4 * _STALL_S]
        early = 3  # a pause is counted from the stall, which is as much before the end of ``flaps``
        assert all(full - early <= seconds <= full for seconds, full in zip(pauses, asked, strict=True))
        await owner.comes_back(_SLOW)
        await owner.passes(64)
        assert (owner.report(_SLOW), owner.kafka.gap(_SLOW)) == (OutletReport(_SLOW), None)
        await owner.pipeline.drain()

    _run(scenario)


def test_a_slow_sink_is_given_more_time_for_what_a_scan_gives_at_once(tmp_path: Path) -> None:
    """It acknowledges a row each second, and the scan gives more rows than the limit has seconds."""

    async def scenario() -> None:
        owner = await _detached(tmp_path, spool_bytes=0)
        await owner.offer(40)
        for _ in range(600):
            await owner.acknowledge(_SLOW, 1)
            await owner.passes(1)
        assert (owner.report(_SLOW), owner.kafka.gap(_SLOW)) == (OutletReport(_SLOW), None)
        await owner.pipeline.drain()

    _run(scenario)


def test_a_sink_that_stops_is_given_no_more_time_than_the_limit(tmp_path: Path) -> None:
    async def scenario() -> None:
        owner = await _detached(tmp_path, spool_bytes=0)
        await owner.offer(40)
        for _ in range(6):
            await owner.flaps(_SLOW)
        while owner.report(_SLOW).state is not OutletState.LIVE:
            await owner.acknowledge(_SLOW, 100)
            await owner.passes(1)
        await owner.offer(1)
        await owner.passes(_STALL_S + 2)
        assert owner.report(_SLOW).state is OutletState.STALLED
        await owner.die()

    _run(scenario)


def test_letting_go_does_not_wait_for_a_detached_feed(tmp_path: Path) -> None:
    async def scenario() -> None:
        owner = await _detached(tmp_path)
        await owner.offer(5)
        await owner.pipeline.drain()
        assert owner.kafka.position == 7
        successor = _Owner(owner.kafka, tmp_path)
        await successor.offer(1)
        await successor.comes_back(_SLOW)
        assert owner.kafka.sinks[_SLOW].offsets == [0, 1, 2, *range(9)]
        await successor.pipeline.drain()

    _run(scenario)


def test_a_sink_that_stops_while_the_partition_is_let_go_of_is_detached(tmp_path: Path) -> None:
    async def scenario() -> None:
        owner = _started(tmp_path)
        await owner.offer(2)
        draining = asyncio.ensure_future(owner.pipeline.drain())
        await owner.passes(_STALL_S - 2)
        assert not draining.done()
        await owner.passes(4)
        await draining
        assert (owner.kafka.position, owner.kafka.gap(_SLOW)) == (1, 0)

    _run(scenario)


def test_who_lets_go_waits_for_a_sink_that_trickles_for_so_long_and_no_longer(tmp_path: Path) -> None:
    """Each batch is acknowledged in time, and all of them would take longer than there is."""

    async def scenario() -> None:
        owner = _started(tmp_path)
        await owner.offer(3)
        draining = asyncio.ensure_future(owner.pipeline.drain())
        await owner.passes(_STALL_S - 2)
        await owner.acknowledge(_SLOW, 1)
        await owner.passes(_DRAIN_S - _STALL_S)
        assert not draining.done()
        await owner.passes(4)
        assert draining.done()
        assert (owner.kafka.position, owner.kafka.gap(_SLOW), owner.kafka.gap(_FAST)) == (2, 1, None)

    _run(scenario)


def test_who_lets_go_detaches_only_feeds_whose_rows_lack(tmp_path: Path) -> None:
    async def scenario() -> None:
        owner = _started(tmp_path)
        await owner.offer(1)
        await owner.acknowledge(_SLOW, 1)
        draining = asyncio.ensure_future(owner.pipeline.drain())
        await owner.passes(_DRAIN_S + 2)
        assert draining.done()
        assert (owner.kafka.gap(_SLOW), owner.kafka.gap(_FAST)) == (None, None)

    _run(scenario)


@pytest.mark.parametrize("detached_first", [False, True])
def test_a_feed_that_is_dropped_while_it_is_detached_is_forgotten(
    tmp_path: Path, *, detached_first: bool
) -> None:
    async def scenario() -> None:
        owner = await _detached(tmp_path) if detached_first else _started(tmp_path)
        await owner.offer(2)
        await owner.tell(Remove(_SLOW, FeedEpoch(1)))
        await owner.passes(_STALL_S + 2)
        await owner.offer(3)
        assert owner.kafka.position == owner.next - 1
        assert _SLOW.encode() not in owner.kafka.state
        assert [report.feed_id for report in owner.pipeline.outlets.report()] == [_FAST]
        await owner.comes_back(_SLOW)
        await owner.pipeline.drain()

    _run(scenario)


_EVENTS: Final = st.lists(
    st.one_of(
        st.tuples(st.just("offer"), st.integers(1, 4)),
        st.tuples(st.sampled_from(["fast", "slow"]), st.integers(1, 5)),
        st.tuples(st.sampled_from(["passes"]), st.sampled_from([1, 2, 4, 10])),
        st.tuples(st.sampled_from(["die", "let go", "a little room", "much room"]), st.just(0)),
    ),
    max_size=30,
)


@given(_EVENTS, st.sampled_from([0, 500, 1 << 20]), st.integers(1, 4))
def test_whatever_comes_in_whatever_order_nothing_is_lost_and_no_key_is_reordered(
    events: list[tuple[str, int]], spool_bytes: int, inflight: int
) -> None:
    """Each transaction is judged as it is committed; in the end every sink has everything."""

    async def scenario() -> None:
        directory = Path(mkdtemp())
        owner = _Owner(_Kafka(_FAST, _SLOW), directory, spool_bytes, inflight=inflight)
        for what, number in events:
            owner = await _act(owner, what, number)
        for sink in owner.kafka.sinks.values():
            sink.room = 1_000
            sink.comes_back()
        await owner.offer(owner.kafka.log_end - owner.next + 2)
        await owner.passes(40)
        end = owner.next
        for feed_id, sink in owner.kafka.sinks.items():
            assert set(sink.offsets) == set(range(end))
            seen = sink.first_seen().values()
            assert all(offsets == sorted(offsets) for offsets in seen), "a key is reordered"
            assert owner.kafka.named(feed_id) == end - 1
            assert owner.report(feed_id) == OutletReport(feed_id)
        await owner.pipeline.drain()

    _run(scenario)


async def _act(owner: _Owner, what: str, number: int) -> _Owner:
    match what:
        case "offer":
            await owner.offer(number)
        case "passes":
            await owner.passes(number)
        case "fast" | "slow":
            await owner.acknowledge(FeedId(what), number)
        case "a little room" | "much room":
            for sink in owner.kafka.sinks.values():
                sink.room = 1 if what == "a little room" else 1_000
        case "let go":
            draining = asyncio.ensure_future(owner.pipeline.drain())
            await owner.passes(2 * _STALL_S + 4)
            assert draining.done()
            return _Owner(owner.kafka, owner.directory, owner.spool_bytes, inflight=owner.inflight)
        case _:
            await owner.die()
            return _Owner(owner.kafka, owner.directory, owner.spool_bytes, inflight=owner.inflight)
    return owner
