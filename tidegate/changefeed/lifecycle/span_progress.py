"""The progress of single spans above a feed's high-water, in a form that is small enough to be stored often.

A single slow span (a quarantined range, a table that is scanned) holds the high-water down for as long as it
is slow, while all other spans go on. The progress of these other spans is kept for a restart. It need not be
exact: a timestamp may be rounded down, and a span may be left out. Then more of the feed is on its topics
than the stored progress says, which does no harm.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, TypeAlias

from tidegate.hlc import NANOS_PER_SECOND, ResolvedTimestamp, Timestamp
from tidegate.spans import Span, joined

#: A span, and the timestamp up to which the feed's rows of it are acknowledged.
SpanProgress: TypeAlias = tuple[Span, ResolvedTimestamp]

#: Progress that is less far above the high-water is not worth storing: ranges report more often than that.
AHEAD_NS: Final = 10 * NANOS_PER_SECOND
_SPANS_MAX: Final = 256
_KEY_BYTES_MAX: Final = 32 << 10
_COARSEST_NS: Final = 1 << 62


def spans_ahead(entries: Iterable[tuple[Span, Timestamp]], high_water: Timestamp) -> tuple[SpanProgress, ...]:
    """Return the ``entries`` above ``high_water``, at most 256 with 32 KiB of keys.

    Timestamps are rounded down, so that neighbours can be joined: to whole seconds above the high-water at
    first, and twice as coarse while there are still too many. With a high-water of 100 s, for example, 117.9
    s becomes 117 s, then 116 s. Nothing is returned if no rounding helps. ``entries`` are in key order.
    """
    known, step_ns = list(entries), NANOS_PER_SECOND
    while step_ns < _COARSEST_NS:
        found = _bounded(_rounded(known, high_water, step_ns))
        if found is not None:
            return found
        step_ns *= 2
    return ()


def _rounded(
    entries: Iterable[tuple[Span, Timestamp]], high_water: Timestamp, step_ns: int
) -> Iterator[SpanProgress]:
    """Round each timestamp down to whole multiples of ``step_ns`` above the high-water, and join neighbours.

    Spans that are less than one multiple above the high-water are left out.
    """
    floor = high_water.wall
    rounded = (
        (span, Timestamp(at.wall - (at.wall - floor) % step_ns))
        for span, at in entries
        if at.wall - floor >= step_ns
    )
    return ((span, ResolvedTimestamp(at)) for span, at in joined(rounded))


def _bounded(spans: Iterator[SpanProgress]) -> tuple[SpanProgress, ...] | None:
    """Return all spans; ``None`` as soon as they are too many, or their keys too long."""
    found: list[SpanProgress] = []
    room = _KEY_BYTES_MAX
    for span, at in spans:
        room -= len(span.start) + len(span.end)
        if len(found) == _SPANS_MAX or room < 0:
            return None
        found.append((span, at))
    return tuple(found)
