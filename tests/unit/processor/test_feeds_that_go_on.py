"""A feed that goes on in another epoch fails for data that changed outside the op log while nobody had it.

``docs/hand-over.md``, step H6, and ``docs/ranges.md#mutations``, X7 to X9.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final

import pytest

from tests.feeds import WITH_MARKERS, activation
from tests.hand_log import HandLog, HandRange, at, update_of
from tests.unit.processor.driving import Driven, active
from tests.unit.processor.logs import OTHER, PLAIN, opened
from tidegate.changefeed.definition.feed import FIRST_EPOCH, AcceptedCluster, FeedEpoch, FeedState
from tidegate.changefeed.lifecycle.control import Activate, Failed, Register, Remove
from tidegate.changefeed.lifecycle.job_records import ProgressRecord, StateRecord
from tidegate.changefeed.lifecycle.takeover import resumed, takeover
from tidegate.hlc import MAX, ResolvedTimestamp, Timestamp
from tidegate.processor.batch import StateTable
from tidegate.processor.state import state_pb2 as pb
from tidegate.processor.state.position_hash import POSITION_KEY
from tidegate.processor.state.state_codec import position_row, read_position, read_range
from tidegate.raftlog.encode import encode_key
from tidegate.raftlog.entry import (
    NEVER_MUTATED,
    HistoryMutation,
    Parent,
    RaftIndex,
    RangeId,
    SnapshotReason,
    Trigger,
)
from tidegate.ranges.mutated_keys import MutatedKeys
from tidegate.rows.table_key import index_span
from tidegate.spans import Span

_FIRST: Final = activation([PLAIN.descriptor], feed_id="plain")
_SECOND: Final = FeedEpoch(2)
_HIGH: Final = at(6)
_LOW_KEYS, _HIGH_KEYS = PLAIN.split(100)


def _goes_on(
    high: Timestamp | None = _HIGH, accepted: AcceptedCluster | None = None, first: Activate = _FIRST
) -> Activate:
    """The second epoch of a feed, which had come to ``high``."""
    state = StateRecord(
        first.feed_id, FIRST_EPOCH, FeedState.RUNNING, at(1), first.targets, sink_cluster="former"
    )
    progress = None
    if high is not None:
        progress = ProgressRecord(first.feed_id, FIRST_EPOCH, ResolvedTimestamp(high), {})
    defined = replace(first.definition, epoch=_SECOND, accepted=accepted)
    taken = takeover(defined, state, progress, None)
    return Activate(resumed(defined, taken), taken.high_water or at(1), first.targets)


def _command(plain: HandRange, trigger: Trigger, written: float | None) -> None:
    plain.index += 1
    command = plain.command(trigger=trigger, close=7)
    plain._log.write(command._replace(write_timestamp=None if written is None else at(written)))


def _by_history_mutation(plain: HandRange) -> None:
    _command(plain, Trigger.HISTORY_MUTATION, None)


def _by_a_file_of_that_time(plain: HandRange) -> None:
    plain.index += 1
    command = plain.command(trigger=Trigger.ADD_SSTABLE, close=7)
    plain._log.write(command._replace(at_write_timestamp=True, write_timestamp=at(6.5)))


def _by_a_file_of_the_past(plain: HandRange) -> None:
    """Whose versions stand below the high-water, as do all that the command may have changed."""
    _command(plain, Trigger.ADD_SSTABLE, 4)


def _unreadably(plain: HandRange) -> None:
    plain.unreadable()
    plain.snapshot(close=6.5, high=6, last_mutation=HistoryMutation(RaftIndex(plain.index), at(6.5)))


def _in_a_hole(plain: HandRange) -> None:
    """The command can be read, behind an entry that cannot, and nobody has told of it yet."""
    plain.unreadable()
    _command(plain, Trigger.HISTORY_MUTATION, None)


_WAYS: Final = [
    _by_history_mutation,
    _by_a_file_of_that_time,
    _by_a_file_of_the_past,
    _unreadably,
    _in_a_hole,
]


def _failed(driven: Driven) -> list[tuple[str, int]]:
    acks = [ack for result in driven.results for ack in result.acks if isinstance(ack, Failed)]
    return [(ack.feed_id, ack.epoch) for ack in acks]


def _named(driven: Driven) -> set[tuple[str, int]]:
    return {(feed.feed_id, feed.epoch) for feed in driven.processor.full_checkpoint().feeds}


@pytest.mark.parametrize("restarted", [False, True], ids=["", "restarted"])
@pytest.mark.parametrize("change", _WAYS)
def test_what_a_new_engine_read_before_it_heard_of_the_feed_fails_it(
    change: Callable[[HandRange], None], restarted: bool
) -> None:
    log, plain = opened()
    change(plain)
    plain.apply(PLAIN.put(8, 2, "after"), close=9)
    driven = Driven()
    driven.run(log.partitions[0])
    if restarted:
        driven = Driven.restored(driven.state)
    second = _goes_on()
    driven.control(Register(second.definition), second, second)
    assert set(_failed(driven)) == {("plain", 2)}
    assert _named(driven) == set()
    assert any("outside its op log" in cause for cause in driven.causes)


def test_what_was_passed_fails_also_a_feed_of_which_an_engine_of_before_did_not_say_that_it_goes_on() -> None:
    log, plain = opened()
    _by_history_mutation(plain)
    driven = Driven()
    driven.run(log.partitions[0])
    second = _goes_on()
    second = replace(second, definition=replace(second.definition, goes_on=False))
    driven.control(Register(second.definition), second)
    assert set(_failed(driven)) == {("plain", 2)}


@pytest.mark.parametrize("when", ["before it is removed", "before it is registered", "registered", "active"])
@pytest.mark.parametrize("change", _WAYS)
def test_what_one_engine_reads_between_two_epochs_fails_the_feed(
    change: Callable[[HandRange], None], when: str
) -> None:
    log, plain = opened()
    driven = Driven()
    driven.control(Register(_FIRST.definition), _FIRST)
    driven.run(log.partitions[0])
    second = _goes_on(accepted=AcceptedCluster(_SECOND, "there", at(6)))

    def happen(now: str) -> None:
        if now == when:
            read = len(log.partitions[0])
            change(plain)
            driven.run(log.partitions[0][read:])

    happen("before it is removed")
    driven.control(Remove(_FIRST.feed_id, FIRST_EPOCH))
    happen("before it is registered")
    driven.control(Register(second.definition))
    happen("registered")
    driven.control(second)
    happen("active")
    assert ("plain", 2) in _failed(driven)
    assert ("plain", 2) not in _named(driven)


def _above(seconds: float) -> Activate:
    return _goes_on(at(seconds))


def _anew() -> Activate:
    return _goes_on(accepted=AcceptedCluster(_SECOND, "there", None))


def _the_first() -> Activate:
    options = replace(WITH_MARKERS, cursor=_HIGH)
    return activation([PLAIN.descriptor], options, start=_HIGH, feed_id="plain")


@pytest.mark.parametrize(
    "feed",
    [_above(7), _anew(), _the_first()],
    ids=["came behind it", "begins anew on a cluster that has nothing", "has written nothing before"],
)
def test_a_feed_that_has_written_nothing_from_before_the_change_goes_on(feed: Activate) -> None:
    log, plain = opened()
    plain.index += 1
    log.write(plain.command(trigger=Trigger.HISTORY_MUTATION, close=6.5)._replace(write_timestamp=at(6.2)))
    driven = Driven()
    driven.run(log.partitions[0])
    driven.control(Register(feed.definition), feed)
    assert _failed(driven) == []


def test_a_change_is_not_taken_for_later_than_what_was_closed_before_it_and_what_it_wrote() -> None:
    log, _ = opened()
    mutated = log.open_range(2, OTHER.span, close=6, last_mutation=HistoryMutation(RaftIndex(3), at(4)))
    mutated.index += 1
    log.write(mutated.command(trigger=Trigger.HISTORY_MUTATION, close=7)._replace(write_timestamp=at(6)))
    driven = Driven()
    driven.run(log.partitions[0])
    assert _mutated(driven, 2) == (MutatedKeys(OTHER.span, at(6).next(), at(6)),)


@pytest.mark.parametrize(("index", "failed"), [(1, [("plain", 2)]), (2, [])], ids=["primary", "another"])
def test_an_index_build_ends_no_feed_that_goes_on_from_before_its_table_was_described(
    index: int, failed: list[tuple[str, int]]
) -> None:
    """Which index was primary then is not known, but the versions of the build stand at one later moment."""
    log = HandLog(partitions=1)
    log.write(update_of(replace(PLAIN.descriptor, modified=at(3))))
    plain = log.open_range(1, PLAIN.span)
    plain.apply(PLAIN.put(5, 1, "before"), close=6)
    plain.index += 1
    command = plain.command(trigger=Trigger.ADD_SSTABLE, close=7)
    keys = index_span(PLAIN.descriptor.id, index)
    log.write(command._replace(mutated=(keys,), at_write_timestamp=True, write_timestamp=at(6.5)))
    driven = Driven()
    driven.run(log.partitions[0], 1)
    driven = Driven.restored(driven.state)
    driven.control(_goes_on(at(2)))
    assert _failed(driven) == failed


def test_the_keys_of_other_tables_do_not_count() -> None:
    log, plain = opened()
    plain.index += 1
    log.write(plain.command(trigger=Trigger.HISTORY_MUTATION, close=7)._replace(mutated=(OTHER.span,)))
    driven = Driven()
    driven.run(log.partitions[0])
    second = _goes_on()
    driven.control(Register(second.definition), second)
    assert _failed(driven) == []


def test_long_keys_are_kept_short_and_still_count() -> None:
    log, plain = opened()
    row = PLAIN.key(1)
    start, end = row + b"\x12" * 9_000, row + b"\x13" * 9_000
    plain.index += 1
    log.write(plain.command(trigger=Trigger.HISTORY_MUTATION)._replace(mutated=(Span(start, end),)))
    driven = Driven()
    driven.run(log.partitions[0])
    (kept,) = _mutated(driven, 1)
    assert kept.span.intersect(Span(start, end)) == Span(start, end)
    assert max(map(len, kept.span)) <= 1_024
    second = _goes_on()
    driven.control(Register(second.definition), second)
    assert _failed(driven) == [("plain", 2)]


def _mutated(driven: Driven, range_id: int) -> tuple[MutatedKeys, ...]:
    """What is stored of a range."""
    key = encode_key(RangeId(range_id))
    return read_range(key, driven.state[StateTable.RANGES, key]).state.mutated


def test_a_change_whose_time_is_unknown_is_dated_by_the_next_snapshot() -> None:
    log, plain = opened()
    plain.index += 2  # an entry is missing, and may have closed anything
    log.write(plain.command(trigger=Trigger.HISTORY_MUTATION))
    driven = Driven()
    driven.run(log.partitions[0])
    assert [each.time for each in _mutated(driven, 1)] == [MAX]
    read = len(log.partitions[0])
    plain.snapshot(close=6.5, high=6, last_mutation=HistoryMutation(RaftIndex(plain.index), at(6.8)))
    driven.run(log.partitions[0][read:])
    assert [each.time for each in _mutated(driven, 1)] == [at(6.8)]


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
    assert [each.time for each in _mutated(driven, 1)] == [at(closed).next()]


@pytest.mark.parametrize("batch", [1, 99])
def test_a_change_that_was_read_while_the_range_waited_is_dated_by_the_next_snapshot(batch: int) -> None:
    """The range has applied the change when it comes to that Snapshot, which says nothing new then."""
    log, plain = opened()
    plain.unreadable()
    plain.snapshot(close=6.5, high=7)
    plain.apply(trigger=Trigger.HISTORY_MUTATION)
    driven = active(activation([PLAIN.descriptor], feed_id="waits"))
    driven.run(log.partitions[0], batch)
    assert [each.time for each in _mutated(driven, 1)] == [MAX]
    read = len(log.partitions[0])
    plain.snapshot(close=6.5, high=6, chunk=0, chunks=2)
    plain.snapshot(close=6.5, high=6, chunk=1, chunks=2)
    plain.heartbeat(9)
    driven.run(log.partitions[0][read:], batch)
    assert [each.time for each in _mutated(driven, 1)] == [at(6.5).next()]


def _merged(told: HistoryMutation) -> tuple[HandLog, HandRange]:
    """Range 1 in partition 1, which has closed 6, takes over range 2 of the other partition."""
    log = HandLog(partitions=2)
    log.describe(PLAIN)
    left, right = log.open_range(1, _LOW_KEYS), log.open_range(2, _HIGH_KEYS)
    left.apply(PLAIN.put(5, 1, "before"), close=6)
    right.end()
    left.apply(trigger=Trigger.MERGE)
    parents = (left.as_parent(), right.as_parent())
    left.span, left.generation = PLAIN.span, 2
    left.snapshot(reason=SnapshotReason.MERGE, close=9, high=8, parents=parents, last_mutation=told)
    return log, left


def test_a_change_that_follows_on_what_a_waiting_range_has_applied_is_not_dated_by_that() -> None:
    """What stands between in its backlog has closed more. The change is of keys that nobody waits for."""
    log, left = _merged(NEVER_MUTATED)
    left.heartbeat(12)
    left.index += 1
    log.write(left.command(trigger=Trigger.HISTORY_MUTATION)._replace(mutated=(OTHER.span,)))
    driven = Driven.restored({}, 1, 2)
    driven.control(activation([PLAIN.descriptor], feed_id="waits"))
    driven.run(log.partitions[1])
    assert [each.range_id for each in driven.processor.status().parked] == [1]
    (mutated,) = _mutated(driven, 1)
    assert mutated.time > at(12)


def test_of_what_a_snapshot_brings_unasked_only_keys_that_came_in_count_as_changed() -> None:
    log, _ = _merged(HistoryMutation(RaftIndex(0), at(8.5)))
    driven = Driven.restored({}, 1, 2)
    driven.run(log.partitions[1])
    assert driven.processor.status().parked == ()
    assert [(each.span, each.time) for each in _mutated(driven, 1)] == [(_HIGH_KEYS, at(8.5))]


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
    assert [each.time for each in _mutated(driven, 1)] == [MAX]


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
    assert [each.time for each in _mutated(driven, 1)] == [at(6.9).next()]


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
    assert [each.time for each in _mutated(driven, 1)] == [at(12).next()]


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
    assert [each.time for each in _mutated(driven, 1)] == [MAX]
    plain.snapshot(close=9, high=7)
    driven.run(log.partitions[0][driven.processor.next_offset :])
    assert [each.time for each in _mutated(driven, 1)] == [at(9).next()]


def test_a_split_and_a_merge_take_nothing_away() -> None:
    """The change was of keys that the range has given to another since, and that one is gone too."""
    log, plain = opened()
    _command(plain, Trigger.HISTORY_MUTATION, 6.5)
    right = plain.split(_HIGH_KEYS.start, 2, close=7)
    third = log.open_range(3, OTHER.span)
    right.merge(third, close=8)
    driven = Driven()
    driven.run(log.partitions[0])
    driven = Driven.restored(driven.state)
    second = _goes_on()
    driven.control(Register(second.definition), second)
    assert _failed(driven) == [("plain", 2)]


def test_what_a_range_brought_that_nobody_was_asked_about_counts_as_changed() -> None:
    """No feed needs the rows from before the child: nobody waits for what its parent, elsewhere, missed."""
    log = HandLog(partitions=2)
    log.describe(PLAIN)
    parent = Parent(RangeId(1), HandRange(log, RangeId(1), PLAIN.span).as_parent().generation, RaftIndex(20))
    child = log.open_range(
        2,
        _HIGH_KEYS,
        close=6,
        high=5,
        parents=(parent,),
        last_mutation=HistoryMutation(RaftIndex(0), at(6.5)),
    )
    assert child.generation == 1
    driven = Driven.restored({}, 0, 2)
    driven.run(log.partitions[0])
    assert [(each.span, each.time) for each in _mutated(driven, 2)] == [(_HIGH_KEYS, at(6.5))]


@pytest.mark.parametrize("told", [True, False], ids=["", "an engine of before did not say so"])
def test_a_range_asks_its_parents_for_a_feed_that_goes_on_though_it_has_no_version_above_the_start(
    told: bool,
) -> None:
    """A hole of the range that was merged away hid a change of rows that the earlier epoch has written."""
    log, other = HandLog(partitions=1), activation([OTHER.descriptor], feed_id="other")
    log.describe(PLAIN, OTHER)
    left, right = log.open_range(1, PLAIN.span), log.open_range(2, OTHER.span)
    right.apply(OTHER.put(5, 2, "removed later"), close=9)
    left.heartbeat(9)
    driven = Driven()
    driven.run(log.partitions[0])
    done = len(log.partitions[0])
    message = _goes_on(at(10), first=other)
    driven.control(replace(message, definition=replace(message.definition, goes_on=told)))
    driven = Driven.restored(driven.state)
    right.unreadable()
    right.end()
    left.apply(trigger=Trigger.MERGE, close=12)
    parents = (left.as_parent(), right.as_parent())
    left.span, left.generation = Span(PLAIN.span.start, OTHER.span.end), left.generation + 1
    hidden = HistoryMutation(RaftIndex(0), at(11))
    left.snapshot(reason=SnapshotReason.MERGE, close=12, high=5, parents=parents, last_mutation=hidden)
    left.heartbeat(20)
    driven.step(log.partitions[0][done:])
    assert _failed(driven) == [("other", 2)]


def test_a_state_of_before_knows_of_no_changes() -> None:
    log, plain = opened()
    _command(plain, Trigger.HISTORY_MUTATION, None)
    driven = Driven()
    driven.run(log.partitions[0])
    place = StateTable.RANGES, encode_key(plain.id)
    row = pb.Range.FromString(driven.state[place][1:])
    row.ClearField("mutated")
    assert read_range(place[1], driven.state[place][:1] + row.SerializeToString()).state.mutated == ()
