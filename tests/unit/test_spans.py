"""The span frontier against a naive model: a timestamp for every single key."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.hlc import ZERO, Timestamp
from tidegate.spans import Span, SpanFrontier

_KEYS = [bytes([i]) for i in range(12)]


@st.composite
def spans(draw: st.DrawFn) -> Span:
    start, end = sorted(draw(st.lists(st.sampled_from(_KEYS), min_size=2, max_size=2, unique=True)))
    return Span(start, end)


steps = st.lists(
    st.tuples(st.sampled_from(["add", "forward"]), spans(), st.integers(0, 9).map(Timestamp)), max_size=25
)


class _KeyByKey:
    """What the frontier means: one timestamp per tracked key."""

    def __init__(self) -> None:
        self.timestamps: dict[bytes, Timestamp] = {}

    def apply(self, step: str, span: Span, timestamp: Timestamp) -> None:
        for key in filter(span.contains, _KEYS):
            known = self.timestamps.get(key)
            if known is not None or step == "add":
                self.timestamps[key] = timestamp if known is None else max(known, timestamp)

    @property
    def minimum(self) -> Timestamp:
        return min(self.timestamps.values(), default=ZERO)


@given(steps)
def test_frontier_means_one_timestamp_per_key(sequence: list[tuple[str, Span, Timestamp]]) -> None:
    frontier, model = SpanFrontier(), _KeyByKey()
    for step, span, timestamp in sequence:
        before = model.minimum
        model.apply(step, span, timestamp)
        if step == "add":
            frontier.add(span, timestamp)
        else:
            assert frontier.forward(span, timestamp) == (model.minimum > before)
        assert frontier.minimum == model.minimum
    found = {key: at for entry, at in frontier.entries() for key in filter(entry.contains, _KEYS)}
    assert found == model.timestamps


@given(steps, spans())
def test_entries_are_sorted_disjoint_and_not_mergeable(
    sequence: list[tuple[str, Span, Timestamp]], window: Span
) -> None:
    frontier = SpanFrontier()
    for step, span, timestamp in sequence:
        (frontier.add if step == "add" else frontier.forward)(span, timestamp)
    entries = list(frontier.entries())
    for (left, left_at), (right, right_at) in itertools.pairwise(entries):
        assert left.end <= right.start
        assert left.end < right.start or left_at != right_at
    clipped = [(part, at) for entry, at in entries if (part := entry.intersect(window)) is not None]
    assert list(frontier.entries_in(window)) == clipped


def test_an_untracked_part_is_ignored() -> None:
    frontier = SpanFrontier([Span(b"a", b"d")], Timestamp(2))
    assert not frontier.forward(Span(b"d", b"e"), Timestamp(9))
    assert list(frontier.entries()) == [(Span(b"a", b"d"), Timestamp(2))]


@pytest.mark.parametrize(("start", "end", "why"), [(b"a", b"a", "empty"), (b"b", b"a", "inverted")])
def test_empty_and_inverted_spans_are_refused(start: bytes, end: bytes, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        SpanFrontier().add(Span(start, end), ZERO)


def test_the_minimum_survives_many_stale_heap_items() -> None:
    frontier = SpanFrontier([Span(b"a", b"b"), Span(b"b", b"c")], ZERO)
    for wall in range(1, 5_000):
        frontier.forward(Span(b"a", b"b"), Timestamp(wall + 1))
        frontier.forward(Span(b"b", b"c"), Timestamp(wall))
    assert frontier.minimum == Timestamp(4_999)
    assert len(frontier._heap) < 400
