"""What a claim, an end or a report changes in keys that the same ranges claim (V1 to V6 of overlaps.md)."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import pytest

from tidegate.hlc import NANOS_PER_MS
from tidegate.processor.claimed_part import (
    HELD_MS,
    NO_LIMIT,
    ClaimedPart,
    PastClaim,
    SpanClaim,
    claimed,
    ended,
    fewer,
    freed,
    left,
    looked_at,
    settled_alone,
    with_taken,
)
from tidegate.raftlog.entry import Generation, RangeId
from tidegate.spans import Span

_MAX: Final = 2
_APART: Final = HELD_MS * NANOS_PER_MS
_END: Final = b"m"


def _claim(range_id: int, generation: int, by: int = 100) -> SpanClaim:
    return SpanClaim(RangeId(range_id), Generation(generation), Span(b"a", b"z"), by)


def _part(
    *claims: SpanClaim,
    taken: tuple[PastClaim, ...] = (),
    contested: tuple[int, ...] = (),
    until_ms: int | None = None,
    rough: bool = False,
    since: bool = False,
) -> ClaimedPart:
    """A part; ``since`` says that a range may have left its keys."""
    return ClaimedPart(_END, claims, taken, frozenset(map(RangeId, contested)), until_ms, rough, since)


_ONE, _TWO, _THREE = _claim(1, 5), _claim(2, 6, 200), _claim(3, 7, 300)


# ---- limits ----


@pytest.mark.parametrize(
    ("generation", "limit"), [(4, 100), (5, 150), (6, 200), (7, 250), (8, 250), (9, NO_LIMIT), (10, NO_LIMIT)]
)
def test_a_range_is_limited_by_the_first_time_of_any_higher_generation(generation: int, limit: int) -> None:
    taken = (PastClaim(6, 150, 999), PastClaim(9, 250, 999))
    part = _part(_claim(1, 5, 100), _claim(2, 7, 200), _claim(3, 8, 300), taken=taken)
    assert part.limit(Generation(generation)) == limit


def test_parts_are_alike_if_they_differ_in_their_keys_alone() -> None:
    part = _part(_ONE, _TWO, contested=(1, 2))
    assert part.like(replace(part, end=b"z"))
    for other in (
        replace(part, claims=(_ONE, _THREE)),
        replace(part, contested=frozenset()),
        replace(part, taken=(PastClaim(9, 1, 1),)),
        replace(part, until_ms=7),
        replace(part, rough=True),
        replace(part, left=True),
    ):
        assert not part.like(replace(other, end=b"z"))


# ---- claims ----


@pytest.mark.parametrize(
    ("generation", "by", "contested"),
    [
        (4, (), ()),
        (5, (), (1, 9)),
        (6, (), (2, 9)),
        (7, (), ()),
        (4, (2, 3), (2, 3)),
        (5, (2, 3), (1, 2, 3, 9)),  # one rival, and below the overlap
        (6, (2, 3), (2, 3, 9)),
        (7, (2, 3), (2, 3, 9)),
        (9, (2, 3), (2, 3, 9)),
    ],
)
def test_a_claim_overlaps_its_generation_and_joins_overlaps_of_lower_ones(
    generation: int, by: tuple[int, ...], contested: tuple[int, ...]
) -> None:
    three = _claim(3, 8)
    new = _claim(9, generation)
    found = claimed(_part(_ONE, _TWO, three, contested=by), new, _MAX)
    assert found == _part(_ONE, _TWO, three, new, contested=contested)


def test_a_range_that_claims_anew_is_limited_no_more_by_its_old_claim_and_others_are() -> None:
    new = _claim(2, 8, 900)
    taken = (PastClaim(6, 200, 200),)
    assert claimed(_part(_ONE, _TWO), new, _MAX) == _part(_ONE, new, taken=taken)
    assert claimed(_part(_TWO), new, _MAX) == _part(new)
    assert claimed(_part(_TWO, _THREE), new, _MAX) == _part(_THREE, new)


def test_past_claims_beyond_the_bound_become_one_and_the_part_is_rough() -> None:
    part = _part(_ONE, _TWO, taken=(PastClaim(7, 210, 210), PastClaim(8, 230, 230)))
    both = PastClaim(7, 200, 210)
    found = claimed(part, _claim(2, 9), _MAX)
    assert found == _part(_ONE, _claim(2, 9), taken=(both, PastClaim(8, 230, 230)), rough=True)
    fits = (PastClaim(6, 200, 200), *part.taken)
    assert claimed(part, _claim(2, 9), _MAX + 1) == _part(_ONE, _claim(2, 9), taken=fits)


@pytest.mark.parametrize(
    ("contested", "since"), [((), False), ((1,), True), ((1, 2), False), ((1, 2, 3), False)]
)
def test_a_part_that_becomes_rough_while_one_range_is_held_has_been_left_before(
    contested: tuple[int, ...], since: bool
) -> None:
    part = _part(_ONE, _TWO, _THREE, taken=(PastClaim(6, 900, 900),), contested=contested)
    found = claimed(part, _claim(3, 30), 1)
    assert found.rough
    assert found.left is since


def test_in_a_rough_part_an_overlap_takes_in_all_ranges() -> None:
    taken = (PastClaim(9, 900, 900),)
    part = _part(_ONE, _TWO, _THREE, taken=taken, rough=True)
    assert claimed(part, _claim(8, 6), _MAX).contested == {1, 2, 3, 8}
    assert claimed(part, _claim(8, 8), _MAX) == replace(part, claims=(*part.claims, _claim(8, 8)))


@pytest.mark.parametrize("contested", [(), (1, 2)])
@pytest.mark.parametrize("limited", [False, True])
def test_a_claim_anew_does_not_undo_what_the_old_one_may_have_resolved(
    contested: tuple[int, ...], limited: bool
) -> None:
    taken = (PastClaim(9 if limited else 6, 900, 900),)
    part = _part(_ONE, _TWO, taken=taken, contested=contested, rough=True)
    new = _claim(2, 10)
    found = claimed(part, new, _MAX)
    assert found.left is bool(limited and contested)
    assert found.rough
    assert not claimed(part, _claim(8, 10), _MAX).left


@pytest.mark.parametrize(
    ("generation", "contested", "kept"),
    [
        (7, (), (PastClaim(8, 800, 800), PastClaim(9, 900, 900))),
        (8, (), (PastClaim(9, 900, 900),)),
        (9, (), ()),
        (9, (1,), ()),
    ],
)
def test_past_claims_of_a_rough_part_limit_its_only_range_in_the_new_generation_too(
    generation: int, contested: tuple[int, ...], kept: tuple[PastClaim, ...]
) -> None:
    taken = (PastClaim(8, 800, 800), PastClaim(9, 900, 900))
    part = _part(_ONE, taken=taken, contested=contested, rough=True)
    new = _claim(1, generation)
    rough = bool(kept or contested)
    found = _part(new, taken=kept, contested=contested, rough=rough, since=bool(contested))
    assert claimed(part, new, _MAX) == found


# ---- ranges that leave and end ----


@pytest.mark.parametrize(
    ("contested", "gone", "rest"),
    [
        ((), 3, _part(_ONE, _TWO, until_ms=50, taken=(PastClaim(7, 300, 300),))),
        ((1,), 3, _part(_ONE, _TWO, contested=(1,), until_ms=50, taken=(PastClaim(7, 300, 300),))),
        ((1, 2), 3, _part(_ONE, _TWO, contested=(1, 2), until_ms=50, taken=(PastClaim(7, 300, 300),))),
        ((1, 2, 3), 3, _part(_ONE, _TWO, contested=(1, 2), until_ms=50, taken=(PastClaim(7, 300, 300),))),
        ((2, 3), 3, _part(_ONE, _TWO, contested=(2,), taken=(PastClaim(7, 300, 300),))),
        ((3,), 3, _part(_ONE, _TWO)),
        ((2, 3), 1, _part(_TWO, _THREE, contested=(2, 3), until_ms=50)),
    ],
)
def test_who_is_left_is_held_for_a_while_after_a_range_has_left(
    contested: tuple[int, ...], gone: int, rest: ClaimedPart
) -> None:
    part = _part(_ONE, _TWO, _THREE, contested=contested, until_ms=50)
    assert left(part, RangeId(gone), _MAX) == rest


@pytest.mark.parametrize(
    ("contested", "rest"),
    [
        ((), _part(_ONE, _TWO, until_ms=50)),
        ((1,), _part(_ONE, _TWO, contested=(1,), until_ms=50)),
        ((1, 2), _part(_ONE, _TWO, contested=(1, 2), until_ms=50)),
        ((1, 2, 3), _part(_ONE, _TWO, contested=(1, 2), until_ms=50)),
        ((2, 3), _part(_ONE, _TWO)),
        ((3,), _part(_ONE, _TWO)),
    ],
)
def test_the_end_of_all_ranges_but_one_ends_an_overlap_and_an_ended_range_limits_nobody(
    contested: tuple[int, ...], rest: ClaimedPart
) -> None:
    part = _part(_ONE, _TWO, _THREE, contested=contested, until_ms=50)
    assert ended(part, RangeId(3), _MAX) == rest


def test_an_end_takes_no_limit_away() -> None:
    taken = (PastClaim(7, 250, 260), PastClaim(8, 400, 410))
    part = _part(_ONE, _claim(2, 6), taken=taken)
    assert ended(part, RangeId(2), 1) == _part(_ONE, taken=taken)


def test_a_rough_part_notes_that_a_range_has_left_its_overlap() -> None:
    taken = (PastClaim(9, 900, 900),)
    part = _part(_ONE, _TWO, _THREE, taken=taken, contested=(1, 2, 3), until_ms=50, rough=True)
    both = (PastClaim(7, 300, 300), *taken)
    assert left(part, RangeId(3), _MAX) == _part(
        _ONE, _TWO, taken=both, contested=(1, 2), rough=True, since=True
    )
    idle = _part(_ONE, _TWO, _THREE, taken=taken, rough=True)
    assert left(idle, RangeId(3), _MAX) == _part(_ONE, _TWO, taken=both, rough=True)


def test_the_last_range_of_a_rough_overlap_is_free_if_nothing_speaks_against_it() -> None:
    for taken in ((), (PastClaim(4, 30, 40), PastClaim(5, 60, 70))):
        part = _part(_ONE, _TWO, taken=taken, contested=(1, 2), rough=True)
        assert ended(part, RangeId(2), _MAX) == _part(_ONE)


def test_the_last_range_of_a_rough_overlap_is_held_if_it_was_left_or_limited_before() -> None:
    limiting, other = PastClaim(6, 60, 70), PastClaim(5, 30, 40)
    limited = _part(_ONE, _TWO, taken=(other, limiting), contested=(1, 2), until_ms=50, rough=True)
    assert ended(limited, RangeId(2), _MAX) == _part(_ONE, taken=(limiting,), contested=(1,), rough=True)
    was_left = _part(_ONE, _TWO, contested=(1, 2), until_ms=50, rough=True, since=True)
    assert ended(was_left, RangeId(2), _MAX) == _part(_ONE, contested=(1,), rough=True, since=True)
    three = replace(limited, claims=(_ONE, _TWO, _THREE), contested=frozenset(map(RangeId, (1, 2, 3))))
    assert ended(three, RangeId(3), _MAX) == limited


def test_a_part_that_is_free_forgets_its_past_unless_it_is_rough() -> None:
    taken = (PastClaim(6, 60, 70),)
    part = _part(_ONE, taken=taken, contested=(1,), until_ms=50, since=True)
    assert freed(part) == _part(_ONE)
    assert freed(replace(part, rough=True)) == _part(_ONE, taken=taken, rough=True)
    assert freed(replace(part, rough=True, taken=())) == _part(_ONE)
    assert settled_alone(replace(part, rough=True, taken=(), left=False)) == _part(_ONE)


# ---- reports ----


def test_who_is_left_of_an_overlap_is_held_from_its_next_report_on() -> None:
    part = _part(_ONE, _TWO, contested=(1,))
    held = looked_at(part, _ONE, 10, 1_000)
    assert held == replace(part, until_ms=1_000 + HELD_MS)
    assert looked_at(held, _ONE, 10, 1_000 + HELD_MS) is held
    assert looked_at(held, _ONE, 10, 1_001 + HELD_MS) == _part(_ONE, _TWO)
    alone = _part(_ONE, contested=(1,), taken=(PastClaim(9, 5, 5),))
    assert looked_at(alone, _ONE, 10, 1_000) == replace(alone, until_ms=1_000 + HELD_MS)


@pytest.mark.parametrize(
    ("contested", "resolved", "then"),
    [
        ((), 200, ()),
        ((), 201, (1, 3)),
        ((2, 3), 200, (2, 3)),
        ((2, 3), 201, (1, 2, 3)),
        ((2,), 201, (1, 2)),
        ((1, 2), 999, (1, 2)),
    ],
)
def test_a_range_that_resolves_more_than_its_limit_overlaps_with_who_took_its_keys(
    contested: tuple[int, ...], resolved: int, then: tuple[int, ...]
) -> None:
    """If nobody overlaps yet, with the one of the highest generation: it took the keys last."""
    part = _part(_ONE, _TWO, _THREE, contested=contested, until_ms=50 if len(contested) == 1 else None)
    until_ms = part.until_ms if then == contested else None
    assert looked_at(part, _ONE, resolved, 7) == _part(_ONE, _TWO, _THREE, contested=then, until_ms=until_ms)


def test_in_a_rough_part_a_range_that_passes_its_limit_overlaps_with_all_and_keeps_all_limits() -> None:
    part = _part(_ONE, _TWO, taken=(PastClaim(5, 10, 20), PastClaim(9, 60, 70)), rough=True)
    found = replace(part, contested=frozenset(map(RangeId, (1, 2))))
    assert looked_at(part, _ONE, 61, 7) == looked_at(part, _ONE, 201, 7) == found
    assert looked_at(part, _ONE, 60, 7) is part


def test_the_only_range_of_a_part_is_held_once_it_has_passed_a_limit() -> None:
    part = _part(_ONE, taken=(PastClaim(6, 60, 70),))
    assert looked_at(part, _ONE, 60, 7) is part
    assert looked_at(part, _ONE, 71, 7) == replace(part, contested=frozenset([RangeId(1)]))


@pytest.mark.parametrize("resolved", [60, 61, 70, 71])
def test_the_only_range_of_a_rough_part_is_held_once_it_has_passed_a_limit(resolved: int) -> None:
    part = _part(_ONE, taken=(PastClaim(6, 60, 70),), rough=True)
    found = looked_at(part, _ONE, resolved, 7)
    if resolved == 60:
        assert found is part
    elif resolved <= 70:
        assert found == replace(part, contested=frozenset([RangeId(1)]))
    else:
        assert found == _part(_ONE, contested=(1,), rough=True, since=True)


def test_a_rough_part_keeps_limits_that_its_last_range_may_have_passed() -> None:
    """They are kept as one: the range may have passed the first of them, and has not passed the last."""
    near, far = PastClaim(6, 60, 70), PastClaim(6, 500, 600)
    part = _part(_ONE, taken=(near, far), contested=(1,), rough=True)
    for resolved in (61, 70):
        assert looked_at(part, _ONE, resolved, 7) is part
    passed = looked_at(replace(part, until_ms=50), _ONE, 71, 7)
    assert passed == _part(_ONE, taken=(far,), contested=(1,), rough=True, since=True)
    assert looked_at(part, _ONE, 60, 7) == _part(_ONE, taken=(near, far), rough=True)


def test_a_rough_part_forgets_limits_that_do_not_concern_its_last_range() -> None:
    part = _part(
        _ONE, taken=(PastClaim(5, 10, 20), PastClaim(6, 60, 70)), contested=(1,), until_ms=50, rough=True
    )
    found = looked_at(part, _ONE, 30, 7)
    assert found == replace(part, taken=(PastClaim(6, 60, 70),))


def test_a_rough_part_of_several_ranges_keeps_all_limits() -> None:
    part = _part(_ONE, _TWO, taken=(PastClaim(5, 10, 20), PastClaim(9, 60, 70)), contested=(1, 2), rough=True)
    assert looked_at(part, _ONE, 999, 7) is part


def test_the_last_range_of_a_rough_part_that_was_left_is_held_for_a_while() -> None:
    part = _part(_ONE, taken=(PastClaim(6, 60, 70),), contested=(1,), rough=True, since=True)
    held = looked_at(part, _ONE, 60, 1_000)
    assert held == replace(part, until_ms=1_000 + HELD_MS)
    assert looked_at(held, _ONE, 60, 1_000 + HELD_MS) is held
    assert looked_at(held, _ONE, 60, 1_001 + HELD_MS) == _part(_ONE, taken=part.taken, rough=True)
    assert looked_at(held, _ONE, 61, 1_001 + HELD_MS) is held


# ---- claims that are over ----


@pytest.mark.parametrize(
    ("by", "kept"),
    [
        (NO_LIMIT, [(6, 60 * _APART, 70 * _APART)]),
        (59 * _APART - 1, [(6, 59 * _APART - 1, 59 * _APART - 1), (6, 60 * _APART, 70 * _APART)]),
        (59 * _APART, [(6, 59 * _APART, 70 * _APART)]),
        (65 * _APART, [(6, 60 * _APART, 70 * _APART)]),
        (71 * _APART, [(6, 60 * _APART, 71 * _APART)]),
        (71 * _APART + 1, [(6, 60 * _APART, 70 * _APART), (6, 71 * _APART + 1, 71 * _APART + 1)]),
    ],
)
def test_past_claims_of_a_generation_are_kept_as_one_unless_they_are_far_apart(
    by: int, kept: list[tuple[int, int, int]]
) -> None:
    other = PastClaim(7, 60 * _APART, 60 * _APART)
    taken = with_taken((PastClaim(6, 60 * _APART, 70 * _APART), other), _claim(1, 6, by))
    assert taken == (*(PastClaim(*each) for each in kept), other)


def test_a_past_claim_between_two_that_were_apart_joins_them() -> None:
    apart = (PastClaim(6, 0, 0), PastClaim(6, 2 * _APART, 3 * _APART))
    assert with_taken(apart, _claim(1, 6, _APART)) == (PastClaim(6, 0, 3 * _APART),)


def test_the_past_claims_that_are_nearest_in_time_become_one_that_limits_as_much() -> None:
    taken = (PastClaim(9, 500, 520), PastClaim(6, 60, 90), PastClaim(7, 70, 80), PastClaim(8, 100, 900))
    assert fewer(taken, 4) == tuple(sorted(taken))
    joined = PastClaim(7, 60, 90)
    assert fewer(taken, 3) == (joined, PastClaim(8, 100, 900), PastClaim(9, 500, 520))
    assert fewer(taken, 2) == (joined, PastClaim(9, 100, 900))
    late = (PastClaim(6, 0, 0), PastClaim(6, 100, 100), PastClaim(7, 110, 120))
    assert fewer(late, 2) == (PastClaim(6, 0, 0), PastClaim(7, 100, 120))
