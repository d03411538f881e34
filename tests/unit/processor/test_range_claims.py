"""Keys that several ranges have at once are held; what one range had after the other is history."""

from __future__ import annotations

from dataclasses import replace

from tidegate.hlc import NANOS_PER_MS, ResolvedTimestamp, Timestamp
from tidegate.processor.checkpoint import PartitionProgress
from tidegate.processor.range_claims import AHEAD_MS, HELD_MS, RangeClaims
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
