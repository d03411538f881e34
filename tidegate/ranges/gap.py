"""Gaps: keys of a range whose versions a feed misses (docs/protocols/catch-up.md).

The gaps of one feed in one range do not overlap, and stand in key order. Neighbours that are complete to the
same timestamp are one gap.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import NamedTuple, TypeAlias

from tidegate.hlc import ZERO, Timestamp
from tidegate.spans import Span


class Gap(NamedTuple):
    """A span of missing versions, and the timestamp up to which none is missing.

    The feed was given every version of these keys at or below ``complete_to`` that it wants, and misses the
    versions above ``complete_to``. ``None`` means that the feed was given no version of these keys.
    """

    span: Span
    complete_to: Timestamp | None


Gaps: TypeAlias = tuple[Gap, ...]


class ToldGaps(NamedTuple):
    """The gaps that a feed has in a range, as the range tells them to other ranges.

    If there are no gaps, the feed misses nothing there. ``feed`` is the feed's ``told_name``.
    """

    feed: str
    gaps: Gaps


def told_name(feed_id: str, epoch: int) -> str:
    """Return the name of a feed in promises and hand-offs: its id in its first epoch, later ``<id>/<epoch>``.

    Promises and hand-offs about an earlier epoch may come late, or may be kept. They must not count for a
    later epoch: the rows that they say were given may stand on another cluster, or may have been left out
    when their partition forgot the earlier epoch.
    """
    return feed_id if epoch == 1 else f"{feed_id}/{epoch}"


def feed_of(name: str) -> str:
    """Return the id of the feed that has this told name."""
    return name.partition("/")[0]


def told_of(feed: str, told: Iterable[ToldGaps] | None) -> Gaps | None:
    """Return the gaps that ``told`` has for a feed; ``None`` if it does not name the feed."""
    return next((each.gaps for each in told or () if each.feed == feed), None)


def amended(told: Iterable[ToldGaps] | None, feed: str, gaps: Gaps) -> tuple[ToldGaps, ...]:
    """Return the entries of ``told``, with the gaps of one feed replaced."""
    return (*(each for each in told or () if each.feed != feed), ToldGaps(feed, gaps))


def joined(gaps: Iterable[Gap]) -> Gaps:
    """Return the gaps without overlaps, in key order, with equal neighbours joined.

    Where gaps overlap, the gap that is complete to the lowest timestamp counts.
    """
    found: list[Gap] = []
    for gap in _disjoint(sorted(gaps, key=lambda gap: gap.span)):
        last = found[-1] if found else None
        if last is not None and last.span.end == gap.span.start and last.complete_to == gap.complete_to:
            found[-1] = Gap(Span(last.span.start, gap.span.end), gap.complete_to)
        else:
            found.append(gap)
    return tuple(found)


def _disjoint(gaps: list[Gap]) -> list[Gap]:
    """Return gaps of the same keys, in key order, with each key in one gap only.

    A key that was in several gaps is in the one that is complete to the lowest timestamp.
    """
    if all(left.span.end <= right.span.start for left, right in pairwise(gaps)):
        return gaps
    lowest: list[Gap] = []
    for gap in sorted(gaps, key=lambda gap: gap.complete_to or ZERO):
        parts = remainder(gap.span, [other.span for other in lowest])
        lowest += (Gap(part, gap.complete_to) for part in parts)
    return sorted(lowest, key=lambda gap: gap.span)


def clipped(gaps: Iterable[Gap], span: Span) -> Iterator[Gap]:
    """Yield the parts of the gaps that lie in ``span``."""
    for gap in gaps:
        part = gap.span.intersect(span)
        if part is not None:
            yield Gap(part, gap.complete_to)


def outside(gaps: Iterable[Gap], span: Span) -> Iterator[Gap]:
    """Yield the parts of the gaps that lie outside ``span``."""
    for gap in gaps:
        for part in remainder(gap.span, (span,)):
            yield Gap(part, gap.complete_to)


def remainder(span: Span, others: Iterable[Span]) -> list[Span]:
    """Return the parts of ``span`` that are in none of ``others``, in order."""
    rest = [span]
    for start, end in others:
        rest = [
            part
            for left in rest
            for part in (Span(left.start, min(left.end, start)), Span(max(left.start, end), left.end))
            if part.start < part.end
        ]
    return rest
