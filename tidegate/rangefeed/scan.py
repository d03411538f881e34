"""A scan that a range waits for: what was asked of the source, and how much of it has come.

The source answers in the range's own log by ScanChunks (docs/ranges.md#healing). Chunks are taken in key
order; what does not continue the scan is passed over, and asked for again.
"""

from __future__ import annotations

from typing import Final

from tidegate.hlc import Timestamp
from tidegate.raftlog.entry import KeyValue, Offset, RangeId, ScanChunk
from tidegate.raftlog.request import Scan
from tidegate.spans import Span

#: A scan without progress for so much log time is asked for again.
SCAN_REPEAT_MS: Final = 30_000
_NOT_ASKED: Final = 0


class RangeScan:
    """All versions of ``span`` above ``after`` and up to ``upto``; or only the ``newest`` of each key.

    ``snapshot_offset`` is where the Snapshot stands that the range takes when the scan is done.
    ``asked_ms`` is the log time of the last request or progress.
    """

    __slots__ = (
        "after",
        "asked_ms",
        "first_request_id",
        "lacking",
        "newest",
        "next_key",
        "range_id",
        "request_id",
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
        after: Timestamp,
        upto: Timestamp,
        *,
        with_prev: bool,
        newest: bool = False,
    ) -> None:
        self.range_id = range_id
        self.snapshot_offset = snapshot_offset
        self.span = span
        self.after = after
        self.upto = upto
        self.with_prev = with_prev
        self.newest = newest
        self.next_key = span.start
        self.first_request_id = self.request_id = _NOT_ASKED
        self.asked_ms = 0
        #: A part was left out by the last answer.
        self.lacking = False

    @property
    def done(self) -> bool:
        """Whether every key was covered."""
        return self.next_key >= self.span.end

    def request(self, offset: int, log_time_ms: int) -> Scan:
        """Ask for what is missing, at log position ``offset``, which gives the request its id."""
        self.request_id, self.asked_ms, self.lacking = offset + 1, log_time_ms, False
        self.first_request_id = self.first_request_id or self.request_id
        rest = Span(self.next_key, self.span.end)
        return Scan(
            self.range_id,
            self.request_id,
            rest,
            None if self.newest else self.after,
            self.upto,
            all_versions=not self.newest,
            with_prev=self.with_prev,
        )

    def is_due(self, before_ms: int) -> bool:
        """Whether to ask: never asked, a part was left out, or nothing has come since ``before_ms``."""
        return self.request_id == _NOT_ASKED or self.lacking or self.asked_ms <= before_ms

    def take(self, chunk: ScanChunk, log_time_ms: int) -> list[KeyValue]:
        """The rows of ``chunk`` that were missing, in the order of keys and then timestamps."""
        if not self._is_answered_by(chunk) or self.done or chunk.span.end <= self.next_key:
            return []
        if chunk.span.start > self.next_key:
            self.lacking = True
            return []
        wanted = (row for row in chunk.rows if self._wants(row, chunk.span))
        rows = sorted(wanted, key=lambda row: (row.key, row.timestamp))
        self.next_key, self.asked_ms = min(chunk.span.end, self.span.end), log_time_ms
        self.lacking = chunk.last and chunk.request_id == self.request_id and not self.done
        return rows

    def _is_answered_by(self, chunk: ScanChunk) -> bool:
        """An answer to any of its requests counts, or one that takes long would never be taken."""
        if not self.first_request_id <= chunk.request_id <= self.request_id:
            return False
        asked = (None if self.newest else self.after, self.upto, not self.newest)
        return chunk.request_id != _NOT_ASKED and (chunk.after, chunk.upto, chunk.all_versions) == asked

    def _wants(self, row: KeyValue, covered: Span) -> bool:
        in_place = row.key >= self.next_key and covered.contains(row.key) and self.span.contains(row.key)
        return in_place and self.after < row.timestamp <= self.upto
