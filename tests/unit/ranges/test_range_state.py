"""One range: what it follows, what it passes over, and every reason to stop."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tidegate.errors import ForbiddenOp, GenerationError, MalformedEntry, MissingEntries, RangeError
from tidegate.hlc import NANOS_PER_SECOND, ZERO, ZERO_RESOLVED, ClosedTimestamp, ResolvedTimestamp, Timestamp
from tidegate.raftlog.entry import (
    AbortIntent,
    Command,
    CommitIntent,
    DeleteRange,
    Generation,
    Heartbeat,
    Offset,
    Op,
    OpenIntent,
    Parent,
    RaftIndex,
    RangeEnd,
    RangeId,
    Snapshot,
    Trigger,
    TxnId,
    WriteIntent,
    WriteValue,
)
from tidegate.ranges.claim_answer import answer_claim, give_up
from tidegate.ranges.floors import FLOORS_MAX, Floor
from tidegate.ranges.gap import Gap, ToldGaps
from tidegate.ranges.handoff import Claim, HandOff
from tidegate.ranges.range_log import apply_entry
from tidegate.ranges.range_state import RangeState, RangeStatus
from tidegate.ranges.scan import RangeScan, ScanPart
from tidegate.spans import Span

_ID = RangeId(7)
_TXN = TxnId(b"t" * 16)
_SPAN = Span(b"a", b"z")


def _closed(wall: int) -> ClosedTimestamp:
    return ClosedTimestamp(Timestamp(wall))


def _snapshot(
    index: int = 10,
    *,
    generation: int = 1,
    closed: int = 5,
    intents: tuple[OpenIntent, ...] = (),
    parents: tuple[Parent, ...] = (),
    chunk: int = 0,
    chunks: int = 1,
) -> Snapshot:
    return Snapshot(
        _ID,
        Generation(generation),
        RaftIndex(index),
        _SPAN,
        _closed(closed),
        Timestamp(4),
        ZERO,
        intents,
        parents=parents,
        chunk=chunk,
        chunks=chunks,
    )


#: Who keys come from that a range did not have.
_OTHER = (Parent(RangeId(9), Generation(1), RaftIndex(1)),)


def _command(
    index: int,
    *ops: Op,
    closed: int | None = None,
    generation: int = 1,
    trigger: Trigger = Trigger.NONE,
) -> Command:
    closed_timestamp = None if closed is None else _closed(closed)
    return Command(_ID, Generation(generation), RaftIndex(index), ops, closed_timestamp, trigger)


def _write(wall: int, key: bytes = b"k", value: bytes | None = b"v") -> WriteValue:
    return WriteValue(key, Timestamp(wall), value)


def _live(*entries: Command | Heartbeat | Snapshot | RangeEnd) -> RangeState:
    state = RangeState(_ID)
    for entry in (_snapshot(), *entries):
        apply_entry(state, entry)
    return state


def _claim(index: int) -> Claim:
    return Claim(RangeId(9), _ID, RaftIndex(index), Span(b"b", b"c"))


def test_a_snapshot_opens_the_range_at_its_closed_timestamp() -> None:
    state = _live()
    assert state.status is RangeStatus.LIVE
    assert state.resolved == Timestamp(5)
    assert state.high == Timestamp(4)


def test_an_open_intent_of_the_snapshot_holds_the_range_back() -> None:
    state = RangeState(_ID)
    apply_entry(state, _snapshot(intents=(OpenIntent(_TXN, b"anchor", b"k", Timestamp(3)),)))
    assert state.resolved == Timestamp(2)
    apply_entry(state, _command(11, CommitIntent(_TXN, b"k", Timestamp(3), b"v")))
    assert state.resolved == Timestamp(5)


def test_versions_come_out_in_op_order_with_their_place_in_the_log() -> None:
    state = _live()
    intent = WriteIntent(_TXN, b"a", Timestamp(8), Timestamp(8))
    first, second = apply_entry(state, _command(11, _write(6), intent, _write(7)))
    assert (first.timestamp, first.raft_index, first.ordinal) == (Timestamp(6), 11, 0)
    assert (second.timestamp, second.raft_index, second.ordinal) == (Timestamp(7), 11, 2)
    assert state.high == Timestamp(7)


def test_a_commands_closed_timestamp_counts_after_its_own_ops() -> None:
    state = _live()
    assert apply_entry(state, _command(11, _write(6), closed=9))
    assert state.resolved == Timestamp(9)


def test_entries_at_or_below_the_applied_index_are_passed_over() -> None:
    state = _live(_command(11, _write(6), closed=9))
    assert apply_entry(state, _command(11, _write(6), closed=9)) == []
    assert apply_entry(state, _command(10, _write(1))) == []


def test_a_heartbeat_closes_nothing_before_the_index_that_it_covers() -> None:
    state = _live(Heartbeat(_ID, Generation(1), _closed(20), RaftIndex(12)))
    assert state.resolved == Timestamp(5)
    apply_entry(state, _command(11))
    assert state.resolved == Timestamp(5)
    apply_entry(state, _command(12))
    assert state.resolved == Timestamp(20)


def test_a_lower_closed_timestamp_is_ignored_and_counted() -> None:
    state = _live(_command(11, closed=9), _command(12, closed=8))
    assert state.resolved == Timestamp(9)
    assert state.closed_regressions == 1


def test_a_new_generation_starts_a_new_resolver() -> None:
    state = _live(_command(11, closed=9))
    apply_entry(state, _snapshot(11, generation=2, closed=7))
    assert (state.generation, state.resolved) == (2, Timestamp(7))
    assert apply_entry(state, _command(12, _write(10), generation=2))


def test_a_new_generation_cannot_go_back_on_what_the_last_one_resolved() -> None:
    state = _live(_command(11, closed=9), _snapshot(11, generation=2, closed=1))
    with pytest.raises(ForbiddenOp, match="an earlier generation of the range had resolved"):
        apply_entry(state, _command(12, _write(6), generation=2))


def test_a_promise_of_an_earlier_generation_binds_its_own_keys_alone() -> None:
    wider = _snapshot(11, generation=2, closed=1, parents=_OTHER)._replace(span=Span(b"a", b"zz"))
    state = _live(_command(11, closed=9), wider)
    assert apply_entry(state, _command(12, _write(6, key=b"zy"), generation=2))


def test_a_promise_is_let_go_once_the_new_generation_has_caught_up() -> None:
    state = _live(_command(11, closed=9), _snapshot(11, generation=2, closed=1))
    apply_entry(state, _command(12, closed=20, generation=2))
    apply_entry(state, _command(13, _write(21), generation=2))
    assert not state.floors


def test_very_many_promises_bind_more_keys_than_they_were_made_for_and_none_binds_less() -> None:
    """What they forbid wrongly is a hole, and comes by a scan. What they forbid rightly would be a lie."""
    state = _live()
    for number in range(1, 200):
        key = number.to_bytes(1)
        state.add_floor(Floor(Span(b"k" + key, b"k" + key + b"\x00"), ResolvedTimestamp(Timestamp(9_000))))
    for number in range(1, 200):
        with pytest.raises(ForbiddenOp, match="an earlier generation of the range had resolved"):
            apply_entry(state, _command(11, _write(9_000, key=b"k" + number.to_bytes(1))))
    assert len(state.floors) == FLOORS_MAX
    assert apply_entry(state, _command(11, _write(9_001, key=b"k\x05"), _write(6, key=b"l")))
    apply_entry(state, _command(12, closed=9_000))
    assert apply_entry(state, _command(13, _write(9_001, key=b"k\x06")))
    assert not state.floors


@pytest.mark.parametrize(
    "parents", [(), (Parent(_ID, Generation(1), RaftIndex(11)),)], ids=["none", "itself"]
)
def test_a_snapshot_with_keys_of_which_nobody_is_told_is_not_followed(parents: tuple[Parent, ...]) -> None:
    """The one behind the merge is lost, which says whose rows come first."""
    state = _live(_command(11, closed=9, trigger=Trigger.MERGE))
    later = _snapshot(11, generation=2, closed=20, parents=parents)._replace(span=Span(b"a", b"zz"))
    with pytest.raises(GenerationError, match="has keys that the range did not have"):
        apply_entry(state, later)


@pytest.mark.parametrize(("index", "closes"), [(9, 5), (10, 50)])
def test_an_old_or_periodic_snapshot_of_a_healthy_range_changes_nothing(index: int, closes: int) -> None:
    state = _live()
    apply_entry(state, _snapshot(index, closed=closes))
    assert state.resolved == Timestamp(5)


def test_a_snapshot_in_chunks_counts_when_its_last_chunk_is_there() -> None:
    state = RangeState(_ID)
    intent = OpenIntent(_TXN, b"anchor", b"k", Timestamp(3))
    apply_entry(state, _snapshot(chunk=0, chunks=2))
    assert state.status is RangeStatus.UNINITIALISED
    apply_entry(state, _snapshot(chunk=1, chunks=2, intents=(intent,)))
    assert state.resolved == Timestamp(2)


@pytest.mark.parametrize("written", [1, 2])
@pytest.mark.parametrize("status", ["first", "split", "broken"])
def test_a_snapshot_that_begins_again_after_a_crash_of_the_source_counts(status: str, written: int) -> None:
    """Its chunks from before the crash do not count: an intent of theirs is not open twice."""
    state, index, generation = RangeState(_ID), 10, 1
    if status != "first":
        state, index, generation = _live(_command(11, trigger=Trigger.SPLIT)), 11, 2
    if status == "broken":
        state.quarantine_at(Offset(3), "a hole", state.resolved)
    intent = OpenIntent(_TXN, b"anchor", b"k", Timestamp(9))
    chunks = [
        _snapshot(index, generation=generation, closed=20, intents=(intent,), chunk=number, chunks=3)
        for number in range(3)
    ]
    for chunk in (*chunks[:written], *chunks):
        apply_entry(state, chunk)
    assert (state.status, state.generation, state.chunks) == (RangeStatus.LIVE, generation, [])
    assert state.resolver.queue.intents == 3
    assert state.resolved == Timestamp(8)


@pytest.mark.parametrize("other", [{"index": 12}, {"generation": 3}, {"chunks": 4}])
def test_another_snapshot_that_begins_amid_one_is_refused(other: dict[str, int]) -> None:
    state = RangeState(_ID)
    whole = {"index": 10, "generation": 1, "chunks": 3}
    apply_entry(state, _snapshot(**whole))  # type: ignore[arg-type]
    with pytest.raises(MalformedEntry, match="chunk 1 was expected"):
        apply_entry(state, _snapshot(**whole | other))  # type: ignore[arg-type]


def test_no_checkpoint_stands_between_a_trigger_and_its_snapshot() -> None:
    state = _live(_command(11, trigger=Trigger.SPLIT, closed=9))
    assert not state.checkpointable
    apply_entry(state, _snapshot(11, generation=2, closed=9))
    assert state.checkpointable


def test_an_ended_range_is_not_revived_by_a_replay() -> None:
    state = _live(RangeEnd(_ID, Generation(1), RaftIndex(10)))
    apply_entry(state, _snapshot())
    assert apply_entry(state, _command(11, _write(6))) == []
    assert state.status is RangeStatus.ENDED
    assert not state.checkpointable


@pytest.mark.parametrize(
    ("entry", "error", "why"),
    [
        (_command(12), MissingEntries, "11 to 11 are missing"),
        (_command(11, generation=0), GenerationError, "fell from 1 to 0"),
        (_command(11, generation=2), GenerationError, "without its snapshot"),
        (Heartbeat(_ID, Generation(2), _closed(9), RaftIndex(10)), GenerationError, "without its snapshot"),
        (_command(11, _write(5)), ForbiddenOp, "at or below the resolved"),
        (_command(11, WriteIntent(_TXN, b"a", Timestamp(5), ZERO)), ForbiddenOp, "at or below the resolved"),
        (_command(11, CommitIntent(_TXN, b"k", Timestamp(5), b"")), ForbiddenOp, "at or below the resolved"),
        (_command(11, _write(6, value=None)), MalformedEntry, "without its value"),
        (_command(11, _write(6, key=b"zz")), MalformedEntry, "outside the range"),
        (_command(11, DeleteRange(b"a", b"b", Timestamp(5))), ForbiddenOp, "a range deletion at"),
        (_command(11)._replace(ops=None), MalformedEntry, "no op log"),
        (_snapshot(12), MissingEntries, "skipped entries"),
        (_snapshot(12, generation=2), MissingEntries, "skipped entries"),
        (_snapshot(10, generation=0), GenerationError, "fell from 1 to 0"),
        (_snapshot(10, generation=2, chunk=1, chunks=2), MalformedEntry, "chunk 0 was expected"),
        (RangeEnd(_ID, Generation(1), RaftIndex(11)), MissingEntries, "ended at index 11"),
    ],
)
def test_what_cannot_be_followed_is_refused_by_name(
    entry: Command | Heartbeat | Snapshot | RangeEnd, error: type[RangeError], why: str
) -> None:
    with pytest.raises(error, match=why):
        apply_entry(_live(), entry)


def test_a_command_before_the_first_snapshot_is_refused() -> None:
    with pytest.raises(GenerationError, match="before the range's first snapshot"):
        apply_entry(RangeState(_ID), _command(11))


@pytest.mark.parametrize("entry", [_command(12), Heartbeat(_ID, Generation(1), _closed(9), RaftIndex(10))])
def test_nothing_may_stand_between_the_chunks_of_a_snapshot(entry: Command | Heartbeat) -> None:
    state = _live(_command(11, trigger=Trigger.SPLIT), _snapshot(11, generation=2, chunk=0, chunks=2))
    with pytest.raises(MalformedEntry, match="between the chunks"):
        apply_entry(state, entry)


def test_after_a_trigger_only_a_snapshot_will_do() -> None:
    state = _live(_command(11, trigger=Trigger.MERGE))
    with pytest.raises(GenerationError, match="snapshot must follow"):
        apply_entry(state, _command(12))


def test_a_quarantined_range_stands_still_and_gives_nothing() -> None:
    state = _live(_command(11, closed=9))
    state.quarantine_at(Offset(99), "a hole", ResolvedTimestamp(Timestamp(9)))
    assert apply_entry(state, _command(12, _write(30), closed=40)) == []
    apply_entry(state, _snapshot(10, closed=40))
    assert state.resolved == Timestamp(9)
    assert not state.checkpointable


def test_a_snapshot_ends_the_quarantine_and_the_hole_is_remembered() -> None:
    state = _live(_command(11, closed=9))
    state.quarantine_at(Offset(99), "a hole", ResolvedTimestamp(Timestamp(9)))
    apply_entry(state, _snapshot(15, closed=40))
    assert state.checkpointable
    assert state.resolved == Timestamp(40)
    assert [answer_claim(state, _claim(index)) for index in (11, 13, 15, 16)] == [
        HandOff(_claim(11), ZERO_RESOLVED, complete=True),
        HandOff(_claim(13), ResolvedTimestamp(Timestamp(9)), complete=False, span=_SPAN, told_gaps=()),
        HandOff(_claim(15), ResolvedTimestamp(Timestamp(9)), complete=False, span=_SPAN, told_gaps=()),
        None,
    ]


def test_a_range_in_a_hole_tells_how_far_it_came() -> None:
    state = _live(_command(11, closed=9))
    state.quarantine_at(Offset(99), "a hole", ResolvedTimestamp(Timestamp(9)))
    assert answer_claim(state, _claim(11)) == HandOff(_claim(11), ZERO_RESOLVED, complete=True)
    assert answer_claim(state, _claim(12)) == HandOff(
        _claim(12), ResolvedTimestamp(Timestamp(9)), complete=False, span=_SPAN, told_gaps=()
    )


def test_a_hand_off_carries_what_was_resolved_at_the_split() -> None:
    state = _live(_command(11, closed=9), _command(12, closed=20, trigger=Trigger.SPLIT))
    assert answer_claim(state, _claim(12)) is None, "not before the snapshot: it may be a merge"
    apply_entry(state, _snapshot(12, generation=2, closed=20))
    apply_entry(state, _command(13, closed=30, generation=2))
    assert answer_claim(state, _claim(12)) == HandOff(
        _claim(12), ResolvedTimestamp(Timestamp(9)), complete=True, span=_SPAN, told_gaps=()
    )


def test_of_a_forgotten_split_the_range_as_it_is_now_says_nothing() -> None:
    """It has none of the keys that left it, so what feeds miss of its own keys is no answer."""
    left, right = Span(b"a", b"m"), Span(b"m", b"z")
    state = _live(_command(11, closed=9, trigger=Trigger.SPLIT))
    apply_entry(state, _snapshot(11, generation=2, closed=20)._replace(span=left))
    state.promises, state.gaps = [], {"late": (Gap(left, Timestamp(3)),)}
    gone = replace(_claim(11), span=right)
    assert answer_claim(state, gone) == HandOff(gone, ZERO_RESOLVED, complete=True)
    kept = replace(_claim(11), span=_SPAN)
    answer = answer_claim(state, kept)
    assert answer is not None
    assert (answer.resolved.wall, answer.span) == (20, left), "what is merged away at once has these keys"


def test_of_very_many_holes_the_oldest_are_told_as_one_of_which_nothing_is_known() -> None:
    state = _live()
    for number in range(70):
        state.quarantine_at(Offset(number), "a hole", ResolvedTimestamp(Timestamp(9)))
        apply_entry(state, _snapshot(20 + 10 * number, closed=40))
    assert len(state.holes) == 64
    assert answer_claim(state, _claim(15)) == HandOff(_claim(15), ZERO_RESOLVED, complete=False)
    assert answer_claim(state, _claim(705)) == HandOff(
        _claim(705), ResolvedTimestamp(Timestamp(9)), complete=False, span=_SPAN, told_gaps=()
    )


def test_a_hand_off_says_what_feeds_lacked_at_that_index() -> None:
    gap = Gap(_SPAN, Timestamp(3))
    state = _live()
    state.serves, state.gaps = (lambda _: ("late", "other")), {"late": (gap,)}
    apply_entry(state, _command(11, closed=20, trigger=Trigger.SPLIT))
    apply_entry(state, _snapshot(11, generation=2, closed=20))
    state.gaps = {}
    answer = answer_claim(state, _claim(11))
    assert answer is not None
    assert answer.told_gaps == (ToldGaps("late", (gap,)), ToldGaps("other", ()))


def test_a_range_whose_keys_are_all_claimed_has_ended_though_nothing_says_so() -> None:
    state = _live(_command(11, closed=9))
    state.gaps = {"late": (Gap(_SPAN, Timestamp(3)),)}
    claim = replace(_claim(11), span=_SPAN)
    gaps = (ToldGaps("late", (Gap(_SPAN, Timestamp(3)),)),)
    told = HandOff(claim, ResolvedTimestamp(Timestamp(9)), complete=True, span=_SPAN, told_gaps=gaps)
    assert answer_claim(state, claim) == told
    give_up(state, claim)
    assert state.status is RangeStatus.ENDED
    assert answer_claim(state, claim) == told, "what is claimed again"
    assert apply_entry(state, RangeEnd(_ID, Generation(1), RaftIndex(11))) == []


def test_of_two_promises_at_one_index_the_one_counts_that_has_the_keys_which_are_claimed() -> None:
    low, high, wide = Span(b"a", b"m"), Span(b"m", b"z"), Span(b"a", b"zz")
    split = _live(_command(11, closed=9, trigger=Trigger.SPLIT))
    apply_entry(split, _snapshot(11, generation=2, closed=9)._replace(span=low))
    apply_entry(split, RangeEnd(_ID, Generation(2), RaftIndex(11)))
    merged = _live(_command(11, closed=9, trigger=Trigger.MERGE))
    apply_entry(merged, _snapshot(11, generation=2, closed=9, parents=_OTHER)._replace(span=wide))
    merged.gaps = {"late": (Gap(wide, Timestamp(3)),)}
    apply_entry(merged, RangeEnd(_ID, Generation(2), RaftIndex(11)))
    claims = [(split, low), (split, high), (merged, wide), (merged, low)]
    answers = [answer_claim(state, replace(_claim(11), span=span)) for state, span in claims]
    assert [answer and answer.span for answer in answers] == [low, _SPAN, wide, wide]
    assert answers[2] is not None
    assert answers[2].told_gaps == (ToldGaps("late", (Gap(wide, Timestamp(3)),)),)


@pytest.mark.parametrize("breaks", [False, True], ids=["well", "in a hole behind it"])
def test_a_range_whose_end_is_lost_speaks_of_the_keys_that_it_has_just_taken_over(breaks: bool) -> None:
    wide = Span(b"a", b"zz")
    merged = _live(_command(11, closed=9, trigger=Trigger.MERGE))
    apply_entry(merged, _snapshot(11, generation=2, closed=9, parents=_OTHER)._replace(span=wide))
    merged.gaps = {"late": (Gap(wide, Timestamp(3)),)}
    if breaks:
        merged.quarantine_at(Offset(30), "a hole", merged.resolved)
    answer = answer_claim(merged, replace(_claim(11), span=wide))
    assert answer is not None
    assert (answer.complete, answer.resolved.wall) == (True, 9)
    assert (answer.span, answer.told_gaps) == (wide, (ToldGaps("late", (Gap(wide, Timestamp(3)),)),))


def test_a_range_that_is_over_while_it_waits_for_a_scan_has_no_transactions_any_more() -> None:
    """What is stored of a range that has ended must not have any."""
    state = _live(_command(11, WriteIntent(_TXN, b"k", Timestamp(7), Timestamp(7)), closed=6))
    assert len(state.resolver.queue) == 1
    state.scan = RangeScan(_ID, Offset(5), _SPAN, [ScanPart(_SPAN, ZERO)], Timestamp(9), with_prev=False)
    give_up(state, replace(_claim(99), span=_SPAN))
    assert state.status is RangeStatus.ENDED
    assert len(state.resolver.queue) == 0


def test_a_range_of_whose_keys_some_are_claimed_goes_on() -> None:
    state = _live(_command(11, closed=9))
    give_up(state, replace(_claim(11), span=Span(_SPAN.start, _SPAN.start + b"\x01")))
    assert state.status is RangeStatus.LIVE


def test_a_hole_says_what_feeds_lacked_before_it() -> None:
    gap = Gap(_SPAN, Timestamp(3))
    state = _live()
    state.gaps = {"late": (gap,)}
    state.quarantine_at(Offset(99), "a hole", ResolvedTimestamp(Timestamp(9)))
    answers = [answer_claim(state, _claim(12))]
    apply_entry(state, _snapshot(15, closed=40))
    state.gaps = {}
    answers.append(answer_claim(state, _claim(12)))
    assert [answer and answer.told_gaps for answer in answers] == [(ToldGaps("late", (gap,)),)] * 2


def test_what_a_range_had_not_seen_when_it_began_it_hands_off_as_a_hole() -> None:
    state = _live()
    assert answer_claim(state, _claim(10)) == HandOff(_claim(10), ZERO_RESOLVED, complete=False)


def test_a_transaction_that_came_and_went_leaves_no_row_to_store() -> None:
    state = _live(
        _command(11, WriteIntent(_TXN, b"a", Timestamp(6), ZERO)),
        _command(12, AbortIntent(_TXN)),
    )
    assert not state.resolver.queue.changed
    assert not state.resolver.queue.gone


def _after_splits(*seconds: int) -> RangeState:
    """A range that closed up to each of ``seconds``, and then split."""
    state, index = _live(), 10
    for generation, second in enumerate(seconds, 2):
        closed = second * NANOS_PER_SECOND
        apply_entry(state, _command(index + 1, closed=closed, generation=generation - 1))
        split = _command(index + 2, closed=closed, generation=generation - 1, trigger=Trigger.SPLIT)
        apply_entry(state, split)
        index += 2
        apply_entry(state, _snapshot(index, generation=generation, closed=closed))
    return state


def test_a_promise_is_forgotten_when_the_range_has_closed_a_day_of_time_since() -> None:
    state = _after_splits(100, 200, 86_400 + 150)
    before = answer_claim(state, _claim(12))
    state.forget_old_promises()
    assert [promise.at for promise in state.promises] == [14, 16]
    assert before is not None
    assert before.span == _SPAN
    assert answer_claim(state, _claim(12)) == HandOff(_claim(12), ZERO_RESOLVED, complete=True)
    assert answer_claim(state, _claim(14)) == HandOff(
        _claim(14),
        ResolvedTimestamp(Timestamp(200 * NANOS_PER_SECOND)),
        complete=True,
        span=_SPAN,
        told_gaps=(),
    )


def test_a_range_that_closes_nothing_keeps_its_promises() -> None:
    state = _after_splits(100, 200)
    state.end()
    state.forget_old_promises()
    assert [promise.at for promise in state.promises] == [12, 14, 14]


def test_promises_that_name_the_same_feeds_have_them_in_memory_once() -> None:
    state = _live()
    state.serves = lambda _: ("one", "other")
    for generation, index in enumerate((11, 12, 13), 2):
        split = _command(index, closed=20, generation=generation - 1, trigger=Trigger.SPLIT)
        apply_entry(state, split)
        apply_entry(state, _snapshot(index, generation=generation, closed=20))
    assert len({id(promise.told_gaps) for promise in state.promises}) == 1


@pytest.mark.parametrize(
    ("closed", "kept"), [(86_500, [12, 14]), (86_501, [14]), (86_600, [14]), (86_601, [])]
)
def test_a_promise_is_kept_for_exactly_a_day(closed: int, kept: list[int]) -> None:
    state = _after_splits(100, 200)
    state.resolver.forward_closed(_closed(closed * NANOS_PER_SECOND))
    before = state.promises
    state.forget_old_promises()
    assert [promise.at for promise in state.promises] == kept
    assert (state.promises is before) == (len(kept) == 2), "a new list is stored anew"


def test_of_very_many_promises_the_last_are_kept() -> None:
    state = _after_splits(*range(100, 170))
    assert [promise.at for promise in state.promises] == [12 + 2 * number for number in range(6, 70)]
    other = _live()
    other.forget_old_promises()
    assert other.promises == []


def test_a_new_range_has_nothing_and_waits_for_nothing() -> None:
    state = RangeState(_ID)
    assert (state.awaits_snapshot, state.checkpointable, state.last_checkpoint) == (False, False, ZERO)
    assert (state.closed_regressions, state.refused_chunks, state.snapshots_taken) == (0, 0, 0)
    assert (state.applied, state.unseen, state.high, state.resolved) == (0, 0, ZERO, ZERO)


def _with_stored_transaction() -> RangeState:
    """Second 9 is closed, 6 resolved, since a transaction is open that is stored; 4 is published."""
    intent = WriteIntent(_TXN, b"a", Timestamp(7), Timestamp(7))
    state = _live(_command(11, intent, closed=9))
    queue = state.resolver.queue
    (txn,) = queue
    queue.stored_as(txn, 1)
    queue.changed.clear()
    state.published = ResolvedTimestamp(Timestamp(4))
    return state


def test_a_quarantined_range_forgets_its_transactions_but_nothing_that_it_said() -> None:
    state = _with_stored_transaction()
    state.quarantine_at(Offset(99), "a hole", state.resolved)
    assert (len(state.resolver.queue), state.resolver.queue.gone) == (0, {_TXN})
    assert (state.published, state.resolver.closed, state.resolved) == (
        Timestamp(4),
        Timestamp(9),
        Timestamp(6),
    )
    assert (state.last_checkpoint, state.checkpointable) == (Timestamp(6), False)


def test_a_range_that_ends_forgets_its_transactions_and_keeps_what_was_resolved_as_a_floor() -> None:
    state = _with_stored_transaction()
    assert state.last_checkpoint == ZERO
    state.end()
    assert (len(state.resolver.queue), state.resolver.queue.gone) == (0, {_TXN})
    assert (state.published, state.resolved) == (ZERO, ZERO)
    assert state.floors == [Floor(_SPAN, ResolvedTimestamp(Timestamp(6)))]


def test_a_range_that_broke_between_a_split_and_its_snapshot_gives_no_last_checkpoint() -> None:
    state = _live(_command(11, closed=9, trigger=Trigger.SPLIT))
    assert state.last_checkpoint == ZERO
    state.quarantine_at(Offset(99), "a hole", state.resolved)
    assert (state.resolved, state.last_checkpoint) == (Timestamp(9), ZERO)


def test_a_range_that_has_resolved_nothing_keeps_no_floor() -> None:
    state = RangeState(_ID)
    state.keep_promise()
    apply_entry(state, _snapshot(closed=0))
    state.keep_promise()
    assert state.floors == []
