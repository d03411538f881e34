"""A commit loop of one log partition, driven by hand: what is in flight, acknowledged and committed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import Executor, Future
from typing import Any, Final

from tests.feeds import activation
from tests.hand_log import HandLog, HandTable
from tests.logs import Record
from tests.unit.worker.hand_ids import HandIds
from tests.unit.worker.hand_limits import PATIENT
from tidegate.changefeed.lifecycle.control import ControlMessage, Failed, Registered
from tidegate.processor.batch import ControlRecord, OutputRecord, StepResult
from tidegate.processor.processor import PartitionProcessor
from tidegate.raftlog.entry import Offset
from tidegate.worker.commit.commit_loop import CommitLimits, CommitLoop, Threads
from tidegate.worker.kafka.fetched import FetchedBatch
from tidegate.worker.output.barrier import Barrier

TABLE: Final = HandTable.of(104, "plain")
_FEED: Final = activation([TABLE.descriptor])
_SETTLED: Final = 200  # turns of the loop: with everything run in place, far more than any reaction takes


class InPlace(Executor):
    """Runs everything at once, so that only the loop decides what comes next."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        future.set_result(fn(*args, **kwargs))
        return future


class _Sink:
    """Takes rows, and acknowledges them when it is told to."""

    is_over = False

    def __init__(self) -> None:
        self.rows: list[OutputRecord] = []
        self._barriers: list[Barrier] = []

    is_held = False

    def send(self, rows: Sequence[OutputRecord], barrier: Barrier, first: int = 0) -> int:
        self.rows += rows[first:]
        self._barriers += [barrier] * len(rows[first:])
        return len(rows)

    def acknowledge(self, *which: int) -> None:
        """Acknowledge the rows at these positions."""
        for number in which:
            self._barriers[number].row_acknowledged()


class _Writer:
    def __init__(self) -> None:
        self.transactions: list[list[StepResult]] = []

    def commit(self, results: Sequence[StepResult]) -> None:
        self.transactions.append(list(results))

    @property
    def offsets(self) -> list[int]:
        """The log positions that were committed, in order."""
        return [int(r.offset) for group in self.transactions for r in group if r.offset is not None]


class _Valve:
    def __init__(self) -> None:
        self.calls: list[str] = []

    def halt(self) -> None:
        self.calls.append("halt")

    def proceed(self) -> None:
        self.calls.append("proceed")


class Driven:
    """A commit loop over a log in which every record from the third on is a row."""

    def __init__(
        self, *, inflight: int = 3, present: int = 0, processor: PartitionProcessor | None = None
    ) -> None:
        log = HandLog(partitions=1)
        log.describe(TABLE)
        rows = log.open_range(1, TABLE.span)
        for second in range(1, 10):
            rows.apply(TABLE.put(second, second, "x"), close=second)
        self.records: tuple[Record, ...] = log.partitions[0]
        self.sink, self.writer, self.valve = _Sink(), _Writer(), _Valve()
        self.now = 1_000.0
        self.processor = processor or PartitionProcessor(0, 1)
        self.processor.control([ControlRecord(Offset(0), _FEED)])
        threads = Threads(InPlace(), InPlace())
        limits = CommitLimits(batch_records=1, inflight_batches=inflight, queued_batches=4, outlets=PATIENT)
        self.commit_loop = CommitLoop(
            self.processor,
            self.writer,
            lambda _: lambda: self.sink,
            self.valve,
            threads,
            limits,
            schema_ids=HandIds(),
            present=present,
            held_limit_s=60.0,
            clock=lambda: self.now,
        )
        self.commit_loop.start()

    @property
    def next_offset(self) -> int:
        """The offset up to which the processor has come."""
        return self.processor.next_offset or 0

    @property
    def registered(self) -> list[Registered]:
        """The answers to registrations that were committed."""
        results = (result for group in self.writer.transactions for result in group)
        return [ack for result in results for ack in result.acks if isinstance(ack, Registered)]

    @property
    def failures(self) -> list[Failed]:
        """The failures that were committed."""
        results = (result for group in self.writer.transactions for result in group)
        return [ack for result in results for ack in result.acks if isinstance(ack, Failed)]

    async def tell(self, offset: int, message: ControlMessage) -> None:
        """A message of the control topic."""
        self.commit_loop.control([ControlRecord(Offset(offset), message)])
        await settle()

    async def passes(self, seconds: float) -> None:
        """Let time go by, and the commit loop look at the clock."""
        self.now += seconds
        self.commit_loop.control([])
        await settle()

    async def queue_records(self, first: int, end: int) -> None:
        """Queue records [first, end), each as a batch of its own."""
        for number in range(first, end):
            records = self.records[number : number + 1]
            self.commit_loop.queue_batch(
                FetchedBatch("log", 0, number, number + 1, len(self.records), records)
            )
        await settle()


async def settle() -> None:
    """Let the loop turn until nothing happens any more."""
    for _ in range(_SETTLED):
        await asyncio.sleep(0)


def run(scenario: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(scenario())
