"""A model of a span frontier that is as simple as possible: a sorted list of entries that are joined."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator

from tidegate.hlc import ZERO, Timestamp
from tidegate.spans import Span

Entry = tuple[Span, Timestamp]


class PlainFrontier:
    """The model of ``tidegate.spans.SpanFrontier``. Its entries are sorted and do not overlap."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []

    @property
    def minimum(self) -> Timestamp:
        return min((at for _, at in self.entries), default=ZERO)

    @property
    def lowest_entry(self) -> Entry | None:
        return next((entry for entry in self.entries if entry[1] == self.minimum), None)

    def entries_in(self, span: Span) -> list[Entry]:
        near = self.entries[self._near(span)]
        return [(part, at) for entry, at in near if (part := entry.intersect(span)) is not None]

    def forward(self, span: Span, timestamp: Timestamp) -> bool:
        before, near = self.minimum, self._near(span)
        raised = [piece for entry in self.entries[near] for piece in _raised(entry, span, timestamp)]
        self.entries[near] = _joined(raised)
        return self.minimum > before

    def _near(self, span: Span) -> slice:
        """Return the slice of the list with the entries that overlap a span, and with their neighbours, which
        may be joined with them."""
        first = bisect_right(self.entries, span.start, key=_end)
        behind = bisect_left(self.entries, span.end, key=_start)
        return slice(max(first - 1, 0), behind + 1)

    def add(self, span: Span, timestamp: Timestamp) -> None:
        tracked = self.entries_in(span)
        ends = [span.start, *(part.end for part, _ in tracked)]
        starts = [*(part.start for part, _ in tracked), span.end]
        gaps = [(Span(end, start), timestamp) for end, start in zip(ends, starts, strict=True) if end < start]
        self.forward(span, timestamp)
        self.entries = _joined(sorted([*self.entries, *gaps]))


def _start(entry: Entry) -> bytes:
    return entry[0].start


def _end(entry: Entry) -> bytes:
    return entry[0].end


def _raised(entry: Entry, span: Span, timestamp: Timestamp) -> Iterator[Entry]:
    (start, end), known = entry
    inside = entry[0].intersect(span)
    if inside is None or timestamp <= known:
        yield entry
        return
    if start < inside.start:
        yield Span(start, inside.start), known
    yield inside, timestamp
    if inside.end < end:
        yield Span(inside.end, end), known


def _joined(pieces: Iterable[Entry]) -> list[Entry]:
    found: list[Entry] = []
    for span, timestamp in pieces:
        if found and found[-1][1] == timestamp and found[-1][0].end == span.start:
            found[-1] = Span(found[-1][0].start, span.end), timestamp
        else:
            found.append((span, timestamp))
    return found
