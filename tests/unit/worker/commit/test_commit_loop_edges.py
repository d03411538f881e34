"""Edges of a commit loop: its first act, what shares a batch or a transaction, no room, cuts, failures."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import pytest

import tidegate.worker.commit.commit_loop
from tests.logs import Record
from tests.unit.worker.hand_ids import HandIds
from tests.unit.worker.hand_limits import PATIENT
from tidegate.changefeed.definition.feed import FeedDefinition, FeedId
from tidegate.errors import FeedError, RowRefused
from tidegate.hlc import ZERO_RESOLVED
from tidegate.processor.batch import (
    ControlRecord,
    ExchangeRecord,
    LogRecord,
    OutputRecord,
    PartitionCheckpoint,
    RangeCheckpoint,
    StateChange,
    StateTable,
    StepResult,
)
from tidegate.processor.processor import PartitionProcessor
from tidegate.processor.status import PartitionStatus
from tidegate.raftlog.entry import Generation, Offset, RangeId
from tidegate.spans import Span
from tidegate.worker.commit.commit_loop import CommitLimits, CommitLoop, Threads
from tidegate.worker.kafka.fetched import FetchedBatch
from tidegate.worker.output.barrier import Barrier

_FEED = FeedId("feed")


@dataclass
class Processor:
    """Every record becomes a row and a change."""

    held: bool = False
    ready: bool = False
    held_for: frozenset[FeedId] = frozenset()
    stepped: list[int] = field(default_factory=list)
    most_taken: int | None = None
    failure: Exception | None = None

    def step_some(self, records: Sequence[LogRecord], end: int | None = None) -> StepResult:
        if self.failure is not None:
            raise self.failure
        offsets = [record.offset for record in records[: self.most_taken]]
        self.stepped += offsets
        rows = [OutputRecord("topic", 0, b"%d" % offset, b"", 0, []) for offset in offsets]
        change = StateChange(StateTable.RANGES, b"position", b"%d" % offsets[-1])
        return StepResult(Offset(offsets[-1]), outputs={_FEED: rows}, changes=[change], taken=len(offsets))

    def control(self, records: Sequence[ControlRecord]) -> StepResult:
        return StepResult(None)

    def exchange(self, records: Sequence[ExchangeRecord]) -> StepResult:
        return StepResult(None)

    def give_up(self, held_s: float) -> StepResult:
        raise NotImplementedError

    def missing_below(self, log_start: Offset) -> StepResult:
        return StepResult(None, changes=[StateChange(StateTable.RANGES, b"cut", b"%d" % log_start)])

    def definition_of(self, feed_id: FeedId) -> FeedDefinition:
        raise NotImplementedError

    def is_active(self, feed_id: FeedId) -> bool:
        raise NotImplementedError

    def refuse(self, feed_id: FeedId, error: FeedError, result: StepResult) -> None:
        raise NotImplementedError

    def forget(self, feed_id: FeedId, result: StepResult) -> None:
        raise NotImplementedError

    def committed(self, serial: int) -> None:
        """Nothing is ever detached."""

    def fail_delivery(
        self, feed_id: FeedId, refusal: RowRefused, uncommitted: Sequence[StepResult]
    ) -> StepResult:
        raise NotImplementedError

    def is_spooling(self, feed_id: FeedId) -> bool:
        raise NotImplementedError

    def detach(self, feed_id: FeedId, uncommitted: Sequence[StepResult]) -> StepResult:
        raise NotImplementedError

    def attach(self, feed_id: FeedId) -> StepResult:
        raise NotImplementedError

    stall = resume = attach

    def full_checkpoint(self) -> PartitionCheckpoint:
        everything = RangeCheckpoint(RangeId(1), Generation(1), Span(b"a", b"b"), ZERO_RESOLVED)
        return PartitionCheckpoint(0, Offset(0), (), (everything,))

    def status(self) -> PartitionStatus:
        return PartitionProcessor(0, 1).status()


@dataclass
class Sink:
    """Takes ``room`` rows at a time; the test acknowledges them."""

    is_over = False
    events: list[str]
    room: int = 1_000
    sent: list[tuple[Barrier, int]] = field(default_factory=list)

    is_held = False

    def send(self, rows: Sequence[OutputRecord], barrier: Barrier, first: int = 0) -> int:
        taken = rows[first : first + self.room]
        self.sent += [(barrier, int(row.key)) for row in taken]
        self.events += [f"row {int(row.key)}" for row in taken]
        return first + len(taken)

    def acknowledge(self, *offsets: int) -> None:
        for barrier, offset in list(self.sent):
            if offset in offsets:
                self.sent.remove((barrier, offset))
                self.events.append(f"ack {offset}")
                barrier.row_acknowledged()


@dataclass
class Writer:
    """Notes what each transaction holds."""

    events: list[str]
    commits: list[list[StepResult]] = field(default_factory=list)

    def commit(self, results: Sequence[StepResult]) -> None:
        self.commits.append(list(results))
        self.events += [f"state {change.value!r}" for result in results for change in result.changes]


@dataclass
class Valve:
    open: bool = True

    def halt(self) -> None:
        self.open = False

    def proceed(self) -> None:
        self.open = True


class Bench:
    """A commit loop between stand-ins, and the order in which things happened."""

    def __init__(self) -> None:
        self.events: list[str] = []
        self.processor, self.sink = Processor(), Sink(self.events)
        self.writer, self.valve = Writer(self.events), Valve()
        self.ends: list[int | None] = []
        self.commit_loop = CommitLoop(
            self.processor,
            self.writer,
            lambda _: lambda: self.sink,
            self.valve,
            Threads(ThreadPoolExecutor(1), ThreadPoolExecutor(1)),
            CommitLimits(batch_records=2, inflight_batches=2, queued_batches=4, outlets=PATIENT),
            schema_ids=HandIds(),
            completed=lambda flight: self.ends.append(flight.end),
        )
        self.commit_loop.start()

    def queue_records(self, *offsets: int, behind: int = 0) -> None:
        """One fetched batch of these offsets, and of so many behind them that have no record."""
        records = [Record(offset, None, None, 0) for offset in offsets]
        end = offsets[-1] + 1 + behind
        self.commit_loop.queue_batch(FetchedBatch("log", 0, offsets[0], end, end, records))

    async def until(self, true: Callable[[], bool]) -> None:
        """Wait for what must come; pytest's time limit ends a test where it does not."""
        while not true():  # noqa: ASYNC110 - threads work meanwhile, and tell nobody
            await asyncio.sleep(0.001)

    async def opened(self) -> None:
        """Wait for the whole checkpoint, with which every commit loop begins."""
        await self.until(lambda: len(self.ends) == 1)


def run(test: Callable[[], Coroutine[None, None, None]]) -> None:
    asyncio.run(test())


def test_the_whole_checkpoint_is_written_first() -> None:
    async def test() -> None:
        bench = Bench()
        bench.queue_records(0)
        await bench.until(lambda: bool(bench.writer.commits))
        assert bench.writer.commits[0][0].checkpoint == bench.processor.full_checkpoint()

    run(test)


def test_acknowledged_batches_share_a_transaction() -> None:
    async def test() -> None:
        bench = Bench()
        await bench.opened()
        bench.queue_records(0, 1)
        bench.queue_records(2, 3)
        await bench.until(lambda: len(bench.sink.sent) == 4)
        bench.sink.acknowledge(2, 3)
        bench.sink.acknowledge(0, 1)
        await bench.until(lambda: len(bench.ends) == 3)
        assert [len(results) for results in bench.writer.commits] == [1, 2]

    run(test)


def test_small_fetches_are_stepped_together() -> None:
    async def test() -> None:
        bench = Bench()
        for offset in range(4):
            bench.queue_records(offset)
        await bench.until(lambda: len(bench.sink.sent) == 4)
        bench.sink.acknowledge(0, 1, 2, 3)
        await bench.until(lambda: 4 in bench.ends)
        assert bench.ends[1:] == [2, 4]

    run(test)


def test_what_a_step_has_not_taken_of_a_batch_is_the_next_ones() -> None:
    async def test() -> None:
        bench = Bench()
        bench.processor.most_taken = 2
        await bench.opened()
        bench.queue_records(0, 1, 5, 6, 9)
        bench.queue_records(10, 11, 12, behind=3)
        await bench.until(lambda: len(bench.sink.sent) == 4)
        bench.sink.acknowledge(0, 1, 5, 6)
        await bench.until(lambda: len(bench.sink.sent) == 3)
        bench.sink.acknowledge(9, 10, 11)
        await bench.until(lambda: [offset for _, offset in bench.sink.sent] == [12])
        bench.sink.acknowledge(12)
        await bench.until(lambda: 16 in bench.ends)
        assert bench.processor.stepped == [0, 1, 5, 6, 9, 10, 11, 12]
        assert bench.ends[1:] == [5, 9, 10, 12, 16], "the position after each step is the next record's"

    run(test)


def test_a_cut_is_taken_before_the_batches_behind_it() -> None:
    async def test() -> None:
        bench = Bench()
        await bench.opened()
        bench.commit_loop.cut(7)
        bench.queue_records(7)
        await bench.until(lambda: bench.processor.stepped == [7])
        await bench.until(lambda: len(bench.writer.commits) == 2)
        assert bench.writer.commits[1][0].changes[0].key == b"cut"

    run(test)


def test_rows_that_find_no_room_are_sent_later_and_in_order() -> None:
    async def test() -> None:
        bench = Bench()
        bench.sink.room = 1
        bench.queue_records(0, 1)
        await bench.until(lambda: len(bench.sink.sent) == 2)
        assert bench.events == ["row 0", "row 1"]

    run(test)


def test_an_idle_commit_loop_drains_at_once() -> None:
    async def test() -> None:
        bench = Bench()
        await bench.opened()
        await bench.commit_loop.drain()

    run(test)


def test_a_failing_step_ends_the_process_and_commits_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    ended: list[BaseException] = []
    monkeypatch.setattr(tidegate.worker.commit.commit_loop, "end_process", ended.append)

    async def test() -> None:
        bench = Bench()
        await bench.opened()
        bench.processor.failure = ValueError("broken")
        bench.queue_records(0)
        await bench.until(lambda: bool(ended))
        assert str(ended[0]) == "broken"
        assert len(bench.writer.commits) == 1

    run(test)
