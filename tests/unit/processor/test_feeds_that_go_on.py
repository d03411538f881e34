"""A feed that goes on in another epoch fails for data that changed outside the op log while nobody had it.

``docs/protocols/hand-over.md``, step H6, and ``docs/protocols/history-mutations.md``, X7 to X9.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final

import pytest

from tests.feeds import WITH_MARKERS, activation
from tests.hand_log import HandLog, HandRange, at, update_of
from tests.unit.processor.changes_outside_the_op_log import HIGH_KEYS, merged, mutated_in
from tests.unit.processor.driving import Driven
from tests.unit.processor.logs import OTHER, PLAIN, opened
from tidegate.changefeed.definition.feed import FIRST_EPOCH, AcceptedCluster, FeedEpoch, FeedState
from tidegate.changefeed.lifecycle.control import Activate, Failed, Register, Remove
from tidegate.changefeed.lifecycle.job_records import ProgressRecord, StateRecord
from tidegate.changefeed.lifecycle.takeover import resumed, takeover
from tidegate.hlc import ResolvedTimestamp, Timestamp
from tidegate.processor.batch import StateTable
from tidegate.processor.state import state_pb2 as pb
from tidegate.processor.state.state_codec import read_range
from tidegate.raftlog.encode import encode_key
from tidegate.raftlog.entry import HistoryMutation, Parent, RaftIndex, RangeId, SnapshotReason, Trigger
from tidegate.rows.table_key import index_span
from tidegate.spans import Span

_FIRST: Final = activation([PLAIN.descriptor], feed_id="plain")
_SECOND: Final = FeedEpoch(2)
_HIGH: Final = at(6)


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
    """Add a file whose versions stand below the high-water, as do all that the command may have changed."""
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
    ids=["came after it", "begins anew on a cluster that has nothing", "has written nothing before"],
)
def test_a_feed_that_has_written_nothing_from_before_the_change_goes_on(feed: Activate) -> None:
    log, plain = opened()
    plain.index += 1
    log.write(plain.command(trigger=Trigger.HISTORY_MUTATION, close=6.5)._replace(write_timestamp=at(6.2)))
    driven = Driven()
    driven.run(log.partitions[0])
    driven.control(Register(feed.definition), feed)
    assert _failed(driven) == []


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
    (kept,) = mutated_in(driven, 1)
    assert kept.span.intersect(Span(start, end)) == Span(start, end)
    assert max(map(len, kept.span)) <= 1_024
    second = _goes_on()
    driven.control(Register(second.definition), second)
    assert _failed(driven) == [("plain", 2)]


def test_of_what_a_snapshot_brings_unasked_only_keys_that_came_in_count_as_changed() -> None:
    log, _ = merged(HistoryMutation(RaftIndex(0), at(8.5)))
    driven = Driven.restored({}, 1, 2)
    driven.run(log.partitions[1])
    assert driven.processor.status().parked == ()
    assert [(each.span, each.time) for each in mutated_in(driven, 1)] == [(HIGH_KEYS, at(8.5))]


def test_a_split_and_a_merge_take_nothing_away() -> None:
    """The change was of keys that the range has given to another since, and that one is gone too."""
    log, plain = opened()
    _command(plain, Trigger.HISTORY_MUTATION, 6.5)
    right = plain.split(HIGH_KEYS.start, 2, close=7)
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
        HIGH_KEYS,
        close=6,
        high=5,
        parents=(parent,),
        last_mutation=HistoryMutation(RaftIndex(0), at(6.5)),
    )
    assert child.generation == 1
    driven = Driven.restored({}, 0, 2)
    driven.run(log.partitions[0])
    assert [(each.span, each.time) for each in mutated_in(driven, 2)] == [(HIGH_KEYS, at(6.5))]


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
