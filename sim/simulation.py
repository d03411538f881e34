"""The simulation: a workload on a store, in simulated time.

``Simulation`` reads no clock. A test lets simulated time run as fast as it can (``run``, ``finish``); the
real-time driver moves it up to the present again and again (``advance_to``). Both do the same things at the
same simulated times. So the bytes of the log depend only on the seed, the options, the base time and the
requests that are answered.
"""

from __future__ import annotations

from functools import partial
from random import Random
from typing import Final

from sim.clock import Present
from sim.log.history import HistoryLog
from sim.log.log_writer import LogWriter
from sim.log.sink import LogSink
from sim.options import StoreOptions
from sim.plan import Alteration, TransactionPlan, Workload
from sim.schedule import NEVER_NS, Action, Schedule
from sim.shipping import DelayedSink
from sim.store.coordinator import Coordinator, Surroundings
from sim.store.push import answer_push
from sim.store.range import Range
from sim.store.scan import RunningScan
from sim.store.store import RangeStore
from sim.store.upkeep import Upkeep
from tidegate.errors import SettingsError
from tidegate.hlc import NANOS_PER_MS, NANOS_PER_SECOND, Timestamp
from tidegate.raftlog.entry import RangeId, SnapshotReason
from tidegate.raftlog.request import AdminRequest, AdminSplit, Push, RangeRequest, Scan

_DRAIN_CHECK_NS: Final = 10 * NANOS_PER_MS


class Simulation:
    """Runs a workload. At ``base_ns`` the log gets all descriptors, and a snapshot of every range.

    ``history`` takes every version that is committed, ``skipped`` those that are left out of the log on
    purpose.
    """

    def __init__(
        self,
        workload: Workload,
        sink: LogSink,
        history: HistoryLog,
        options: StoreOptions,
        *,
        seed: int,
        base_ns: int,
        skipped: HistoryLog | None = None,
    ) -> None:
        if base_ns <= (options.closed_lag_ms + options.max_offset_ms) * NANOS_PER_MS:
            raise SettingsError(f"base_ns is {base_ns}: closed timestamps would fall below zero")
        self.options = options
        self.present = Present(base_ns)
        self._schedule = Schedule()
        self._shipping = self._delayed(sink, Random(f"shipping {seed}")) if options.ship_delay_ms else None
        self.log = LogWriter(self._shipping or sink, options.partitions)
        # Descriptors are older than any reading of the slowest clock, so that they govern every row.
        modified = Timestamp(base_ns - options.max_offset_ms * NANOS_PER_MS - 1)
        rng = Random(seed)
        tables = workload.tables(modified)
        self.store = RangeStore(options, tables, self.present, rng, self.log, history, skipped)
        self.drained = False
        self.started = 0
        self._plans = workload.plans()
        self._scan_rng = Random(f"scans {seed}")  # so that scans change no other random choice
        self._around = Surroundings(self.store, options, rng, self._after)
        self._next_plan: TransactionPlan | None = next(self._plans, None)
        self._next_start_ns = base_ns
        self._alone: Coordinator | None = None
        self._upkeep = Upkeep(self.store, options, Random(f"upkeep {seed}"), self.split, self._after)
        self._open_log()

    @property
    def exhausted(self) -> bool:
        """Whether the workload has no more transactions, or was told to stop."""
        return self._next_plan is None

    def run(self, transactions: int) -> None:
        """Start so many transactions (fewer if the workload ends), and do everything that is due
        meanwhile.
        """
        target = self.started + transactions
        while self.started < target and not self.exhausted:
            self._do_next(NEVER_NS)

    def advance_to(self, ns: int) -> None:
        """Do everything that is due up to ``ns``, each thing at its time, and make ``ns`` the present."""
        while self._do_next(ns):
            pass
        self.present.move_to(ns)

    def postpone(self, ns: int) -> int:
        """Start no transaction before ``ns``. Returns by how many nanoseconds the next one was postponed."""
        by = 0 if self.exhausted else max(0, ns - self._next_start_ns)
        self._next_start_ns += by
        return by

    def sleep(self, ns: int) -> None:
        """Let ``ns`` nanoseconds pass in which nothing happens, as in a paused process.

        Everything that is due comes later by ``ns``.
        """
        self._schedule.postpone(ns)
        self._next_start_ns += ns
        self.present.move_to(self.present.ns + ns)

    def answer(self, request: RangeRequest | AdminRequest) -> bool:
        """Answer a request of any kind. Returns false when it cannot be answered, or cannot be done."""
        if isinstance(request, Push):
            return self.push(request)
        if isinstance(request, Scan):
            return self.scan(request)
        try:
            if isinstance(request, AdminSplit):
                self.split(request.range_id, request.key or self._middle_key(request.range_id))
            else:
                self.merge(request.range_id)
        except (KeyError, ValueError):
            return False
        return True

    def _middle_key(self, range_id: RangeId) -> bytes:
        """Return where to split a range if the request names no key; the start of a range without a middle.

        A range cannot be split at its start, so such a request is refused.
        """
        range_ = self.store.ranges[range_id]
        return range_.middle_key() or range_.span.start

    def push(self, push: Push) -> bool:
        """Answer a push request now. Returns false when it cannot be answered (see ``answer_push``)."""
        return answer_push(self.store, push)

    def scan(self, scan: Scan) -> bool:
        """Answer a scan request: begin now, go on as time passes. Returns false for an unknown range."""
        if self.store.ranges.get(scan.range_id) is None:
            return False
        self._go_on_with(RunningScan(self.store, self.options, scan, self._scan_rng))
        return True

    def split(self, range_id: RangeId, key: bytes) -> RangeId:
        """Split a range as ``RangeStore.split`` does; returns the id of the new range."""
        right = self.store.split(range_id, key)
        self._beat_later(right)
        return right.id

    def merge(self, left_id: RangeId) -> None:
        """Merge a range with the one to its right as ``RangeStore.merge`` does."""
        self.store.merge(left_id)

    def stop(self) -> None:
        """Start nothing more. As time passes, everything that is open ends. Then ``drained`` becomes true."""
        self._next_plan = None
        self._upkeep.calm()
        self._drain()

    def finish(self) -> None:
        """Stop, and let time run until the simulation is drained."""
        self.stop()
        while not self.drained:
            self.advance_to(self.present.ns + _DRAIN_CHECK_NS)

    def deliver(self) -> None:
        """Write now the records that are still on their way to the log."""
        if self._shipping is not None:
            self._shipping.deliver_all()

    # ---- what happens by itself ----

    def _open_log(self) -> None:
        options = self.options
        self.store.write_descriptors()
        self.store.write_snapshots(SnapshotReason.INITIAL)
        self._repeat(options.descriptor_interval_ms, self.store.write_descriptors)
        if options.snapshot_interval_ms:
            snapshots = partial(self.store.write_snapshots, SnapshotReason.PERIODIC)
            self._repeat(options.snapshot_interval_ms, snapshots)
        ranges = self.store.ranges
        for number, range_ in enumerate(ranges):
            smear_ns = number * options.heartbeat_ms * NANOS_PER_MS // len(ranges)
            self._after(smear_ns, partial(self._beat_later, range_))
        self._upkeep.begin()

    def _beat_later(self, range_: Range) -> None:
        def beat() -> None:
            if not range_.ended:
                range_.heartbeat()
                self._beat_later(range_)

        self._after(self.options.heartbeat_ms * NANOS_PER_MS, beat)

    def _go_on_with(self, scan: RunningScan) -> None:
        wait_ns = scan.step()
        if wait_ns is not None:
            self._after(wait_ns, partial(self._go_on_with, scan))

    def _delayed(self, sink: LogSink, rng: Random) -> DelayedSink:
        return DelayedSink(sink, self.present, self._after, rng, self.options.ship_delay_ms)

    def _repeat(self, interval_ms: int, action: Action) -> None:
        def act() -> None:
            action()
            self._repeat(interval_ms, action)

        self._after(interval_ms * NANOS_PER_MS, act)

    def _after(self, delay_ns: int, action: Action) -> None:
        self._schedule.add(self.present.ns + delay_ns, action)

    def _do_next(self, until_ns: int) -> bool:
        """Do the next thing, if it is due at ``until_ns`` or before. Return whether there was one."""
        due_ns = self._schedule.next_ns
        plan = self._startable()
        if plan is not None and self._next_start_ns <= min(due_ns, until_ns):
            self.present.move_to(self._next_start_ns)
            self._start(plan)
            return True
        if due_ns > until_ns:
            return False
        self.present.move_to(due_ns)
        self._schedule.pop()()
        return True

    def _startable(self) -> TransactionPlan | None:
        plan = self._next_plan
        if plan is None or (self._alone is not None and not self._alone.done):
            return None
        return None if plan.alter is not None and self.store.coordinated() else plan

    def _start(self, plan: TransactionPlan) -> None:
        if plan.alter is not None:
            self._alter(plan.alter)
            return
        coordinator = Coordinator(self._around, plan)
        coordinator.step()
        self._alone = coordinator if plan.alone else None
        self.started += 1
        self._next_start_ns += int(len(plan.writes) * NANOS_PER_SECOND / self.options.write_rate)
        self._next_plan = next(self._plans, None)

    def _alter(self, alteration: Alteration) -> None:
        """Change a schema. Let no transaction start until every clock has passed the time of the change."""
        self.store.alter(alteration)
        self._next_start_ns = self.present.ns + 2 * self.options.max_offset_ms * NANOS_PER_MS
        self._next_plan = next(self._plans, None)

    def _drain(self) -> None:
        """Wait for the coordinators, end the transactions that are open, and wait until all is closed."""
        store = self.store
        if not store.coordinated():
            store.end_all()
            told = not any(range_.log.silent or range_.log.opless for range_ in store.ranges)
            self.drained = told and store.ranges.closed.floor() >= store.ranges.high
        if not self.drained:
            self._after(_DRAIN_CHECK_NS, self._drain)
        else:
            self.deliver()
