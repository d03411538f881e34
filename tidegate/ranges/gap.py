"""Keys of a range that a feed was not given completely (docs/catch-up.md).

Gaps of one feed in one range are disjoint, and stand in key order; neighbours that are complete to the same
timestamp are one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import NamedTuple, TypeAlias

from tidegate.hlc import ZERO, Timestamp
from tidegate.spans import Span


class Gap(NamedTuple):
    """Of the keys of ``span`` the feed has every version at or below ``complete_to``; ``None``: nothing."""

    span: Span
    complete_to: Timestamp | None


Gaps: TypeAlias = tuple[Gap, ...]


class Lag(NamedTuple):
    """What a feed lacks of the keys of a range; without gaps it was given everything. See ``told_name``."""

    feed: str
    gaps: Gaps


def told_name(feed_id: str, epoch: int | None) -> str:
    """What ranges call a feed when they tell each other what it lacks: by its id at first.

    Since ``epoch`` it writes to another Kafka cluster: then by that too. What was told before, and may still
    be on its way, speaks of rows that are not on that cluster, and must not count for it.
    """
    return feed_id if epoch is None else f"{feed_id}/{epoch}"


def feed_of(name: str) -> str:
    """The id of the feed that has this name."""
    return name.partition("/")[0]


def told_of(feed: str, lags: Iterable[Lag] | None) -> Gaps | None:
    """What ``lags`` say of a feed; ``None`` when they say nothing of it."""
    return next((lag.gaps for lag in lags or () if lag.feed == feed), None)


def amended(lags: Iterable[Lag] | None, feed: str, gaps: Gaps) -> tuple[Lag, ...]:
    """The lags, with other gaps of one feed."""
    return (*(lag for lag in lags or () if lag.feed != feed), Lag(feed, gaps))


def joined(gaps: Iterable[Gap]) -> Gaps:
    """Disjoint gaps in order, each as long as it can be. Where some overlap the lowest counts."""
    found: list[Gap] = []
    for gap in _disjoint(sorted(gaps, key=lambda gap: gap.span)):
        last = found[-1] if found else None
        if last is not None and last.span.end == gap.span.start and last.complete_to == gap.complete_to:
            found[-1] = Gap(Span(last.span.start, gap.span.end), gap.complete_to)
        else:
            found.append(gap)
    return tuple(found)


def _disjoint(gaps: list[Gap]) -> list[Gap]:
    """The same keys, each in one gap."""
    if all(left.span.end <= right.span.start for left, right in pairwise(gaps)):
        return gaps
    lowest: list[Gap] = []
    for gap in sorted(gaps, key=lambda gap: gap.complete_to or ZERO):
        parts = remainder(gap.span, [other.span for other in lowest])
        lowest += (Gap(part, gap.complete_to) for part in parts)
    return sorted(lowest, key=lambda gap: gap.span)


def clipped(gaps: Iterable[Gap], span: Span) -> Iterator[Gap]:
    """The gaps' keys that lie in ``span``."""
    for gap in gaps:
        part = gap.span.intersect(span)
        if part is not None:
            yield Gap(part, gap.complete_to)


def outside(gaps: Iterable[Gap], span: Span) -> Iterator[Gap]:
    """The gaps' keys that do not lie in ``span``."""
    for gap in gaps:
        for part in remainder(gap.span, (span,)):
            yield Gap(part, gap.complete_to)


def remainder(span: Span, others: Iterable[Span]) -> list[Span]:
    """The keys of ``span`` that are in none of ``others``, in order."""
    rest = [span]
    for start, end in others:
        rest = [
            part
            for left in rest
            for part in (Span(left.start, min(left.end, start)), Span(max(left.start, end), left.end))
            if part.start < part.end
        ]
    return rest
