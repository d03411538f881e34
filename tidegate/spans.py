"""Spans of keys, and the frontier: the minimum of a timestamp over a set of spans.

A frontier is a set of disjoint spans, each with a timestamp; neighbours with equal timestamps are one
entry. Source: CockroachDB ``pkg/util/span/frontier.go``.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from heapq import heapify, heappop, heappush
from typing import Final, NamedTuple

from tidegate.hlc import ZERO, Timestamp


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
        """The keys that both spans have, or ``None``."""
        start, end = max(self.start, other.start), min(self.end, other.end)
        return Span(start, end) if start < end else None

    def validate(self) -> None:
        """``ValueError`` when the span is empty or inverted."""
        if self.start == self.end:
            raise ValueError(f"empty span at key {self.start.hex()}")
        if self.start > self.end:
            raise ValueError(f"inverted span: {self.start.hex()} is above {self.end.hex()}")


EVERYTHING: Final = Span(b"", b"\xff\xff")


class SpanFrontier:
    """Timestamps over disjoint spans, and their minimum.

    ``forward`` costs the number of entries that it touches plus a logarithm (the minimum is kept in a
    heap whose stale items are dropped when they surface).
    """

    __slots__ = ("_ends", "_heap", "_starts", "_timestamps")

    def __init__(self, spans: Iterable[Span] = (), start: Timestamp = ZERO) -> None:
        self._starts: list[bytes] = []
        self._ends: list[bytes] = []
        self._timestamps: list[Timestamp] = []
        self._heap: list[tuple[Timestamp, bytes]] = []
        for span in spans:
            self.add(span, start)

    @property
    def minimum(self) -> Timestamp:
        """The lowest timestamp of any tracked key; zero when nothing is tracked."""
        lowest = self._lowest()
        return ZERO if lowest is None else self._timestamps[lowest]

    def lowest_entry(self) -> tuple[Span, Timestamp] | None:
        """The entry that holds the minimum; among equals the one with the lowest start key."""
        lowest = self._lowest()
        return None if lowest is None else self._entry(lowest)

    def entries(self) -> Iterator[tuple[Span, Timestamp]]:
        """All entries in key order."""
        return (self._entry(i) for i in range(len(self._starts)))

    def entries_in(self, span: Span) -> Iterator[tuple[Span, Timestamp]]:
        """The tracked parts of ``span`` in key order, clipped to it."""
        for i in range(*self._overlapping(span)):
            entry, timestamp = self._entry(i)
            clipped = entry.intersect(span)
            if clipped is not None:
                yield clipped, timestamp

    def forward(self, span: Span, timestamp: Timestamp) -> bool:
        """Raise the tracked parts of ``span`` to ``timestamp`` where they are lower.

        Untracked parts are ignored. Returns whether the minimum rose. ``ValueError`` for an empty or
        inverted span.
        """
        before = self.minimum
        self.forward_all(((span, timestamp),))
        return self.minimum > before

    def forward_all(self, spans: Iterable[tuple[Span, Timestamp]]) -> None:
        """`forward` for each of ``spans`` in turn, without looking at the minimum in between."""
        for span, timestamp in spans:
            span.validate()
            first, last = self._overlapping(span)
            if first == last or self._raise_in_place(first, last, span, timestamp):
                continue
            entries = (self._entry(i) for i in range(first, last))
            self._replace(first, last, [piece for e in entries for piece in _raised(*e, span, timestamp)])

    def _raise_in_place(self, first: int, last: int, span: Span, timestamp: Timestamp) -> bool:
        """Raise a single entry that lies in ``span`` whole and joins neither neighbour.

        Returns False, with nothing done, for anything else. Ranges report their own spans again and again:
        this is what nearly every checkpoint comes to, and it moves no list.
        """
        timestamps = self._timestamps
        if last - first != 1 or self._starts[first] < span.start or self._ends[first] > span.end:
            return False
        if timestamp <= timestamps[first]:
            return True
        if first > 0 and timestamps[first - 1] == timestamp:
            return False
        if last < len(timestamps) and timestamps[last] == timestamp:
            return False
        timestamps[first] = timestamp
        heappush(self._heap, (timestamp, self._starts[first]))
        return True

    def add(self, span: Span, timestamp: Timestamp) -> None:
        """Track ``span`` from ``timestamp`` on; parts tracked already keep the higher timestamp.

        ``ValueError`` for an empty or inverted span.
        """
        span.validate()
        first, last = self._overlapping(span)
        pieces: list[tuple[Span, Timestamp]] = []
        position = span.start
        for i in range(first, last):
            entry, known = self._entry(i)
            if position < entry.start:
                pieces.append((Span(position, entry.start), timestamp))
            pieces.extend(_raised(entry, known, span, timestamp))
            position = entry.end
        if position < span.end:
            pieces.append((Span(position, span.end), timestamp))
        self._replace(first, last, pieces)

    def _entry(self, i: int) -> tuple[Span, Timestamp]:
        return Span(self._starts[i], self._ends[i]), self._timestamps[i]

    def _overlapping(self, span: Span) -> tuple[int, int]:
        first = bisect_right(self._ends, span.start)
        return first, max(first, bisect_left(self._starts, span.end))

    def _replace(self, first: int, last: int, pieces: list[tuple[Span, Timestamp]]) -> None:
        """Put ``pieces`` in place of entries [first, last), joined with each other and both neighbours."""
        if first > 0:
            first -= 1
            pieces.insert(0, self._entry(first))
        if last < len(self._starts):
            pieces.append(self._entry(last))
            last += 1
        joined = list(_joined(pieces))
        for span, timestamp in joined:
            heappush(self._heap, (timestamp, span.start))
        self._starts[first:last] = [span.start for span, _ in joined]
        self._ends[first:last] = [span.end for span, _ in joined]
        self._timestamps[first:last] = [timestamp for _, timestamp in joined]

    def _lowest(self) -> int | None:
        if len(self._heap) > 4 * len(self._starts) + 64:
            self._heap = list(zip(self._timestamps, self._starts, strict=True))
            heapify(self._heap)
        while self._heap:
            timestamp, start = self._heap[0]
            i = bisect_left(self._starts, start)
            if i < len(self._starts) and self._starts[i] == start and self._timestamps[i] == timestamp:
                return i
            heappop(self._heap)
        return None


def _raised(
    entry: Span, known: Timestamp, span: Span, timestamp: Timestamp
) -> Iterator[tuple[Span, Timestamp]]:
    """The pieces of an entry after the part inside ``span`` was raised to ``timestamp``."""
    inside = entry.intersect(span)
    if inside is None or timestamp <= known:
        yield entry, known
        return
    if entry.start < inside.start:
        yield Span(entry.start, inside.start), known
    yield inside, timestamp
    if inside.end < entry.end:
        yield Span(inside.end, entry.end), known


def _joined(pieces: list[tuple[Span, Timestamp]]) -> Iterator[tuple[Span, Timestamp]]:
    """The pieces, in order, with touching neighbours of equal timestamp made one."""
    held, held_timestamp = pieces[0]
    for span, timestamp in pieces[1:]:
        if timestamp == held_timestamp and span.start == held.end:
            held = Span(held.start, span.end)
        else:
            yield held, held_timestamp
            held, held_timestamp = span, timestamp
    yield held, held_timestamp
