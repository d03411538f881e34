"""Keys that several ranges have at once are held; what one range had after the other is history."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import pytest

from tests.plain_claims import Ended, Event, Told
from tests.unit.processor.claim_events import (
    all_claim,
    claim_of,
    counted_spans,
    ends_of,
    key_of,
    whole_of,
)
from tidegate.hlc import NANOS_PER_MS, ResolvedTimestamp, Timestamp
from tidegate.processor.checkpoint import PartitionProgress
from tidegate.processor.crowd import SHOWN_MAX
from tidegate.processor.range_claims import AHEAD_MS, HELD_MS, ClaimBounds, RangeClaims
from tidegate.raftlog.entry import Generation, Offset, RangeId
from tidegate.spans import Span

_AM, _MZ, _AZ = Span(b"a", b"m"), Span(b"m", b"z"), Span(b"a", b"z")
_LATE = 1 + AHEAD_MS  # milliseconds above a log's time that only a range comes to that is still there


def _report(
    range_id: int,
    generation: int,
    span: Span,
    at_ms: int,
    log_time_ms: int = 1_000,
    elapsed_ms: int = 0,
) -> PartitionProgress:
    """A range's checkpoint at a resolved timestamp in milliseconds."""
    return PartitionProgress(
        range_id % 2,
        Offset(at_ms),
        (),
        [span.start],
        [span.end],
        [ResolvedTimestamp(Timestamp(at_ms * NANOS_PER_MS))],
        [RangeId(range_id)],
        [Generation(generation)],
        log_time_ms,
        elapsed_ms=elapsed_ms,
    )


def _end(range_id: int) -> PartitionProgress:
    return PartitionProgress(range_id % 2, Offset(1), (), (), (), (), ended=(RangeId(range_id),))


def _counted(claims: RangeClaims, *reports: PartitionProgress) -> list[tuple[bytes, bytes]]:
    """The spans that count of these reports."""
    return [span for report in claims.count(reports) for span in zip(report.starts, report.ends, strict=True)]


def _held(claims: RangeClaims) -> list[tuple[Span, tuple[int, ...]]]:
    return [(held.span, tuple(claim.range_id for claim in held.claims)) for held in claims.overlaps]


def _overlapping() -> RangeClaims:
    """Ranges 1 and 2 both have the keys from m on, in one generation."""
    claims = RangeClaims()
    _counted(claims, _report(1, 5, _AZ, 900), _report(2, 5, _MZ, 950))
    assert _held(claims) == [(_MZ, (1, 2))]
    return claims


def test_two_ranges_that_have_a_key_in_one_generation_hold_it_and_nothing_else() -> None:
    claims = RangeClaims()
    assert _counted(claims, _report(1, 5, _AZ, 900)) == [_AZ]
    assert _counted(claims, _report(2, 5, _MZ, 950)) == []
    assert _counted(claims, _report(1, 5, _AZ, 960)) == [_AM]
    assert _held(claims) == [(_MZ, (1, 2))]


def test_overlaps_are_put_together_only_when_they_have_changed() -> None:
    claims = _overlapping()
    before = claims.overlaps
    assert before
    claims.count([_report(1, 5, _AZ, 960)])
    assert claims.overlaps is before


def test_what_comes_in_one_batch_with_the_second_claim_counts_no_more() -> None:
    claims = RangeClaims()
    assert _counted(claims, _report(1, 5, _MZ, 990), _report(2, 5, _MZ, 950)) == []


def test_a_parent_that_is_told_late_is_history_up_to_the_time_at_which_its_child_was_told() -> None:
    claims = RangeClaims()
    assert _counted(claims, _report(2, 6, _MZ, 500), _report(1, 5, _AZ, 900)) == [_MZ, _AZ]
    assert _counted(claims, _report(1, 5, _AZ, 1_000 + AHEAD_MS)) == [_AZ]
    assert _counted(claims, _report(1, 6, _AM, 9_000), _report(2, 6, _MZ, 9_000)) == [_AM, _MZ]
    assert not claims.overlaps


def test_a_range_that_goes_on_after_another_has_taken_its_keys_overlaps_it() -> None:
    claims = RangeClaims()
    _counted(claims, _report(1, 5, _AZ, 900), _report(2, 6, _MZ, 950))
    assert _counted(claims, _report(1, 5, _AZ, 1_000 + _LATE)) == [_AM]
    assert _held(claims) == [(_MZ, (1, 2))]
    assert _counted(claims, _report(2, 6, _MZ, 1_000 + _LATE)) == []


def test_generations_of_the_newer_range_do_not_give_the_older_one_more_time() -> None:
    claims = RangeClaims()
    _counted(claims, _report(1, 5, _AZ, 900), _report(2, 6, _MZ, 950))
    _counted(claims, _report(2, 7, _MZ, 9_000, log_time_ms=9_000))
    assert _counted(claims, _report(1, 5, _AZ, 1_000 + _LATE, log_time_ms=9_000)) == [_AM]


def test_who_took_keys_from_an_earlier_generation_says_nothing_of_a_later_one() -> None:
    """Range 1 loses the keys, takes them back, and loses them again; what it was in between is told late."""
    claims = RangeClaims()
    _counted(claims, _report(1, 5, _AZ, 900), _report(2, 6, _MZ, 950), _report(3, 8, _MZ, 60_000, 61_000))
    assert _counted(claims, _report(1, 7, _AZ, 50_000, log_time_ms=61_000)) == [_AZ]
    assert _counted(claims, _report(1, 8, _AM, 62_000), _end(2), _report(3, 8, _MZ, 62_000)) == [_AM, _MZ]


def test_a_late_range_of_a_lower_generation_sets_no_limit_for_a_higher_one() -> None:
    claims = RangeClaims()
    _counted(claims, _report(1, 14, _AZ, 900, log_time_ms=9_000), _report(6, 11, _MZ, 800, log_time_ms=1_000))
    assert _counted(claims, _report(1, 14, _AZ, 99_000, log_time_ms=99_000)) == [_AZ]


def test_what_is_left_over_of_an_overlap_is_held_for_a_while_and_no_longer() -> None:
    """By the time of the partition that it is heard of in, and whatever the source's clock does meanwhile."""
    claims = _overlapping()
    _counted(claims, _report(1, 6, _AM, 970, log_time_ms=2_000))
    assert _counted(claims, _report(2, 5, _MZ, 975, log_time_ms=10**9, elapsed_ms=50)) == []
    late = 50 + HELD_MS
    assert _counted(claims, _report(2, 5, _MZ, 980, log_time_ms=10**9, elapsed_ms=late)) == []
    assert _counted(claims, _report(2, 5, _MZ, 990, log_time_ms=3_000, elapsed_ms=late + 1)) == [_MZ]


def test_what_workers_report_that_do_not_tell_the_elapsed_time_is_held_by_log_time() -> None:
    claims = _overlapping()
    _counted(claims, _report(1, 6, _AM, 970, log_time_ms=2_000))
    assert _counted(claims, _report(2, 5, _MZ, 975, log_time_ms=2_000)) == []
    late = 2_000 + HELD_MS
    assert _counted(claims, _report(2, 5, _MZ, 980, log_time_ms=late)) == []
    assert _counted(claims, _report(2, 5, _MZ, 990, log_time_ms=late + 1)) == [_MZ]


def test_an_overlap_that_has_ended_leaves_no_limit_behind() -> None:
    claims = RangeClaims()
    _counted(claims, _report(1, 1, _AZ, 900), _report(9, 30, _AZ, 950), _report(1, 1, _AZ, 1_000 + _LATE))
    _counted(claims, _report(2, 2, _MZ, 960), _report(1, 2, _AM, 970))
    assert [held.span for held in claims.overlaps] == [_AM, _MZ]
    _counted(claims, _end(9))
    late = [_report(range_id, 2, span, 99_000, 99_000) for range_id, span in ((1, _AM), (2, _MZ))]
    assert _counted(claims, *late) == [_AM, _MZ]


def test_without_the_logs_time_nothing_is_said_of_what_comes_late() -> None:
    claims = RangeClaims()
    _counted(claims, _report(1, 5, _AZ, 900), _report(2, 6, _MZ, 950, log_time_ms=0))
    assert _counted(claims, _report(1, 5, _AZ, 99_000)) == [_AZ]


def test_what_is_reported_of_an_overlap_does_not_count_though_its_end_stands_in_the_same_batch() -> None:
    claims = RangeClaims()
    _counted(claims, _report(1, 5, _MZ, 900), _report(2, 6, _MZ, 950))
    assert _counted(claims, _report(1, 5, _MZ, 1_000 + _LATE), _end(1), _report(2, 6, _MZ, 960)) == [_MZ]
    assert _counted(_overlapping(), _report(2, 5, _MZ, 970), _end(1)) == []


def test_keys_that_one_of_the_ranges_has_no_more_are_held_until_it_is_known_who_has_them() -> None:
    """It may have split, and the range that has them now be parked, far behind, and not heard of."""
    claims = _overlapping()
    assert _counted(claims, _report(2, 6, _AM, 970), _report(1, 5, _AZ, 990)) == [_AM, _AM]
    assert _counted(claims, _report(3, 6, _MZ, 955)) == []
    assert _held(claims) == [(_MZ, (1, 3))]
    assert _counted(claims, _end(1), _report(3, 6, _MZ, 956)) == [_MZ]


def test_keys_that_both_ranges_have_no_more_are_free() -> None:
    claims = _overlapping()
    _counted(claims, _report(1, 6, _AM, 970), _report(2, 6, _AM, 970))
    assert [held.span for held in claims.overlaps] == [_AM]
    assert _counted(claims, _report(3, 6, _MZ, 970)) == [_MZ]


def test_an_overlap_ends_with_one_of_the_ranges() -> None:
    claims = _overlapping()
    assert _counted(claims, _end(1), _report(2, 5, _MZ, 970)) == [_MZ]
    assert not claims.overlaps


def test_a_range_that_takes_the_keys_joins_the_overlap_and_ends_it_with_the_end_of_the_others() -> None:
    claims = _overlapping()
    assert _counted(claims, _report(3, 6, _AZ, 970)) == [_AM]
    assert _held(claims) == [(_MZ, (1, 2, 3))]
    assert _counted(claims, _end(2), _report(3, 6, _AZ, 971)) == [_AM]
    assert _counted(claims, _end(1), _report(3, 6, _AZ, 972)) == [_AZ]


def test_the_end_of_a_range_and_who_has_its_keys_since_may_stand_in_one_record() -> None:
    claims = _overlapping()
    merged = replace(_report(3, 6, _MZ, 970), ended=(RangeId(2),))
    assert _counted(claims, merged, _report(1, 5, _MZ, 990)) == []
    assert _held(claims) == [(_MZ, (1, 3))]


def test_a_range_that_was_left_behind_gets_no_more_time_by_the_moves_of_the_one_that_took_its_keys() -> None:
    claims = RangeClaims()
    _counted(claims, _report(1, 5, _MZ, 900), _report(2, 6, _MZ, 950))
    _counted(claims, _report(2, 7, _AM, 9_000, log_time_ms=9_000))
    assert _counted(claims, _report(1, 5, _MZ, 1_000 + AHEAD_MS)) == [_MZ]
    assert _counted(claims, _report(1, 5, _MZ, 1_000 + _LATE, log_time_ms=9_000)) == []
    assert _counted(claims, _report(3, 7, _MZ, 960, log_time_ms=9_000)) == []
    assert _held(claims) == [(_MZ, (1, 3))]


def test_a_third_range_that_goes_on_below_joins_the_overlap() -> None:
    claims = _overlapping()
    assert _counted(claims, _report(3, 4, _MZ, 980)) == []
    assert _counted(claims, _report(3, 4, _MZ, 1_000 + _LATE)) == []
    assert _held(claims) == [(_MZ, (1, 2, 3))]


def test_a_higher_generation_of_one_of_the_two_does_not_end_an_overlap() -> None:
    """Otherwise markers would go on with every split or merge of one, until the other comes past its time."""
    claims = _overlapping()
    assert _counted(claims, _report(2, 7, _MZ, 970)) == []
    assert _held(claims) == [(_MZ, (1, 2))]


def test_what_is_left_of_an_overlap_is_held_as_one() -> None:
    claims = RangeClaims()
    _counted(claims, _report(1, 5, _AZ, 900), _report(2, 5, _MZ, 950), _report(3, 5, Span(b"p", b"z"), 950))
    assert _held(claims) == [(Span(b"m", b"p"), (1, 2)), (Span(b"p", b"z"), (1, 2, 3))]
    _counted(claims, _end(3))
    assert _held(claims) == [(_MZ, (1, 2))]


def test_a_late_report_of_an_earlier_generation_claims_nothing_and_frees_nothing() -> None:
    claims = _overlapping()
    assert _counted(claims, _report(2, 3, _AZ, 100)) == [_AM]
    assert _held(claims) == [(_MZ, (1, 2))]


def test_ranges_that_split_and_merge_back_leave_nothing_behind() -> None:
    claims = RangeClaims()
    generation = 1
    _counted(claims, _report(1, generation, _AZ, 1))
    for child in range(2, 40):
        generation += 1
        _counted(claims, _report(1, generation, _AM, 1), _report(child, generation, _MZ, 1))
        generation += 1
        _counted(claims, _report(1, generation, _AZ, 1), _end(child))
    assert list(claims._parts) == [b"a"]
    assert list(claims._claims) == list(claims._settled) == [1]


@pytest.mark.parametrize("span", [Span(b"m", b"m"), Span(b"z", b"m")], ids=["empty", "inverted"])
def test_a_report_without_keys_claims_nothing_and_stays_for_the_frontier_to_refuse(span: Span) -> None:
    claims = _overlapping()
    assert _counted(claims, _report(3, 9, span, 900)) == [span]
    assert _counted(claims, _report(3, 5, _AM, 990)) == []
    assert _held(claims) == [(_AM, (1, 3)), (_MZ, (1, 2))]


def test_what_is_told_of_a_range_after_its_end_is_a_new_claim() -> None:
    """Of a range that has the id of one that has ended, for example."""
    claims = RangeClaims()
    assert _counted(claims, _report(1, 5, _MZ, 900)) == [_MZ]
    assert _counted(claims, _end(1), _report(2, 5, _MZ, 950)) == [_MZ]
    assert _counted(claims, _report(1, 5, _MZ, 900)) == []
    assert _held(claims) == [(_MZ, (1, 2))]


def test_a_late_report_of_an_earlier_generation_holds_nothing() -> None:
    claims = RangeClaims()
    _counted(claims, _report(1, 5, _AM, 900), _report(2, 4, _MZ, 950))
    assert _counted(claims, _report(1, 4, _AZ, 800)) == [_AZ]
    assert _counted(claims, _report(2, 4, _MZ, 960), _report(1, 5, _AM, 960)) == [_MZ, _AM]
    assert not claims.overlaps


def test_a_range_that_gives_up_keys_again_and_again_and_takes_them_back_has_few_parts() -> None:
    """Nobody is heard of who had them meanwhile."""
    claims = RangeClaims(ClaimBounds(parts=3))
    for generation in range(1, 50, 2):
        narrow = Span(b"a", bytes([ord("b") + generation % 20]))
        assert _counted(claims, _report(1, generation, _AZ, 900)) == [_AZ]
        assert _counted(claims, _report(1, generation + 1, narrow, 900)) == [narrow]
    assert not claims.overlaps


def test_keys_are_told_as_one_overlap_though_their_past_differs() -> None:
    claims = RangeClaims()
    _counted(claims, _report(1, 5, _AZ, 900), _report(2, 5, _AZ, 950))
    _counted(claims, _report(3, 6, _MZ, 950), _report(3, 7, Span(b"zz", b"zzz"), 960))
    assert _held(claims) == [(_AZ, (1, 2))]
    assert claims.overlaps[0].others == 0


def test_ranges_that_have_ended_leave_nothing_behind() -> None:
    claims = _overlapping()
    _counted(claims, _report(3, 6, _AM, 970), _end(2), _end(1), _end(3))
    assert not claims.overlaps
    assert not claims._parts
    assert not claims._settled


# ---- where the bounds are


def test_as_many_ranges_of_a_key_as_the_bound_says_are_compared() -> None:
    """They have had the key one after the other. One more is too many to know that."""
    claims = RangeClaims(ClaimBounds(claims=3))
    told = [claim_of(each, each, 0, 10) for each in range(1, 5)]
    assert counted_spans(claims, *told[:3]) == [[whole_of(each)] for each in told[:3]]
    assert counted_spans(claims, *told) == [[], [], [], []]
    assert [overlap.range_ids for overlap in claims.overlaps] == [(1, 2, 3, 4)]


def test_as_many_parts_of_a_range_as_the_bound_says_are_compared() -> None:
    claims = RangeClaims(ClaimBounds(parts=5))
    told = [claim_of(1, 1, 0, 10), *(claim_of(each, 2, each, each + 1) for each in (2, 4, 6))]
    assert counted_spans(claims, *told[:3]) == [[whole_of(each)] for each in told[:3]]
    assert counted_spans(claims, *told[::-1], *told) == 8 * [[]]


def test_a_crowd_is_one_of_the_parts_of_a_range() -> None:
    claims = RangeClaims(ClaimBounds(claims=2, parts=5))
    wide, first, second = claim_of(1, 1, 0, 10), claim_of(6, 2, 6, 7), claim_of(8, 2, 8, 9)
    counted_spans(claims, wide, claim_of(2, 2, 4, 5), claim_of(3, 2, 4, 5))
    beside = [Span(key_of(0), key_of(4)), Span(key_of(5), key_of(10))]
    assert counted_spans(claims, wide, first) == [beside, [whole_of(first)]]
    assert counted_spans(claims, second, first, wide) == [[], [], []]


def test_a_range_that_was_clear_counts_no_more_once_its_keys_are_in_a_crowd() -> None:
    """The crowd has all keys of a wide range, also those that are far from the last claim."""
    claims = RangeClaims(ClaimBounds(parts=5))
    wide, *narrow = [claim_of(1, 1, 0, 10), *(claim_of(each, 2, each, each + 1) for each in (2, 4, 6))]
    for each in (wide, *narrow[:2]):
        assert counted_spans(claims, each) == [[whole_of(each)]]
    assert counted_spans(claims, narrow[2]) == [[]]
    assert counted_spans(claims, *narrow) == [[], [], []]


def test_a_crowd_is_told_with_the_generations_that_its_ranges_have_now() -> None:
    claims = RangeClaims(ClaimBounds(claims=2))
    counted_spans(claims, *all_claim(range(20), 5))
    counted_spans(claims, claim_of(3, 6, 0, 10))
    told = {claim.range_id: claim.generation for claim in claims.overlaps[0].claims}
    assert told == {range_id: 6 if range_id == 3 else 5 for range_id in told}
    assert 3 in told


# ---- when crowds are looked at


@pytest.mark.parametrize(("gone", "reports"), [(1, 17), (2, 13), (5, 1), (6, 0)])
def test_a_crowd_is_looked_at_when_as_many_reports_have_come_as_it_has_ranges(
    gone: int, reports: int
) -> None:
    """A range that has gone counts as four reports. The look finds keys that only two ranges have left."""
    claims, large = RangeClaims(ClaimBounds(claims=2)), all_claim(range(20), 5)
    counted_spans(claims, *large, *(claim_of(100 + each, 5, 10, 20) for each in range(2 + gone)))
    counted_spans(claims, Ended(19))  # it is looked at now, and nothing has been paid for the next look
    counted_spans(claims, *ends_of(range(102, 102 + gone)))
    for _ in range(reports):
        assert len(claims.overlaps) == 1
        counted_spans(claims, large[0])
    crowd, few = claims.overlaps
    assert (crowd.span, crowd.others) == (Span(key_of(0), key_of(10)), 19 - SHOWN_MAX)
    assert (few.span, few.range_ids, few.others) == (Span(key_of(10), key_of(20)), (100, 101), 0)


def test_reports_that_came_before_a_range_has_gone_pay_for_the_look_as_well() -> None:
    claims, large = RangeClaims(ClaimBounds(claims=2)), all_claim(range(20), 5)
    counted_spans(claims, *large, *(claim_of(100 + each, 5, 10, 20) for each in range(3)))
    counted_spans(claims, Ended(19))  # it is looked at now
    for _ in range(25):  # more than it has ranges
        counted_spans(claims, large[0])
    counted_spans(claims, Ended(102))
    assert [overlap.others for overlap in claims.overlaps] == [19 - SHOWN_MAX, 0]


def test_what_was_paid_for_a_crowd_counts_when_it_becomes_one_with_another() -> None:
    """In one batch all ranges of it but one end, and the keys between the two crowds become crowded."""
    claims, (left, *others) = RangeClaims(ClaimBounds(claims=2)), all_claim(range(20), 5)
    beside = [claim_of(100 + each, 5, 20, 30) for each in range(5)]
    between = [claim_of(200 + each, 5, 10, 20) for each in range(3)]
    counted_spans(claims, left, *others, *beside)
    counted_spans(claims, *ends_of(each.range_id for each in others), *between)
    assert [overlap.span for overlap in claims.overlaps] == [Span(key_of(10), key_of(30))]
    assert counted_spans(claims, left, *between) == [[whole_of(left)], [], [], []]


def test_a_crowd_that_goes_with_the_reports_of_its_ranges_is_told_no_more() -> None:
    claims = RangeClaims(ClaimBounds(parts=3))
    wide, *narrow = [claim_of(100, 5, 0, 20), *(claim_of(each, 5, each, each + 1) for each in range(20))]
    counted_spans(claims, wide, *narrow)
    counted_spans(claims, Ended(19))  # it is looked at now, and nothing has been paid for the next look
    counted_spans(claims, Ended(100))
    assert [overlap.span for overlap in claims.overlaps] == [Span(key_of(0), key_of(20))]
    counted_spans(claims, *narrow[:-1])
    assert not claims.overlaps


def test_keys_of_a_crowd_that_nobody_claims_any_more_are_free() -> None:
    claims = RangeClaims(ClaimBounds(claims=2))
    counted_spans(claims, *all_claim(range(4), 5), claim_of(4, 5, 0, 20))
    counted_spans(claims, Ended(4))
    new = claim_of(5, 5, 10, 20)
    assert counted_spans(claims, new, *all_claim(range(4), 5)) == [[whole_of(new)], [], [], [], []]


# ---- who is left of a crowd


def _is_held_a_while(claims: RangeClaims, left: Told, keys: Span) -> bool:
    """Whether these keys of a range are free `HELD_MS` after it was heard, and not before."""
    reports = [left._replace(now_ms=now_ms) for now_ms in (1_000, 1_000 + HELD_MS, 1_001 + HELD_MS)]
    return counted_spans(claims, *reports) == [[], [], [keys]]


@pytest.mark.parametrize("end", [10, 12], ids=["the same keys", "more keys"])
def test_a_range_that_keeps_its_keys_in_a_higher_generation_has_left_none(end: int) -> None:
    claims = RangeClaims()
    counted_spans(claims, *all_claim(range(20), 5))
    counted_spans(claims, *(claim_of(each, 6, 0, end) for each in range(20)))
    counted_spans(claims, *ends_of(range(1, 20)))
    left = claim_of(0, 6, 0, end)
    assert counted_spans(claims, left) == [[whole_of(left)]]


def test_keys_that_only_one_range_of_a_crowd_has_not_left_are_held_for_a_while() -> None:
    claims, (left, *others) = RangeClaims(ClaimBounds(claims=2)), all_claim(range(4), 5)
    counted_spans(claims, left, *others)
    counted_spans(claims, *(each._replace(generation=6, end=5) for each in others))
    assert _is_held_a_while(claims, left, Span(key_of(5), key_of(10)))


_MANY: Final = range(2, 22)
_LEFT: Final[dict[str, list[list[Event]]]] = {
    "before there was a crowd": [
        [*all_claim([1, 100], 30), claim_of(100, 31, 20, 30)],
        [claim for each in _MANY for claim in all_claim([each], 24 - each)],
        ends_of(_MANY),
    ],
    "in the crowd": [[*all_claim([1, 100, *_MANY], 30), claim_of(100, 31, 20, 30)], ends_of(_MANY)],
    "in a smaller crowd": [
        [*all_claim([1, 100, *_MANY], 30), claim_of(100, 31, 20, 30)],
        [claim_of(each, 5, 10, 20) for each in range(200, 250)],
        ends_of([*_MANY, *range(200, 250)]),
    ],
}


@pytest.mark.parametrize("batches", _LEFT.values(), ids=_LEFT)
def test_keys_that_a_range_has_left_without_an_end_are_held_for_a_while_after_a_crowd(
    batches: list[list[Event]],
) -> None:
    claims = RangeClaims()
    for batch in batches:
        counted_spans(claims, *batch)
    (left,) = all_claim([1], 30)
    assert _is_held_a_while(claims, left, whole_of(left))


_PASSED: Final[dict[str, list[list[Event]]]] = {
    "before there was a crowd": [
        [*all_claim([1], 5), *all_claim([2], 6)],
        [*all_claim([2], 8, by=60_000)],
        [*all_claim(range(3, 22), 8, by=60_000)],
        ends_of(_MANY),
    ],
    "in the crowd": [
        [*all_claim([1], 5), *all_claim(_MANY, 6)],
        [*all_claim(_MANY, 8, by=60_000)],
        ends_of(_MANY),
    ],
    "in a crowd of which two were left": [
        [*all_claim([1], 5), *all_claim(_MANY, 6)],
        [*all_claim(_MANY, 8, by=60_000)],
        ends_of(range(3, 22)),
        [*all_claim([2], 8)],
        ends_of([2]),
    ],
    "in a smaller crowd": [
        [*all_claim([1], 5), *all_claim(_MANY, 6)],
        [*all_claim(_MANY, 8, by=60_000)],
        [claim_of(each, 8, 10, 20) for each in range(200, 250)],
        ends_of([*_MANY, *range(200, 250)]),
    ],
}


@pytest.mark.parametrize("batches", _PASSED.values(), ids=_PASSED)
def test_a_limit_from_before_or_in_a_crowd_still_limits_who_is_left_of_it(batches: list[list[Event]]) -> None:
    """Others had its keys by 9000. If it has resolved more than that, it was not alone."""
    claims = RangeClaims()
    for batch in batches:
        counted_spans(claims, *batch)
    (left,) = all_claim([1], 5)
    assert counted_spans(claims, left._replace(resolved=9_000)) == [[whole_of(left)]]
    passed = left._replace(resolved=9_001)
    assert counted_spans(claims, passed) == [[]]
    assert _is_held_a_while(claims, passed, whole_of(left))


def test_a_range_that_may_have_passed_a_limit_in_a_crowd_is_held_in_a_higher_generation_too() -> None:
    """Beside it are so many ranges that the crowd is not looked at before the range moves."""
    claims = RangeClaims(ClaimBounds(claims=1))
    beside = [claim_of(each, 20, 5, 10) for each in range(100, 140)]
    counted_spans(claims, claim_of(1, 5, 0, 5), claim_of(2, 6, 0, 5), *beside)
    counted_spans(claims, claim_of(2, 7, 0, 5, by=60_000), *beside)
    counted_spans(claims, Ended(2))
    left = claim_of(1, 5, 0, 5)._replace(resolved=9_001)
    counted_spans(claims, left)
    left = left._replace(generation=8)
    counted_spans(claims, left, *beside)
    assert _is_held_a_while(claims, left, whole_of(left))
