"""A partition that is held for a feed's start for too long gives the feed up, and nothing else."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.feeds import WITH_MARKERS, activation
from tests.hand_log import HandLog, at
from tests.logs import Record
from tests.unit.processor.driving import Driven, rows_of
from tests.unit.processor.logs import PLAIN
from tidegate.changefeed.definition.feed import FIRST_EPOCH, FeedState
from tidegate.changefeed.lifecycle.control import (
    Ack,
    ControlMessage,
    Failed,
    Register,
    Remove,
    Removed,
)
from tidegate.changefeed.lifecycle.job_records import DefinitionRecord, DropRecord, JobRecord, StateRecord
from tidegate.changefeed.lifecycle.jobs import JobsView
from tidegate.changefeed.lifecycle.registration import (
    Acknowledgements,
    Announce,
    Prepare,
    StoreState,
    next_step,
    starting_state,
)
from tidegate.processor.batch import ControlRecord, OutputRecord, StepResult
from tidegate.raftlog.entry import Offset, RangeId

_PARTITIONS: Final = 2
_LATE: Final = activation([PLAIN.descriptor], replace(WITH_MARKERS, topic_prefix="late-"), feed_id="late")
_OTHER: Final = activation([PLAIN.descriptor], replace(WITH_MARKERS, topic_prefix="other-"), feed_id="other")
_BESIDE: Final = activation([PLAIN.descriptor], feed_id="beside")
_ID: Final = _LATE.feed_id


def _logs() -> list[tuple[Record, ...]]:
    """A range of the table in each partition, with a row at every second."""
    log = HandLog(partitions=_PARTITIONS)
    log.describe(PLAIN)
    for number, span in enumerate(PLAIN.split(100), start=1):
        rows = log.open_range(number, span)
        for second in range(1, 7):
            rows.apply(PLAIN.put(second, 100 * (number - 1) + second, "x"), close=second)
    return list(log.partitions)


_LOGS: Final = _logs()


def _held() -> Driven:
    """A partition with a feed that runs, held for two that do not."""
    driven = Driven.restored({}, 1, _PARTITIONS)
    driven.control(_BESIDE)
    driven.run(_LOGS[1][:3])
    driven.control(Register(_LATE.definition), Register(_OTHER.definition))
    return driven


def test_a_partition_that_gives_up_fails_the_feeds_that_hold_it_and_reads_on() -> None:
    driven = _held()
    assert driven.processor.held_for == {"late", "other"}
    result = driven.note(driven.processor.give_up(60.0))
    answers = [ack for ack in result.acks if isinstance(ack, Failed)]
    assert [answer.feed_id for answer in answers] == ["late", "other"]
    for answer in answers:
        assert "held for 60 s, and no start came for late, other" in answer.reason
        assert "create the feed again" in answer.reason
    assert [incident.feed_id for incident in result.incidents] == ["late", "other"]
    assert not driven.processor.held
    driven.run(_LOGS[1][3:])
    assert {row.topic for row in driven.rows} == {"plain"}
    assert len(driven.rows) == 6, "the feed that ran has lost nothing"
    assert [feed.feed_id for feed in driven.processor.full_checkpoint().feeds] == ["beside"]


def test_a_start_that_comes_too_late_is_answered_by_the_failure() -> None:
    driven = _held()
    driven.note(driven.processor.give_up(60.0))
    for partition in (driven, Driven.restored(driven.state, 1, _PARTITIONS)):
        answers = partition.control(replace(_LATE, start=at(9)), Register(_OTHER.definition)).acks
        assert [(ack.feed_id, type(ack)) for ack in answers] == [("late", Failed), ("other", Failed)]
        assert not partition.processor.held
        (failed, _), (removed,) = answers, partition.control(Remove(_ID, FIRST_EPOCH)).acks
        assert isinstance(failed, Failed)
        assert removed == Removed(_ID, FIRST_EPOCH, 1, failed.reason, at(1))


def test_a_start_that_comes_before_is_kept() -> None:
    driven = _held()
    driven.control(replace(_LATE, start=at(3)))
    result = driven.note(driven.processor.give_up(60.0))
    assert [ack.feed_id for ack in result.acks] == ["other"]
    assert driven.processor.definition_of(_ID) == _LATE.definition
    assert driven.processor.is_active(_ID)


def test_giving_up_leaves_the_positions_where_they_are() -> None:
    driven = _held()
    before = driven.processor.next_offset, driven.processor.next_control_offset
    driven.note(driven.processor.give_up(60.0))
    restored = Driven.restored(driven.state, 1, _PARTITIONS).processor
    assert (restored.next_offset, restored.next_control_offset) == before


# ---- with the jobs agent, in any order


class _World:
    """Partitions, a jobs agent, and all that is durable between them."""

    def __init__(self) -> None:
        self.jobs: list[JobRecord] = [DefinitionRecord(_LATE.definition)]
        self.acks: list[Ack] = []
        self.messages: list[list[ControlMessage]] = [[_BESIDE] for _ in range(_PARTITIONS)]
        self.partitions = [Driven.restored({}, number, _PARTITIONS) for number in range(_PARTITIONS)]
        self.rows: list[list[OutputRecord]] = [[] for _ in range(_PARTITIONS)]
        self.covered: set[RangeId] = set()
        self.gave_up: set[int] = set()
        for number in range(_PARTITIONS):
            self.deliver(number, 99)
            self.read(number)  # the table's descriptor

    def look(self, seen: int = 999) -> bool:
        """The jobs agent, having read so many answers, does its next step. Whether there was one."""
        view, acks = JobsView(), Acknowledgements(FIRST_EPOCH)
        for record in self.jobs:
            view.apply(record.key, record.to_bytes())
        for ack in [ack for ack in self.acks if ack.feed_id == _ID][:seen]:
            acks.add(ack)
        match next_step(view[_ID], acks.by_partition(), _PARTITIONS):
            case Announce(message, partitions):
                for number in partitions:
                    self.messages[number].append(message)
            case Prepare() as step:
                self.jobs.append(starting_state(_LATE.definition, step, _LATE.targets))
            case StoreState(record):
                self.jobs.append(record)
            case _:
                return False
        return True

    def deliver(self, number: int, count: int) -> None:
        """A partition takes the next messages up."""
        partition = self.partitions[number].processor
        first = int(partition.next_control_offset)
        messages = self.messages[number][first : first + count]
        records = [ControlRecord(Offset(first + place), message) for place, message in enumerate(messages)]
        self._note(number, partition.control(records))

    def read(self, number: int) -> None:
        """A partition steps its next record, unless it is held."""
        partition = self.partitions[number].processor
        at_offset = int(partition.next_offset or 0)
        if not partition.held:
            self._note(number, partition.step(_LOGS[number][at_offset : at_offset + 1]))

    def give_up(self, number: int) -> None:
        """A partition that is held gives up."""
        if self.partitions[number].processor.held:
            self.gave_up.add(number)
            self._note(number, self.partitions[number].processor.give_up(60.0))

    def restart(self, number: int) -> None:
        """A partition is opened anew from its state."""
        self.partitions[number] = Driven.restored(self.partitions[number].state, number, _PARTITIONS)

    def happen(self, event: str, number: int, count: int) -> None:
        """One event of ``_EVENTS``."""
        match event:
            case "look":
                self.look(count)
            case "deliver":
                self.deliver(number, count)
            case "read":
                self.read(number)
            case "give up":
                self.give_up(number)
            case "restart":
                self.restart(number)
            case "drop" if count == 0:
                self.jobs.append(DropRecord(_ID, 1))

    def settle(self) -> None:
        """Let all through, until nobody has anything to do."""
        for _ in range(20):
            for number in range(_PARTITIONS):
                self.deliver(number, 99)
            if not self.look():
                break
        else:
            raise AssertionError("the feed never came to rest")
        for number, records in enumerate(_LOGS):
            for _ in records:
                self.read(number)

    def knows(self, number: int) -> bool:
        """Whether a partition has the feed in its state."""
        try:
            self.partitions[number].processor.definition_of(_ID)
        except KeyError:
            return False
        return True

    @property
    def states(self) -> list[FeedState]:
        """The states that were stored."""
        return [record.state for record in self.jobs if isinstance(record, StateRecord)]

    def _note(self, number: int, result: StepResult) -> None:
        self.partitions[number].note(result)
        self.acks += result.acks
        self.rows[number] += rows_of(result)
        if result.checkpoint is not None and _ID in {feed.feed_id for feed in result.checkpoint.feeds}:
            self.covered |= {one.range_id for one in result.checkpoint.ranges}


_EVENTS: Final = st.lists(
    st.tuples(
        st.sampled_from(["look", "look", "deliver", "deliver", "read", "give up", "restart", "drop"]),
        st.integers(0, _PARTITIONS - 1),
        st.integers(0, 5),
    ),
    max_size=40,
)


@pytest.mark.long
@given(_EVENTS)
def test_whoever_gives_up_and_when_a_feed_runs_everywhere_or_ends_everywhere_and_no_other_notices(
    events: list[tuple[str, int, int]],
) -> None:
    world = _World()
    for event in events:
        world.happen(*event)
    world.settle()
    dropped = any(isinstance(record, DropRecord) for record in world.jobs)
    failed = FeedState.FAILED if world.gave_up else FeedState.RUNNING
    assert world.states[-1] is (FeedState.DROPPED if dropped else failed)
    if world.gave_up:
        assert FeedState.RUNNING not in world.states
        assert world.covered != {1, 2}, "a marker needs a checkpoint of every range"
    for number in range(_PARTITIONS):
        assert world.knows(number) is not (dropped or bool(world.gave_up))
        beside = [(row.key, row.value) for row in world.rows[number] if row.topic == "plain"]
        assert len(beside) == len(set(beside)) == 6
