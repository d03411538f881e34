"""What ranges tell, as events, and as the checkpoints that say it. Keys are numbers, times milliseconds."""

from __future__ import annotations

from collections.abc import Iterable

from tests.plain_claims import Ended, Event, Told
from tidegate.hlc import NANOS_PER_MS, ResolvedTimestamp, Timestamp
from tidegate.processor.checkpoint import PartitionProgress
from tidegate.processor.range_claims import AHEAD_MS, RangeClaims
from tidegate.raftlog.entry import Generation, Offset, RangeId
from tidegate.spans import Span


def key_of(number: int) -> bytes:
    return number.to_bytes(4)


def report_of(event: Event) -> PartitionProgress:
    """An event as a checkpoint. Its times are in milliseconds."""
    if isinstance(event, Ended):
        return PartitionProgress(0, Offset(1), (), (), (), (), ended=(RangeId(event.range_id),))
    return PartitionProgress(
        0,
        Offset(1),
        (),
        [key_of(event.start)],
        [key_of(event.end)],
        [ResolvedTimestamp(Timestamp(event.resolved * NANOS_PER_MS))],
        [RangeId(event.range_id)],
        [Generation(event.generation)],
        event.by - AHEAD_MS,
        elapsed_ms=event.now_ms,
    )


def counted_spans(claims: RangeClaims, *events: Event) -> list[list[Span]]:
    """The spans of each event that count."""
    return [[*map(Span, each.starts, each.ends)] for each in claims.count(map(report_of, events))]


def whole_of(told: Event) -> Span:
    assert isinstance(told, Told)
    return Span(key_of(told.start), key_of(told.end))


def claim_of(range_id: int, generation: int, start: int, end: int, *, by: int = 9_000) -> Told:
    """A range that has resolved little. Lower generations had its keys up to ``by`` at the latest."""
    return Told(range_id, generation, start, end, 1_000, by, 10)


def all_claim(range_ids: Iterable[int], generation: int, *, by: int = 9_000) -> list[Told]:
    """Ranges that claim all of ten keys."""
    return [claim_of(each, generation, 0, 10, by=by) for each in range_ids]


def ends_of(range_ids: Iterable[int]) -> list[Event]:
    return [Ended(each) for each in range_ids]
