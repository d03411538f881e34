"""A range's row of what it tells others says the same, names feeds once, and is never larger than it may
be."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.errors import StateMismatch
from tidegate.hlc import ResolvedTimestamp, Timestamp
from tidegate.processor.state import state_pb2 as pb
from tidegate.processor.state.gap_codec import told_gaps_message
from tidegate.processor.state.state_codec import range_row, read_range, told_rows
from tidegate.processor.state.stored_frame import pack
from tidegate.processor.state.told_codec import read_told, told_value
from tidegate.raftlog.encode import encode_key
from tidegate.raftlog.entry import Offset, RaftIndex, RangeId
from tidegate.ranges.claim_answer import answer_claim
from tidegate.ranges.gap import Gap, ToldGaps
from tidegate.ranges.handoff import Claim, Hole, Promise
from tidegate.ranges.range_state import RangeState, RangeStatus
from tidegate.spans import Span

_ID = RangeId(7)
_ENDLESS = 1 << 40
_KEYS = st.binary(min_size=1, max_size=4)
_SPANS = st.builds(lambda start, rest: Span(start, start + rest), _KEYS, _KEYS)
_TIMES = st.builds(Timestamp, st.integers(1, 2**60), st.integers(0, 9))
_GAPS = st.lists(st.builds(Gap, _SPANS, st.none() | _TIMES), max_size=2).map(tuple)
_TOLD = st.none() | st.dictionaries(st.sampled_from("abcde"), _GAPS).map(
    lambda gaps: tuple(ToldGaps(*item) for item in gaps.items())
)
_RESOLVED = st.builds(lambda wall: ResolvedTimestamp(Timestamp(wall)), st.integers(0, 2**60))
_INDEXES = st.builds(RaftIndex, st.integers(1, 99))
_PROMISES = st.builds(Promise, _INDEXES, _RESOLVED, st.none() | _SPANS, _TOLD, st.integers(1, 2**60))
_HOLES = st.builds(Hole, _INDEXES, _INDEXES, st.none() | _SPANS, _RESOLVED, _TOLD)


def _state(promises: list[Promise], holes: list[Hole] | None = None) -> RangeState:
    state = RangeState(_ID)
    state.promises, state.holes, state.applied = promises, holes or [], RaftIndex(1_000)
    state.status, state.span = RangeStatus.LIVE, Span(b"a", b"z")
    return state


def _told_again(stored: bytes) -> RangeState:
    state = RangeState(_ID)
    read_told(state, stored)
    return state


@given(st.lists(_PROMISES, max_size=5), st.lists(_HOLES, max_size=3))
def test_promises_and_holes_come_back_as_they_were(promises: list[Promise], holes: list[Hole]) -> None:
    stored = told_value(_state(promises, holes), _ENDLESS)
    if stored is None:
        assert not promises
        assert not holes
    else:
        restored = _told_again(stored)
        assert (restored.promises, restored.holes) == (promises, holes)


@given(st.lists(_PROMISES, max_size=4), st.lists(_HOLES, max_size=3))
def test_what_stood_in_the_row_of_the_range_is_read(promises: list[Promise], holes: list[Hole]) -> None:
    row = pb.Range(offset=3, status=RangeStatus.LIVE.value)
    for at, resolved, span, told, _ in promises:
        start, end = span or (b"", b"")
        row.promises.add(
            index=at, resolved_wall=resolved.wall, start=start, end=end, lags=told_gaps_message(told)
        )
    for before, last_index, span, resolved, told in holes:
        start, end = span or (b"", b"")
        row.holes.add(
            before=before,
            last_index=last_index,
            resolved_wall=resolved.wall,
            start=start,
            end=end,
            lags=told_gaps_message(told),
        )
    state = read_range(encode_key(_ID), pack(row)).state
    assert state.holes == holes
    assert state.promises == [promise._replace(closed_wall=promise.resolved.wall) for promise in promises]


def _promises(count: int, feeds: int, *, alike: bool) -> list[Promise]:
    """Promises that name many feeds; those that miss nothing, or each something else at each promise."""
    return [
        Promise(
            RaftIndex(at),
            ResolvedTimestamp(Timestamp(at)),
            Span(b"a", b"z"),
            tuple(
                ToldGaps(f"feed-{feed:020}", () if alike else (Gap(Span(b"a", b"z"), Timestamp(at, feed)),))
                for feed in range(feeds)
            ),
            at,
        )
        for at in range(1, count + 1)
    ]


def test_feeds_that_all_promises_name_are_stored_once() -> None:
    one, many = (told_value(_state(_promises(count, 800, alike=True)), _ENDLESS) for count in (1, 64))
    assert one is not None
    assert many is not None
    assert len(many) < len(one) + 64 * 20


def test_beyond_its_bound_a_range_forgets_its_oldest_promises_and_tells_nothing_of_them() -> None:
    state = _state(_promises(64, 200, alike=False))
    newest, bound = state.promises[-1], 50_000
    stored = told_value(state, bound)
    assert stored is not None
    assert len(stored) <= bound
    assert state.promises[-1] == newest
    assert 0 < len(state.promises) < 64
    assert _told_again(stored).promises == state.promises, "what is stored is what it goes on with"
    gone = answer_claim(state, Claim(RangeId(8), _ID, RaftIndex(1), Span(b"a", b"m")))
    assert gone is not None
    assert (gone.resolved, gone.span, gone.told_gaps) == (Timestamp(0), None, None)


@pytest.mark.parametrize("count", range(2, 10))
def test_beyond_its_bound_a_range_forgets_the_older_half_of_its_promises(count: int) -> None:
    promises = _promises(count, 20, alike=False)
    newest = promises[-(count // 2) :]
    enough = told_value(_state(newest), _ENDLESS)
    assert enough is not None
    state = _state(promises)
    assert told_value(state, len(enough)) == enough
    assert state.promises == newest


def test_beyond_its_bound_a_range_knows_no_more_of_its_oldest_holes_than_that_they_are_there() -> None:
    told = _promises(1, 300, alike=False)[0].told_gaps
    holes = [
        Hole(
            RaftIndex(10 * at),
            RaftIndex(10 * at + 5),
            Span(b"a", b"z"),
            ResolvedTimestamp(Timestamp(9)),
            told,
        )
        for at in range(1, 30)
    ]
    state = _state([], holes)
    stored = told_value(state, 1_000)
    assert stored is not None
    assert len(stored) <= 1_000
    for at in range(1, 30):
        answer = answer_claim(state, Claim(RangeId(8), _ID, RaftIndex(10 * at + 3), Span(b"a", b"m")))
        assert answer is not None
        assert not answer.complete
        assert answer.resolved == Timestamp(0)


@pytest.mark.parametrize("most_bytes", [300, 1])
def test_of_its_only_hole_a_range_tells_at_least_that_it_is_there(most_bytes: int) -> None:
    told = _promises(1, 300, alike=False)[0].told_gaps
    hole = Hole(RaftIndex(10), RaftIndex(15), Span(b"a", b"z"), ResolvedTimestamp(Timestamp(9)), told)
    unknown = Hole(hole.before, hole.last_index, None, ResolvedTimestamp(Timestamp(0)))
    for promises in ([], _promises(2, 300, alike=False)):
        state = _state(promises, [hole])
        stored = told_value(state, most_bytes)
        assert stored is not None
        assert (state.promises, state.holes) == ([], [unknown])
        assert _told_again(stored).holes == [unknown]


def test_what_a_range_tells_others_is_written_when_it_has_changed_and_not_with_each_step() -> None:
    state = _state(_promises(3, 5, alike=True))
    (row,) = told_rows(state, _ENDLESS)
    assert row.value is not None
    assert not list(told_rows(state, _ENDLESS))
    assert len(range_row(state, Offset(1)).value or b"") < len(row.value)
    state.promises = []
    assert [change.value for change in told_rows(state, _ENDLESS)] == [None]


def test_a_row_that_refers_to_a_list_of_feeds_that_is_not_there_is_damaged() -> None:
    message = pb.Told()
    message.feed_sets.add(feed_ids=["a"])
    message.lags.add(feed_set=0)
    with pytest.raises(StateMismatch, match="range 7 tells others is damaged"):
        read_told(RangeState(_ID), pack(message))
