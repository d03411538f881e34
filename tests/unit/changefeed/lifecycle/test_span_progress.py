"""The stored progress of spans above the high-water is small, and never says more than is true."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from tidegate.changefeed.lifecycle.span_progress import spans_ahead
from tidegate.hlc import NANOS_PER_SECOND, Timestamp
from tidegate.spans import Span

_HIGH_WATER = Timestamp(1_000 * NANOS_PER_SECOND + 123, 7)


def _key(number: int) -> bytes:
    return number.to_bytes(3, "big")


def _above(seconds: float) -> Timestamp:
    return Timestamp(_HIGH_WATER.wall + int(seconds * NANOS_PER_SECOND), 3)


@st.composite
def entries(draw: st.DrawFn) -> list[tuple[Span, Timestamp]]:
    cuts = sorted(draw(st.sets(st.integers(0, 5_000), min_size=2, max_size=40)))
    seconds = draw(st.lists(st.floats(0, 1e5), min_size=len(cuts) - 1, max_size=len(cuts) - 1))
    spans = [Span(_key(first), _key(last)) for first, last in itertools.pairwise(cuts)]
    return [(span, _above(above)) for span, above in zip(spans, seconds, strict=True) if draw(st.booleans())]


@given(entries())
def test_nothing_is_stored_that_is_not_true(known: list[tuple[Span, Timestamp]]) -> None:
    for span, at in spans_ahead(known, _HIGH_WATER):
        assert at > _HIGH_WATER
        covered = [(part, reached) for entry, reached in known if (part := entry.intersect(span)) is not None]
        assert all(at <= reached for _, reached in covered)
        assert covered[0][0].start == span.start
        assert covered[-1][0].end == span.end
        assert all(left.end == right.start for (left, _), (right, _) in itertools.pairwise(covered))


@given(entries())
def test_a_few_spans_are_kept_to_a_second(known: list[tuple[Span, Timestamp]]) -> None:
    kept = spans_ahead(known, _HIGH_WATER)
    for span, reached in known:
        at = [at for stored, at in kept if stored.start <= span.start and span.end <= stored.end]
        assert at or reached.wall - _HIGH_WATER.wall < NANOS_PER_SECOND
        assert all(reached.wall - stored.wall < NANOS_PER_SECOND for stored in at)


def test_one_span_that_lags_leaves_two() -> None:
    """All others are within seconds of each other, so they become one where they touch."""
    known = [
        (Span(_key(number), _key(number + 1)), _above(0 if number == 700 else 3_600 + number % 7 / 2))
        for number in range(5_000)
    ]
    (left, left_at), (right, right_at) = spans_ahead(known, _HIGH_WATER)
    assert (left, right) == (Span(_key(0), _key(700)), Span(_key(701), _key(5_000)))
    assert left_at == right_at
    assert _above(3_500).wall <= left_at.wall <= _above(3_600).wall


def test_too_many_spans_are_left_out_and_not_stored_in_part() -> None:
    lagging = [
        (Span(_key(number), _key(number + 1)), _above(0 if number % 2 else 3_600)) for number in range(5_000)
    ]
    assert spans_ahead(lagging, _HIGH_WATER) == ()


def test_long_keys_are_bounded_as_well() -> None:
    keys = [bytes([number]) * 1_000 for number in range(60)]
    known = [(Span(keys[n], keys[n + 1]), _above(60)) for n in range(0, 58, 2)]
    assert spans_ahead(known, _HIGH_WATER) == ()
    assert len(spans_ahead(known[:10], _HIGH_WATER)) == 10
