"""Feeds straight from a log: what each kind of entry does to the feed of its range."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from sim.options import StoreOptions
from sim.workloads.bank import Bank, BankOptions
from tests.hand_log import FIRST_INDEX, HandLog, HandRange, HandTable, aborted, at, closed, intent, txn
from tests.logs import EVENTFUL_MIX, eventful_store, simulate
from tidegate.hlc import ZERO, Timestamp
from tidegate.raftlog.entry import (
    DeleteRange,
    Generation,
    Heartbeat,
    OpenIntent,
    RaftIndex,
    RangeId,
    SnapshotReason,
    Trigger,
)
from tidegate.rangefeed.event import CheckpointEvent, DeleteRangeEvent, ValueEvent
from tidegate.rangefeed.feed_end import EndReason, FeedEnd
from tidegate.rangefeed.log_feeds import LogEvent, LogFeeds, SteadyState
from tidegate.rangefeed.registration import FeedRequest
from tidegate.spans import EVERYTHING

TABLE = HandTable.of(104, "accounts")
LEFT, RIGHT = TABLE.split(10)
ELSEWHERE = HandTable.of(105, "others").span
WHOLE = FeedRequest(EVERYTHING)


@pytest.fixture
def log() -> HandLog:
    return HandLog(1)


@pytest.fixture
def range_(log: HandLog) -> HandRange:
    return log.open_range(7, TABLE.span, close=1)


def events(log: HandLog, request: FeedRequest = WHOLE, *, skip: int = 0) -> list[LogEvent]:
    """All events of the log's only partition, without its first ``skip`` records."""
    feeds = LogFeeds(request)
    return [
        found.event
        for record in log.partitions[0][skip:]
        for found in feeds.read_record(0, record.key, record.value)
    ]


def short(found: Sequence[LogEvent]) -> list[str]:
    """The events as words: what happened, and when in seconds."""
    return [_word(event) for event in found]


def _word(event: LogEvent) -> str:
    match event:
        case ValueEvent(value=value, timestamp=timestamp):
            return f"{'value' if value else 'delete'} {_seconds(timestamp)}"
        case CheckpointEvent(resolved=resolved):
            return f"checkpoint {_seconds(resolved)}"
        case SteadyState(resolved=resolved):
            return f"steady {_seconds(resolved)}"
        case FeedEnd(reason=reason):
            return reason.name
    return str(event)


def _seconds(timestamp: Timestamp) -> str:
    return f"{(timestamp.wall - at(0).wall) / 1e9:g}"


def test_values_checkpoints_and_the_steady_state_come_in_the_logs_order(
    log: HandLog, range_: HandRange
) -> None:
    range_.apply(TABLE.put(2, 1, "a"), intent(1, 3))
    range_.apply(TABLE.delete(4, 1), TABLE.commit(1, 3, 2, "b"), close=5)
    assert short(events(log)) == [
        "checkpoint 1", "steady 1", "value 2", "delete 4", "value 3", "checkpoint 5",
    ]  # fmt: skip


def test_an_open_intent_of_the_snapshot_holds_checkpoints_back(log: HandLog) -> None:
    opened = [OpenIntent(txn(1), b"anchor", b"k", at(3))]
    range_ = log.open_range(7, TABLE.span, close=1, intents=opened)
    range_.apply(close=9)
    found = [event for event in events(log) if isinstance(event, CheckpointEvent)]
    assert at(2.9) < found[-1].resolved < at(3)
    range_.apply(aborted(1))
    assert short(events(log))[-1] == "checkpoint 9"


def test_a_start_is_exclusive_and_the_steady_state_is_where_checkpoints_reach_it(
    log: HandLog, range_: HandRange
) -> None:
    range_.apply(TABLE.put(2, 1, "a"), TABLE.put(3, 2, "b"), close=1.5)
    range_.apply(close=4)
    found = short(events(log, WHOLE._replace(start=at(2))))
    assert found == ["checkpoint 1", "value 3", "checkpoint 1.5", "checkpoint 4", "steady 4"]


def test_the_steady_state_begins_where_a_checkpoint_is_at_the_start_exactly(
    log: HandLog, range_: HandRange
) -> None:
    range_.apply(close=2)
    found = short(events(log, WHOLE._replace(start=at(2))))
    assert found == ["checkpoint 1", "checkpoint 2", "steady 2"]


@pytest.mark.parametrize("generation", [0, 1, 7])
def test_a_range_may_begin_in_any_generation(log: HandLog, generation: int) -> None:
    range_ = HandRange(log, RangeId(7), TABLE.span)
    range_.generation = generation
    range_.snapshot(close=1)
    range_.apply(TABLE.put(2, 1, "a"))
    assert short(events(log)) == ["checkpoint 1", "steady 1", "value 2"]


def test_only_the_span_that_was_asked_for_is_shown(log: HandLog, range_: HandRange) -> None:
    log.open_range(8, ELSEWHERE, close=9)
    range_.apply(TABLE.put(2, 1, "a"), TABLE.put(2, 20, "b"), DeleteRange(*TABLE.span, at(3)), close=5)
    found = events(log, FeedRequest(RIGHT))
    keys = [event.key for event in found if isinstance(event, ValueEvent)]
    assert keys == [TABLE.key(20)]
    assert {event.span for event in found if isinstance(event, CheckpointEvent | DeleteRangeEvent)} == {RIGHT}


@pytest.mark.parametrize("with_diff", [True, False])
def test_previous_values_come_when_they_are_asked_for(
    log: HandLog, range_: HandRange, with_diff: bool
) -> None:
    range_.apply(TABLE.put(2, 1, "new")._replace(prev_value=b"old"))
    found = [
        event for event in events(log, WHOLE._replace(with_diff=with_diff)) if isinstance(event, ValueEvent)
    ]
    assert [event.prev_value for event in found] == [b"old" if with_diff else None]


def test_a_heartbeat_closes_nothing_before_its_index_is_applied(log: HandLog, range_: HandRange) -> None:
    range_.heartbeat(9, covers=FIRST_INDEX + 1)
    assert short(events(log)) == ["checkpoint 1", "steady 1"]
    range_.apply(TABLE.put(2, 1, "a"))
    assert short(events(log))[2:] == ["value 2", "checkpoint 9"]


def test_a_heartbeat_that_was_taken_at_an_earlier_index_closes_too(log: HandLog, range_: HandRange) -> None:
    range_.apply(TABLE.put(2, 1, "a"))
    range_.heartbeat(5, covers=FIRST_INDEX + 1)
    range_.heartbeat(7, covers=FIRST_INDEX)
    assert short(events(log))[2:] == ["value 2", "checkpoint 5", "checkpoint 7"]


def test_of_two_heartbeats_that_wait_for_an_index_the_later_one_counts(
    log: HandLog, range_: HandRange
) -> None:
    range_.heartbeat(7, covers=FIRST_INDEX + 1)
    range_.heartbeat(9, covers=FIRST_INDEX + 1)
    range_.apply(TABLE.put(2, 1, "a"))
    assert short(events(log))[2:] == ["value 2", "checkpoint 9"]


def test_a_split_ends_the_feed_and_both_sides_begin_anew(log: HandLog, range_: HandRange) -> None:
    range_.apply(TABLE.put(2, 1, "a"), trigger=Trigger.SPLIT)
    range_.generation, range_.span = 2, LEFT
    range_.snapshot(close=2, reason=SnapshotReason.SPLIT)
    right = log.open_range(8, RIGHT, close=2)
    range_.apply(TABLE.put(3, 2, "b"), close=4)
    right.apply(TABLE.put(3, 20, "c"), close=5)
    assert short(events(log)) == [
        "checkpoint 1", "steady 1", "value 2", "RANGE_SPLIT",
        "checkpoint 2", "steady 2", "checkpoint 2", "steady 2",
        "value 3", "checkpoint 4", "value 3", "checkpoint 5",
    ]  # fmt: skip


def test_a_merge_ends_both_feeds_and_the_survivor_begins_anew(log: HandLog) -> None:
    left, right = log.open_range(7, LEFT, close=1), log.open_range(8, RIGHT, close=1)
    right.end()
    left.apply(trigger=Trigger.MERGE)
    left.generation, left.span = 2, TABLE.span
    left.snapshot(close=2, reason=SnapshotReason.MERGE)
    left.apply(TABLE.put(3, 20, "c"))
    right.heartbeat(9)
    found = short(events(log))
    assert found[4:] == ["RANGE_MERGED", "RANGE_MERGED", "checkpoint 2", "steady 2", "value 3"]


@pytest.mark.parametrize("trigger", [Trigger.HISTORY_MUTATION, Trigger.ADD_SSTABLE])
def test_rewritten_history_ends_the_feeds_of_the_spans_that_it_touches(
    log: HandLog, range_: HandRange, trigger: Trigger
) -> None:
    range_.index += 1
    log.write(range_.command(trigger=trigger)._replace(mutated=(LEFT,)))
    assert short(events(log))[-1] == "HISTORY_MUTATED"
    assert short(events(log, FeedRequest(RIGHT)))[-1] == "steady 1"


@pytest.mark.parametrize("trigger", [Trigger.SPLIT, Trigger.MERGE])
def test_history_that_is_rewritten_beside_the_end_of_a_range_is_told(
    log: HandLog, range_: HandRange, trigger: Trigger
) -> None:
    range_.index += 1
    log.write(range_.command(trigger=trigger)._replace(mutated=(LEFT,), also=Trigger.HISTORY_MUTATION))
    assert short(events(log))[-1] == "HISTORY_MUTATED"
    assert short(events(log, FeedRequest(RIGHT)))[-1].startswith("RANGE_")


def test_history_that_was_rewritten_nobody_says_where_ends_every_feed_of_the_range(
    log: HandLog, range_: HandRange
) -> None:
    range_.index += 1
    log.write(range_.command(trigger=Trigger.HISTORY_MUTATION))
    assert short(events(log, FeedRequest(RIGHT)))[-1] == "HISTORY_MUTATED"


def test_a_gap_ends_the_feed_until_the_next_snapshot(log: HandLog, range_: HandRange) -> None:
    range_.index += 1
    range_.apply(TABLE.put(2, 1, "missed"))
    range_.apply(TABLE.put(3, 1, "unheard"), close=3)
    range_.snapshot(close=4)
    range_.apply(TABLE.put(5, 1, "a"))
    found = events(log)
    assert short(found)[2:] == ["RAFT_SNAPSHOT", "checkpoint 4", "steady 4", "value 5"]
    end = found[2]
    assert isinstance(end, FeedEnd)
    assert end.detail == f"raft indexes {FIRST_INDEX + 1} to {FIRST_INDEX + 1} are missing"


def test_records_that_the_source_writes_again_from_a_snapshot_on_fill_a_gap(
    log: HandLog, range_: HandRange
) -> None:
    """A write failed and the next one did not, so the source writes again from there."""
    first, missed, unheard = (
        range_.command(TABLE.put(wall, 1, "v"))._replace(raft_index=RaftIndex(FIRST_INDEX + wall - 1))
        for wall in (2, 3, 4)
    )
    log.write(first)
    log.write(unheard)
    range_.index += 1
    range_.snapshot(close=2)
    log.write(missed)
    log.write(unheard)
    assert short(events(log))[2:] == [
        "value 2", "RAFT_SNAPSHOT", "checkpoint 2", "steady 2", "value 3", "value 4",
    ]  # fmt: skip


def test_a_snapshot_after_a_missing_op_log_begins_anew_though_later_commands_came_before_it(
    log: HandLog, range_: HandRange
) -> None:
    range_.index += 1
    log.write(range_.command()._replace(ops=None, write_batch=b"some"))
    later = range_.command(TABLE.put(3, 1, "a"))._replace(raft_index=RaftIndex(range_.index + 1))
    log.write(later)
    range_.snapshot(close=2)
    log.write(later)
    assert short(events(log))[2:] == ["LOGICAL_OPS_MISSING", "checkpoint 2", "steady 2", "value 3"]


def test_a_snapshot_of_a_higher_generation_begins_anew_at_the_applied_index(
    log: HandLog, range_: HandRange
) -> None:
    range_.generation = 2
    range_.snapshot(close=2)
    range_.apply(TABLE.put(3, 1, "a"))
    assert short(events(log))[2:] == ["RAFT_SNAPSHOT", "checkpoint 2", "steady 2", "value 3"]


def test_snapshots_ends_and_copies_of_a_lower_generation_are_passed_over(log: HandLog) -> None:
    range_ = HandRange(log, RangeId(7), TABLE.span)
    range_.generation = 2
    range_.snapshot(close=1)
    copy = range_.command(TABLE.put(2, 1, "copy"))
    log.write(copy._replace(generation=Generation(1), raft_index=RaftIndex(FIRST_INDEX)))
    range_.generation = 1
    range_.index += 1
    range_.snapshot(close=9)
    range_.end()
    range_.generation = 2
    range_.index -= 1
    range_.apply(TABLE.put(3, 1, "a"))
    assert short(events(log)) == ["checkpoint 1", "steady 1", "value 3"]


def test_a_new_command_of_a_lower_generation_ends_the_feed(log: HandLog) -> None:
    """Without the end nobody would hear of its values, or that the range goes on."""
    range_ = HandRange(log, RangeId(7), TABLE.span)
    range_.generation = 2
    range_.snapshot(close=1)
    range_.generation = 1
    range_.apply(TABLE.put(2, 1, "a"), close=9)
    found = events(log)
    assert short(found) == ["checkpoint 1", "steady 1", "RAFT_SNAPSHOT"]
    assert isinstance(found[-1], FeedEnd)
    assert found[-1].detail == "the generation fell from 2 to 1"


def test_a_snapshot_that_skipped_entries_ends_the_feed_and_begins_it_anew(
    log: HandLog, range_: HandRange
) -> None:
    range_.index += 5
    range_.snapshot(close=4, reason=SnapshotReason.RAFT_SNAPSHOT)
    assert short(events(log)) == ["checkpoint 1", "steady 1", "RAFT_SNAPSHOT", "checkpoint 4", "steady 4"]


def test_a_command_without_an_op_log_ends_the_feed(log: HandLog, range_: HandRange) -> None:
    range_.index += 1
    log.write(range_.command()._replace(ops=None, write_batch=b"some"))
    assert short(events(log))[-1] == "LOGICAL_OPS_MISSING"


def test_a_write_at_or_below_the_resolved_timestamp_is_the_end_and_not_a_row(
    log: HandLog, range_: HandRange
) -> None:
    range_.apply(TABLE.put(1, 1, "late"), close=5)
    range_.apply(TABLE.put(6, 1, "unheard"), close=7)
    range_.heartbeat(8)
    found = events(log)
    assert short(found) == ["checkpoint 1", "steady 1", "FAILED"]
    assert isinstance(found[-1], FeedEnd)
    assert "at or below the resolved timestamp" in found[-1].detail


def test_a_record_that_cannot_be_read_ends_the_feed_of_its_range_alone(
    log: HandLog, range_: HandRange
) -> None:
    log.open_range(8, ELSEWHERE, close=1)
    before = len(events(log))
    log.write_bytes(0, b"\x00" * 7 + b"\x07", b"\xff")
    assert short(events(log))[before:] == ["FAILED"]
    log.write_bytes(0, b"odd", b"\xff")
    assert short(events(log))[before:] == ["FAILED", "FAILED"]


def test_periodic_snapshots_and_copies_change_nothing(log: HandLog, range_: HandRange) -> None:
    range_.apply(TABLE.put(2, 1, "a"))
    range_.snapshot(close=2)
    log.write(range_.command(TABLE.put(2, 1, "a")))
    range_.apply(TABLE.put(3, 1, "b"), close=4)
    assert short(events(log))[2:] == ["value 2", "value 3", "checkpoint 4"]


def test_a_range_without_a_snapshot_gives_values_and_checkpoints_from_the_next_one_on(
    log: HandLog, range_: HandRange
) -> None:
    range_.apply(TABLE.put(2, 1, "a"), close=3)
    range_.apply(aborted(5), TABLE.put(4, 1, "b"), close=5)
    range_.snapshot(close=5, intents=[OpenIntent(txn(1), b"anchor", b"k", at(7))])
    range_.apply(close=9)
    found = short(events(log, skip=1))
    assert found == ["value 2", "value 4", "checkpoint 5", "steady 5", "checkpoint 7"]


def test_a_gap_is_told_of_a_range_without_a_snapshot_too(log: HandLog, range_: HandRange) -> None:
    range_.apply(TABLE.put(2, 1, "a"))
    range_.index += 1
    range_.apply(TABLE.put(4, 1, "b"))
    assert short(events(log, skip=1)) == ["value 2", "RAFT_SNAPSHOT"]


def test_a_range_whose_first_snapshot_says_that_it_lies_elsewhere_is_not_followed(log: HandLog) -> None:
    """The log was mixed up: the range has no right to the second row."""
    range_ = log.open_range(7, LEFT, close=1)
    range_.apply(TABLE.put(2, 1, "a"))
    range_.snapshot(close=2)
    range_.apply(TABLE.put(3, 20, "b"), close=4)
    assert events(log, FeedRequest(RIGHT), skip=1) == []


def test_nothing_is_followed_after_the_end_of_a_range(log: HandLog, range_: HandRange) -> None:
    range_.apply(TABLE.put(2, 1, "a"))
    range_.end()
    log.write(range_.command(TABLE.put(2, 1, "a")))
    assert events(log, skip=2) == []
    assert short(events(log))[2:] == ["value 2", "RANGE_MERGED"]


def test_a_snapshot_after_the_end_of_a_range_begins_nothing(log: HandLog, range_: HandRange) -> None:
    """A source may write the last Snapshot and the end again; and a range id is never used again."""
    range_.end()
    range_.snapshot(close=1)
    range_.end()
    range_.generation += 1
    range_.snapshot(close=5)
    range_.apply(TABLE.put(6, 1, "a"), close=7)
    assert short(events(log)) == ["checkpoint 1", "steady 1", "RANGE_MERGED"]


def test_entries_that_are_skipped_before_the_first_snapshot_are_told(log: HandLog, range_: HandRange) -> None:
    range_.apply(TABLE.put(2, 1, "a"))
    range_.index += 3
    range_.snapshot(close=5, reason=SnapshotReason.RAFT_SNAPSHOT)
    assert short(events(log, skip=1)) == ["value 2", "RAFT_SNAPSHOT", "checkpoint 5", "steady 5"]


def test_a_snapshot_of_several_chunks_is_taken_when_it_is_whole(log: HandLog) -> None:
    range_ = log.open_range(7, TABLE.span, close=1, chunk=0, chunks=2)
    assert events(log) == []
    range_.snapshot(close=1, chunk=1, chunks=2, intents=[OpenIntent(txn(1), b"a", b"k", at(3))])
    range_.apply(close=9)
    assert [word.split()[0] for word in short(events(log))] == ["checkpoint", "steady", "checkpoint"]


@pytest.mark.parametrize("sequence", [(1, 1), (0, 2, 2), (1, 2, 0), (1, 2, 2)])
def test_chunks_that_do_not_follow_each_other_are_no_snapshot(
    log: HandLog, sequence: tuple[int, ...]
) -> None:
    range_ = HandRange(log, RangeId(7), TABLE.span)
    for chunk in sequence:
        range_.snapshot(close=1, chunk=chunk, chunks=len(sequence))
    assert events(log) == []


@pytest.mark.parametrize(
    "between",
    [
        lambda log, range_: range_.apply(TABLE.put(2, 1, "a")),
        lambda log, range_: range_.heartbeat(2),
        lambda log, range_: log.write_bytes(0, b"\x00" * 7 + b"\x07", b"\xff"),
    ],
    ids=["command", "heartbeat", "unreadable"],
)
def test_chunks_that_do_not_stand_together_are_no_snapshot(
    log: HandLog, between: Callable[[HandLog, HandRange], object]
) -> None:
    """The second chunk may be of a later snapshot, and lack intents that the first one would have."""
    range_ = HandRange(log, RangeId(7), ELSEWHERE)
    range_.snapshot(close=1, chunk=0, chunks=2)
    between(log, range_)
    range_.index = FIRST_INDEX
    range_.snapshot(close=1, chunk=1, chunks=2)
    assert "checkpoint 1" not in short(events(log))


@pytest.mark.parametrize("change", ["generation", "index", "span", "chunks"])
def test_chunks_of_two_snapshots_are_not_put_together(log: HandLog, change: str) -> None:
    range_ = HandRange(log, RangeId(7), LEFT if change == "span" else TABLE.span)
    range_.snapshot(close=1, chunk=0, chunks=3 if change == "chunks" else 2)
    range_.span = TABLE.span
    range_.generation += change == "generation"
    range_.index += change == "index"
    range_.snapshot(close=5, chunk=1, chunks=2)
    assert events(log) == []


def test_a_snapshot_that_begins_anew_counts_from_its_last_beginning(log: HandLog) -> None:
    range_ = HandRange(log, RangeId(7), TABLE.span)
    range_.snapshot(close=1, chunk=0, chunks=2, intents=[OpenIntent(txn(1), b"a", b"k", at(3))])
    range_.snapshot(close=1, chunk=0, chunks=2)
    range_.snapshot(close=1, chunk=1, chunks=2)
    range_.apply(close=9)
    assert short(events(log)) == ["checkpoint 1", "steady 1", "checkpoint 9"]


@pytest.mark.parametrize(("first", "second"), [(1, 3), (3, 1)])
def test_the_highest_timestamp_that_a_chunk_closes_is_closed(log: HandLog, first: int, second: int) -> None:
    range_ = log.open_range(7, TABLE.span, close=first, chunk=0, chunks=2)
    range_.snapshot(close=second, chunk=1, chunks=2)
    assert short(events(log)) == ["checkpoint 3", "steady 3"]


def test_a_command_with_more_events_than_are_held_at_a_time_comes_whole(
    log: HandLog, range_: HandRange
) -> None:
    range_.apply(*(TABLE.put(2 + i / 1000, i, "v") for i in range(2_500)))
    values = [event for event in events(log) if isinstance(event, ValueEvent)]
    assert [event.key for event in values] == [TABLE.key(i) for i in range(2_500)]


_QUIET = eventful_store(2)
_MOVING = replace(_QUIET, split_every_ms=150, merge_every_ms=200, move_lease_every_ms=300)


@pytest.mark.parametrize(
    ("options", "ends"),
    [(_QUIET, set()), (_MOVING, {EndReason.RANGE_SPLIT, EndReason.RANGE_MERGED})],
    ids=["quiet", "moving"],
)
def test_what_a_simulated_store_committed_comes_out_once_and_above_what_was_resolved(
    options: StoreOptions, ends: set[EndReason]
) -> None:
    bank = Bank(BankOptions(accounts=20, ranges=4, outcomes=EVENTFUL_MIX), seed=3)
    simulated = simulate(bank, options, seed=3, transactions=100)
    feeds = LogFeeds(WHOLE)
    values: list[tuple[bytes, Timestamp, bytes]] = []
    resolved: dict[RangeId, Timestamp] = {}
    reasons: set[EndReason] = set()
    for number, partition in enumerate(simulated.partitions):
        for record in partition:
            for range_id, event in feeds.read_record(number, record.key, record.value):
                match event:
                    case ValueEvent(key, timestamp, value):
                        assert timestamp > resolved.get(range_id, ZERO)
                        values.append((key, timestamp, value))
                    case CheckpointEvent():
                        resolved[range_id] = event.resolved
                    case FeedEnd(reason):
                        reasons.add(reason)
                        resolved.pop(range_id, None)
    assert sorted(values) == sorted((v.key, v.timestamp, v.value) for v in simulated.history)
    assert reasons == ends


def test_a_heartbeat_of_another_generation_is_passed_over(log: HandLog, range_: HandRange) -> None:
    log.write(Heartbeat(range_.id, 9, closed(99), RaftIndex(FIRST_INDEX)))  # type: ignore[arg-type]
    assert short(events(log)) == ["checkpoint 1", "steady 1"]


def test_the_end_of_a_range_that_may_lie_elsewhere_is_not_told(log: HandLog, range_: HandRange) -> None:
    range_.apply(TABLE.put(2, 1, "a"), trigger=Trigger.SPLIT)
    assert short(events(log, FeedRequest(RIGHT), skip=1)) == []
    assert short(events(log, FeedRequest(LEFT), skip=1)) == ["value 2", "RANGE_SPLIT"]
