"""A key that more ranges claim than are compared is held, and goes on when few are left.

The claims are compared with those of ``tests/plain_claims.py``, which have no bound: no marker may be above
what these allow, and up to the bounds both allow the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from random import Random
from typing import Final

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.examples import examples
from tests.plain_claims import Ended, Event, PlainClaims, Told
from tests.unit.processor.claim_events import (
    all_claim,
    claim_of,
    counted_spans,
    ends_of,
    key_of,
    report_of,
    whole_of,
)
from tidegate.processor.claimed_part import HELD_MS, SpanClaim
from tidegate.processor.crowd import Crowd, pieces_of
from tidegate.processor.range_claims import AHEAD_MS, OVERLAPS_MAX, SHOWN_MAX, ClaimBounds, RangeClaims
from tidegate.raftlog.entry import Generation, RangeId
from tidegate.spans import Span

_KEYS: Final = 12
_FEW: Final = ClaimBounds(claims=2, parts=3, taken=1)
_SOME: Final = ClaimBounds(claims=3, parts=5, taken=2)


def _counted(claims: RangeClaims, events: Sequence[Event]) -> list[tuple[int, set[int]]]:
    """The resolved timestamp of each report, with the keys for which it counts."""
    found: list[tuple[int, set[int]]] = []
    for event, report in zip(events, claims.count(map(report_of, events)), strict=True):
        if isinstance(event, Told):
            spans = zip(report.starts, report.ends, strict=True)
            keys = {
                number for span in spans for number in range(_KEYS) if Span(*span).contains(key_of(number))
            }
            found.append((event.resolved, keys))
    return found


def _history(seed: int, ranges: int, turns: int) -> Iterator[list[Event]]:
    """Batches of what ranges tell: each takes keys, gives some up, goes on, repeats itself, ends."""
    rng = Random(seed)
    now, generation = 10, 0
    known: dict[int, Told] = {}
    ended: set[int] = set()
    earlier: list[Told] = []
    rising = rng.choice([0.0, 0.5, 1.0])
    for _ in range(turns):
        batch: list[Event] = []
        for _ in range(rng.randint(1, 4)):
            now += rng.choice([1, 5, 100, HELD_MS // 2, HELD_MS])
            number = rng.randint(1, ranges)
            if number in ended:
                continue
            old = known.get(number)
            what = rng.random()
            if old is not None and what < 0.15:
                batch.append(Ended(number))
                ended.add(number)
                continue
            if earlier and what > 0.95:
                batch.append(
                    rng.choice(earlier)
                )  # a report that comes late, maybe of a generation that is over
                continue
            resolved = max(0 if old is None else old.resolved, now - rng.choice([0, 3, 200, HELD_MS]))
            if old is not None and what < 0.6:
                known[number] = old._replace(resolved=resolved, by=now + AHEAD_MS, now_ms=now)
            else:
                generation += rng.random() < rising
                start = rng.randrange(_KEYS)
                least = 1 if old is None else old.generation
                at = max(least, generation - rng.choice([0, 0, 1, 4]), 1)
                end = rng.randint(start + 1, min(_KEYS, start + rng.choice([1, 4, _KEYS])))
                known[number] = Told(number, at, start, end, resolved, now + AHEAD_MS, now)
            batch.append(known[number])
        earlier += [each for each in batch if isinstance(each, Told)]
        yield batch
        if rng.random() < 0.1:
            known = {number: told for number, told in known.items() if number not in ended}
            ended, earlier = set(), []  # ids are used again: the history goes on with new ranges


def _forward(frontier: list[int], counted: Iterable[tuple[int, set[int]]]) -> None:
    for resolved, keys in counted:
        for key in keys:
            frontier[key] = max(frontier[key], resolved)


@pytest.mark.parametrize("bounds", [_FEW, _SOME], ids=["few", "some"])
@given(seed=st.integers(0, 2**32), ranges=st.integers(2, 20))
@examples(100)
def test_no_marker_is_above_what_claims_without_a_bound_allow(
    bounds: ClaimBounds, seed: int, ranges: int
) -> None:
    claims, plain = RangeClaims(bounds), PlainClaims(_KEYS)
    bounded, free = [0] * _KEYS, [0] * _KEYS
    for batch in _history(seed, ranges, 60):
        _forward(bounded, _counted(claims, batch))
        _forward(free, ((event.resolved, keys) for event, keys in plain.count(batch)))
        assert all(low <= high for low, high in zip(bounded, free, strict=True))


@given(seed=st.integers(0, 2**32))
@examples(60)
def test_up_to_the_bounds_claims_are_those_without_a_bound(seed: int) -> None:
    claims, plain = RangeClaims(ClaimBounds(claims=12, parts=12, taken=1_000)), PlainClaims(_KEYS)
    for batch in _history(seed, 12, 60):
        counted = [(event.resolved, keys) for event, keys in plain.count(batch)]
        assert _counted(claims, batch) == counted
        held = {
            key for key in range(_KEYS) if any(each.span.contains(key_of(key)) for each in claims.overlaps)
        }
        assert held == plain.held


def _nested(count: int, generation: int = 1) -> list[Event]:
    """Return so many ranges over the same keys, each a little narrower than the one before."""
    return [
        Told(each + 1, generation, each, 4 * count - each, 1_000, 1_000 + AHEAD_MS, 10)
        for each in range(count)
    ]


@pytest.mark.parametrize("order", [1, -1], ids=["outer first", "inner first"])
def test_of_very_many_ranges_over_the_same_keys_all_those_keys_are_held(order: int) -> None:
    nested, claims = _nested(300), RangeClaims()
    counted_spans(claims, *nested[::order])
    counted = counted_spans(claims, *nested)
    assert counted[0] == [Span(key_of(0), key_of(1)), Span(key_of(1_199), key_of(1_200))]
    assert not any(counted[1:])
    parts = [Span(start, part.end) for start, part in claims._parts.items()]
    assert len(parts) <= 2 * 16
    assert len(claims._crowds) == 1


def test_a_crowd_lets_markers_go_on_once_all_its_ranges_but_one_have_ended() -> None:
    nested, claims = _nested(300), RangeClaims()
    counted_spans(claims, *nested)
    counted_spans(claims, *(Ended(number) for number in range(2, 301)))
    assert not claims.overlaps
    assert counted_spans(claims, nested[0]) == [[whole_of(nested[0])]]
    assert len(claims._parts) == 1
    assert not claims._crowds


@pytest.mark.parametrize("whole", [True, False], ids=["with whole checkpoints", "while one range reports"])
def test_a_crowd_ends_as_well_if_its_ranges_end_one_by_one(whole: bool) -> None:
    nested, claims = _nested(60), RangeClaims()
    counted_spans(claims, *nested)
    for number in range(60, 1, -1):
        assert counted_spans(claims, nested[0])[0] != [whole_of(nested[0])]
        counted_spans(claims, Ended(number))
        if whole:
            counted_spans(claims, *nested[: number - 1])
    assert counted_spans(claims, nested[0]) == [[whole_of(nested[0])]]


@pytest.mark.parametrize("first", [True, False])
def test_ranges_side_by_side_go_on_when_the_one_over_all_of_them_has_ended(first: bool) -> None:
    """It claims more parts than are compared, so all of its keys were held."""
    small = [Told(each + 1, 5, 3 * each, 3 * each + 3, 1_000, 9_000, 10) for each in range(400)]
    wide = Told(1_000, 5, 0, 1_200, 1_000, 9_000, 10)
    claims = RangeClaims()
    counted_spans(claims, *([wide, *small] if first else [*small, wide]))
    assert len(claims._crowds) == 1
    assert not claims._parts
    assert not any(counted_spans(claims, *small, wide))
    counted_spans(claims, Ended(1_000))
    assert counted_spans(claims, *small) == [[whole_of(each)] for each in small]
    assert not claims._crowds
    assert not claims.overlaps


def test_keys_of_a_crowd_that_are_crowded_no_more_do_not_wait_for_the_others() -> None:
    claims = RangeClaims(ClaimBounds(claims=2, parts=8))
    sides = [
        Told(each, 5, start, start + 4, 1_000, 9_000, 10) for each, start in enumerate((0,) * 4 + (4,) * 4)
    ]
    counted_spans(claims, *sides)
    assert [(each.span.start, each.span.end) for each in claims.overlaps] == [(key_of(0), key_of(8))]
    counted_spans(claims, *(Ended(each) for each in (0, 1, 2)))
    assert counted_spans(claims, *sides[3:]) == [[whole_of(sides[3])], [], [], [], []]


def test_keys_of_a_crowd_that_a_range_has_left_are_held_for_a_while() -> None:
    """It may have given them to a range that has not been heard of, as where two ranges have the keys."""
    told = [Told(each, 5, 0, 10, 1_000, 9_000, 10) for each in range(40)]
    claims = RangeClaims()
    counted_spans(claims, *told, Told(39, 6, 0, 5, 1_001, 9_000, 10), *(Ended(each) for each in range(1, 39)))
    counted_spans(claims, Ended(39))
    assert counted_spans(claims, told[0]) == [[]]
    assert counted_spans(claims, told[0]._replace(now_ms=10 + HELD_MS)) == [[]]
    assert counted_spans(claims, told[0]._replace(now_ms=11 + HELD_MS)) == [[whole_of(told[0])]]


def test_a_range_that_takes_its_keys_again_and_again_leaves_a_bounded_past() -> None:
    claims = RangeClaims()
    counted_spans(claims, Told(1, 1, 0, 10, 1_000, 2_000, 10))
    for number in range(2, 500):
        counted_spans(claims, Told(2, number, 0, 10, 900, 1_000 * number + AHEAD_MS, 10))
    (part,) = claims._parts.values()
    assert len(part.taken) == ClaimBounds().taken
    assert not claims.overlaps
    assert counted_spans(claims, Told(1, 1, 0, 10, 2_001 + AHEAD_MS, 9_000, 10)) == [[]]


def test_a_few_overlaps_of_a_few_ranges_are_told() -> None:
    claims = RangeClaims()
    both = ((each, side) for each in range(300) for side in (0, 1))
    pairs = [Told(2 * each + side, 5, 2 * each, 2 * each + 1, 1_000, 9_000, 10) for each, side in both]
    crowd = [Told(1_000 + each, 5, 5_000, 5_001, 1_000, 9_000, 10) for each in range(200)]
    counted_spans(claims, *pairs)
    assert len(claims.overlaps) == OVERLAPS_MAX
    counted_spans(claims, *(Ended(each) for each in range(600)), *crowd)
    (overlap,) = claims.overlaps
    assert overlap.range_ids == tuple(range(1_000, 1_000 + SHOWN_MAX))
    assert overlap.others == 200 - SHOWN_MAX


def _told(range_id: int, generation: int, start: int, end: int, now: int, *, ahead: int = 0) -> Told:
    """A range that has resolved up to now, or by a wrong clock ahead of it."""
    return Told(range_id, generation, start, end, now + ahead, now + ahead + AHEAD_MS, now)


@pytest.mark.parametrize("moves", range(1, 9))
def test_a_crowd_of_parts_that_differ_in_their_past_alone_is_looked_at(moves: int) -> None:
    claims, now = RangeClaims(ClaimBounds(claims=16, parts=4, taken=16)), HELD_MS
    _counted(claims, [_told(1, 1, 0, 10, now)])
    for number in range(moves):
        now += 1
        _counted(claims, [_told(2, 2 + number, number, number + 1, now)])
    for _ in range(20):
        now += HELD_MS
        _counted(claims, [_told(1, 1, 0, 10, now), _told(2, 1 + moves, moves - 1, moves, now)])
    assert [held.span for held in claims.overlaps] == [Span(key_of(moves - 1), key_of(moves))]


def test_what_comes_out_of_crowds_is_within_the_bound_of_parts() -> None:
    bounds = ClaimBounds(claims=2, parts=12, taken=2)
    claims, now, blocks = RangeClaims(bounds), HELD_MS, range(4)
    _counted(claims, [_told(1, 1, 0, 20, now)])  # it tells no more
    narrow = [_told(100 + key, 1, key, key + 1, now) for key in range(20) if key % 5 < 4]
    _counted(claims, [*(_told(10 + block, 1, 5 * block, 5 * block + 4, now) for block in blocks), *narrow])
    assert len(claims._crowds) == len(blocks)
    _counted(claims, [Ended(10 + block) for block in blocks])
    for _ in range(3):
        now += 1
        _counted(claims, [each._replace(resolved=now, now_ms=now) for each in narrow])
    assert len(claims._within(Span(key_of(0), key_of(20)))) <= bounds.parts


def test_one_wrong_clock_in_a_crowd_does_not_hold_who_is_left() -> None:
    claims, now, year = RangeClaims(), HELD_MS, 365 * 86_400_000
    others = range(2, 21)
    _counted(claims, [_told(1, 1, 0, 10, now)])
    for generation, start in ((5, 0), (6, 100)):
        moved = [
            _told(number, generation, start, start + 10, now, ahead=year * (number == 20))
            for number in others
        ]
        _counted(claims, moved)
    _counted(claims, [Ended(number) for number in others])
    for _ in range(20):
        now += HELD_MS
        _counted(claims, [_told(1, 1, 0, 10, now)])
    assert not claims.overlaps


# ---- ranges that join a crowd, leave it, and are beside it


def test_an_overlap_tells_how_many_ranges_its_crowd_has_at_present() -> None:
    claims = RangeClaims()
    counted_spans(claims, *all_claim(range(40), 5))
    for event, ranges in (
        (claim_of(40, 5, 0, 10), 41),
        (Ended(40), 40),
        (claim_of(39, 6, 20, 30), 39),
        (claim_of(41, 6, 2, 6), 40),
    ):
        counted_spans(claims, event)
        (overlap,) = claims.overlaps
        assert overlap.range_ids == tuple(range(SHOWN_MAX))
        assert overlap.others == ranges - SHOWN_MAX


@pytest.mark.parametrize("first", [True, False], ids=["told first", "told last"])
def test_a_range_that_only_touches_a_crowd_is_not_in_it(first: bool) -> None:
    claims, beside = RangeClaims(), [claim_of(1, 5, 10, 20), claim_of(2, 5, 30, 40)]
    crowd = [claim_of(each, 5, 20, 30) for each in range(100, 110 + SHOWN_MAX)]
    counted_spans(claims, *([*beside, *crowd] if first else [*crowd, *beside]))
    (overlap,) = claims.overlaps
    assert overlap.span == Span(key_of(20), key_of(30))
    assert overlap.range_ids == tuple(range(100, 100 + SHOWN_MAX))
    assert overlap.others == 10
    assert counted_spans(claims, *beside) == [[whole_of(each)] for each in beside]


def test_the_ranges_that_are_named_stay_the_same_while_they_are_there() -> None:
    """Others join them, a smaller crowd becomes one with theirs, and it is looked at."""
    claims = RangeClaims()
    counted_spans(claims, *all_claim(range(100, 150), 5))
    named = claims.overlaps[0].range_ids
    low = range(SHOWN_MAX + 1)
    for events, others in (
        ([claim_of(60, 5, 2, 5)], 51),
        ([claim_of(each, 5, 20, 30) for each in low], 51),
        ([claim_of(20 + each, 5, 10, 20) for each in low], 51 + 2 * len(low)),
        (ends_of(range(130, 150)), 31 + 2 * len(low)),
        ([claim_of(each, 5, 20, 30) for each in low], 31 + 2 * len(low)),
    ):
        counted_spans(claims, *events)
        overlap = claims.overlaps[0]
        assert overlap.range_ids == named
        assert overlap.others == others - SHOWN_MAX
    assert overlap.span == Span(key_of(0), key_of(30))


def test_a_crowd_names_the_lowest_of_its_ranges_until_less_than_half_of_these_are_there() -> None:
    crowd = Crowd(b"a", b"b")
    crowd.join(map(RangeId, range(100, 120)))
    assert crowd.shown() == [*range(100, 100 + SHOWN_MAX)]
    crowd.join(map(RangeId, range(10)))
    for number in range(100, 108):
        assert crowd.shown() == [*range(number, 100 + SHOWN_MAX)]
        crowd.leave(RangeId(number))
    assert crowd.shown() == [*range(108, 116)]
    crowd.leave(RangeId(108))
    assert crowd.shown() == [*range(10), *range(109, 115)]


def test_a_small_crowd_names_all_of_its_ranges() -> None:
    crowd = Crowd(b"a", b"b")
    for number in range(9, 2, -1):
        crowd.join([RangeId(number)])
        assert crowd.shown() == [*range(number, 10)]
    for number in range(9, 4, -1):
        crowd.leave(RangeId(number))
        assert crowd.shown() == [*range(3, number)]


def _plain_pieces(
    keys: tuple[int, int], claims: Sequence[tuple[int, int]], claims_max: int, parts_max: int
) -> list[tuple[int, int, set[int] | None]]:
    """What ``pieces_of`` is to return, key by key; a claim is its first key and the key behind its last."""
    within = [(max(start, keys[0]), min(end, keys[1])) for start, end in claims]
    bounds = sorted({bound for start, end in within if start < end for bound in (start, end)})
    owners = {
        (low, high): {number for number, (start, end) in enumerate(within) if start <= low and high <= end}
        for low, high in pairwise(bounds)
    }
    found = {piece: ranges for piece, ranges in owners.items() if ranges}
    wide = {n for n in range(len(claims)) if sum(n in ranges for ranges in found.values()) > parts_max}
    pieces: list[tuple[int, int, set[int] | None]] = []
    for (low, high), ranges in found.items():
        if len(ranges) <= claims_max and not ranges & wide:
            pieces.append((low, high, ranges))
        elif pieces and pieces[-1][1:] == (low, None):
            pieces[-1] = pieces[-1][0], high, None
        else:
            pieces.append((low, high, None))
    return pieces


@given(
    st.tuples(st.integers(0, 5), st.integers(6, _KEYS)),
    st.lists(st.tuples(st.integers(0, _KEYS - 1), st.integers(1, 8)), max_size=8),
    st.integers(1, 4),
    st.integers(1, 5),
)
@example((0, 12), [(0, 4), (1, 1), (2, 1), (6, 2)], 3, 3)  # behind a claim of too many pieces is another
@examples(200)
def test_pieces_of_a_crowd_are_the_keys_that_the_same_few_ranges_claim(
    keys: tuple[int, int], claims: list[tuple[int, int]], claims_max: int, parts_max: int
) -> None:
    spans = [(start, start + length) for start, length in claims]
    told = [
        SpanClaim(RangeId(number), Generation(1), Span(key_of(start), key_of(end)), 0)
        for number, (start, end) in enumerate(spans)
    ]
    pieces = pieces_of(Span(*map(key_of, keys)), told, claims_max, parts_max)
    assert [
        (start, end, None if few is None else {int(claim.range_id) for claim in few})
        for start, end, few in pieces
    ] == [
        (key_of(start), key_of(end), ranges)
        for start, end, ranges in _plain_pieces(keys, spans, claims_max, parts_max)
    ]
