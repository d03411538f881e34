"""Spans of keys, and the frontier: the minimum of a timestamp over a set of spans.

A frontier is a set of disjoint spans, each with a timestamp; neighbours with equal timestamps are one
entry. Source: CockroachDB ``pkg/util/span/frontier.go``.

Ranges report their own spans again and again. The timestamps of neighbours become equal, and differ again
with every round. So the frontier keeps a part for each span that is reported, and joins parts only in what it
returns.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Final, NamedTuple

from tidegate.hlc import ZERO, Timestamp
from tidegate.lowest_first import LowestFirst
from tidegate.sorted_keys import SortedKeys

_SHOWN_BYTES: Final = 40


class Span(NamedTuple):
    """Keys from ``start`` (inclusive) to ``end`` (exclusive), in byte order."""

    start: bytes
    end: bytes

    def contains(self, key: bytes) -> bool:
        """Whether the key lies in the span."""
        return self.start <= key < self.end

    def overlaps(self, other: Span) -> bool:
        """Whether the spans share a key."""
        return self.start < other.end and other.start < self.end

    def intersect(self, other: Span) -> Span | None:
        """Return the keys that both spans have, or ``None``."""
        start, end = max(self.start, other.start), min(self.end, other.end)
        return Span(start, end) if start < end else None

    def validate(self) -> None:
        """Raise ``ValueError`` when the span is empty or inverted."""
        if self.start == self.end:
            raise ValueError(f"empty span at key {_shown(self.start)}")
        if self.start > self.end:
            raise ValueError(f"inverted span: {_shown(self.start)} is above {_shown(self.end)}")


def _shown(key: bytes) -> str:
    """Return the hex of a key, cut if the key is long."""
    return key.hex() if len(key) <= _SHOWN_BYTES else f"{key[:_SHOWN_BYTES].hex()}..."


EVERYTHING: Final = Span(b"", b"\xff\xff")


class SpanFrontier:
    """Timestamps over disjoint spans, and their minimum.

    A span that was reported before is found by its start, and gets its new timestamp. Nothing else is done
    for it before somebody asks for the minimum. Any other span cuts the parts that it overlaps, at the cost
    of a few searches. Once the span has raised these parts to one timestamp, they are one part.
    """

    __slots__ = ("_ends", "_high", "_low", "_queue", "_starts", "_timestamps")

    def __init__(self, spans: Iterable[Span] = (), start: Timestamp = ZERO) -> None:
        self._ends: dict[bytes, bytes] = {}  # the end of each part, by its start
        self._timestamps: dict[bytes, Timestamp] = {}  # of each part, by its start
        self._starts = SortedKeys()
        self._queue = LowestFirst()
        self._low, self._high = b"", b""  # no key outside these is tracked
        for span in spans:
            self.add(span, start)

    def copy(self) -> SpanFrontier:
        """Return the same spans and timestamps in a frontier of their own."""
        copied = SpanFrontier()
        copied._ends, copied._timestamps = self._ends.copy(), self._timestamps.copy()
        copied._starts, copied._queue = self._starts.copy(), LowestFirst(self._timestamps.items())
        copied._low, copied._high = self._low, self._high
        return copied

    def same_as(self, other: SpanFrontier) -> bool:
        """Whether both have the same parts at the same timestamps, so that nobody can tell them apart."""
        return self._ends == other._ends and self._timestamps == other._timestamps

    @property
    def minimum(self) -> Timestamp:
        """The lowest timestamp of any tracked key; zero when nothing is tracked."""
        lowest = self._queue.lowest(self._timestamps)
        return ZERO if lowest is None else lowest[0]

    @property
    def maximum(self) -> Timestamp:
        """The highest timestamp of any tracked key; zero when nothing is tracked."""
        return max(self._timestamps.values(), default=ZERO)

    def lowest_entry(self) -> tuple[Span, Timestamp] | None:
        """Return the entry that holds the minimum; among equals the one with the lowest start key."""
        lowest = self._queue.lowest(self._timestamps)
        if lowest is None:
            return None
        timestamp, start = lowest
        end = self._ends[start]
        while self._timestamps.get(end) == timestamp:
            end = self._ends[end]
        return Span(start, end), timestamp

    def entries(self) -> Iterator[tuple[Span, Timestamp]]:
        """Return all entries in key order."""
        return joined((Span(start, self._ends[start]), self._timestamps[start]) for start in self._starts)

    def forward(self, span: Span, timestamp: Timestamp) -> bool:
        """Raise the tracked parts of ``span`` to ``timestamp`` where they are lower.

        Untracked parts are ignored. Returns whether the minimum rose. Raises ``ValueError`` for an
        empty or inverted span.
        """
        before = self.minimum
        self.forward_all(((span, timestamp),))
        return self.minimum > before

    def forward_all(self, spans: Iterable[tuple[Span, Timestamp]]) -> None:
        """Do `forward` for each of ``spans`` in turn, without looking at the minimum in between."""
        pairs = list(spans)
        starts = [span.start for span, _ in pairs]
        self.forward_columns(starts, [span.end for span, _ in pairs], [timestamp for _, timestamp in pairs])

    def forward_columns(
        self, starts: Sequence[bytes], ends: Sequence[bytes], timestamps: Sequence[Timestamp]
    ) -> None:
        """Do `forward_all` for spans that are given as lists of equal length: starts, ends and timestamps."""
        known_ends, known, low, high = self._ends, self._timestamps, self._low, self._high
        for start, end, timestamp in zip(starts, ends, timestamps, strict=True):
            if known_ends.get(start) == end:
                if timestamp > known[start]:
                    known[start] = timestamp
            elif (start < high and low < end) or start >= end:
                self._forward_parts(Span(start, end), timestamp)

    def add(self, span: Span, timestamp: Timestamp) -> None:
        """Track ``span`` from ``timestamp`` on; parts tracked already keep the higher timestamp.

        Raises ``ValueError`` for an empty or inverted span.
        """
        span.validate()
        self._forward_parts(span, timestamp)
        position = span.start
        for start in self._parts(span):
            if position < start:
                self._track(position, start, timestamp)
            position = self._ends[start]
        if position < span.end:
            self._track(position, span.end, timestamp)
        self._low = min(self._low, span.start) if self._high else span.start
        self._high = max(self._high, span.end)

    def _parts(self, span: Span) -> list[bytes]:
        """Return the starts of the parts that ``span`` overlaps."""
        starts = self._starts.around(span.start, span.end)
        if starts and self._ends[starts[0]] <= span.start:
            del starts[0]
        return starts

    def _forward_parts(self, span: Span, timestamp: Timestamp) -> None:
        span.validate()
        parts = self._parts(span)
        lower = [start for start in parts if self._timestamps[start] < timestamp]
        for start in lower:
            inside = max(start, span.start)
            if start < inside:
                self._cut(start, inside)
            if span.end < self._ends[inside]:
                self._cut(inside, span.end)
            self._timestamps[inside] = timestamp
        if lower and len(parts) > 1:
            self._unite(span)

    def _cut(self, start: bytes, at: bytes) -> None:
        """Make two parts of one."""
        end, self._ends[start] = self._ends[start], at
        self._track(at, end, self._timestamps[start])

    def _track(self, start: bytes, end: bytes, timestamp: Timestamp) -> None:
        self._ends[start] = end
        self._timestamps[start] = timestamp
        self._starts.add(start)
        self._queue.push(start, timestamp)
        if len(self._queue) > 2 * len(self._timestamps) + 64:  # parts that came and went
            self._queue = LowestFirst(self._timestamps.items())

    def _unite(self, span: Span) -> None:
        """Join neighbouring parts within ``span`` that have equal timestamps.

        So a range that took over another one finds its own span as one part.
        """
        inside = [
            start for start in self._parts(span) if span.start <= start and self._ends[start] <= span.end
        ]
        for left, right in reversed(list(pairwise(inside))):
            if self._ends[left] == right and self._timestamps[left] == self._timestamps[right]:
                self._ends[left] = self._ends.pop(right)
                del self._timestamps[right]
                self._starts.remove(right)


def joined(parts: Iterable[tuple[Span, Timestamp]]) -> Iterator[tuple[Span, Timestamp]]:
    """Yield the parts, with touching neighbours of equal timestamp joined. ``parts`` are in key order."""
    held: Span | None = None
    held_timestamp = ZERO
    for span, timestamp in parts:
        if held is not None and timestamp == held_timestamp and span.start == held.end:
            held = Span(held.start, span.end)
            continue
        if held is not None:
            yield held, held_timestamp
        held, held_timestamp = span, timestamp
    if held is not None:
        yield held, held_timestamp
