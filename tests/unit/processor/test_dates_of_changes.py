"""Tests the time that a change outside the op log is given (docs/protocols/history-mutations.md)."""

from __future__ import annotations

import pytest

from tests.feeds import activation
from tests.hand_log import HandLog, at
from tests.unit.processor.changes_outside_the_op_log import merged, mutated_in
from tests.unit.processor.driving import Driven, active
from tests.unit.processor.logs import OTHER, PLAIN, opened
from tidegate.hlc import MAX
from tidegate.processor.batch import StateTable
from tidegate.processor.state import state_pb2 as pb
from tidegate.processor.state.position_hash import POSITION_KEY
from tidegate.processor.state.state_codec import position_row, read_position
from tidegate.raftlog.encode import encode_key
from tidegate.raftlog.entry import NEVER_MUTATED, HistoryMutation, RaftIndex, RangeId, Trigger
from tidegate.ranges.mutated_keys import MutatedKeys


def test_a_change_is_not_taken_for_later_than_what_was_closed_before_it_and_what_it_wrote() -> None:
    log, _ = opened()
    mutated = log.open_range(2, OTHER.span, close=6, last_mutation=HistoryMutation(RaftIndex(3), at(4)))
    mutated.index += 1
    log.write(mutated.command(trigger=Trigger.HISTORY_MUTATION, close=7)._replace(write_timestamp=at(6)))
    driven = Driven()
    driven.run(log.partitions[0])
    assert mutated_in(driven, 2) == (MutatedKeys(OTHER.span, at(6).next(), at(6)),)


def test_a_change_whose_time_is_unknown_is_dated_by_the_next_snapshot() -> None:
    log, plain = opened()
    plain.index += 2  # an entry is missing, and may have closed anything
    log.write(plain.command(trigger=Trigger.HISTORY_MUTATION))
    driven = Driven()
    driven.run(log.partitions[0])
    assert [each.time for each in mutated_in(driven, 1)] == [MAX]
    read = len(log.partitions[0])
    plain.snapshot(close=6.5, high=6, last_mutation=HistoryMutation(RaftIndex(plain.index), at(6.8)))
    driven.run(log.partitions[0][read:])
    assert [each.time for each in mutated_in(driven, 1)] == [at(6.8)]


@pytest.mark.parametrize("restarted", [False, True], ids=["", "restarted"])
@pytest.mark.parametrize("parked", [False, True], ids=["in a hole", "in a backlog"])
@pytest.mark.parametrize("closed", [6, 7.5], ids=["before the hole", "in the hole"])
def test_a_change_in_a_hole_is_not_dated_below_what_was_closed_before_it(
    closed: float, parked: bool, restarted: bool
) -> None:
    """The command breaks a rule: it closes less than the range had closed."""
    log, plain = opened()
    driven = Driven()
    plain.unreadable()
    if parked:
        driven.control(activation([PLAIN.descriptor], feed_id="waits"))
        plain.snapshot(close=5, high=7)
    if closed > 6:
        plain.apply(close=closed)
    driven.run(log.partitions[0])
    assert bool(driven.processor.status().parked) == parked
    if restarted:
        driven = Driven.restored(driven.state)
    plain.apply(trigger=Trigger.HISTORY_MUTATION, close=4)
    driven.run(log.partitions[0][int(driven.processor.next_offset or 0) :])
    assert [each.time for each in mutated_in(driven, 1)] == [at(closed).next()]


@pytest.mark.parametrize("batch", [1, 99])
def test_a_change_that_was_read_while_the_range_waited_is_dated_by_the_next_snapshot(batch: int) -> None:
    """The range has applied the change when it comes to that Snapshot, which says nothing new then."""
    log, plain = opened()
    plain.unreadable()
    plain.snapshot(close=6.5, high=7)
    plain.apply(trigger=Trigger.HISTORY_MUTATION)
    driven = active(activation([PLAIN.descriptor], feed_id="waits"))
    driven.run(log.partitions[0], batch)
    assert [each.time for each in mutated_in(driven, 1)] == [MAX]
    read = len(log.partitions[0])
    plain.snapshot(close=6.5, high=6, chunk=0, chunks=2)
    plain.snapshot(close=6.5, high=6, chunk=1, chunks=2)
    plain.heartbeat(9)
    driven.run(log.partitions[0][read:], batch)
    assert [each.time for each in mutated_in(driven, 1)] == [at(6.5).next()]


def test_a_change_that_follows_on_what_a_waiting_range_has_applied_is_not_dated_by_that() -> None:
    """What stands between in its backlog has closed more. The change is of keys that nobody waits for."""
    log, left = merged(NEVER_MUTATED)
    left.heartbeat(12)
    left.index += 1
    log.write(left.command(trigger=Trigger.HISTORY_MUTATION)._replace(mutated=(OTHER.span,)))
    driven = Driven.restored({}, 1, 2)
    driven.control(activation([PLAIN.descriptor], feed_id="waits"))
    driven.run(log.partitions[1])
    assert [each.range_id for each in driven.processor.status().parked] == [1]
    (mutated,) = mutated_in(driven, 1)
    assert mutated.time > at(12)


def test_a_copy_of_a_snapshot_from_before_a_change_does_not_date_it() -> None:
    log, plain = opened()
    plain.index += 1
    plain.snapshot(close=6.5, high=6)
    copied = plain.index
    plain.index += 2
    log.write(plain.command(trigger=Trigger.HISTORY_MUTATION))
    plain.index = copied
    plain.snapshot(close=6.5, high=6)
    driven = Driven()
    driven.run(log.partitions[0])
    assert [each.time for each in mutated_in(driven, 1)] == [MAX]


@pytest.mark.parametrize("told", [NEVER_MUTATED, None], ids=["", "tells nothing"])
@pytest.mark.parametrize("parked", [False, True], ids=["in a hole", "in a backlog"])
def test_a_snapshot_that_has_closed_less_does_not_date_a_change_below_what_was_closed(
    parked: bool, told: HistoryMutation | None
) -> None:
    """The log breaks `closed-rises`: the range had closed 6.9, or an entry of its backlog had."""
    log, plain = opened()
    driven = Driven()
    if parked:
        driven.control(activation([PLAIN.descriptor], feed_id="waits"))
        plain.unreadable()
        plain.snapshot(close=5, high=7)
        plain.apply(close=6.9)
    else:
        plain.heartbeat(6.9)
        plain.unreadable()
    plain.index += 1
    log.write(plain.command(trigger=Trigger.HISTORY_MUTATION)._replace(mutated=(OTHER.span,)))
    plain.snapshot(close=4, high=5, last_mutation=told)
    driven.run(log.partitions[0], 1)
    assert bool(driven.processor.status().parked) == parked
    assert [each.time for each in mutated_in(driven, 1)] == [at(6.9).next()]


@pytest.mark.parametrize("close", [None, 10.5])
@pytest.mark.parametrize("hole", [False, True], ids=["live", "in a hole"])
def test_a_change_is_not_dated_below_what_a_range_that_was_merged_away_had_closed(
    hole: bool, close: float | None
) -> None:
    """The log breaks `closed-rises`: the left one has closed 10, and the right one had closed 12."""
    log = HandLog(partitions=1)
    log.describe(PLAIN, OTHER)
    left, right = log.open_range(1, PLAIN.span), log.open_range(2, OTHER.span)
    right.apply(OTHER.put(5, 1, "row"), close=12)
    left.apply(close=10)
    left.merge(right, close=10)
    if hole:
        left.unreadable()
    left.index += 1
    log.write(left.command(trigger=Trigger.HISTORY_MUTATION, close=close)._replace(mutated=(OTHER.span,)))
    left.snapshot(close=10.5, high=5)
    driven = active(activation([OTHER.descriptor], feed_id="waits"))
    driven.run(log.partitions[0], 1)
    assert [each.time for each in mutated_in(driven, 1)] == [at(12).next()]


def _of_before(driven: Driven) -> Driven:
    """The same, restored from what a version stored that forgot an index once it was applied."""
    place, at_position = (StateTable.RANGES, encode_key(RangeId(1))), (StateTable.RANGES, POSITION_KEY)
    row = pb.Range.FromString(driven.state[place][1:])
    row.ClearField("accounted")
    position = read_position(driven.state[at_position])
    position.digests = None
    stored = position_row(position).value
    assert stored is not None
    changed = {place: driven.state[place][:1] + row.SerializeToString(), at_position: stored}
    return Driven.restored({**driven.state, **changed})


def test_a_copy_of_a_snapshot_does_not_date_a_change_that_a_version_of_before_had_applied() -> None:
    """The range waited when it passed the change, so nobody knows its time; then it came there."""
    log, plain = opened()
    driven = active(activation([PLAIN.descriptor], feed_id="waits"))
    plain.unreadable()
    copied = len(log.partitions[0])
    plain.snapshot(close=6.5, high=7)
    plain.apply(close=8.9)
    plain.apply(trigger=Trigger.HISTORY_MUTATION)
    read = len(log.partitions[0])
    driven.run(log.partitions[0], 1)
    while driven.processor.ready:
        driven.step(())
    driven = _of_before(driven)
    for record in log.partitions[0][copied:read]:
        log.write_bytes(0, record.key, record.value)
    driven.run(log.partitions[0][read:], 1)
    assert [each.time for each in mutated_in(driven, 1)] == [MAX]
    plain.snapshot(close=9, high=7)
    driven.run(log.partitions[0][driven.processor.next_offset :])
    assert [each.time for each in mutated_in(driven, 1)] == [at(9).next()]
