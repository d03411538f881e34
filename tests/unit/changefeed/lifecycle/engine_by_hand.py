"""One of the engines that a feed moves between, whose agents and frontiers are stale, slow, or die."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from tests.unit.changefeed.feeds import DEFINITION, FEED, ORDERS, TARGET
from tidegate.changefeed.definition.feed import ENDED, Engine, FeedDefinition, FeedEpoch, FeedState
from tidegate.changefeed.definition.options import InitialScan
from tidegate.changefeed.lifecycle.control import (
    Ack,
    Activate,
    Active,
    KnownTable,
    Register,
    Registered,
    Removed,
)
from tidegate.changefeed.lifecycle.job_records import (
    DefinitionRecord,
    DropRecord,
    JobRecord,
    ProgressRecord,
    StateRecord,
)
from tidegate.changefeed.lifecycle.jobs import FeedView, JobsView
from tidegate.changefeed.lifecycle.registration import (
    Acknowledgements,
    Announce,
    Prepare,
    Step,
    StoreState,
    TakeOver,
    epoch_before,
    leave,
    needs_fence,
    next_step,
    starting_state,
)
from tidegate.changefeed.lifecycle.takeover import takeover
from tidegate.hlc import ResolvedTimestamp, Timestamp

_PARTITIONS = 2
MOVED = FeedEpoch(2)


def view(records: Sequence[JobRecord]) -> FeedView:
    jobs = JobsView()
    for record in records:
        jobs.apply(record.key, record.to_bytes())
    return jobs[FEED]


@dataclass
class World:
    """The durable world: the jobs topic, and who may write as the feed's producer."""

    definition: FeedDefinition
    jobs: list[JobRecord] = field(default_factory=list)
    fence: int = 0
    applied: int = 10
    #: How long the jobs topic was when a partition first forgot the feed because it had ended.
    forgotten_at: int | None = None

    def __post_init__(self) -> None:
        self.jobs.append(DefinitionRecord(self.definition))

    def move(self) -> None:
        """A client moves the feed to the other engine, once it has begun."""
        feed = view(self.jobs)
        defined = feed.defined
        if defined is None or not feed.targets:
            return
        other = Engine.SPARK if defined.engine is Engine.WORKERS else Engine.WORKERS
        moved = replace(defined, epoch=FeedEpoch(defined.epoch + 1), engine=other)
        self.jobs.append(DefinitionRecord(moved))

    def drop(self) -> None:
        """A client drops the feed, once it has begun."""
        if view(self.jobs).targets:
            self.jobs.append(DropRecord(FEED, 1))

    def forget(self, epoch: FeedEpoch) -> None:
        """A partition forgets the feed up to this epoch."""
        feed = view(self.jobs)
        if feed.status in ENDED and epoch == feed.epoch and self.forgotten_at is None:
            self.forgotten_at = len(self.jobs)


@dataclass(repr=False)
class OneEngine:
    """One engine: an agent that decides, partitions that answer, and a frontier that writes progress.

    ``agent`` and ``frontier`` are what is under way, one step each time that somebody goes on with them; both
    may be lost. ``jobs`` is what this engine has read of the jobs topic.
    """

    world: World
    engine: Engine
    seen: int = 0
    jobs: JobsView = field(default_factory=JobsView)
    acks: dict[FeedEpoch, Acknowledgements] = field(default_factory=dict)
    held: FeedEpoch | None = None  # the epoch that the partitions have
    start: Timestamp | None = None  # of the epoch that is active there
    agent: Iterator[None] | None = None
    frontier: Iterator[None] | None = None

    def view(self) -> FeedView:
        return self.jobs[FEED]

    def read_to_end(self) -> None:
        for record in self.world.jobs[self.seen :]:
            self.jobs.apply(record.key, record.to_bytes())
        self.seen = len(self.world.jobs)

    def of(self, epoch: FeedEpoch) -> Acknowledgements:
        return self.acks.setdefault(epoch, Acknowledgements(epoch))

    def look(self) -> None:
        """Go on with the decision that is under way, or begin one."""
        self.agent = self.agent or self.decide()
        if next(self.agent, "done") == "done":
            self.agent = None

    def turn(self, looks: int) -> None:
        """Read what there is, and go on; what the other engine does meanwhile comes too late."""
        for _ in range(looks):
            self.read_to_end()
            self.look()

    def decide(self) -> Iterator[None]:
        feed = self.view()
        definition = feed.definition
        if definition is None:
            return
        former = self.of(epoch_before(definition)).by_partition()
        if not feed.runs_on(self.engine):
            step: Step = leave(feed, former, _PARTITIONS)
        else:
            step = next_step(feed, self.of(definition.epoch).by_partition(), _PARTITIONS, former)
        if needs_fence(feed, step):
            yield
            self.world.fence += 1
            yield
        if isinstance(step, TakeOver):
            self.world.fence += 1
            yield
            self.read_to_end()
            yield
            feed = self.view()
            if feed.defined == definition:
                self.world.jobs.append(takeover(definition, feed.state, feed.progress, feed.takeover))
        elif isinstance(step, Prepare):
            yield
            self.world.jobs.append(_started(definition, step))
        elif isinstance(step, StoreState):
            yield
            self.world.jobs.append(step.record)
        else:
            self.obey(step)

    def obey(self, step: object) -> None:
        """The partitions answer at once; that messages are lost and repeated is tried elsewhere."""
        if not isinstance(step, Announce):
            return
        for number in step.partitions:
            ack = self.answer(step, number)
            self.of(ack.epoch).add(ack)

    def answer(self, step: Announce, number: int) -> Ack:
        match step.message:
            case Register(definition):
                assert self.held in (None, definition.epoch), "a former epoch is still here"
                self.held = max(definition.epoch, self.held or definition.epoch)
                high = Timestamp(self.world.applied)
                known = (KnownTable(ORDERS, TARGET.table_id),)
                return Registered(FEED, definition.epoch, number, 7, high, known)
            case Activate(definition, start, _):
                self.held, self.start = definition.epoch, start
                return Active(FEED, definition.epoch, number)
            case message:
                self.world.forget(message.epoch)
                if self.held is not None and self.held <= message.epoch:
                    self.held = self.start = None
                return Removed(FEED, message.epoch, number)

    def advance(self, high: int) -> None:
        """Go on with the frontier of the feed, or begin it; what it persists next is ``high`` at least."""
        self.high = high
        self.frontier = self.frontier or self.publish()
        if next(self.frontier, "done") == "done":
            self.frontier = None

    def publish(self) -> Iterator[None]:
        feed = self.view()
        live = feed.status in (FeedState.STARTING, FeedState.RUNNING)
        if not (live and feed.runs_on(self.engine)):
            return
        state = feed.current_state
        assert state is not None
        assert state.start is not None
        self.world.fence += 1
        mine = self.world.fence
        yield
        self.read_to_end()
        yield
        feed = self.view()
        if feed.epoch != state.epoch or feed.status in ENDED:
            return
        persisted = feed.high_water or state.start
        while self.world.fence == mine:
            persisted = max(persisted, Timestamp(self.high))
            progress = ProgressRecord(FEED, state.epoch, ResolvedTimestamp(persisted), {})
            self.world.jobs.append(progress)
            yield


def _started(definition: FeedDefinition, step: Prepare) -> StateRecord:
    return starting_state(definition, step, step.targets or (TARGET,), step.cluster or "")


def moved(*records: JobRecord, scan: InitialScan = InitialScan.NO) -> FeedView:
    """A feed that began on the workers and was moved, before anybody took it over."""
    first = replace(DEFINITION, options=replace(DEFINITION.options, initial_scan=scan))
    second = replace(first, epoch=MOVED, engine=Engine.SPARK)
    return view([DefinitionRecord(first), *records, DefinitionRecord(second)])
