"""Log partitions that register a feed, driven by hand: what they answer, lose and hear again."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from hypothesis import strategies as st

from tests.unit.changefeed.feeds import DEFINITION, FEED, ORDERS, TARGET
from tidegate.changefeed.definition.feed import FIRST_EPOCH, FeedDefinition
from tidegate.changefeed.definition.options import InitialScan
from tidegate.changefeed.lifecycle.control import (
    Ack,
    Activate,
    Active,
    ControlMessage,
    Failed,
    KnownTable,
    Register,
    Registered,
    Remove,
    Removed,
    read_ack,
    read_control,
)
from tidegate.changefeed.lifecycle.job_records import DefinitionRecord, JobRecord, ProgressRecord
from tidegate.changefeed.lifecycle.jobs import FeedView, JobsView
from tidegate.changefeed.lifecycle.registration import (
    Acknowledgements,
    Announce,
    Prepare,
    Settled,
    Step,
    StoreState,
    next_step,
    starting_state,
)
from tidegate.hlc import ResolvedTimestamp, Timestamp

PENDING = FeedView(defined=DEFINITION)
SCAN_ONLY = replace(DEFINITION, options=replace(DEFINITION.options, initial_scan=InitialScan.ONLY))
KNOWN = (KnownTable(ORDERS, 104),)


def registered(
    partition: int, highest: int, position: int = 0, tables: tuple[KnownTable, ...] = KNOWN
) -> Registered:
    return Registered(FEED, FIRST_EPOCH, partition, position, Timestamp(highest), tables)


def by_partition(*acks: Ack) -> dict[int, Ack]:
    return {ack.partition: ack for ack in acks}


ACTIVE = {number: Active(FEED, FIRST_EPOCH, number) for number in range(2)}


def folded(*acks: Ack) -> dict[int, Ack]:
    fold = Acknowledgements(FIRST_EPOCH)
    for ack in acks:
        fold.add(ack)
    return dict(fold.by_partition())


@dataclass
class LogPartition:
    """A log partition's part in the protocol: what its durable state remembers of one feed."""

    number: int
    applied: int = 0
    knows_table: bool = True
    position: int | None = None
    highest_at_registration: int = 0
    active: bool = False
    starts: set[Timestamp] = field(default_factory=set)

    def lose_state(self) -> None:
        """Lose the state: the partition reads its log again, to the present if nobody activates the feed
        before."""
        self.position, self.highest_at_registration, self.active = None, 0, False

    def answer(self, message: ControlMessage) -> Ack:
        match message:
            case Register() if self.active:
                return Active(FEED, FIRST_EPOCH, self.number)
            case Register():
                if self.position is None:
                    self.position, self.highest_at_registration = self.applied, self.applied
                tables = KNOWN if self.knows_table else ()
                return Registered(
                    FEED,
                    FIRST_EPOCH,
                    self.number,
                    self.position,
                    Timestamp(self.highest_at_registration),
                    tables,
                )
            case Activate(definition, start, _) if (
                definition.options.cursor is None
                and not self.active
                and start < Timestamp(self.highest_at_registration)
            ):
                return Failed(FEED, FIRST_EPOCH, self.number, "rows above the start had passed")
            case Activate(_, start, _):
                self.starts.add(start)
                self.active = True
                return Active(FEED, FIRST_EPOCH, self.number)
            case Remove():
                self.lose_state()
                return Removed(FEED, FIRST_EPOCH, self.number)


class Cluster:
    """The durable world: a jobs topic, control messages on their way, acknowledgements on theirs."""

    def __init__(self, partitions: list[LogPartition], definition: FeedDefinition = DEFINITION) -> None:
        self.partitions = partitions
        self.definition = definition
        self.jobs: list[JobRecord] = [DefinitionRecord(definition)]
        self.messages: list[tuple[int, bytes]] = []
        self.acks: list[bytes] = []

    def agent_looks(self, seen: int, *, crashes: bool) -> Step:
        """A jobs agent that has read ``seen`` of the acknowledgements does its next step, or dies in it."""
        view, acks = JobsView(), Acknowledgements(FIRST_EPOCH)
        for record in self.jobs:
            view.apply(record.key, record.to_bytes())
        known = [read_ack(value) for value in self.acks[:seen]]
        for ack in known:
            acks.add(ack)
        step = next_step(view[FEED], acks.by_partition(), len(self.partitions))
        if isinstance(step, Prepare) and self.definition.options.cursor is None:
            assert step.start == max(ack.highest for ack in known if isinstance(ack, Registered))
        if not crashes:
            self.carry_out(step)
        return step

    def carry_out(self, step: Step) -> None:
        match step:
            case Announce(message, partitions):
                self.messages += [(number, message.to_bytes()) for number in partitions]
            case Prepare():
                self.jobs.append(starting_state(self.definition, step, (TARGET,)))
            case StoreState(record):
                self.jobs.append(record)
            case Settled():
                pass

    def frontier_persists(self) -> None:
        """A frontier agent does, once every partition has written its rows of the scan."""
        starts = set().union(*(partition.starts for partition in self.partitions))
        if starts and all(partition.starts for partition in self.partitions):
            high_water = ResolvedTimestamp(max(starts))
            self.jobs.append(ProgressRecord(FEED, FIRST_EPOCH, high_water, {}))

    def partition_answers(self, which: int) -> None:
        """Deliver a message, which stays on its way and may come again."""
        number, message = self.messages[which % len(self.messages)]
        self.acks.append(self.partitions[number].answer(read_control(message)).to_bytes())


def happen(data: st.DataObject, cluster: Cluster, events: list[str]) -> None:
    """Some of ``events``, in any order; the agent may have read any part of the acknowledgements."""
    for _ in range(data.draw(st.integers(0, 30))):
        event = data.draw(st.sampled_from(events))
        if event == "apply":
            data.draw(st.sampled_from(cluster.partitions)).applied += data.draw(st.integers(1, 5))
        elif event == "lose":
            data.draw(st.sampled_from(cluster.partitions)).lose_state()
        elif event == "answer":
            if cluster.messages:
                cluster.partition_answers(data.draw(st.integers(0, len(cluster.messages) - 1)))
        elif event == "persist":
            cluster.frontier_persists()
        else:
            seen = data.draw(st.integers(0, len(cluster.acks)))
            cluster.agent_looks(seen, crashes=event == "crash")


def settle(cluster: Cluster) -> None:
    """Let everything through, in order, until the jobs agent has nothing to do."""
    for _ in range(10):
        step = cluster.agent_looks(len(cluster.acks), crashes=False)
        if step == Settled():
            return
        for which in range(len(cluster.messages)):
            cluster.partition_answers(which)
    raise AssertionError("the feed never came to rest")
