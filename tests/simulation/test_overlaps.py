"""Whatever ranges do one after the other is never taken for an overlap; two that live at once always are."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache
from itertools import islice
from random import Random, SystemRandom
from typing import Any, Final

import pytest

from tests.simulation.moving_ranges import MovingRanges, Troubles
from tidegate.hlc import NANOS_PER_MS, NANOS_PER_SECOND, ZERO, ResolvedTimestamp, Timestamp
from tidegate.processor.batch import PartitionCheckpoint, RangeCheckpoint
from tidegate.processor.checkpoint import PartitionProgress, decode_report, encode_checkpoint
from tidegate.processor.range_claims import RangeClaims
from tidegate.raftlog.entry import Generation, Offset, RangeId
from tidegate.spans import EVERYTHING, Span, SpanFrontier, joined

_FRESH: Final = None  # as a seed; its number is drawn within the test, so that all processes collect the same
_TROUBLES: Final = {
    "moves": Troubles(split=0.3, merge=0.25, corrupt=0.0, restart=0.1),
    "everything": Troubles(split=0.2, merge=0.2, corrupt=0.05, restart=0.1, lose_chunk=0.05, leap=0.02),
}
_TURNS: Final = 40
_INTRUDER: Final = RangeId(1 << 40)


class _Witnessed(MovingRanges):
    """Keeps what partitions tell frontiers, each in its order."""

    def __init__(self, seed: int, troubles: Troubles) -> None:
        self.told: list[list[PartitionCheckpoint]] = [[] for _ in range(troubles.partitions)]
        super().__init__(seed, troubles)

    def note_checkpoint(self, number: int, checkpoint: PartitionCheckpoint) -> None:
        self.told[number].append(checkpoint)
        super().note_checkpoint(number, checkpoint)


@cache
def _history(seed: int, troubles: str) -> tuple[tuple[PartitionProgress, ...], ...]:
    """Return what each partition tells, through the bytes of its records."""
    run = _Witnessed(seed, _TROUBLES[troubles])
    run.run(_TURNS)
    return tuple(tuple(map(_read, told)) for told in run.told)


def _read(checkpoint: PartitionCheckpoint) -> PartitionProgress:
    return decode_report(encode_checkpoint(checkpoint))


def _some_order(
    rng: Random, told: Sequence[Sequence[PartitionProgress]]
) -> Iterator[list[PartitionProgress]]:
    """Batches of the topic: partitions run ahead and lag, and some of it is read again.

    Some is never told but for the ends: of a batch of the log a checkpoint has the last generations alone.
    """
    rare = rng.choice([0.0, 0.3, 0.7])
    told = [[_ends_of(report) if rng.random() < rare else report for report in reports] for reports in told]
    places, again = [0] * len(told), [2] * len(told)
    eagerness = [rng.choice([0.1, 0.5, 1.0]) for _ in told]
    while any(place < len(records) for place, records in zip(places, told, strict=True)):
        batch: list[PartitionProgress] = []
        for number, records in enumerate(told):
            if again[number] and rng.random() < 0.03:
                places[number] = rng.randint(0, places[number])
                again[number] -= 1
            elif rng.random() < eagerness[number]:
                taken = records[places[number] : places[number] + rng.randint(1, 5)]
                places[number] += len(taken)
                batch += taken
        yield batch


def _ends_of(report: PartitionProgress) -> PartitionProgress:
    nothing: dict[str, Any] = dict.fromkeys(("starts", "ends", "resolved", "range_ids", "generations"), ())
    return replace(report, **nothing)


def _forward(frontier: SpanFrontier, reports: Sequence[PartitionProgress]) -> None:
    for report in reports:
        frontier.forward_columns(report.starts, report.ends, report.resolved)


def _levels(frontier: SpanFrontier, span: Span) -> list[tuple[Span, Timestamp]]:
    return [(part, at) for entry, at in frontier.entries() if (part := entry.intersect(span)) is not None]


@pytest.mark.sampled(4)
@pytest.mark.parametrize("troubles", _TROUBLES)
@pytest.mark.parametrize("seed", [0, 1, _FRESH])
def test_ranges_that_follow_each_other_hold_nothing_in_whatever_order_they_are_told(
    seed: int | None, troubles: str
) -> None:
    seed = SystemRandom().getrandbits(32) if seed is None else seed
    for order in range(8):
        frontier, plain = (SpanFrontier([EVERYTHING], ZERO) for _ in range(2))
        claims = RangeClaims()
        for batch in _some_order(Random(order), _history(seed, troubles)):
            _forward(plain, batch)
            _forward(frontier, claims.count(batch))
            assert not claims.overlaps, (seed, troubles, order)
            assert frontier.same_as(plain), (seed, troubles, order)


def _rows(report: PartitionProgress) -> Iterator[tuple[RangeId, Generation, Span, ResolvedTimestamp]]:
    spans = map(Span, report.starts, report.ends)
    return zip(report.range_ids, report.generations, spans, report.resolved, strict=True)


def _beginnings(told: Sequence[Sequence[PartitionProgress]]) -> list[tuple[int, int]]:
    """Return where (partition, place) a range or its generation is told for the first time."""
    found: dict[tuple[RangeId, Generation], tuple[int, int]] = {}
    for number, reports in enumerate(told):
        for place, report in enumerate(reports):
            for range_id, generation, _, _ in _rows(report):
                found.setdefault((range_id, generation), (number, place))
    return sorted(set(found.values()))


def _intrusion(
    rng: Random, span: Span, generation: int, resolved: ResolvedTimestamp, log_time_ms: int
) -> Iterator[PartitionProgress]:
    """Checkpoints of another range with these keys: slow at first, then far above all that was before.

    The range that is there may be far behind the log's time, at which it was told first.
    """
    wall = resolved.wall
    for step in range(60):
        if step == 40:
            wall = max(wall, log_time_ms * NANOS_PER_MS)
        wall += rng.randint(1, 5 * NANOS_PER_MS if step < 40 else NANOS_PER_SECOND)
        at = ResolvedTimestamp(Timestamp(wall))
        item = RangeCheckpoint(_INTRUDER, Generation(generation), span, at)
        yield _read(PartitionCheckpoint(9, Offset(step), (), (item,), wall // NANOS_PER_MS))


@pytest.mark.parametrize("number", range(30))
def test_a_frontier_never_passes_the_slower_of_two_ranges_once_both_were_seen(number: int) -> None:
    """Of two in one generation that is the first report of the second; of others the first one in which the
    older one is further than it can have come before. It lasts through splits and merges, until one ends."""
    rng = Random(number)
    told = _history(number % 2, "moves")
    partition, place = rng.choice(_beginnings(told))
    range_id, generation, span, resolved = rng.choice(list(_rows(told[partition][place])))
    lower = number % 3 == 0
    claims, frontier = RangeClaims(), SpanFrontier([EVERYTHING], ZERO)
    _forward(frontier, claims.count(told[partition][: place + 1]))
    seen, rivals, later = False, {range_id}, iter(told[partition][place + 1 :])
    log_time_ms = told[partition][place].log_time_ms
    for intruder in _intrusion(rng, span, generation - lower, resolved, log_time_ms):
        batch = [intruder, *islice(later, 1)]
        before = _levels(frontier, span)
        _forward(frontier, claims.count(batch))
        rivals |= {row[0] for report in batch for row in _rows(report) if row[2].overlaps(span)}
        if any(not rivals.isdisjoint(report.ended) for report in batch):
            return
        seen = seen or bool(claims.overlaps)
        assert seen or lower, number
        if seen:
            assert [*joined((held.span, ZERO) for held in claims.overlaps)] == [(span, ZERO)], number
            assert _levels(frontier, span) == before, number
    assert seen, number
