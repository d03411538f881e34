"""A scan of a range's keys: what the source was asked for, and how much of it has come.

The source answers with ScanChunks in the range's own log (docs/protocols/healing.md). Chunks are taken in key
order. A chunk that does not continue the scan is passed over, and its keys are asked for again. If a chunk
has a row that it may not have, the whole chunk is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Final, NamedTuple, TypeAlias

from tidegate.errors import MalformedEntry
from tidegate.hlc import ZERO, Timestamp
from tidegate.raftlog.entry import KeyValue, Offset, RangeId, ScanChunk
from tidegate.raftlog.request import Scan
from tidegate.spans import Span

#: If a scan makes no progress in this elapsed log time, it is asked for again.
SCAN_REPEAT_MS: Final = 30_000
_NOT_ASKED: Final = 0
#: The most parts. Each part is a request of its own, so there are few: keys that no scan has reached, keys
#: that the last scan has reached, and keys that earlier scans have reached.
_PARTS_MAX: Final = 3


#: Takes rows and the place of the first row that counts. Returns the place of the first row after it for
#: whose records there is no room; the number of rows if there is room for all.
Fitting: TypeAlias = Callable[[Sequence[KeyValue], int], int]


class ScanPart(NamedTuple):
    """Keys that are complete up to ``after``. Their versions above that timestamp have not come yet."""

    span: Span
    after: Timestamp


class RangeScan:
    """A scan of the keys of ``span``, for all of their missing versions up to ``upto``.

    With ``newest`` the scan is for only the newest version of each key at or below ``upto``.

    ``parts`` are the keys that have not come yet, in the order in which they are asked for. All other keys of
    ``span`` are complete up to ``upto``. The least complete part comes first, so that a range whose span
    changes again and again gets through all of them. ``snapshot_offset`` is the offset of the Snapshot that
    the range takes when the scan is done. ``asked_ms`` is the elapsed log time of the last request or the
    last chunk.
    """

    __slots__ = (
        "_begun",
        "after",
        "ask_now",
        "asked_ms",
        "first_request_id",
        "has_more",
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
        #: The first part is complete up to this timestamp. Its versions above that are asked for.
        self.after = parts[0].after if parts else upto
        #: All versions that this scan, and the scans that it replaced, have brought in this process are above
        #: this timestamp.
        self.since = self.after
        self.first_request_id = self.request_id = _NOT_ASKED
        self.asked_ms = 0
        #: Whether to ask now, since the last answer has left keys out, or the next part was not asked for.
        self.ask_now = False
        #: Whether a chunk was refused since the last request or progress. The chunks after it do not have its
        #: keys.
        self.refused = False
        #: Whether the last chunk has rows that were not taken yet. Then it has to be given again.
        self.has_more = False
        #: The chunk that has to be given again, its rows that were missing, and how many of them were taken.
        self._begun: tuple[ScanChunk, Sequence[KeyValue], int] | None = None

    @property
    def done(self) -> bool:
        """Whether every key was covered."""
        return not self.parts

    @property
    def next_key(self) -> bytes:
        """The key that the next chunk has to cover; the end of the span when the scan is done."""
        return self.parts[0].span.start if self.parts else self.span.end

    def request(self, offset: int, now_ms: int) -> Scan:
        """Return the request for the present part, sent at log position ``offset``.

        The request id is made from the offset. Its lowest bit says whether previous values are asked for,
        since chunks do not say it. For example, at offset 41 the id is 84, or 85 with previous values.
        """
        self.request_id = 2 * (offset + 1) + self.with_prev
        self.asked_ms, self.ask_now, self.refused = now_ms, False, False
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
        """Whether to ask now: nothing was asked, keys were left out, or nothing has come for too long."""
        return self.request_id == _NOT_ASKED or self.ask_now or now_ms - self.asked_ms >= SCAN_REPEAT_MS

    def take_chunk(self, chunk: ScanChunk, now_ms: int, fitting: Fitting | None = None) -> list[KeyValue]:
        """Take a chunk. Returns its rows that were missing, in the order of keys and then timestamps.

        No row is returned for a chunk that does not continue the scan. ``fitting`` says for how many of the
        rows there is room (``None``: for all). That number of rows is taken, and a few more if a key would be
        taken only in part; at least one key is taken. If rows are left, the chunk has to be given again for
        them (``has_more``). Raises ``MalformedEntry`` for a chunk with rows that it may not have. Then
        nothing of the chunk counts, and its keys are asked for again, as if no answer had come.
        """
        self.has_more = False
        if self.done or not self._is_answered_by(chunk) or chunk.span.end <= self.next_key:
            return []
        if chunk.span.start > self.next_key:
            self.ask_now = not self.refused  # after a refused chunk ask later, not for every chunk
            return []
        (span, after), *later = self.parts
        covered = Span(span.start, min(chunk.span.end, span.end))
        missing, first = self._missing(chunk, covered, after)
        end = len(missing)
        if fitting is not None:
            end = _end_of_keys(missing, first, fitting(missing, first))
        if end < len(missing):
            covered, self.has_more = Span(span.start, missing[end].key), True
        self._begun = (chunk, missing, end) if self.has_more else None
        rows = list(missing[first:end])
        if covered.end < span.end:
            later = [ScanPart(Span(covered.end, span.end), after), *later]
        self.parts, self.asked_ms, self.refused = later, now_ms, False
        self.after = later[0].after if later else after
        if self.has_more:
            self.ask_now = False
            return rows
        answered = chunk.last and chunk.request_id == self.request_id
        self.ask_now = not self.done and (answered or covered.end == span.end)
        return rows

    def _missing(self, chunk: ScanChunk, covered: Span, after: Timestamp) -> tuple[Sequence[KeyValue], int]:
        """Return the rows of a chunk that were missing, in order, and how many of these were taken already.

        Raises ``MalformedEntry`` for a chunk with rows that it may not have.
        """
        if self._begun is not None and self._begun[0] is chunk:
            return self._begun[1:]
        if fault := fault_of(chunk):
            self.refused = True
            raise MalformedEntry(fault)
        wanted = (
            row for row in chunk.rows if covered.contains(row.key) and after < row.timestamp <= self.upto
        )
        return sorted(wanted, key=_place), 0

    def _is_answered_by(self, chunk: ScanChunk) -> bool:
        """Whether a chunk answers any request for the first part.

        Older requests count too. Otherwise an answer that takes longer than ``SCAN_REPEAT_MS`` would never be
        taken.
        """
        if not self.first_request_id <= chunk.request_id <= self.request_id:
            return False
        if chunk.request_id % 2 != self.with_prev:
            return False
        asked = (None if self.newest else self.after, self.upto, not self.newest)
        return chunk.request_id != _NOT_ASKED and (chunk.after, chunk.upto, chunk.all_versions) == asked


def _end_of_keys(rows: Sequence[KeyValue], first: int, end: int) -> int:
    """Return the first place at or after ``end`` at which a new key begins.

    At least one key lies between ``first`` and that place.
    """
    end = min(len(rows), max(first + 1, end))
    while end < len(rows) and rows[end].key == rows[end - 1].key:
        end += 1
    return end


def _place(row: KeyValue) -> tuple[bytes, Timestamp]:
    return row.key, row.timestamp


def fault_of(chunk: ScanChunk) -> str:
    """Return what is wrong with the rows of a chunk; empty if nothing is. The rows may come in any order."""
    start, end = chunk.span
    after = chunk.after or ZERO
    before: KeyValue | None = None
    for row in sorted(chunk.rows, key=_place):
        if not start <= row.key < end:
            return f"{_shown(row)} is outside its span, {start.hex()} to {end.hex()}"
        if not after < row.timestamp <= chunk.upto:
            return f"{_shown(row)} is not above {after} and at or below {chunk.upto}, as was asked"
        if before is not None and before.key == row.key:
            if before.timestamp == row.timestamp:
                return f"{_shown(row)} comes twice"
            if not chunk.all_versions:
                return f"{_shown(row)} is a second version of its key, where the newest was asked for"
        before = row
    return ""


def _shown(row: KeyValue) -> str:
    return f"its row {row.key.hex()} at {row.timestamp}"


def parts_left(span: Span, complete: Iterable[ScanPart], earlier: RangeScan | None) -> list[ScanPart]:
    """Return how far the keys of ``span`` are complete, as parts.

    A key is complete up to the highest timestamp that one of the ``complete`` parts, or an ``earlier`` scan,
    has for it. For keys that neither has, nothing is complete.
    """
    known = [*complete]
    if earlier is not None:
        known += _filled(earlier.span, earlier.upto, sorted(earlier.parts))
    return _joined(list(_furthest(span, known)))


def _furthest(span: Span, parts: Sequence[ScanPart]) -> Iterator[ScanPart]:
    """Yield the keys of ``span``, cut where any part begins or ends. Each piece has its highest ``after``."""
    ends = {key for part in parts for key in part.span if span.start < key < span.end}
    for start, end in pairwise(sorted({*span, *ends})):
        told = [after for (left, right), after in parts if left <= start and end <= right]
        yield ScanPart(Span(start, end), max(told, default=ZERO))


def _filled(span: Span, between: Timestamp, parts: Iterable[ScanPart]) -> Iterator[ScanPart]:
    """Yield the disjoint ``parts`` within ``span``, in order. Keys that no part has get ``between``."""
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
    """Return the parts, joined where neighbours are complete up to about the same timestamp.

    Neighbours with equal timestamps are always joined. Others are joined until ``_PARTS_MAX`` parts are left;
    the lower timestamp counts.
    """
    while len(parts) > 1:
        apart = [abs(left.after.wall - right.after.wall) for left, right in pairwise(parts)]
        nearest = apart.index(min(apart))
        if apart[nearest] and len(parts) <= _PARTS_MAX:
            break
        left, right = parts[nearest : nearest + 2]
        joined = ScanPart(Span(left.span.start, right.span.end), min(left.after, right.after))
        parts = [*parts[:nearest], joined, *parts[nearest + 2 :]]
    return parts
