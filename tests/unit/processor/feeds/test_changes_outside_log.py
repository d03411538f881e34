"""Data that changes outside the op log ends the feeds that watch it, as in CockroachDB, and nothing else."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.feeds import WITH_MARKERS, activation
from tests.hand_log import HandLog, HandRange, at
from tests.unit.processor.driving import Driven, active, timestamp_of
from tests.unit.processor.logs import OTHER, PLAIN, opened
from tidegate.changefeed.definition.feed import FIRST_EPOCH, FeedId
from tidegate.changefeed.lifecycle.control import Failed, Register, Registered, Remove
from tidegate.hlc import ZERO_CLOSED
from tidegate.processor.batch import StateTable
from tidegate.processor.feeds.changes_outside_log import MutationPlace, Mutations
from tidegate.processor.state import state_pb2 as pb
from tidegate.processor.state.state_codec import read_range
from tidegate.raftlog.decode import decode_entry
from tidegate.raftlog.encode import encode_key
from tidegate.raftlog.entry import (
    NEVER_MUTATED,
    Command,
    DeleteRange,
    HistoryMutation,
    Offset,
    RaftIndex,
    RangeId,
    SnapshotReason,
    Trigger,
)
from tidegate.raftlog.request import Scan
from tidegate.ranges.accounted import AS_APPLIED
from tidegate.spans import Span

_LOW, _HIGH = PLAIN.split(100)


def _run(log: HandLog, batch: int = 99) -> Driven:
    driven = Driven()
    driven.control(
        activation([PLAIN.descriptor], feed_id="plain"), activation([OTHER.descriptor], feed_id="other")
    )
    driven.run(log.partitions[0], batch)
    return driven


def _failed(driven: Driven) -> list[tuple[str, str]]:
    acks = [ack for result in driven.results for ack in result.acks if isinstance(ack, Failed)]
    return [(ack.feed_id, ack.reason) for ack in acks]


@pytest.mark.parametrize("batch", [1, 99])
@pytest.mark.parametrize("trigger", [Trigger.ADD_SSTABLE, Trigger.HISTORY_MUTATION])
def test_feeds_that_watch_the_keys_fail_behind_what_came_before(trigger: Trigger, batch: int) -> None:
    log = HandLog(partitions=1)
    log.describe(PLAIN, OTHER)
    plain, other = log.open_range(1, PLAIN.span), log.open_range(2, OTHER.span)
    plain.apply(PLAIN.put(5, 1, "before"), close=5)
    plain.apply(trigger=trigger)
    plain.apply(PLAIN.put(8, 1, "after"), close=8)
    other.apply(OTHER.put(9, 1, "other"), close=9)
    driven = _run(log, batch)
    ((feed_id, reason),) = _failed(driven)
    assert feed_id == "plain"
    assert trigger.value in reason
    assert "range 1" in reason
    assert list(map(timestamp_of, driven.rows)) == [at(5), at(9)]
    assert driven.processor.status().quarantined == ()


@pytest.mark.parametrize("trigger", [Trigger.SPLIT, Trigger.MERGE])
@pytest.mark.parametrize("also", [Trigger.ADD_SSTABLE, Trigger.HISTORY_MUTATION])
def test_a_change_in_the_command_of_a_split_or_merge_fails_its_feeds(trigger: Trigger, also: Trigger) -> None:
    log = HandLog(1)
    log.describe(PLAIN, OTHER)
    plain = log.open_range(1, PLAIN.span)
    log.open_range(2, OTHER.span)
    plain.index += 1
    log.write(plain.command(trigger=trigger)._replace(also=also, mutated=(PLAIN.span,)))
    ((feed_id, error),) = _failed(_run(log))
    assert "plain" in feed_id
    assert also.value in error


def test_only_the_keys_that_the_command_names_count() -> None:
    log = HandLog(partitions=1)
    log.describe(PLAIN, OTHER)
    both = log.open_range(1, Span(PLAIN.span.start, OTHER.span.end))
    both.index += 1
    log.write(both.command(trigger=Trigger.HISTORY_MUTATION)._replace(mutated=(OTHER.span,)))
    both.apply(PLAIN.put(8, 1, "after"), close=8)
    driven = _run(log)
    assert [feed_id for feed_id, _ in _failed(driven)] == ["other"]
    assert list(map(timestamp_of, driven.rows)) == [at(8)]


def test_a_copy_of_the_command_ends_no_feed_that_began_after_it() -> None:
    """Sources may write entries again; what a range has applied says nothing more."""
    log = HandLog(partitions=1)
    log.describe(PLAIN)
    plain = log.open_range(1, PLAIN.span)
    plain.apply(trigger=Trigger.ADD_SSTABLE, close=5)
    driven = Driven()
    driven.run(log.partitions[0])
    late = activation([PLAIN.descriptor], feed_id="plain", start=at(5))
    driven.control(Register(late.definition))
    driven.control(late)
    read = len(log.partitions[0])
    log.write(plain.command(trigger=Trigger.ADD_SSTABLE, close=5))
    plain.apply(PLAIN.put(8, 1, "after"), close=8)
    driven.run(log.partitions[0][read:])
    assert _failed(driven) == []
    assert list(map(timestamp_of, driven.rows)) == [at(8)]


@pytest.mark.parametrize("restarts", [False, True], ids=["", "restarts"])
def test_a_snapshot_and_the_change_behind_it_that_are_written_again_end_no_feed_that_began_after(
    restarts: bool,
) -> None:
    """A source that had crashed writes the end of a range's log again; the range is in a hole."""
    log, plain = opened()
    driven = active(activation([PLAIN.descriptor], feed_id="plain"))
    plain.apply(close=6.6)
    copied = len(log.partitions[0])
    plain.snapshot(close=6.6, high=6)
    plain.unreadable()
    plain.apply(trigger=Trigger.HISTORY_MUTATION)
    _read_twice(log, 0, copied, driven, restarts=restarts)


@pytest.mark.parametrize("restarts", [False, True], ids=["", "restarts"])
def test_a_snapshot_that_is_written_again_while_the_range_waits_makes_no_change_new(restarts: bool) -> None:
    """A child waits for its parent, whose partition is not read, for a feed on another table."""
    log = HandLog(2)
    log.describe(PLAIN, OTHER)
    parent = log.open_range(2, Span(PLAIN.span.start, OTHER.span.end))
    parent.apply(PLAIN.put(5, 150, "parent"), OTHER.put(5, 1, "other"), close=6)
    child = parent.split(_HIGH.start, 3, close=6)
    child.apply(close=6.5)
    copied = len(log.partitions[1])
    child.snapshot(close=6.6, high=5)
    child.apply(close=8)
    child.index += 1
    command = child.command(trigger=Trigger.HISTORY_MUTATION, close=8.5)
    log.write(command._replace(mutated=(PLAIN.span,)))
    driven = Driven.restored({}, 1, 2)
    driven.control(
        activation([PLAIN.descriptor], feed_id="plain"), activation([OTHER.descriptor], feed_id="other")
    )
    driven = _read_twice(log, 1, copied, driven, restarts=restarts)
    assert len(driven.processor.status().parked) == 1


def _read_twice(log: HandLog, partition: int, copied: int, driven: Driven, *, restarts: bool) -> Driven:
    """All of a partition, then once more what stands from ``copied`` on. A feed begins in between."""
    read, partitions, results = log.partitions[partition], len(log.partitions), driven.results
    for record in read:
        driven.step([record])
        if restarts:
            driven = Driven.restored(driven.state, partition, partitions)
            driven.results = results
            assert driven.processor.next_offset is not None
            driven.run(read[driven.processor.next_offset : record.offset + 1], 1)
    assert [feed_id for feed_id, _ in _failed(driven)] == ["plain"]
    late = activation([PLAIN.descriptor], feed_id="late", start=at(20))
    driven.control(Register(late.definition), late)
    for record in read[copied:]:
        log.write_bytes(partition, record.key, record.value)
    driven.run(log.partitions[partition][len(read) :], 1)
    assert [feed_id for feed_id, _ in _failed(driven)] == ["plain"]
    return driven


def test_a_range_deletion_gives_changefeeds_nothing() -> None:
    log = HandLog(partitions=1)
    log.describe(PLAIN, OTHER)
    plain = log.open_range(1, PLAIN.span)
    plain.apply(PLAIN.put(5, 1, "before"), close=5)
    plain.apply(DeleteRange(_LOW.start, _LOW.end, at(6)), close=7)
    plain.apply(PLAIN.put(8, 1, "after"), close=8)
    driven = _run(log)
    assert list(map(timestamp_of, driven.rows)) == [at(5), at(8)]
    assert driven.checkpoints[RangeId(1)].resolved == at(8)
    assert driven.causes == []


def _with_file(log: HandLog, plain: HandRange, seconds: float) -> None:
    """A file of versions of that time comes to the range, as IMPORT INTO brings them."""
    plain.index += 1
    command = plain.command(trigger=Trigger.ADD_SSTABLE, close=seconds)
    log.write(command._replace(at_write_timestamp=True, write_timestamp=at(seconds)))


def test_a_feed_that_is_registered_behind_a_change_starts_above_what_it_brought() -> None:
    log, plain = opened()
    _with_file(log, plain, 8)
    driven = Driven()
    driven.run(log.partitions[0])
    feed = activation([PLAIN.descriptor], feed_id="late")
    (registered,) = driven.control(Register(feed.definition)).acks
    assert isinstance(registered, Registered)
    assert registered.highest == at(8)


def test_a_feed_with_a_cursor_scans_for_what_a_change_brought() -> None:
    log, plain = opened()
    _with_file(log, plain, 8)
    driven = Driven()
    driven.run(log.partitions[0])
    options = replace(WITH_MARKERS, cursor=at(6))
    late = activation([PLAIN.descriptor], options, start=at(6), feed_id="late")
    driven.control(Register(late.definition), late)
    driven.step(())
    (scan,) = (request for request in driven.results[-1].requests if isinstance(request, Scan))
    assert (scan.after, scan.upto) == (at(6), at(8))


# ---- in holes, and in what ranges leave out of their backlogs ----

_KINDS = ["unreadable entry", "no op log", "missing index", "backlog"]


def _hidden(kind: str, log: HandLog, plain: HandRange) -> None:
    """Let the range break, and data change by a command that can be read."""
    if kind == "unreadable entry":
        plain.unreadable()
        plain.apply(trigger=Trigger.ADD_SSTABLE)
    elif kind == "no op log":
        plain.index += 1
        command = plain.command(trigger=Trigger.HISTORY_MUTATION)
        log.write(command._replace(ops=None, write_batch=bytes(12)))
    elif kind == "missing index":
        plain.index += 1
        plain.apply(trigger=Trigger.HISTORY_MUTATION)
    elif kind == "backlog":
        plain.unreadable()
        plain.snapshot(close=9, high=8)
        plain.apply(trigger=Trigger.ADD_SSTABLE)


@pytest.mark.parametrize("batch", [1, 99])
@pytest.mark.parametrize("kind", _KINDS)
def test_a_change_that_can_be_read_fails_its_feeds_whatever_state_the_range_is_in(
    kind: str, batch: int
) -> None:
    log, plain = opened()
    _hidden(kind, log, plain)
    driven = _run(log, batch)
    assert [feed_id for feed_id, _ in _failed(driven)] == ["plain"]
    plain.snapshot(close=9, high=8)
    plain.heartbeat(20)
    later = driven.run(log.partitions[0][int(driven.processor.next_offset or 0) :])
    named = [result.checkpoint.feeds for result in later if result.checkpoint is not None]
    assert {feed.feed_id for feeds in named for feed in feeds} <= {"other"}


@pytest.mark.parametrize("kind", _KINDS)
def test_a_feed_that_begins_behind_the_change_is_not_concerned_also_after_a_restart(kind: str) -> None:
    log, plain = opened()
    _hidden(kind, log, plain)
    driven = _run(log)
    driven.control(Remove(FeedId("plain"), FIRST_EPOCH))
    late = activation([PLAIN.descriptor], feed_id="late", start=at(5))
    driven.control(Register(late.definition), late)
    driven = Driven.restored(driven.state)
    again = log.partitions[0][int(driven.processor.next_offset or 0) :]
    plain.snapshot(close=9, high=8)
    driven.run(again)
    driven.run(log.partitions[0][int(driven.processor.next_offset or 0) :])
    assert _failed(driven) == []


def test_a_change_is_noted_with_the_keys_that_the_range_has_where_it_stands_in_the_backlog() -> None:
    log, plain = opened()
    plain.unreadable()
    plain.snapshot(close=9, high=8)
    child = plain.split(PLAIN.key(100), 2, close=9)
    plain.apply(trigger=Trigger.ADD_SSTABLE)
    low = activation([PLAIN.descriptor], feed_id="low")
    driven = active(low)
    driven.run(log.partitions[0])
    ((_, reason),) = _failed(driven)
    assert PLAIN.key(100).hex() in reason
    assert child.span.end.hex() not in reason


# ---- whose raft index is wrong ----


def _late(driven: Driven) -> None:
    """A feed begins behind what was read so far."""
    late = activation([PLAIN.descriptor], feed_id="late", start=at(8.5))
    driven.control(Register(late.definition), late)


def _far_above(log: HandLog, plain: HandRange) -> None:
    """A change by a command with an index that no command of the range comes to."""
    command = plain.command(trigger=Trigger.HISTORY_MUTATION)
    log.write(command._replace(raft_index=RaftIndex(1 << 40)))


def _go_on(driven: Driven, log: HandLog) -> None:
    driven.run(log.partitions[0][int(driven.processor.next_offset or 0) :])


@pytest.mark.parametrize("healed", [False, True], ids=["before its Snapshot", "behind it"])
def test_an_index_far_above_all_others_hides_no_later_change(healed: bool) -> None:
    log, plain = opened()
    _far_above(log, plain)
    if healed:
        plain.snapshot(close=8, high=5)
    driven = _run(log)
    assert [feed_id for feed_id, _ in _failed(driven)] == ["plain"]
    _late(driven)
    plain.apply(trigger=Trigger.HISTORY_MUTATION, close=9)
    _go_on(driven, log)
    assert [feed_id for feed_id, _ in _failed(driven)] == ["plain", "late"]


@pytest.mark.parametrize("more", [0, 1], ids=["at the same index", "above it"])
def test_what_a_snapshot_took_back_is_not_noted_again_when_it_is_read_again(more: int) -> None:
    """The range waits at its Snapshot, for a scan of the other table, before and after a restart."""
    log = HandLog(partitions=1)
    log.describe(PLAIN, OTHER)
    both = log.open_range(1, Span(PLAIN.span.start, OTHER.span.end))
    both.apply(OTHER.put(5, 1, "before"), close=6)
    both.unreadable()
    both.snapshot(close=8, high=7)
    command = both.command(trigger=Trigger.HISTORY_MUTATION)._replace(mutated=(PLAIN.span,))
    log.write(command._replace(raft_index=RaftIndex(1 << 40)))
    for _ in range(more):
        both.apply(close=8)
    both.snapshot(close=8, high=7)
    driven = _run(log)
    assert [feed_id for feed_id, _ in _failed(driven)] == ["plain"]
    _late(driven)
    for _ in range(2):
        driven = Driven.restored(driven.state)
        assert [each.range_id for each in driven.processor.status().parked] == []
        _go_on(driven, log)
        assert [each.range_id for each in driven.processor.status().parked] == [1]
        assert _failed(driven) == []
    both.index += 1
    log.write(both.command(trigger=Trigger.HISTORY_MUTATION, close=9)._replace(mutated=(PLAIN.span,)))
    _go_on(driven, log)
    assert [feed_id for feed_id, _ in _failed(driven)] == ["late"]


# ---- that no entry could tell ----


def _told(index: int, seconds: float) -> HistoryMutation:
    return HistoryMutation(RaftIndex(index), at(seconds))


@pytest.mark.parametrize("batch", [1, 99])
def test_a_change_in_an_entry_that_nobody_can_read_fails_the_feeds_that_it_may_concern(batch: int) -> None:
    log, plain = opened()
    plain.unreadable()
    plain.snapshot(close=9, high=8, last_mutation=_told(plain.index, 7))
    driven = _run(log, batch)
    ((feed_id, reason),) = _failed(driven)
    assert feed_id == "plain"
    assert f"raft index {plain.index}" in reason
    assert "missing or could not be applied" in reason


@pytest.mark.parametrize(
    "told",
    [NEVER_MUTATED, _told(11, 7), _told(0, 6), _told(0, 5.5)],
    ids=["never", "before the hole, by its index", "by its time", "long before"],
)
def test_a_change_from_before_a_hole_fails_nobody(told: HistoryMutation) -> None:
    log, plain = opened()
    plain.unreadable()
    plain.snapshot(close=9, high=8, last_mutation=told)
    assert _failed(_run(log)) == []


def test_a_feed_that_starts_above_what_a_hidden_change_could_change_is_not_concerned() -> None:
    log, plain = opened()
    plain.unreadable()
    plain.snapshot(close=9, high=8, last_mutation=_told(plain.index, 7))
    driven = active(activation([PLAIN.descriptor], feed_id="late", start=at(7)))
    driven.control(activation([PLAIN.descriptor], feed_id="early", start=at(6)))
    driven.run(log.partitions[0])
    assert [feed_id for feed_id, _ in _failed(driven)] == ["early"]


def test_a_feed_that_is_registered_behind_the_snapshot_starts_above_the_change() -> None:
    log, plain = opened()
    plain.unreadable()
    plain.snapshot(close=9, high=6, last_mutation=_told(plain.index, 8))
    driven = Driven()
    driven.run(log.partitions[0])
    feed = activation([PLAIN.descriptor], feed_id="late")
    (registered,) = driven.control(Register(feed.definition)).acks
    assert isinstance(registered, Registered)
    assert registered.highest == at(8)


def test_a_child_tells_of_what_its_parents_hole_hid() -> None:
    log, plain = opened()
    plain.unreadable()  # the change stands here, and the split behind it
    plain.unreadable()
    parent = plain.as_parent()
    child = HandRange(log, RangeId(2), _HIGH)
    child.generation = 2
    child.snapshot(reason=SnapshotReason.SPLIT, close=9, high=8, parents=(parent,), last_mutation=_told(0, 7))
    ((feed_id, reason),) = _failed(_run(log))
    assert feed_id == "plain"
    assert "a range that it came from" in reason


def test_a_child_of_a_whole_parent_tells_nothing_new() -> None:
    log, plain = opened()
    plain.apply(trigger=Trigger.SPLIT, close=8)
    parent = plain.as_parent()
    child = HandRange(log, RangeId(2), _HIGH)
    child.generation = 2
    child.snapshot(reason=SnapshotReason.SPLIT, close=9, high=8, parents=(parent,), last_mutation=_told(0, 7))
    assert _failed(_run(log)) == []


def test_of_keys_that_a_hole_brought_in_nothing_was_noted() -> None:
    log, plain = opened()
    plain.span = _LOW
    low = log.open_range(3, _LOW)
    low.apply(PLAIN.put(5, 1, "before"), close=6)
    low.unreadable()
    low.span = PLAIN.span  # merged within the hole; the change was there before
    low.generation = 2
    low.snapshot(close=9, high=8, last_mutation=_told(11, 5.5))
    ((_, reason),) = _failed(_run(log))
    assert f"{_HIGH.start.hex()} to {_HIGH.end.hex()}" in reason


def test_a_source_that_does_not_tell_is_named_once_and_fails_nobody() -> None:
    log, plain = opened()
    for second in (10, 20):
        plain.unreadable()
        plain.snapshot(close=second, high=second - 1, last_mutation=None)
        plain.apply(close=second)
    driven = _run(log)
    assert _failed(driven) == []
    assert len([cause for cause in driven.causes if "last_mutation" in cause]) == 1


def test_what_an_older_version_passed_in_a_backlog_is_noted_when_it_is_read_again() -> None:
    """That version noted a change where the range came to it, and stored nothing that says so."""
    log, plain = opened()
    plain.unreadable()
    plain.snapshot(close=9, high=8)
    plain.apply(trigger=Trigger.ADD_SSTABLE)
    driven = active(activation([PLAIN.descriptor], feed_id="plain"))
    driven.run(log.partitions[0][:-1])
    rows = dict(driven.state)
    place = StateTable.RANGES, encode_key(plain.id)
    row = pb.Range.FromString(rows[place][1:])
    row.ClearField("accounted")
    rows[place] = rows[place][:1] + row.SerializeToString()
    state = read_range(place[1], rows[place]).state
    assert state.accounted == AS_APPLIED
    state.scan = None
    mutations = Mutations(key_bytes=100)
    where = MutationPlace(Offset(log.partitions[0][-1].offset), PLAIN.span, ZERO_CLOSED, is_behind=True)
    command = decode_entry(log.partitions[0][-1].key, log.partitions[0][-1].value)
    assert isinstance(command, Command)
    mutations.note(state, command, where)
    assert [each.raft_index for each in mutations.take_noted()] == [command.raft_index]
    mutations.note(state, command, where)
    assert mutations.take_noted() == []
