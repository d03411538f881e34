"""The simulation tied to a clock on the wall; here one that moves only while the run sleeps."""

from __future__ import annotations

from collections.abc import Sequence
from threading import Event

import pytest

from sim.log.history import History
from sim.log.sink import ListSink
from sim.options import StoreOptions
from sim.plan import OutcomeMix
from sim.realtime import RealTimeRun, SimProgress
from sim.request_source import Request, RequestSource
from sim.simulation import Simulation
from sim.store.moments import EndedBy, MomentKind
from sim.workloads.random import RandomOptions, RandomTransactions
from tests.strategies import BASE_NS
from tidegate.hlc import NANOS_PER_MS, NANOS_PER_SECOND, Timestamp
from tidegate.raftlog.decode import decode_entry
from tidegate.raftlog.entry import AbortTxn, Command, Heartbeat, RangeId, ScanChunk, Trigger
from tidegate.raftlog.request import AdminMerge, AdminSplit, Push, PushedTxn, Scan

_OPTIONS = StoreOptions(partitions=2, write_rate=300, closed_lag_ms=100, heartbeat_ms=100, txn_expiry_ms=200)


class _Wall:
    """A clock that stands still but while somebody sleeps; ``stalls`` are longer sleeps, in milliseconds."""

    def __init__(self, stalls: Sequence[int] = ()) -> None:
        self.ns = BASE_NS
        self._stalls = list(stalls)

    def now(self) -> int:
        return self.ns

    def sleep(self, seconds: float) -> None:
        self.ns += int(seconds * NANOS_PER_SECOND)
        if self._stalls:
            self.ns += self._stalls.pop() * NANOS_PER_MS


class _WatchedSink(ListSink):
    """Refuses a record from the future."""

    def __init__(self, wall: _Wall) -> None:
        super().__init__()
        self._wall = wall
        self.flushed = 0

    def append(self, partition: int, key: bytes, value: bytes, record_time_ms: int) -> None:
        assert record_time_ms * NANOS_PER_MS <= self._wall.ns
        super().append(partition, key, value, record_time_ms)

    def flush(self) -> None:
        self.flushed = len(self.records)


class _PushEverything:
    """Pushes every transaction that the store has, over and over."""

    def __init__(self, simulation: Simulation) -> None:
        self._simulation = simulation

    def read(self) -> Sequence[Push]:
        present = Timestamp(self._simulation.present.ns)
        return [
            Push(range_id, (PushedTxn(txn.id, txn.anchor_key),), present)
            for txn in list(self._simulation.store.txns.values())
            for range_id in txn.intents
        ]


class _Late:
    """Asks when everything is drained, and ends the store a while later."""

    def __init__(self, simulation: Simulation, scan: Scan, end: Event) -> None:
        self._simulation = simulation
        self._scan = scan
        self._end = end
        self._asked_ns = 0

    def read(self) -> Sequence[Scan]:
        now = self._simulation.present.ns
        if not self._simulation.drained:
            return ()
        if not self._asked_ns:
            self._asked_ns = now
            return (self._scan,)
        if now > self._asked_ns + 2 * NANOS_PER_SECOND:
            self._end.set()
        return ()


class _Silent:
    """Nobody asks for anything."""

    def read(self) -> Sequence[Request]:
        return ()


def _simulation(sink: ListSink, mix: OutcomeMix | None = None) -> Simulation:
    workload = RandomTransactions(RandomOptions(outcomes=mix or OutcomeMix()), seed=1)
    return Simulation(workload, sink, History(), _OPTIONS, seed=1, base_ns=BASE_NS)


def _run(
    simulation: Simulation,
    sink: ListSink,
    wall: _Wall,
    seconds: float | None = 2.0,
    *,
    requests: RequestSource | None = None,
    stop: Event | None = None,
    end: Event | None = None,
) -> tuple[SimProgress, list[SimProgress]]:
    seen: list[SimProgress] = []
    run = RealTimeRun(simulation, sink, requests or _Silent(), wall_ns=wall.now, sleep=wall.sleep)
    return run.run(stop or Event(), seconds, seen.append, end), seen


def test_a_run_ends_with_everything_closed_and_flushed() -> None:
    wall = _Wall()
    sink = _WatchedSink(wall)
    simulation = _simulation(sink)
    progress, _ = _run(simulation, sink, wall)
    assert progress.drained
    assert simulation.store.ranges.closed.floor() >= simulation.store.ranges.high
    assert sink.flushed == progress.records == len(sink.records)


def test_the_rate_is_kept() -> None:
    wall = _Wall()
    sink = _WatchedSink(wall)
    progress, _ = _run(_simulation(sink), sink, wall, seconds=10.0)
    assert progress.put_off_s == 0
    # A transaction that writes a key twice makes one version of it.
    assert progress.versions == pytest.approx(10 * 300, rel=0.15)


def test_progress_comes_every_second_and_at_the_end() -> None:
    wall = _Wall()
    sink = _WatchedSink(wall)
    last, seen = _run(_simulation(sink), sink, wall, seconds=3.0)
    assert [round(progress.seconds) for progress in seen[:3]] == [1, 2, 3]
    assert seen[-1] is last
    assert [progress.drained for progress in seen[:-1]] == [False] * (len(seen) - 1)


def test_it_writes_what_simulated_time_writes() -> None:
    wall = _Wall()
    sink, expected = _WatchedSink(wall), ListSink()
    _run(_simulation(sink), sink, wall, seconds=1.0)
    simulated = _simulation(expected)
    simulated.advance_to(BASE_NS + NANOS_PER_SECOND)
    assert sink.records[: len(expected.records)] == expected.records


def test_a_machine_that_was_away_puts_transactions_off() -> None:
    wall = _Wall(stalls=[4_000, 0])
    sink = _WatchedSink(wall)
    progress, _ = _run(_simulation(sink), sink, wall, seconds=8.0)
    assert progress.put_off_s == pytest.approx(3.5, abs=0.1)
    assert progress.versions == pytest.approx(4.5 * 300, rel=0.15)


def test_it_stops_when_told_to() -> None:
    wall = _Wall()
    sink = _WatchedSink(wall)
    stop = Event()
    stop.set()
    progress, _ = _run(_simulation(sink), sink, wall, seconds=None, stop=stop)
    assert progress.drained
    assert progress.seconds < 2


@pytest.mark.long
def test_pushes_are_answered_in_the_log() -> None:
    wall = _Wall()
    sink = _WatchedSink(wall)
    simulation = _simulation(sink, OutcomeMix(abandon=0.5))
    progress, _ = _run(simulation, sink, wall, requests=_PushEverything(simulation))
    entries = [decode_entry(record.key, record.value) for record in sink.records]
    ops = [op for entry in entries if isinstance(entry, Command) for op in entry.ops or ()]
    assert progress.pushes > 0
    assert progress.abandoned > 0
    assert any(isinstance(op, AbortTxn) for op in ops)


class _Once:
    """Gives these requests at the first look."""

    def __init__(self, *requests: Request) -> None:
        self._requests = list(requests)

    def read(self) -> Sequence[Request]:
        requests, self._requests = self._requests, []
        return requests


def test_operators_can_ask_for_splits_and_merges() -> None:
    wall, sink = _Wall(), ListSink()
    simulation = _simulation(sink)
    simulation.run(50)
    wall.ns = simulation.present.ns
    first = next(iter(simulation.store.ranges))
    key = first.split_keys()[0]
    asked = (
        AdminSplit(first.id, key),
        AdminSplit(RangeId(2)),
        AdminMerge(first.id),
        AdminSplit(RangeId(99), key),
        AdminSplit(first.id, b"elsewhere"),
        AdminMerge(RangeId(99)),
    )
    progress, _ = _run(simulation, sink, wall, requests=_Once(*asked))
    entries = [decode_entry(record.key, record.value) for record in sink.records]
    triggers = [
        entry for entry in entries if isinstance(entry, Command) and entry.trigger is not Trigger.NONE
    ]
    assert [(entry.range_id, entry.trigger) for entry in triggers] == [
        (first.id, Trigger.SPLIT),
        (2, Trigger.SPLIT),
        (first.id, Trigger.MERGE),
    ]
    assert progress.pushes == 0
    assert progress.drained


def test_scans_are_answered_in_the_log() -> None:
    wall = _Wall()
    sink = _WatchedSink(wall)
    simulation = _simulation(sink)
    span = next(iter(simulation.store.ranges)).span
    scan = Scan(RangeId(1), 5, span, None, Timestamp(BASE_NS), all_versions=True, with_prev=False)
    _run(simulation, sink, wall, requests=_Once(scan))
    entries = [decode_entry(record.key, record.value) for record in sink.records]
    assert [entry.request_id for entry in entries if isinstance(entry, ScanChunk)] == [5]


def test_a_drained_store_answers_until_its_end() -> None:
    wall = _Wall()
    sink = _WatchedSink(wall)
    simulation = _simulation(sink)
    span = next(iter(simulation.store.ranges)).span
    scan = Scan(RangeId(1), 5, span, None, Timestamp(BASE_NS), all_versions=True, with_prev=False)
    end = Event()
    late = _Late(simulation, scan, end)
    progress, _ = _run(simulation, sink, wall, requests=late, end=end)
    entries = [decode_entry(record.key, record.value) for record in sink.records]
    assert [entry.request_id for entry in entries if isinstance(entry, ScanChunk)] == [5]
    closed = max(entry.closed.wall for entry in entries if isinstance(entry, Heartbeat))
    assert closed > simulation.store.ranges.high.wall + NANOS_PER_SECOND
    assert progress.drained
    assert sink.flushed == len(sink.records)


def test_progress_has_each_moment_once() -> None:
    wall = _Wall()
    sink = _WatchedSink(wall)
    simulation = _simulation(sink, OutcomeMix(abandon=0.05))
    last, seen = _run(simulation, sink, wall, seconds=3.0, requests=_PushEverything(simulation))
    moments = [moment for progress in seen for moment in progress.moments]
    abandoned = [moment.txn for moment in moments if moment.kind is MomentKind.ABANDONED]
    ended = [moment.txn for moment in moments if moment.kind is MomentKind.ENDED]
    assert len(set(abandoned)) == len(abandoned) == last.abandoned
    assert sorted(ended) == sorted(abandoned)
    assert {moment.ended_by for moment in moments if moment.ended_by} <= {EndedBy.PUSH, EndedBy.WRITE}
