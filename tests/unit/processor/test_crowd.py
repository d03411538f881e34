"""A key that more ranges claim than are compared is held, and goes on when few are left.

The claims are compared with those of ``tests/plain_claims.py``, which have no bound: no marker may be above
what these allow, and up to the bounds both allow the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from random import Random
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.examples import examples
from tests.plain_claims import Ended, Event, PlainClaims, Told
from tidegate.hlc import NANOS_PER_MS, ResolvedTimestamp, Timestamp
from tidegate.processor.checkpoint import PartitionProgress
from tidegate.processor.claimed_part import HELD_MS
from tidegate.processor.range_claims import AHEAD_MS, OVERLAPS_MAX, SHOWN_MAX, ClaimBounds, RangeClaims
from tidegate.raftlog.entry import Generation, Offset, RangeId
from tidegate.spans import Span

_KEYS: Final = 12
_FEW: Final = ClaimBounds(claims=2, parts=3, taken=1)
_SOME: Final = ClaimBounds(claims=3, parts=5, taken=2)
_AHEAD: Final = AHEAD_MS


def _key(number: int) -> bytes:
    return number.to_bytes(4)


def _report(event: Event) -> PartitionProgress:
    """An event as a checkpoint. Its times are in milliseconds."""
    if isinstance(event, Ended):
        return PartitionProgress(0, Offset(1), (), (), (), (), ended=(RangeId(event.range_id),))
    return PartitionProgress(
        0,
        Offset(1),
        (),
        [_key(event.start)],
        [_key(event.end)],
        [ResolvedTimestamp(Timestamp(event.resolved * NANOS_PER_MS))],
        [RangeId(event.range_id)],
        [Generation(event.generation)],
        event.by - _AHEAD,
        elapsed_ms=event.now_ms,
    )


def _counted(claims: RangeClaims, events: Sequence[Event]) -> list[tuple[int, set[int]]]:
    """The resolved timestamp of each report, with the keys for which it counts."""
    found: list[tuple[int, set[int]]] = []
    for event, report in zip(events, claims.count(map(_report, events)), strict=True):
        if isinstance(event, Told):
            spans = zip(report.starts, report.ends, strict=True)
            keys = {number for span in spans for number in range(_KEYS) if Span(*span).contains(_key(number))}
            found.append((event.resolved, keys))
    return found


def _history(seed: int, ranges: int, turns: int) -> Iterator[list[Event]]:
    """Batches of what ranges tell: each takes keys, gives some up, goes on, repeats itself, ends."""
    rng = Random(seed)
    now, generation = 10, 0
    known: dict[int, Told] = {}
    ended: set[int] = set()
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
            resolved = max(0 if old is None else old.resolved, now - rng.choice([0, 3, 200, HELD_MS]))
            if old is not None and what < 0.6:
                known[number] = old._replace(resolved=resolved, by=now + _AHEAD, now_ms=now)
            else:
                generation += rng.random() < rising
                start = rng.randrange(_KEYS)
                least = 1 if old is None else old.generation
                at = max(least, generation - rng.choice([0, 0, 1, 4]), 1)
                end = rng.randint(start + 1, min(_KEYS, start + rng.choice([1, 4, _KEYS])))
                known[number] = Told(number, at, start, end, resolved, now + _AHEAD, now)
            batch.append(known[number])
        yield batch
        if rng.random() < 0.1:
            known = {number: told for number, told in known.items() if number not in ended}
            ended = set()  # ids are used again: the history goes on with new ranges


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
    claims, plain = RangeClaims(ClaimBounds(taken=1_000)), PlainClaims(_KEYS)
    for batch in _history(seed, 12, 60):
        counted = [(event.resolved, keys) for event, keys in plain.count(batch)]
        assert _counted(claims, batch) == counted
        held = {key for key in range(_KEYS) if any(each.span.contains(_key(key)) for each in claims.overlaps)}
        assert held == plain.held


def _nested(count: int, generation: int = 1) -> list[Event]:
    """Return so many ranges over the same keys, each a little narrower than the one before."""
    return [
        Told(each + 1, generation, each, 4 * count - each, 1_000, 1_000 + _AHEAD, 10) for each in range(count)
    ]


def _counted_spans(claims: RangeClaims, *events: Event) -> list[list[Span]]:
    """The spans of each event that count."""
    return [[*map(Span, each.starts, each.ends)] for each in claims.count(map(_report, events))]


def _whole(told: Event) -> Span:
    assert isinstance(told, Told)
    return Span(_key(told.start), _key(told.end))


@pytest.mark.parametrize("order", [1, -1], ids=["outer first", "inner first"])
def test_of_very_many_ranges_over_the_same_keys_all_those_keys_are_held(order: int) -> None:
    nested, claims = _nested(300), RangeClaims()
    _counted_spans(claims, *nested[::order])
    counted = _counted_spans(claims, *nested)
    assert counted[0] == [Span(_key(0), _key(1)), Span(_key(1_199), _key(1_200))]
    assert not any(counted[1:])
    parts = [Span(start, part.end) for start, part in claims._parts.items()]
    assert len(parts) <= 2 * 16
    assert len(claims._crowds) == 1


def test_a_crowd_lets_markers_go_on_once_all_its_ranges_but_one_have_ended() -> None:
    nested, claims = _nested(300), RangeClaims()
    _counted_spans(claims, *nested)
    _counted_spans(claims, *(Ended(number) for number in range(2, 301)))
    assert not claims.overlaps
    assert _counted_spans(claims, nested[0]) == [[_whole(nested[0])]]
    assert len(claims._parts) == 1
    assert not claims._crowds


@pytest.mark.parametrize("whole", [True, False], ids=["with whole checkpoints", "while one range reports"])
def test_a_crowd_ends_as_well_if_its_ranges_end_one_by_one(whole: bool) -> None:
    nested, claims = _nested(60), RangeClaims()
    _counted_spans(claims, *nested)
    for number in range(60, 1, -1):
        assert _counted_spans(claims, nested[0])[0] != [_whole(nested[0])]
        _counted_spans(claims, Ended(number))
        if whole:
            _counted_spans(claims, *nested[: number - 1])
    assert _counted_spans(claims, nested[0]) == [[_whole(nested[0])]]


@pytest.mark.parametrize("first", [True, False])
def test_ranges_side_by_side_go_on_when_the_one_over_all_of_them_has_ended(first: bool) -> None:
    """It claims more parts than are compared, so all of its keys were held."""
    small = [Told(each + 1, 5, 3 * each, 3 * each + 3, 1_000, 9_000, 10) for each in range(400)]
    wide = Told(1_000, 5, 0, 1_200, 1_000, 9_000, 10)
    claims = RangeClaims()
    _counted_spans(claims, *([wide, *small] if first else [*small, wide]))
    assert len(claims._crowds) == 1
    assert not claims._parts
    assert not any(_counted_spans(claims, *small, wide))
    _counted_spans(claims, Ended(1_000))
    assert _counted_spans(claims, *small) == [[_whole(each)] for each in small]
    assert not claims._crowds


def test_keys_of_a_crowd_that_are_crowded_no_more_do_not_wait_for_the_others() -> None:
    claims = RangeClaims(ClaimBounds(claims=2, parts=8))
    sides = [
        Told(each, 5, start, start + 4, 1_000, 9_000, 10) for each, start in enumerate((0,) * 4 + (4,) * 4)
    ]
    _counted_spans(claims, *sides)
    assert [(each.span.start, each.span.end) for each in claims.overlaps] == [(_key(0), _key(8))]
    _counted_spans(claims, *(Ended(each) for each in (0, 1, 2)))
    assert _counted_spans(claims, *sides[3:]) == [[_whole(sides[3])], [], [], [], []]


def test_keys_of_a_crowd_that_a_range_has_left_are_held_for_a_while() -> None:
    """It may have given them to a range that has not been heard of, as where two ranges have the keys."""
    told = [Told(each, 5, 0, 10, 1_000, 9_000, 10) for each in range(40)]
    claims = RangeClaims()
    _counted_spans(
        claims, *told, Told(39, 6, 0, 5, 1_001, 9_000, 10), *(Ended(each) for each in range(1, 39))
    )
    _counted_spans(claims, Ended(39))
    assert _counted_spans(claims, told[0]) == [[]]
    assert _counted_spans(claims, told[0]._replace(now_ms=10 + HELD_MS)) == [[]]
    assert _counted_spans(claims, told[0]._replace(now_ms=11 + HELD_MS)) == [[_whole(told[0])]]


def test_a_range_that_takes_its_keys_again_and_again_leaves_a_bounded_past() -> None:
    claims = RangeClaims()
    _counted_spans(claims, Told(1, 1, 0, 10, 1_000, 2_000, 10))
    for number in range(2, 500):
        _counted_spans(claims, Told(2, number, 0, 10, 900, 1_000 * number + _AHEAD, 10))
    (part,) = claims._parts.values()
    assert len(part.taken) == ClaimBounds().taken
    assert not claims.overlaps
    assert _counted_spans(claims, Told(1, 1, 0, 10, 2_001 + _AHEAD, 9_000, 10)) == [[]]


def test_a_few_overlaps_of_a_few_ranges_are_told() -> None:
    claims = RangeClaims()
    both = ((each, side) for each in range(300) for side in (0, 1))
    pairs = [Told(2 * each + side, 5, 2 * each, 2 * each + 1, 1_000, 9_000, 10) for each, side in both]
    crowd = [Told(1_000 + each, 5, 5_000, 5_001, 1_000, 9_000, 10) for each in range(200)]
    _counted_spans(claims, *pairs)
    assert len(claims.overlaps) == OVERLAPS_MAX
    _counted_spans(claims, *(Ended(each) for each in range(600)), *crowd)
    (overlap,) = claims.overlaps
    assert overlap.range_ids == tuple(range(1_000, 1_000 + SHOWN_MAX))
    assert overlap.others == 200 - SHOWN_MAX


def _told(range_id: int, generation: int, start: int, end: int, now: int, *, ahead: int = 0) -> Told:
    """A range that has resolved up to now, or by a wrong clock ahead of it."""
    return Told(range_id, generation, start, end, now + ahead, now + ahead + _AHEAD, now)


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
    assert [held.span for held in claims.overlaps] == [Span(_key(moves - 1), _key(moves))]


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
    assert len(claims._within(Span(_key(0), _key(20)))) <= bounds.parts


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
