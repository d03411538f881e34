"""What a partition notes of changes outside the op log: commands that count, keys that count, and times."""

from __future__ import annotations

from typing import Final

import pytest

from tests.hand_log import HandTable
from tidegate.hlc import MAX, ZERO, ClosedTimestamp, ResolvedTimestamp, Timestamp
from tidegate.processor.feeds.changes_outside_log import MutationPlace, Mutations
from tidegate.raftlog.entry import (
    NEVER_MUTATED,
    Command,
    Generation,
    HistoryMutation,
    Offset,
    RaftIndex,
    RangeId,
    Snapshot,
    Trigger,
)
from tidegate.ranges.accounted import Accounted
from tidegate.ranges.floors import Floor
from tidegate.ranges.mutated_keys import MutatedKeys
from tidegate.ranges.range_state import Quarantine, RangeState, RangeStatus
from tidegate.spans import Span

_PLAIN: Final = HandTable.of(104, "plain")
_LOW, _HIGH = _PLAIN.split(100)
_WHOLE: Final = _PLAIN.span
#: The most bytes of a key that is kept as it is.
_KEPT: Final = 1_024


def _state(applied: int = 10, *, broken: bool = False, **accounted: object) -> RangeState:
    """A range with the keys of the table; what is accounted for is given by field."""
    state = RangeState(RangeId(7))
    state.span, state.applied, state.status = _WHOLE, RaftIndex(applied), RangeStatus.LIVE
    state.accounted = Accounted()._replace(**accounted)  # type: ignore[arg-type]
    if broken:
        state.status = RangeStatus.QUARANTINED
        state.quarantine = Quarantine("it is broken", Offset(0), ResolvedTimestamp(ZERO))
    return state


def _command(index: int, generation: int = 1, *mutated: Span) -> Command:
    return Command(
        RangeId(7),
        Generation(generation),
        RaftIndex(index),
        (),
        None,
        Trigger.HISTORY_MUTATION,
        mutated=mutated,
    )


def _snapshot(
    index: int, told: HistoryMutation | None = NEVER_MUTATED, *, closed: int = 0, span: Span = _WHOLE
) -> Snapshot:
    return Snapshot(
        RangeId(7),
        Generation(1),
        RaftIndex(index),
        span,
        ClosedTimestamp(Timestamp(closed)),
        Timestamp(9),
        ZERO,
        last_mutation=told,
    )


def _told(index: int, time: int) -> HistoryMutation:
    return HistoryMutation(RaftIndex(index), Timestamp(time))


def _note(state: RangeState, command: Command, closed: int = 0, offset: int = 5) -> Mutations:
    mutations = Mutations(key_bytes=2_000)
    place = MutationPlace(Offset(offset), state.span, ClosedTimestamp(Timestamp(closed)), is_behind=False)
    mutations.note(state, command, place)
    return mutations


# ---- commands that are accounted for ----


@pytest.mark.parametrize(
    ("applied", "before", "index", "generation", "accounted"),
    [
        (10, 0, 11, 3, 11),
        (10, 15, 16, 3, 16),
        (10, 5, 11, 2, 11),
        (10, 5, 10, 3, 5),
        (10, 5, 12, 3, 5),
        (10, 15, 11, 3, 15),
        (10, 15, 17, 3, 15),
        (10, 0, 11, 4, 0),
    ],
    ids=[
        "next",
        "next of those",
        "earlier generation",
        "again",
        "gap",
        "copy",
        "gap behind",
        "later generation",
    ],
)
def test_a_command_that_was_read_counts_if_it_is_the_next_one_and_of_no_later_generation(
    applied: int, before: int, index: int, generation: int, accounted: int
) -> None:
    state = _state(applied, raft_index=RaftIndex(before))
    Mutations(key_bytes=100).account(state, _command(index, generation), Generation(3))
    assert state.accounted == Accounted(RaftIndex(accounted))


def test_a_snapshot_that_was_read_before_takes_nothing_back() -> None:
    for is_new, noted in ((True, 20), (False, 30)):
        state = _state(noted=RaftIndex(30))
        Mutations(key_bytes=100).pass_snapshot(
            state, _snapshot(20), ClosedTimestamp(Timestamp(8)), is_new=is_new
        )
        assert state.accounted.noted == noted


@pytest.mark.parametrize(
    ("longest", "span"), [(5, _LOW), (4, Span(_WHOLE.end, _WHOLE.end))], ids=["it can be stored", "it cannot"]
)
def test_only_keys_of_all_left_out_spans_count_and_none_where_a_bound_cannot_be_stored(
    longest: int, span: Span
) -> None:
    state, mutations = _state(), Mutations(key_bytes=longest)
    assert {len(key) for key in (*_LOW, *_WHOLE)} == {1, 4}
    mutations.leave_out(state, [Span(b"", b"\xff" * 5), _LOW, _WHOLE])
    assert state.accounted == Accounted(span=span)


# ---- what a snapshot tells ----


@pytest.mark.parametrize(
    ("index", "accounted", "is_untold"), [(10, 0, False), (11, 0, True), (11, 11, False), (12, 11, True)]
)
def test_a_source_that_does_not_tell_is_named_where_entries_were_not_applied(
    index: int, accounted: int, is_untold: bool
) -> None:
    state, mutations = _state(raft_index=RaftIndex(accounted)), Mutations(key_bytes=100)
    mutations.judge(state, _snapshot(index, None), Offset(3), ZERO)
    assert mutations.has_news == is_untold
    assert len(mutations.take_untold()) == is_untold
    assert not mutations.has_news
    assert state.accounted.raft_index == max(index, accounted)


def _unnoticed(
    state: RangeState, told: HistoryMutation, span: Span = _WHOLE, complete: int = 4
) -> list[Span]:
    """The keys that a snapshot at index 20 fails feeds for."""
    mutations = Mutations(key_bytes=100)
    mutations.judge(state, _snapshot(20, told, span=span), Offset(3), Timestamp(4))
    return [each.span for each in mutations.take_hidden()]


_ANOTHER: Final = HandTable.of(105, "another").span
_BOTH: Final = Span(_WHOLE.start, _ANOTHER.end)


@pytest.mark.parametrize(
    ("told", "span", "unnoticed"),
    [
        (_told(0, 4), _WHOLE, []),
        (_told(0, 5), _WHOLE, [_WHOLE]),
        (_told(1, 5), _WHOLE, []),
        (_told(15, 5), _WHOLE, []),
        (_told(16, 5), _WHOLE, [_WHOLE]),
        (_told(15, 5), _BOTH, [Span(_WHOLE.end, _ANOTHER.end)]),
        (_told(16, 5), _BOTH, [_BOTH]),
    ],
    ids=["complete", "of a parent", "first", "known", "unknown", "known, more keys", "unknown, more keys"],
)
def test_a_change_in_a_hole_was_noticed_if_its_index_is_accounted_for(
    told: HistoryMutation, span: Span, unnoticed: list[Span]
) -> None:
    state = _state(broken=True, raft_index=RaftIndex(15))
    assert _unnoticed(state, told, span) == unnoticed
    assert [each.span for each in state.mutated] == unnoticed


@pytest.mark.parametrize(
    ("broken", "time", "unnoticed"), [(True, 7, []), (True, 8, [_WHOLE]), (False, 8, [])]
)
def test_a_change_of_another_range_was_noticed_by_its_time_or_outside_of_a_hole(
    broken: bool, time: int, unnoticed: list[Span]
) -> None:
    state = _state(broken=broken, time=Timestamp(7))
    assert _unnoticed(state, _told(0, time)) == unnoticed
    assert state.accounted.time == Timestamp(max(time, 7))


def test_what_is_accounted_for_has_the_keys_of_the_snapshot_from_then_on() -> None:
    for span in (_WHOLE, _LOW, _BOTH):
        for index in (8, 20):
            state = _state(raft_index=RaftIndex(15), span=_HIGH, time=Timestamp(7))
            told = None if index == 8 else _told(1, 6)
            Mutations(key_bytes=100).judge(state, _snapshot(index, told, span=span), Offset(3), ZERO)
            assert state.accounted == Accounted(
                RaftIndex(max(15, index)), span=None if span == _WHOLE else span, time=Timestamp(7)
            )


@pytest.mark.parametrize(
    ("told", "span", "mutated"),
    [
        (None, _WHOLE, []),
        (NEVER_MUTATED, _WHOLE, []),
        (_told(9, 5), _WHOLE, []),
        (_told(9, 5), _BOTH, [Span(_WHOLE.end, _ANOTHER.end)]),
    ],
)
def test_keys_that_come_with_a_snapshot_that_nobody_waited_for_may_have_changed_when_it_says(
    told: HistoryMutation | None, span: Span, mutated: list[Span]
) -> None:
    state, mutations = _state(), Mutations(key_bytes=100)
    mutations.suspect(state, _snapshot(20, told, span=span))
    assert state.mutated == tuple(MutatedKeys(each, Timestamp(5), Timestamp(5)) for each in mutated)
    new = _state()
    new.span = None
    mutations.suspect(new, _snapshot(20, told, span=span))
    assert [each.span for each in new.mutated] == [span] * (told == _told(9, 5))


# ---- what is kept of a change ----


def test_a_change_is_dated_above_the_highest_floor_of_its_keys() -> None:
    state = _state()
    bounds = [_LOW.start, _PLAIN.key(20), _PLAIN.key(40), _HIGH.start, _WHOLE.end]
    state.floors = [
        Floor(Span(start, end), ResolvedTimestamp(Timestamp(resolved)))
        for start, end, resolved in zip(bounds[:-1], bounds[1:], (30, 50, 40, 90), strict=True)
    ]
    _note(state, _command(11, 1, _LOW), closed=20)
    assert state.mutated == (MutatedKeys(_LOW, Timestamp(50).next(), MAX),)
    _note(state, _command(12, 1, Span(_LOW.start, _PLAIN.key(5))), closed=60, offset=6)
    assert [each.time for each in state.mutated] == [MAX, Timestamp(50).next()], "entries are missing"
    mutations = Mutations(key_bytes=100)
    mutations.pass_snapshot(state, _snapshot(12, closed=20), ClosedTimestamp(Timestamp(10)), is_new=True)
    assert [each.time for each in state.mutated] == [Timestamp(30).next(), Timestamp(50).next()]


@pytest.mark.parametrize("more", [0, 1])
def test_a_long_key_of_a_change_is_cut_so_that_the_span_grows(more: int) -> None:
    start, end = _LOW.start + b"a" * (_KEPT + more - 1), _LOW.start + b"b" * (_KEPT + more - 1)
    assert len(start) == len(end) == _KEPT + more
    state = _state()
    _note(state, _command(11, 1, Span(start, end)))
    (kept,) = state.mutated
    raised = _LOW.start + b"b" * (_KEPT - 2) + b"c"
    assert kept.span == (Span(start[:_KEPT], raised) if more else Span(start, end))
