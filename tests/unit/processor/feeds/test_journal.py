"""What a feed has certainly been given, by the states of ranges before the steps that are not committed."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import pytest

from tests.feeds import WITH_MARKERS, activation
from tests.hand_log import HandTable, at
from tidegate.changefeed.definition.feed import FeedId
from tidegate.changefeed.definition.options import FeedOptions, InitialScan
from tidegate.hlc import ResolvedTimestamp, Timestamp
from tidegate.processor.feeds.journal import Certainty, Journal, as_it_is
from tidegate.processor.feeds.partition_feed import PartitionFeed
from tidegate.raftlog.entry import Offset, RaftIndex, RangeId
from tidegate.ranges.gap import Gap, Gaps, ToldGaps
from tidegate.ranges.handoff import Claim, HandOff, Hole, Promise
from tidegate.ranges.range_state import Quarantine, RangeState, RangeStatus
from tidegate.spans import Span

_PLAIN: Final = HandTable.of(104, "plain")
_OTHER: Final = HandTable.of(105, "other")
_LOW, _HIGH = _PLAIN.split(100)
_FEED: Final = FeedId("feed")
_START: Final = at(3)

_LIVE: Final = WITH_MARKERS
_CURSOR: Final = replace(WITH_MARKERS, cursor=_START)
_SCANS: Final = replace(WITH_MARKERS, initial_scan=InitialScan.YES)
_ONLY: Final = replace(WITH_MARKERS, initial_scan=InitialScan.ONLY)


def _feed(options: FeedOptions = _LIVE) -> PartitionFeed:
    message = activation([_PLAIN.descriptor], options, start=_START, feed_id=_FEED)
    feed = PartitionFeed(message, None)
    feed.activate(message)
    return feed


def _range(range_id: int, span: Span | None, seconds: float = 0, gaps: Gaps = ()) -> RangeState:
    """A range that is complete up to ``seconds``: a quarantined one says so by itself."""
    state = RangeState(RangeId(range_id))
    state.span = span
    state.status = RangeStatus.QUARANTINED
    state.quarantine = Quarantine("it is broken", Offset(0), ResolvedTimestamp(at(seconds)))
    if gaps:
        state.gaps = {_FEED: gaps}
    return state


def _hand_off(
    child: int,
    parent: int,
    span: Span | None,
    seconds: float,
    told: tuple[ToldGaps, ...] | None = (),
    index: int = 7,
) -> HandOff:
    claim = Claim(RangeId(child), RangeId(parent), RaftIndex(index), span or _PLAIN.span)
    return HandOff(claim, ResolvedTimestamp(at(seconds)), True, span, told)


def _certainty(
    journal: Journal, *states: RangeState, options: FeedOptions = _LIVE
) -> tuple[Certainty, RangeState]:
    """What is certain now; and the first of the ranges."""
    return Certainty(_feed(options), {state.range_id: state for state in states}, journal), states[0]


# ---- the steps that are not committed ----


def test_a_committed_step_is_forgotten_and_no_later_one() -> None:
    journal, state = Journal(), _range(1, _LOW, 1)
    for serial in (1, 2, 3):
        journal.note(state)
        journal.begin(FeedId(f"f{serial}"))
        journal.inherit(RangeId(1), [_hand_off(1, 10 + serial, _LOW, 5)])
        journal.end_step(serial)
        assert state.quarantine is not None
        state.quarantine = state.quarantine._replace(resolved=ResolvedTimestamp(at(1 + serial)))
    for upto in (0, 1, 2, 3, 9):
        journal.committed(upto)
        left = [serial for serial in (1, 2, 3) if serial > upto]
        assert [serial for serial in (1, 2, 3) if journal.has_begun(FeedId(f"f{serial}"))] == left
        parents = [each.claim.parent - 10 for each in journal.handed().get(RangeId(1), ())]
        assert parents == left
        then = journal.earlier([state])[RangeId(1)]
        assert then.resolved == at(left[0] if left else 4)


def test_the_present_step_is_not_committed() -> None:
    journal, state = Journal(), _range(1, _LOW, 1)
    journal.note(state)
    journal.begin(_FEED)
    state.span = _HIGH
    journal.committed(9)
    assert journal.has_begun(_FEED)
    assert journal.earlier([state])[RangeId(1)].span == _LOW


def test_a_note_has_all_that_later_steps_may_change() -> None:
    state, claim = _range(1, _LOW, 5), Claim(RangeId(1), RangeId(2), RaftIndex(7), _LOW)
    bare = as_it_is(state)
    assert (bare.gaps, bare.hand_offs, bare.ended) == ({}, frozenset(), False)
    gap = (Gap(_LOW, at(2)),)
    state.gaps = {_FEED: gap}
    state.hand_offs = {claim: _hand_off(1, 2, _LOW, 5)}
    state.promises = [Promise(RaftIndex(3), ResolvedTimestamp(at(1)), _LOW)]
    state.holes = [Hole(RaftIndex(3), RaftIndex(4), _LOW, ResolvedTimestamp(at(1)))]
    then = as_it_is(state)
    assert (then.span, then.resolved, then.ended) == (_LOW, at(5), False)
    assert (then.gaps, then.hand_offs) == ({_FEED: gap}, frozenset({claim}))
    assert (then.promises, then.holes) == (state.promises, state.holes)
    state.gaps.clear()
    state.hand_offs.clear()
    assert (then.gaps, then.hand_offs) == ({_FEED: gap}, frozenset({claim}))
    state.status = RangeStatus.ENDED
    assert as_it_is(state).ended


# ---- keys that the range had ----


@pytest.mark.parametrize(
    ("options", "begun", "complete_to"),
    [
        (_LIVE, False, at(5)),
        (_LIVE, True, at(5)),
        (_CURSOR, False, at(5)),
        (_CURSOR, True, _START),
        (_SCANS, False, at(5)),
        (_SCANS, True, None),
    ],
    ids=["live", "live, begun", "cursor", "cursor, begun", "scans", "scans, begun"],
)
def test_what_a_range_had_resolved_is_certain_unless_a_feed_that_wants_earlier_versions_has_just_begun(
    options: FeedOptions, begun: bool, complete_to: Timestamp | None
) -> None:
    journal, state = Journal(), _range(1, _PLAIN.span, 5)
    if begun:
        journal.begin(_FEED)
    certainty, state = _certainty(journal, state, options=options)
    assert certainty.gaps(state, _PLAIN.span) == (Gap(_PLAIN.span, complete_to),)
    assert certainty.gaps(state, _LOW) == (Gap(_LOW, complete_to),)
    assert certainty.gaps(state, None) == ()
    assert certainty.gaps(state, _OTHER.span) == ()


def test_nothing_below_its_start_is_lacking_and_a_feed_that_only_scans_lacks_what_it_lacked() -> None:
    certainty, state = _certainty(Journal(), _range(1, _PLAIN.span, 2))
    assert certainty.gaps(state, _PLAIN.span) == (Gap(_PLAIN.span, _START),)
    lacking = (Gap(_LOW, None),)
    certainty, state = _certainty(Journal(), _range(1, _PLAIN.span, 5, lacking), options=_ONLY)
    assert certainty.gaps(state, _PLAIN.span) == lacking


def test_a_gap_that_the_feed_had_before_stays() -> None:
    lacking = (Gap(_LOW, at(4)),)
    certainty, state = _certainty(Journal(), _range(1, _PLAIN.span, 5, lacking))
    assert certainty.gaps(state, _PLAIN.span) == (*lacking, Gap(_HIGH, at(5)))


def test_of_keys_that_the_range_had_itself_no_other_range_tells() -> None:
    """For a while both have them, and each gives the feed its own versions."""
    certainty, state = _certainty(Journal(), _range(1, _LOW, 5), _range(2, _PLAIN.span, 4))
    assert certainty.gaps(state, _LOW) == (Gap(_LOW, at(5)),)
    assert certainty.gaps(state, _PLAIN.span) == (Gap(_PLAIN.span, at(4)),)


@pytest.mark.parametrize("what", ["ended", "without keys"])
def test_keys_that_the_range_had_no_more_are_certain_by_the_range_that_had_them(what: str) -> None:
    mine, other = _range(1, _LOW, 5), _range(2, _PLAIN.span, 4)
    journal = Journal()
    if what == "ended":
        mine.status = RangeStatus.ENDED
    else:
        mine.span = None
    journal.note(mine)
    certainty, state = _certainty(journal, mine, other)
    assert certainty.gaps(state, _LOW) == (Gap(_LOW, at(4)),)


# ---- keys that were handed off ----


def _inherited(*hand_offs: HandOff, options: FeedOptions, begun: bool = False) -> Gaps:
    """The gaps in a range that had no keys before the present step, and went on from these hand-offs."""
    journal, child = Journal(), _range(1, None)
    journal.note(child)
    if begun:
        journal.begin(_FEED)
    journal.inherit(RangeId(1), hand_offs)
    certainty, child = _certainty(journal, child, options=options)
    return certainty.gaps(child, _PLAIN.span)


_NAMED: Final = (ToldGaps(_FEED, ()),)
_LACKS: Final = (ToldGaps("another", ()), ToldGaps(_FEED, (Gap(_LOW, at(4)),)))


@pytest.mark.parametrize(
    ("options", "told", "gaps"),
    [
        (_LIVE, (), [(_PLAIN.span, at(5))]),
        (_LIVE, None, [(_PLAIN.span, _START)]),
        (_LIVE, _LACKS, [(_LOW, at(4)), (_HIGH, at(5))]),
        (_CURSOR, (), [(_PLAIN.span, _START)]),
        (_CURSOR, None, [(_PLAIN.span, _START)]),
        (_CURSOR, _NAMED, [(_PLAIN.span, at(5))]),
        (_CURSOR, _LACKS, [(_LOW, at(4)), (_HIGH, at(5))]),
        (_SCANS, (), [(_PLAIN.span, None)]),
        (_SCANS, _NAMED, [(_PLAIN.span, at(5))]),
        (_ONLY, _LACKS, [(_LOW, at(4))]),
    ],
)
def test_a_hand_off_from_another_partition_tells_what_is_certain(
    options: FeedOptions, told: tuple[ToldGaps, ...] | None, gaps: list[tuple[Span, Timestamp | None]]
) -> None:
    """Who can miss versions and is not named was not active there, so nothing is certain for it."""
    found = _inherited(_hand_off(1, 8, _PLAIN.span, 5, told), options=options)
    assert list(found) == [Gap(*each) for each in gaps]


@pytest.mark.parametrize("seconds", [2.5, 3])
def test_a_hand_off_at_or_below_the_start_says_nothing_of_what_a_feed_was_given(seconds: float) -> None:
    hand_off = _hand_off(1, 8, _PLAIN.span, seconds, _NAMED)
    assert _inherited(hand_off, options=_SCANS) == (Gap(_PLAIN.span, None),)


def test_the_first_hand_off_of_a_key_counts_and_keys_of_none_are_wholly_lacking() -> None:
    hand_offs = [_hand_off(1, 8, None, 9), _hand_off(1, 8, _LOW, 5), _hand_off(1, 9, _LOW, 7)]
    assert _inherited(*hand_offs, options=_LIVE) == (Gap(_LOW, at(5)), Gap(_HIGH, _START))


def test_no_hand_off_is_certain_for_a_feed_that_has_just_begun_and_wants_earlier_versions() -> None:
    hand_off = _hand_off(1, 8, _PLAIN.span, 5, _NAMED)
    assert _inherited(hand_off, options=_CURSOR, begun=True) == (Gap(_PLAIN.span, _START),)


def _both_here(parent: RangeState, *more: tuple[int, HandOff], index: int = 7) -> Gaps:
    """The gaps in a range that has got keys from ``parent``, which is in this partition too."""
    journal, child = Journal(), _range(1, None)
    journal.note(child)
    journal.note(parent)
    parent.span = None
    journal.inherit(RangeId(1), [_hand_off(1, 2, _LOW, 9, index=index)])
    for range_id, hand_off in more:
        journal.inherit(RangeId(range_id), [hand_off])
    certainty, child = _certainty(journal, child, parent)
    return certainty.gaps(child, _LOW)


def test_a_hand_off_that_the_parent_had_noted_before_is_certain() -> None:
    parent = _range(2, None)
    assert _both_here(parent) == (Gap(_LOW, _START),), "it had noted nothing"
    parent.promises = [Promise(RaftIndex(7), ResolvedTimestamp(at(9)), _LOW)]
    assert _both_here(parent) == (Gap(_LOW, at(9)),)
    parent.promises = []
    parent.holes = [Hole(RaftIndex(6), RaftIndex(7), _LOW, ResolvedTimestamp(at(9)))]
    assert _both_here(parent) == (Gap(_LOW, at(9)),)


def test_otherwise_the_hand_off_that_the_parent_itself_went_on_from_is_certain() -> None:
    assert _both_here(_range(2, None), (2, _hand_off(2, 8, _PLAIN.span, 5))) == (Gap(_LOW, at(5)),)


def test_ranges_that_handed_keys_to_each_other_make_none_of_them_certain() -> None:
    assert _both_here(_range(2, None), (2, _hand_off(2, 1, _LOW, 8))) == (Gap(_LOW, _START),)


@pytest.mark.parametrize(
    ("index", "resolved", "span", "told"),
    [
        (7, 5, _LOW, True),
        (8, 5, _LOW, False),
        (7, 6, _LOW, False),
        (7, 5, _HIGH, False),
        (20, 5, _LOW, False),
        (21, 1, _HIGH, True),
        (25, 1, _HIGH, True),
        (26, 1, _HIGH, False),
    ],
)
def test_a_parent_has_told_what_it_promised_and_what_its_holes_hid(
    index: int, resolved: float, span: Span, told: bool
) -> None:
    parent = _range(2, _PLAIN.span, 5)
    parent.promises = [Promise(RaftIndex(7), ResolvedTimestamp(at(5)), _LOW)]
    parent.holes = [Hole(RaftIndex(20), RaftIndex(25), _LOW, ResolvedTimestamp(at(1)))]
    certainty, _ = _certainty(Journal(), parent)
    assert certainty.was_told(_hand_off(1, 2, span, resolved, index=index)) == told


def test_what_a_range_tells_is_amended_for_keys_that_the_feed_watches_and_for_no_others() -> None:
    certainty, state = _certainty(Journal(), _range(1, Span(_PLAIN.span.start, _OTHER.span.end), 5))
    told = (ToldGaps("another", ()),)
    assert certainty.amended(state, _LOW, told) == (*told, ToldGaps(_FEED, (Gap(_LOW, at(5)),)))
    assert certainty.amended(state, _LOW, None) == (ToldGaps(_FEED, (Gap(_LOW, at(5)),)),)
    for span in (None, _OTHER.span):
        assert certainty.amended(state, span, told) is told
        assert certainty.amended(state, span, None) is None
