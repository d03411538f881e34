"""A store whose ranges split, merge and break, and partition processors that follow it, die and lag.

Feeds come and go meanwhile: from the present, from the past, with an initial scan; their sinks may stand
still. Everything is a function of the seed: what the store does, which partition reads how far, when claims,
hand-offs and messages about feeds arrive, when requests are answered or lost, when rows are acknowledged,
when a processor begins anew from what it committed. The output is checked against the true history at every
step.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Final

from sim.options import StoreOptions
from sim.plan import Workload
from sim.workloads.bank import Bank, BankOptions
from sim.workloads.random import RandomOptions, RandomTransactions
from tests.driven_sim import DrivenSim
from tests.logs import EVENTFUL_MIX, Record
from tests.simulation.alterations import Altered
from tests.simulation.feed_course import FeedCourse, FeedPlan, draw_feeds
from tests.simulation.feed_judge import BrokenPromise
from tests.simulation.odd_logs import (
    FarVersions,
    HastyRange,
    WrongTimes,
    crashed,
    is_upkeep,
    undated,
    with_rows_in_triggers,
    without_end,
)
from tests.simulation.record_sizes import (
    BYSTANDER,
    bystanders,
    require_no_old_promises,
    require_small,
)
from tests.simulation.standing_sinks import REFUSED, Window
from tidegate.changefeed.definition.feed import FeedId
from tidegate.changefeed.definition.options import InitialScan
from tidegate.errors import FeedError
from tidegate.hlc import ZERO, Timestamp
from tidegate.processor.batch import (
    ControlRecord,
    ExchangeRecord,
    OutputRecord,
    PartitionCheckpoint,
    StateTable,
    StepResult,
)
from tidegate.processor.bounds import RecordBounds
from tidegate.processor.config import ProcessorConfig
from tidegate.processor.feeds.descriptor_room import DescriptorLimits
from tidegate.processor.processor import PartitionProcessor
from tidegate.processor.push_policy import PushPolicy
from tidegate.processor.status import QuarantinedRange
from tidegate.processor.step_size import RowLimits
from tidegate.raftlog.decode import decode_entry
from tidegate.raftlog.encode import encode_entry, partition_of
from tidegate.raftlog.entry import Command, Offset, RangeId, ScanChunk, Snapshot, Trigger
from tidegate.raftlog.request import Push, RangeRequest, Scan
from tidegate.ranges.handoff import receiver_of

_CONFIG: Final = ProcessorConfig(PushPolicy(age_ms=500, repeat_ms=300))
_TELL_ALL: Final = 0.05
_TRANSACTIONS: Final = 10_000  # more than any run has
#: The share of the schema changes that rename a table.
_RENAMES: Final = 0.3
#: Looks for unneeded versions of tables at each new one.
_EAGER: Final = DescriptorLimits(kept_bytes=0, look_bytes=0, grows=0)
_FENCE: Final = 0.05  # per turn, of a feed that has ended
_DRAIN_ROUNDS: Final = 400
_HIDDEN: Final = 0.5
_UNREADABLE: Final = b"\xff\xff"
_HEARS_LATE: Final = 0.1
_SILENT: Final = 0.5
_UNFIT: Final = "no schema fits"
_LEAP_MS: Final = 31_000  # what is missing for so long is asked for again
_PAUSE_MS: Final = 1_000_000
_LAST_MS: Final = 5_000  # what began before a pause comes to its end
#: The feed that is there from the beginning on.
_FIRST: Final = FeedPlan(0, None, InitialScan.NO, None, previous=False, first_table=True)


@dataclass(frozen=True, slots=True)
class Troubles:
    """The probability of each trouble at each turn; ``feeds`` come besides the one that is there from the
    start.

    ``spoil_chunk``: a chunk of a scan's answer has a row that it must not have. ``collect_ms``: the store
    removes versions that were replaced so long ago; 0 means never. ``stand_still``: a sink stands still; 0
    also means that results are committed at once. ``mutate``: data changes outside the op log; half of the
    commands that say so cannot be read. ``old_source``: snapshots do not tell of such changes, and all
    commands can be read. ``unfit``: rows of a feed cannot be written in a partition: it fails there, and a
    while later ends. ``endings``: so many feeds are there from the beginning too, and end; one partition
    hears of that late. ``refuse``: a sink refuses a row of those that it has. ``bystanders``: feeds of a
    table that no range has. ``record_bytes``: the largest size of a committed record. ``wrong_time``: a few
    records of a partition get wrong record times. ``pause``: no transaction starts for longer than anything
    is waited for, and half of the times nothing at all is written. ``lose_end``: a RangeEnd does not arrive.
    ``hasty``: in each partition a range that no feed watches writes a burst, and its node's clock is an hour
    ahead. ``alter``: the share of the transactions with a schema change just before them; in half of the
    seeds, partitions then forget unneeded versions of tables at each new one. ``far``: the share of the
    commands that have one more version, two days ahead. ``undated``: the share of the Snapshots that list an
    intent without a timestamp. ``crash``: the share of the Snapshots in the middle of which the source
    crashes; it begins them again. ``ahead_ms``: ranges close so far ahead of their clocks. ``is_sound``:
    nothing is wrong, and no incident may be reported.
    """

    split: float = 0.1
    merge: float = 0.06
    corrupt: float = 0.03
    restart: float = 0.05
    lose_request: float = 0.1
    repeat_request: float = 0.05
    lose_chunk: float = 0.0
    spoil_chunk: float = 0.0
    leap: float = 0.0
    stand_still: float = 0.0
    build_index: float = 0.0
    mutate: float = 0.0
    old_source: bool = False
    refuse: float = 0.0
    wrong_time: float = 0.0
    pause: float = 0.0
    lose_end: float = 0.0
    hasty: float = 0.0
    unfit: float = 0.0
    alter: float = 0.0
    far: float = 0.0
    undated: float = 0.0
    crash: float = 0.0
    ahead_ms: int = 0
    is_sound: bool = False
    endings: int = 0
    record_bytes: int = 1_000_000
    bystanders: int = 0
    feeds: int = 0
    collect_ms: int = 0
    partitions: int = 3


class MovingRanges:
    """One run."""

    def __init__(self, seed: int, troubles: Troubles | None = None) -> None:
        self.seed = seed
        self.rng = Random(seed)
        self.troubles = troubles or Troubles()
        self.bounds = RecordBounds(self.troubles.record_bytes)
        #: Of half of the seeds most steps end amid what they are given.
        self.step_bytes = Random(f"{seed}:steps").choice((300, 1_500, 64 << 20, 64 << 20))
        count = self.troubles.partitions
        alterations = Random(f"{seed}:alterations")
        before = {number for number in range(_TRANSACTIONS) if alterations.random() < self.troubles.alter}
        self.forgets = self.troubles.alter > 0 and alterations.random() < 0.8
        self.sim = DrivenSim(
            Altered(self._workload(), before, seed, renames=_RENAMES), self._store(), seed=seed
        )
        self.versions = list(self.sim.tables)
        self.logs: list[list[Record]] = [[] for _ in range(count)]
        self.exchanges: list[list[ExchangeRecord]] = [[] for _ in range(count)]
        self.requests: list[RangeRequest] = []
        #: Rows that producers of processes have that are gone, by partition and feed.
        self.late: list[tuple[int, FeedId, list[OutputRecord]]] = []
        self.feeds: dict[FeedId, FeedCourse] = {}
        self._control: list[ControlRecord] = []
        self._told: dict[FeedId, int] = defaultdict(int)
        times = Random(f"{seed}:times")
        self._times = [WrongTimes(times, self.troubles.wrong_time) for _ in range(count)]
        self._far = FarVersions(times, self.troubles.far)
        self._hasty = [HastyRange(times, number, count) for number in range(count)]
        self.partitions = [Partition(self, number) for number in range(count)]
        for _ in range(1 + self.troubles.endings):
            self._create(_FIRST)
        for _ in range(2):  # it is registered everywhere, then active everywhere, before anything happens
            for partition in self.partitions:
                partition.control(10)
                partition.settle()
        for message in bystanders(self.troubles.bystanders):
            self._control.append(ControlRecord(Offset(len(self._control)), message))
        for partition in self.partitions:
            partition.control(self.troubles.bystanders)

    def _workload(self) -> Workload:
        if not self.troubles.feeds or self.rng.random() < 0.5:
            return Bank(BankOptions(accounts=30, ranges=4, outcomes=EVENTFUL_MIX), self.seed)
        rng = self.rng
        options = RandomOptions(
            rng.randint(1, 2), rng.randint(1, 4), rng.randint(5, 30), outcomes=EVENTFUL_MIX
        )
        return RandomTransactions(options, self.seed)

    def _store(self) -> StoreOptions:
        return StoreOptions(
            partitions=self.troubles.partitions,
            # transactions that are not committed have to be resolved at times
            closed_lag_ms=-self.troubles.ahead_ms or (20 if self.troubles.stand_still else 100),
            heartbeat_ms=5_000 if self.troubles.pause else 100,
            write_rate=400.0,
            snapshot_interval_ms=10_000 if self.troubles.pause else 700,
            scan_chunk_rows=3,
            scan_gap_ms=self.rng.choice([0, 30]),
            txn_expiry_ms=300,
            rejected_fraction=0.05,
            zombie_fraction=0.1,
            gc_ttl_ms=self.troubles.collect_ms,
        )

    def run(self, turns: int) -> None:
        """Let things happen, then let everything end. Raises ``BrokenPromise`` when a promise is broken."""
        plans = draw_feeds(self.rng, self.troubles.feeds, turns)
        for feed in list(self.feeds.values())[1 : 1 + self.troubles.endings]:
            feed.plan = replace(feed.plan, ends=self.rng.randrange(turns))
        for turn in range(turns):
            self._turn(turn, plans)
        self.sim.stop()
        for plan in plans:
            if plan.ends is not None and plan.ends >= turns:
                self.rng.choice(list(self.feeds.values())).end()
        whole = replace(self.troubles, corrupt=0.0, lose_chunk=0.0, spoil_chunk=0.0, lose_end=0.0)
        self.troubles = replace(whole, stand_still=0.0, refuse=0.0, far=0.0, undated=0.0)
        for _ in range(_DRAIN_ROUNDS):
            self._drain()
            if self.complete:
                break
        self._check_complete()

    @property
    def complete(self) -> bool:
        """Whether every feed has come to its own end or to the end of the history."""
        return self.sim.simulation.drained and all(
            feed.ended or (feed.judge is not None and feed.judge.is_complete(self.last))
            for feed in self.feeds.values()
        )

    @property
    def last(self) -> Timestamp:
        """The timestamp of the last thing that happened."""
        return max((version.timestamp.floor() for version in self.sim.history), default=ZERO)

    # ---- what happens

    def _turn(self, turn: int, plans: Sequence[FeedPlan]) -> None:
        rng, troubles = self.rng, self.troubles
        self.sim.advance(rng.randint(1, 60))
        self._chance(troubles.split, lambda: self.sim.split_somewhere(rng))
        self._chance(troubles.merge, lambda: self.sim.merge_somewhere(rng))
        if troubles.build_index:
            self._chance(troubles.build_index, lambda: self.sim.build_index_somewhere(rng))
        self._chance(troubles.leap, self._leap)
        if troubles.pause:
            self._chance(troubles.pause, self._pause)
        if troubles.mutate:
            self._chance(troubles.mutate, lambda: self.sim.mutate_somewhere(rng))
        self._take_log()
        if troubles.hasty:
            self._chance(troubles.hasty, self._hasten)
        for plan in plans:
            if plan.begins == turn:
                self._create(plan)
        self._end_feeds(turn)
        self._post()
        self._listen()
        rng.choice(self.partitions).read(rng.randint(1, 40))
        if rng.random() < 0.5:
            rng.choice(self.partitions).exchange(rng.randint(1, 5))
        self._chance(troubles.restart, rng.choice(self.partitions).restart)
        if troubles.stand_still:
            self._look_at_sinks()
        if self.requests and rng.random() < 0.5:
            self._answer(lose=rng.random() < troubles.lose_request)

    def _end_feeds(self, turn: int) -> None:
        for feed in self.feeds.values():
            if feed.plan.ends == turn:
                feed.end()
            if feed.ended and self.rng.random() < _FENCE:
                feed.fence()

    def _listen(self) -> None:
        """Let a partition take messages about feeds. If feeds are to end in this run, the last partition
        seldom takes any."""
        rng, partition = self.rng, self.rng.choice(self.partitions)
        late = self.troubles.endings and partition is self.partitions[-1]
        if not late or rng.random() < _HEARS_LATE:
            partition.control(rng.randint(1, 4))

    def _chance(self, probability: float, action: Callable[[], object]) -> None:
        if self.rng.random() < probability:
            action()

    def _look_at_sinks(self) -> None:
        rng = self.rng
        if rng.random() < self.troubles.stand_still:
            feed_id = rng.choice(list(self.feeds))
            for partition in self.partitions if rng.random() < 0.5 else [rng.choice(self.partitions)]:
                partition.window.stand_still(feed_id)
        for partition in self.partitions:
            partition.look()
        if self.late and rng.random() < 0.5:
            number, feed_id, rows = self.late.pop(rng.randrange(len(self.late)))
            self.note_rows(number, feed_id, rows[: rng.randint(0, len(rows))])

    def _leap(self) -> None:
        """Let a long time pass in which nothing is written."""
        self.sim.simulation.postpone(self.sim.now_ns + _LEAP_MS * 10**6)
        self.sim.advance(_LEAP_MS)

    def _pause(self) -> None:
        """Let a long time pass in which no transaction starts. In half of the cases no record arrives at
        all."""
        begins_ms = self.sim.now_ns // 10**6 + _LAST_MS
        self.sim.simulation.postpone(self.sim.now_ns + _PAUSE_MS * 10**6)
        self.sim.advance(_PAUSE_MS)
        self._take_log(silent_since_ms=begins_ms if self.rng.random() < _SILENT else None)

    def _hasten(self) -> None:
        """Let a node whose clock is ahead write."""
        for log, hasty in zip(self.logs, self._hasty, strict=True):
            log.extend(
                record._replace(offset=len(log) + number)
                for number, record in enumerate(hasty.records(self.sim.now_ns // 10**6))
            )

    def _drain(self) -> None:
        self.sim.advance(100)
        for feed in self.feeds.values():
            if feed.ended:
                feed.fence()
        self._post()
        if self.requests and self.sim.now_ns % 3 == 0:
            self.sim.advance(30_000)  # so that what was lost is asked for again
        self._take_log()
        while self.requests:
            self._answer(lose=False)
        for partition in self.partitions:
            partition.settle()
            partition.control(100)
            partition.read(10_000)
            partition.exchange(10_000)

    def _answer(self, *, lose: bool) -> None:
        at = self.rng.randrange(len(self.requests))
        request = self.requests[at]
        again = isinstance(request, Scan) and self.rng.random() < self.troubles.repeat_request
        if not again:
            del self.requests[at]
        if not lose:
            self.sim.request(request)

    def _take_log(self, silent_since_ms: int | None = None) -> None:
        if self.troubles.alter:
            self.versions += self.sim.tables[len(self.versions) :]
        for log, times, new in zip(self.logs, self._times, self.sim.records(), strict=True):
            for record in with_rows_in_triggers(new) if self.troubles.far else new:
                if silent_since_ms is None or record.timestamp < silent_since_ms or not is_upkeep(record):
                    for arriving in self._written(record):
                        if self.troubles.wrong_time:
                            arriving = times.stamped(arriving)
                        log.append(arriving._replace(offset=len(log)))

    def _written(self, record: Record) -> list[Record]:
        """Return the records that the source writes instead of a record, as they arrive."""
        crash = self.troubles.crash
        if crash and self.rng.random() < crash:
            return crashed(record, self.rng)
        return [self._arriving(record)]

    def _arriving(self, record: Record) -> Record:
        """Return what becomes of a record on its way."""
        rng, troubles = self.rng, self.troubles
        if troubles.old_source and (_mutates(record) or _is_snapshot(record)):
            return _untold(record)
        if troubles.far:
            record = self._far.arriving(record)
        if troubles.undated and rng.random() < troubles.undated:
            return undated(record)
        if rng.random() < troubles.corrupt / 3 and not self._is_descriptor(record):
            return record._replace(value=_UNREADABLE)
        if rng.random() < troubles.lose_chunk:
            return _without_chunk(record)
        if troubles.lose_end and rng.random() < troubles.lose_end:
            return without_end(record)
        if troubles.spoil_chunk and rng.random() < troubles.spoil_chunk:
            return _with_stray_row(record)
        if troubles.mutate and _mutates(record) and rng.random() < _HIDDEN:
            return record._replace(value=_UNREADABLE)
        return record

    def _is_descriptor(self, record: Record) -> bool:
        return record.key == bytes(8)

    # ---- feeds

    def _create(self, plan: FeedPlan) -> None:
        count = len(self.partitions)
        feed = FeedCourse(plan, len(self.feeds), self.versions, count, self.sim.mutations)
        self.feeds[feed.id] = feed
        feed.create(list(self.sim.history), Timestamp(self.sim.now_ns))
        self._post()

    def _post(self) -> None:
        """Write the messages about feeds that are due to the control topic."""
        for feed in self.feeds.values():
            for message in feed.messages[self._told[feed.id] :]:
                self._control.append(ControlRecord(Offset(len(self._control)), message))
            self._told[feed.id] = len(feed.messages)

    def control_from(self, offset: Offset, count: int) -> Sequence[ControlRecord]:
        """The next messages of the control topic."""
        return self._control[offset : offset + count]

    # ---- what comes of it

    def note(self, number: int, result: StepResult) -> None:
        """Take a result that is durable; its rows were acknowledged before."""
        if self.troubles.is_sound and result.incidents:
            raise BrokenPromise(f"the source broke no rule: {result.incidents[0].cause}")
        require_small(result, self.bounds)
        require_no_old_promises(self.partitions[number].processor)
        for message in result.exchanges:
            to = partition_of(receiver_of(message), len(self.partitions))
            queue = self.exchanges[to]
            queue.append(ExchangeRecord(Offset(len(queue)), message))
        self.requests += result.requests
        now_ms = self.sim.now_ns // 10**6
        for request in result.requests:
            if isinstance(request, Push) and request.push_to.wall_ms > now_ms:
                raise BrokenPromise(f"a push to {request.push_to}, and it is {self.sim.now_ns} now")
        if result.checkpoint is not None:
            self.note_checkpoint(number, result.checkpoint)
        for ack in result.acks:
            if ack.feed_id.startswith(BYSTANDER):
                continue
            self.feeds[ack.feed_id].note_ack(ack)
            if self.feeds[ack.feed_id].failed:
                self._require_reason(self.feeds[ack.feed_id])
        self._post()

    def note_rows(self, number: int, feed_id: FeedId, records: Sequence[OutputRecord]) -> None:
        """Take rows that are written, whether or not anything else of their batch is ever stored.

        Rows that come after the feed's end, from a sink that stood still, are not judged.
        """
        feed = self.feeds[feed_id]
        for record in records if not feed.is_removed(number) else ():
            feed.judge_of(number).see(record, self.sim.history)

    def note_checkpoint(self, number: int, checkpoint: PartitionCheckpoint) -> None:
        """Take a checkpoint. It counts for the feeds that it names, unless their frontiers are fenced.

        The frontiers of feeds that have failed or were dropped may go on until they are fenced, whatever some
        partitions know.
        """
        for active in checkpoint.feeds:
            if active.feed_id.startswith(BYSTANDER):
                continue
            feed = self.feeds[active.feed_id]
            judge = feed.judge_of(number)
            if feed.fenced:
                continue
            for item in checkpoint.ranges:
                if judge.watches(item.span):
                    judge.check(item, self.sim.history)

    def _require_reason(self, feed: FeedCourse) -> None:
        """Require that a failed feed had a reason: the store has removed or changed something that the feed
        still needs, or a row was refused.
        """
        if feed.failed in (REFUSED, _UNFIT):
            return
        if "outside its op log" not in feed.failed:
            self._require_overtaken(feed)
            return
        judge = feed.judge
        watched = [each for each in self.sim.mutations if judge is not None and judge.watches(each.span)]
        if judge is not None and "missing" in feed.failed:  # by a time alone, which its start may be above
            watched = [each for each in watched if each.time > judge.start]
        if not watched:
            raise BrokenPromise(f"{feed.id} failed, and nothing that it watches was changed: {feed.failed}")

    def _require_overtaken(self, feed: FeedCourse) -> None:
        threshold = max((range_.gc_threshold for range_ in self.sim.ranges), default=ZERO)
        start = ZERO if feed.judge is None else feed.judge.start
        if "GC threshold" not in feed.failed or threshold <= start:
            raise BrokenPromise(f"{feed.id} from {start} failed, the threshold is {threshold}: {feed.failed}")

    def _check_complete(self) -> None:
        for feed in self.feeds.values():
            if feed.ended:
                continue
            if feed.judge is None:
                raise BrokenPromise(f"{feed.id} was never begun: {self._waiting()}")
            if not feed.judge.is_complete(self.last):
                lowest = feed.judge.frontier.lowest_entry
                raise BrokenPromise(f"the frontier of {feed.id} stays at {lowest}: {self._waiting()}")
            feed.judge.require_nothing_missing(self.sim.history)

    def _waiting(self) -> list[object]:
        status = [partition.processor.status() for partition in self.partitions]
        return [(item.parked, item.quarantined, item.slowest[:2]) for item in status]


class Partition:
    """The processor of a partition, its results that are committed and those that are not, and its position
    in the logs."""

    def __init__(self, run: MovingRanges, number: int) -> None:
        self._run = run
        self._number = number
        self._state: dict[tuple[StateTable, bytes], bytes] = {}
        self._parked: dict[RangeId, QuarantinedRange | None] = {}
        self._config = replace(
            _CONFIG,
            detachable=run.troubles.stand_still > 0,
            bounds=run.bounds,
            rows=RowLimits(run.step_bytes),
            descriptors=_EAGER if run.forgets else DescriptorLimits(),
        )
        self.processor = PartitionProcessor(number, run.troubles.partitions, self._config)
        self.window = self._window()

    def control(self, count: int) -> None:
        """Take up messages about feeds."""
        records = self._run.control_from(self.processor.next_control_offset, count)
        if records and self.window.has_room:
            self._add(self.processor.control(records))
            self._go_on()

    def read(self, count: int) -> None:
        """Step the next records, in batches of any size, unless a feed waits for its start."""
        log = self._run.logs[self._number]
        start = int(self.processor.next_offset or 0)
        for first in range(start, min(start + count, len(log)), 7):
            if self.processor.held or not self.window.has_room:
                return
            if first > int(self.processor.next_offset or 0):
                return  # records that a step has left of the batch before come first
            rest = log[first : min(first + 7, start + count)]
            while rest and self.window.has_room:
                result = self.processor.step_some(rest, rest[-1].offset + 1)
                rest = rest[result.taken :]
                if self._run.troubles.unfit:
                    self._refuse_rows(result)
                self._add(result)
            self._go_on()

    def _refuse_rows(self, result: StepResult) -> None:
        """Let the rows of a feed be refused at times, as when a registry refuses their schema."""
        rng = self._run.rng
        emitted = [feed_id for feed_id, rows in result.outputs.items() if rows]
        if emitted and rng.random() < self._run.troubles.unfit:
            feed_id = rng.choice(emitted)
            if self.processor.is_active(feed_id):
                self.processor.refuse(feed_id, FeedError(_UNFIT), result)

    def exchange(self, count: int) -> None:
        """Take up messages of other partitions."""
        start = int(self.processor.next_hand_off)
        records: Sequence[ExchangeRecord] = self._run.exchanges[self._number][start : start + count]
        if records and self.window.has_room:
            self._add(self.processor.exchange(records))
            self._go_on()

    def look(self) -> None:
        """Let the window look at its sinks; at times have the processor report all ranges."""
        self.window.look()
        if self._run.rng.random() < _TELL_ALL:
            self._add(StepResult(None, checkpoint=self.processor.full_checkpoint()))
        self._go_on()

    def settle(self) -> None:
        """Let all sinks take what they have, and commit everything."""
        self.window.wake_all()
        self.window.settle()
        self._go_on()

    def restart(self) -> None:
        """Begin anew with what was committed, after rows that were written although they were not
        committed."""
        if not self.processor.held:
            log = self._run.logs[self._number]
            start = int(self.processor.next_offset or 0)
            self.window.add(self.processor.step_some(log[start : start + 5]))
        late = [(self._number, feed_id, records) for feed_id, records in self.window.die() if records]
        if self._run.troubles.stand_still:
            self._run.late += late
        rows = ((table, key, value) for (table, key), value in self._state.items())
        count = self._run.troubles.partitions
        self._parked = {}
        self.processor = PartitionProcessor.restore(self._number, count, self._config, rows)
        self.window = self._window(self.window.standing)
        self._run.note_checkpoint(self._number, self.processor.full_checkpoint())

    def _window(self, standing: Sequence[FeedId] = ()) -> Window:
        return Window(
            self.processor,
            self._run.rng,
            lambda feed_id, rows: self._run.note_rows(self._number, feed_id, rows),
            self._commit,
            standing,
            self._run.troubles.refuse,
        )

    def _go_on(self) -> None:
        while self.processor.ready and self.window.has_room:
            self._add(self.processor.step_some(()))

    def _add(self, result: StepResult) -> None:
        for feed_id, rows in result.outputs.items():
            if rows:
                self._run.feeds[feed_id].judge_of(self._number)
        if self._run.troubles.pause or self._run.troubles.wrong_time:
            self._require_kept()
        self.window.add(result)
        self.window.acknowledge()
        if not self._run.troubles.stand_still:
            self.window.commit()

    def _require_kept(self) -> None:
        """Require that no waiting range is thrown away while the source still writes it."""
        status = self.processor.status()
        holes = {item.range_id: item for item in status.quarantined}
        parked = {item.range_id: holes.get(item.range_id) for item in status.parked}
        if not self.processor.ready:
            alive = {range_.id for range_ in self._run.sim.ranges}
            for range_id in alive & self._parked.keys() & holes.keys() - parked.keys():
                if holes[range_id] == self._parked[range_id] or "silent" in holes[range_id].cause:
                    raise BrokenPromise(f"range {range_id} was left while it waited, and is alive")
        self._parked = parked

    def _commit(self, result: StepResult) -> None:
        for table, key, value in result.changes:
            if value is None:
                self._state.pop((table, key), None)
            else:
                self._state[table, key] = value
        self._run.note(self._number, result)


def _with_stray_row(record: Record) -> Record:
    """Return the record. If it is a chunk of a scan, its last row gets a key after the chunk's span."""
    entry = decode_entry(record.key, record.value)
    if not isinstance(entry, ScanChunk) or not entry.rows:
        return record
    *rows, last = entry.rows
    stray = last._replace(key=entry.span.end)
    return record._replace(value=encode_entry(entry._replace(rows=(*rows, stray))))


def _mutates(record: Record) -> bool:
    entry = decode_entry(record.key, record.value)
    return isinstance(entry, Command) and entry.trigger in (Trigger.ADD_SSTABLE, Trigger.HISTORY_MUTATION)


def _is_snapshot(record: Record) -> bool:
    return isinstance(decode_entry(record.key, record.value), Snapshot)


def _untold(record: Record) -> Record:
    """Return the record as a source writes it that knows nothing of ``last_mutation``."""
    entry = decode_entry(record.key, record.value)
    if not isinstance(entry, Snapshot):
        return record
    return record._replace(value=encode_entry(entry._replace(last_mutation=None)))


def _without_chunk(record: Record) -> Record:
    """Return the record. If it is a chunk of a scan, it becomes a record that answers nothing."""
    entry = decode_entry(record.key, record.value)
    if not isinstance(entry, ScanChunk):
        return record
    return record._replace(value=encode_entry(entry._replace(request_id=0)))
