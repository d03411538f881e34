"""The span frontier against a naive model: a timestamp for every single key."""

from __future__ import annotations

import itertools
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.plain_frontier import PlainFrontier
from tidegate.hlc import NANOS_PER_SECOND, ZERO, Timestamp
from tidegate.sorted_keys import SortedKeys
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
    """A plain model of the frontier: one timestamp per tracked key."""

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


@given(steps)
def test_entries_are_sorted_disjoint_and_not_mergeable(sequence: list[tuple[str, Span, Timestamp]]) -> None:
    frontier = SpanFrontier()
    for step, span, timestamp in sequence:
        (frontier.add if step == "add" else frontier.forward)(span, timestamp)
    entries = list(frontier.entries())
    for (left, left_at), (right, right_at) in itertools.pairwise(entries):
        assert left.end <= right.start
        assert left.end < right.start or left_at != right_at


@st.composite
def range_maps(draw: st.DrawFn) -> list[Span]:
    """Ranges at one moment: neighbours that together cover more than the frontier watches."""
    cuts = sorted(draw(st.sets(st.sampled_from(_KEYS[1:-1]), max_size=8)))
    return [Span(*ends) for ends in itertools.pairwise([_KEYS[0], *cuts, _KEYS[-1]])]


@given(st.lists(range_maps(), min_size=1, max_size=8), st.randoms(use_true_random=False))
def test_moving_ranges_give_what_the_plain_model_gives(maps: list[list[Span]], random: Random) -> None:
    """Ranges split and merge between their reports, and what older ones said comes late and again."""
    frontier, model = SpanFrontier(), PlainFrontier()
    for watched in ((1, 5), (5, 7), (8, 11)):
        span = Span(_KEYS[watched[0]], _KEYS[watched[1]])
        frontier.add(span, ZERO)
        model.add(span, ZERO)
    past: list[tuple[Span, Timestamp]] = []
    for second, ranges in enumerate(maps, 1):
        reports = [(span, _soon_after(second, random)) for span in ranges if random.random() < 0.8]
        late = random.sample(past, min(len(past), 3))
        past += reports
        for span, timestamp in random.sample(reports + late, len(reports) + len(late)):
            if random.random() < 0.5:
                assert frontier.forward(span, timestamp) == model.forward(span, timestamp)
            else:
                frontier.forward_all([(span, timestamp)])
                model.forward(span, timestamp)
        assert list(frontier.entries()) == model.entries
        assert frontier.lowest_entry() == model.lowest_entry
        assert (frontier.minimum, frontier.maximum) == (model.minimum, max(at for _, at in model.entries))


def _soon_after(second: int, random: Random) -> Timestamp:
    """Often the same as others, sometimes days of the calendar of minima apart."""
    wall = second * NANOS_PER_SECOND + random.choice((0, 0, 0, 1, 2**26, 2**27 + 5, 3 * NANOS_PER_SECOND))
    return Timestamp(wall, random.choice((0, 0, 3)))


def test_a_late_report_of_a_split_range_changes_nothing() -> None:
    frontier = SpanFrontier([Span(b"a", b"z")])
    frontier.forward_all([(Span(b"a", b"z"), Timestamp(5)), (Span(b"a", b"m"), Timestamp(8))])
    assert not frontier.forward(Span(b"a", b"z"), Timestamp(5))
    assert list(frontier.entries()) == [
        (Span(b"a", b"m"), Timestamp(8)),
        (Span(b"m", b"z"), Timestamp(5)),
    ]


def test_parts_of_ranges_that_merged_do_not_pile_up() -> None:
    frontier, whole = SpanFrontier([Span(b"a", b"z")]), Span(b"a", b"z")
    for wall in range(1, 4_000, 2):
        middle = b"m%d" % wall
        frontier.forward_all(
            [(Span(b"a", middle), Timestamp(wall)), (Span(middle, b"z"), Timestamp(wall + 1))]
        )
        frontier.forward(whole, Timestamp(wall + 1))
    assert len(frontier._ends) == len(list(frontier._starts)) == 1
    assert len(frontier._queue) < 100


@given(st.lists(st.tuples(st.sampled_from(["add", "remove", "look"]), st.binary(max_size=2)), max_size=60))
def test_sorted_keys_in_small_blocks_are_a_sorted_set(sequence: list[tuple[str, bytes]]) -> None:
    keys, model = SortedKeys(block_keys=3), set[bytes]()
    for step, key in sequence:
        if step == "add" and key not in model:
            keys.add(key)
            model.add(key)
        elif step == "remove" and key in model:
            keys.remove(key)
            model.remove(key)
        below = [known for known in sorted(model) if known <= key][-1:]
        end = key + b"\x40"
        assert keys.around(key, end) == below + [known for known in sorted(model) if key < known < end]
    assert list(keys) == sorted(model)


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
    assert len(frontier._queue) < 400
