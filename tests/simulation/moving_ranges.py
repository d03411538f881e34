"""A store whose ranges split, merge and break, followed by partition processors that die and lag.

Everything is a function of the seed: what the store does, which partition reads how far, when claims and
hand-offs arrive, when requests are answered or lost, when a processor begins anew from what it committed.
What comes out is checked against the true history at every step.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from random import Random
from typing import Final

from sim.options import StoreOptions
from sim.workloads.bank import Bank, BankOptions
from tests.driven_sim import DrivenSim
from tests.feeds import activation
from tests.logs import EVENTFUL_MIX, Record
from tidegate.changefeed.record import RowRecord, parse_record
from tidegate.hlc import ZERO, Timestamp
from tidegate.processor.batch import (
    ControlRecord,
    ExchangeRecord,
    RangeCheckpoint,
    StateTable,
    StepResult,
)
from tidegate.processor.processor import PartitionProcessor, ProcessorConfig
from tidegate.processor.pushes import PushPolicy
from tidegate.raftlog.encode import partition_of
from tidegate.raftlog.entry import Offset
from tidegate.raftlog.request import RangeRequest
from tidegate.rangefeed.handoff import receiver_of
from tidegate.rows import TableCodec
from tidegate.spans import SpanFrontier

_CONFIG: Final = ProcessorConfig(PushPolicy(age_ms=500, repeat_ms=300))
_DRAIN_ROUNDS: Final = 400


@dataclass(frozen=True, slots=True)
class Troubles:
    """How likely each thing is at each turn."""

    split: float = 0.1
    merge: float = 0.06
    corrupt: float = 0.03
    restart: float = 0.05
    lose_request: float = 0.1
    partitions: int = 3


class BrokenPromise(AssertionError):
    """A row was lost, invented, or came out of order; or a checkpoint lied."""


class MovingRanges:
    """One run."""

    def __init__(self, seed: int, troubles: Troubles | None = None) -> None:
        self.rng = Random(seed)
        self.troubles = troubles or Troubles()
        count = self.troubles.partitions
        options = StoreOptions(
            partitions=count,
            closed_lag_ms=100,
            heartbeat_ms=100,
            write_rate=400.0,
            snapshot_interval_ms=700,
            scan_chunk_rows=3,
            scan_gap_ms=self.rng.choice([0, 30]),
            txn_expiry_ms=300,
            rejected_fraction=0.05,
            zombie_fraction=0.1,
        )
        workload = Bank(BankOptions(accounts=30, ranges=4, outcomes=EVENTFUL_MIX), seed)
        self.sim = DrivenSim(workload, options, seed=seed)
        self.logs: list[list[Record]] = [[] for _ in range(count)]
        self.feed = activation(self.sim.tables[:1])
        self.codec = TableCodec(self.sim.tables[0])
        self.exchanges: list[list[ExchangeRecord]] = [[] for _ in range(count)]
        self.requests: list[RangeRequest] = []
        self.seen: dict[bytes, set[Timestamp]] = defaultdict(set)
        self.pending: dict[bytes, dict[Timestamp, bytes]] = defaultdict(dict)
        self._known = 0
        self.frontier = SpanFrontier([span for target in self.feed.targets for span in target.spans])
        self.partitions = [Partition(self, number) for number in range(count)]

    def run(self, turns: int) -> None:
        """Let things happen, then everything end; raises ``BrokenPromise`` when one is."""
        for _ in range(turns):
            self._turn()
        self.sim.stop()
        self.troubles = replace(self.troubles, corrupt=0.0)
        for _ in range(_DRAIN_ROUNDS):
            self._drain()
            if self.complete:
                break
        self._check_complete()

    @property
    def complete(self) -> bool:
        """Whether the feed has come to the end of the history."""
        return self.sim.simulation.drained and self.frontier.minimum >= self.last

    @property
    def last(self) -> Timestamp:
        """The last thing that happened."""
        return max((version.timestamp.floor() for version in self.sim.history), default=ZERO)

    # ---- what happens

    def _turn(self) -> None:
        rng, troubles = self.rng, self.troubles
        self.sim.advance(rng.randint(1, 60))
        self._chance(troubles.split, lambda: self.sim.split_somewhere(rng))
        self._chance(troubles.merge, lambda: self.sim.merge_somewhere(rng))
        self._take_log()
        partition = rng.choice(self.partitions)
        partition.read(rng.randint(1, 40))
        if rng.random() < 0.5:
            rng.choice(self.partitions).exchange(rng.randint(1, 5))
        self._chance(troubles.restart, rng.choice(self.partitions).restart)
        if self.requests and rng.random() < 0.5:
            self._answer(lose=rng.random() < troubles.lose_request)

    def _chance(self, probability: float, action: Callable[[], object]) -> None:
        if self.rng.random() < probability:
            action()

    def _drain(self) -> None:
        self.sim.advance(100)
        if self.requests and self.sim.now_ns % 3 == 0:
            self.sim.advance(30_000)  # so that what was lost is asked for again
        self._take_log()
        while self.requests:
            self._answer(lose=False)
        for partition in self.partitions:
            partition.read(10_000)
            partition.exchange(10_000)

    def _answer(self, *, lose: bool) -> None:
        request = self.requests.pop(self.rng.randrange(len(self.requests)))
        if not lose:
            self.sim.request(request)

    def _take_log(self) -> None:
        for log, new in zip(self.logs, self.sim.records(), strict=True):
            for record in new:
                if self.rng.random() < self.troubles.corrupt / 3 and not self._is_descriptor(record):
                    record = record._replace(value=b"\xff\xff")
                log.append(record)

    def _is_descriptor(self, record: Record) -> bool:
        return record.key == bytes(8)

    # ---- what comes of it

    def note(self, number: int, result: StepResult) -> None:
        """A result is durable: rows, then what the checkpoint says of them."""
        for record in result.outputs.get(self.feed.feed_id, ()):
            row = parse_record(record.key, record.value)
            assert isinstance(row, RowRecord)
            assert row.updated is not None
            self._see(record.key, row.updated)
        for message in result.exchanges:
            to = partition_of(receiver_of(message), len(self.partitions))
            queue = self.exchanges[to]
            queue.append(ExchangeRecord(Offset(len(queue)), message))
        self.requests += result.requests
        if result.checkpoint is not None:
            for item in result.checkpoint.ranges:
                self._check(item)

    def _see(self, key: bytes, timestamp: Timestamp) -> None:
        seen = self.seen[key]
        if timestamp in seen:
            return
        if timestamp not in self._pending().get(key, {}):
            raise BrokenPromise(f"{key!r} at {timestamp} never was")
        if seen and max(seen) > timestamp:
            raise BrokenPromise(f"{key!r} at {timestamp} came first after {max(seen)}")
        if self.frontier.minimum >= timestamp:
            raise BrokenPromise(f"{key!r} at {timestamp} came after the frontier {self.frontier.minimum}")
        seen.add(timestamp)
        del self.pending[key][timestamp]

    def _check(self, item: RangeCheckpoint) -> None:
        """Every version of the span up to the checkpoint must have come out."""
        for key, times in self._pending().items():
            for timestamp, raw in times.items():
                if timestamp <= item.resolved and item.span.contains(raw):
                    raise BrokenPromise(f"{item} covers {key!r} at {timestamp}, which was not written")
        self.frontier.forward_all([(item.span, item.resolved)])

    def _pending(self) -> dict[bytes, dict[Timestamp, bytes]]:
        """What is in the history and has not come out: timestamps and keys of the store by keys of rows."""
        for version in islice(self.sim.history, self._known, None):
            self._known += 1
            if version.table_id == self.sim.tables[0].id:
                row = self.codec.decode(version.key, version.value)
                assert row is not None
                self.pending[_text_of(row.key)][version.timestamp] = version.key
        return self.pending

    def _check_complete(self) -> None:
        if missing := [(key, times) for key, times in self._pending().items() if times][:3]:
            raise BrokenPromise(f"rows are missing: {missing}; {self._waiting()}")
        if not self.complete:
            raise BrokenPromise(f"the frontier stays at {self.frontier.lowest_entry()}: {self._waiting()}")

    def _waiting(self) -> list[object]:
        status = [partition.processor.status() for partition in self.partitions]
        return [(item.parked, item.quarantined, item.slowest[:2]) for item in status]


class Partition:
    """A partition's processor, what it has committed, and its place in the logs."""

    def __init__(self, run: MovingRanges, number: int) -> None:
        self._run = run
        self._number = number
        self._state: dict[tuple[StateTable, bytes], bytes] = {}
        self.processor = PartitionProcessor(number, run.troubles.partitions, _CONFIG)
        self._commit(self.processor.control([ControlRecord(Offset(0), run.feed)]))

    def read(self, count: int) -> None:
        """Step the next records, in batches of any size."""
        log = self._run.logs[self._number]
        start = int(self.processor.next_offset or 0)
        for first in range(start, min(start + count, len(log)), 7):
            self._commit(self.processor.step(log[first : min(first + 7, start + count)]))
            self._go_on()

    def exchange(self, count: int) -> None:
        """Take up messages of other partitions."""
        start = int(self.processor.next_hand_off)
        records: Sequence[ExchangeRecord] = self._run.exchanges[self._number][start : start + count]
        if records:
            self._commit(self.processor.exchange(records))
            self._go_on()

    def restart(self) -> None:
        """Begin anew with what was committed, behind rows that were written all the same."""
        log = self._run.logs[self._number]
        start = int(self.processor.next_offset or 0)
        lost = self.processor.step(log[start : start + 5])
        for records in lost.outputs.values():
            self._run.note(self._number, StepResult(None, outputs={self._run.feed.feed_id: records[:2]}))
        rows = ((table, key, value) for (table, key), value in self._state.items())
        count = self._run.troubles.partitions
        self.processor = PartitionProcessor.restore(self._number, count, _CONFIG, rows)

    def _go_on(self) -> None:
        while self.processor.ready:
            self._commit(self.processor.step(()))

    def _commit(self, result: StepResult) -> None:
        for table, key, value in result.changes:
            if value is None:
                self._state.pop((table, key), None)
            else:
                self._state[table, key] = value
        self._run.note(self._number, result)


def _text_of(key: Iterable[object]) -> bytes:
    return str(list(key)).encode()
