"""A scan that a range waits for: what was asked of the source, and how much of it has come.

The source answers in the range's own log by ScanChunks (docs/ranges.md#healing). Chunks are taken in key
order; what does not continue the scan is passed over, and asked for again. A chunk with rows that it cannot
have is refused as a whole.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Final, NamedTuple

from tidegate.errors import MalformedEntry
from tidegate.hlc import ZERO, Timestamp
from tidegate.raftlog.entry import KeyValue, Offset, RangeId, ScanChunk
from tidegate.raftlog.request import Scan
from tidegate.spans import Span

#: A scan without progress for so much elapsed log time is asked for again.
SCAN_REPEAT_MS: Final = 30_000
_NOT_ASKED: Final = 0
#: Each part is a request of its own, so there are few: the keys that no scan came to, those that the last
#: one came to, and those that earlier ones did.
_PARTS_MAX: Final = 3


class ScanPart(NamedTuple):
    """Keys that are complete up to ``after``; their versions above it have not come."""

    span: Span
    after: Timestamp


class RangeScan:
    """All versions of the keys of ``span`` up to ``upto``, and above what they are complete up to; or only
    the ``newest`` of each key.

    ``parts`` is what has not come yet, in the order in which it is asked for: those that lack most first, so
    that even a range whose span changes all the time comes to the end of them. All other keys of ``span`` are
    complete up to ``upto``. ``snapshot_offset`` is where the Snapshot stands that the range takes when the
    scan is done. ``asked_ms`` is when it was asked for last, or went on, by elapsed log time.
    """

    __slots__ = (
        "after",
        "asked_ms",
        "first_request_id",
        "lacking",
        "newest",
        "parts",
        "range_id",
        "refused",
        "request_id",
        "since",
        "snapshot_offset",
        "span",
        "upto",
        "with_prev",
    )

    def __init__(
        self,
        range_id: RangeId,
        snapshot_offset: Offset,
        span: Span,
        parts: list[ScanPart],
        upto: Timestamp,
        *,
        with_prev: bool,
        newest: bool = False,
    ) -> None:
        self.range_id = range_id
        self.snapshot_offset = snapshot_offset
        self.span = span
        self.parts = parts
        self.upto = upto
        self.with_prev = with_prev
        self.newest = newest
        #: What was asked for last is above this; so is all that is missing.
        self.after = parts[0].after if parts else upto
        #: What it has brought in this process is above this, and what those did whose place it took.
        self.since = self.after
        self.first_request_id = self.request_id = _NOT_ASKED
        self.asked_ms = 0
        #: Something was left out by the last answer, or has not been asked for.
        self.lacking = False
        #: A chunk was refused since the last request or progress: what comes behind it lacks its keys.
        self.refused = False

    @property
    def done(self) -> bool:
        """Whether every key was covered."""
        return not self.parts

    @property
    def next_key(self) -> bytes:
        """The key that the next chunk has to cover; the end when it is done."""
        return self.parts[0].span.start if self.parts else self.span.end

    def request(self, offset: int, now_ms: int) -> Scan:
        """Ask for what is missing, at log position ``offset``, which gives the request its id.

        The lowest bit says whether previous values are asked for: chunks do not tell.
        """
        self.request_id = 2 * (offset + 1) + self.with_prev
        self.asked_ms, self.lacking, self.refused = now_ms, False, False
        self.first_request_id = self.first_request_id or self.request_id
        return Scan(
            self.range_id,
            self.request_id,
            self.parts[0].span,
            None if self.newest else self.after,
            self.upto,
            all_versions=not self.newest,
            with_prev=self.with_prev,
        )

    def is_due(self, now_ms: int) -> bool:
        """Whether to ask: not asked yet, something was left out, or nothing has come for too long."""
        return self.request_id == _NOT_ASKED or self.lacking or now_ms - self.asked_ms >= SCAN_REPEAT_MS

    def take(self, chunk: ScanChunk, now_ms: int) -> list[KeyValue]:
        """The rows of ``chunk`` that were missing, in the order of keys and then timestamps.

        Raises ``MalformedEntry`` for a chunk that has rows which it cannot have. Nothing of it counts, and
        its keys are asked for again like an answer that does not come.
        """
        if self.done or not self._is_answered_by(chunk) or chunk.span.end <= self.next_key:
            return []
        if chunk.span.start > self.next_key:
            self.lacking = not self.refused  # else it would be refused again and again
            return []
        if fault := fault_of(chunk):
            self.refused = True
            raise MalformedEntry(fault)
        (span, after), *later = self.parts
        covered = Span(span.start, min(chunk.span.end, span.end))
        wanted = (
            row for row in chunk.rows if covered.contains(row.key) and after < row.timestamp <= self.upto
        )
        rows = sorted(wanted, key=_place)
        if covered.end < span.end:
            later = [ScanPart(Span(covered.end, span.end), after), *later]
        self.parts, self.asked_ms, self.refused = later, now_ms, False
        self.after = later[0].after if later else after
        answered = chunk.last and chunk.request_id == self.request_id
        self.lacking = not self.done and (answered or covered.end == span.end)
        return rows

    def _is_answered_by(self, chunk: ScanChunk) -> bool:
        """An answer to any of its requests counts, or one that takes long would never be taken."""
        if not self.first_request_id <= chunk.request_id <= self.request_id:
            return False
        if chunk.request_id % 2 != self.with_prev:
            return False
        asked = (None if self.newest else self.after, self.upto, not self.newest)
        return chunk.request_id != _NOT_ASKED and (chunk.after, chunk.upto, chunk.all_versions) == asked


def _place(row: KeyValue) -> tuple[bytes, Timestamp]:
    return row.key, row.timestamp


def fault_of(chunk: ScanChunk) -> str:
    """What is wrong with the rows of a chunk, in whichever order they stand; empty when nothing is."""
    after = chunk.after or ZERO
    before: KeyValue | None = None
    for row in sorted(chunk.rows, key=_place):
        where = f"its row {row.key.hex()} at {row.timestamp}"
        if not chunk.span.contains(row.key):
            return f"{where} is outside its span, {chunk.span.start.hex()} to {chunk.span.end.hex()}"
        if not after < row.timestamp <= chunk.upto:
            return f"{where} is not above {after} and at or below {chunk.upto}, as was asked"
        if before is not None and before.key == row.key:
            if before.timestamp == row.timestamp:
                return f"{where} comes twice"
            if not chunk.all_versions:
                return f"{where} is a second version of its key, where the newest was asked for"
        before = row
    return ""


def parts_left(span: Span, complete: Iterable[ScanPart], earlier: RangeScan | None) -> list[ScanPart]:
    """How far the keys of ``span`` are complete: as far as anything says that they are, ``complete`` parts or
    what an ``earlier`` scan has brought; the others are complete to nothing."""
    known = [*complete]
    if earlier is not None:
        known += _filled(earlier.span, earlier.upto, sorted(earlier.parts))
    return _joined(list(_furthest(span, known)))


def _furthest(span: Span, parts: Sequence[ScanPart]) -> Iterator[ScanPart]:
    """The keys of ``span``, cut where any part begins or ends, each as complete as the furthest part says."""
    ends = {key for part in parts for key in part.span if span.start < key < span.end}
    for start, end in pairwise(sorted({*span, *ends})):
        told = [after for (left, right), after in parts if left <= start and end <= right]
        yield ScanPart(Span(start, end), max(told, default=ZERO))


def _filled(span: Span, between: Timestamp, parts: Iterable[ScanPart]) -> Iterator[ScanPart]:
    """Disjoint ``parts`` in order as far as they are in ``span``, and ``between`` them another timestamp."""
    start = span.start
    for part, after in parts:
        common = part.intersect(span)
        if common is not None:
            if start < common.start:
                yield ScanPart(Span(start, common.start), between)
            yield ScanPart(common, after)
            start = common.end
    if start < span.end:
        yield ScanPart(Span(start, span.end), between)


def _joined(parts: list[ScanPart]) -> list[ScanPart]:
    """Neighbours that are complete up to about the same become one part, until there are few."""
    while len(parts) > 1:
        apart = [abs(left.after.wall - right.after.wall) for left, right in pairwise(parts)]
        nearest = apart.index(min(apart))
        if apart[nearest] and len(parts) <= _PARTS_MAX:
            break
        left, right = parts[nearest : nearest + 2]
        joined = ScanPart(Span(left.span.start, right.span.end), min(left.after, right.after))
        parts = [*parts[:nearest], joined, *parts[nearest + 2 :]]
    return parts
