"""Answers to scan requests: the versions of a span's keys, in the log of the range that holds them."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Final

from sim.options import StoreOptions
from sim.store.range import Range
from sim.store.store import RangeStore
from tidegate.hlc import NANOS_PER_MS, ZERO
from tidegate.raftlog.entry import KeyValue, ScanChunk, SnapshotReason
from tidegate.raftlog.request import Scan
from tidegate.spans import Span

_LOOK_AGAIN_NS: Final = 10 * NANOS_PER_MS


class RunningScan:
    """One scan request, answered from left to right.

    Each step answers from what the range holds at that time. A step writes once nothing at or below ``upto``
    can be committed any more in the remaining span: the range has closed ``upto``, and no intent is in the
    way. If versions that the request needs have been collected, the only answer is a snapshot. Its GC
    threshold shows why. A request for previous values also needs the version below the oldest of its rows.
    """

    def __init__(self, store: RangeStore, options: StoreOptions, scan: Scan, rng: Random) -> None:
        self._store = store
        self._options = options
        self._scan = scan
        self._rng = rng
        self._start = scan.span.start

    def step(self) -> int | None:
        """Answer as much as can be answered now.

        Returns after how many nanoseconds to go on; ``None`` for never.
        """
        scan = self._scan
        range_ = self._store.ranges.get(scan.range_id)
        span = range_.span.intersect(Span(self._start, scan.span.end)) if range_ is not None else None
        if range_ is None or span is None:
            return None
        if range_.log.silent:
            return _LOOK_AGAIN_NS
        if self._is_collected(range_):
            self._store.snapshot(range_, SnapshotReason.PERIODIC)
            return None
        if not self._store.settle(range_, span, scan.upto):
            return _LOOK_AGAIN_NS
        for part, rows in self._pieces(range_, span):
            last = part.end == span.end
            range_.answer(self._chunk(range_, part, rows, last=last))
            self._start = part.end
            if self._options.scan_gap_ms and not last:
                return self._rng.randint(1, self._options.scan_gap_ms) * NANOS_PER_MS
        return None

    def _is_collected(self, range_: Range) -> bool:
        """Return whether versions that the request needs may be collected.

        Garbage collection leaves, for each key, the version at the threshold and all above it.
        """
        scan = self._scan
        asks_for_older = scan.all_versions or scan.with_prev
        oldest = (scan.after or ZERO) if asks_for_older else scan.upto
        return oldest < range_.gc_threshold

    def _pieces(self, range_: Range, span: Span) -> Iterator[tuple[Span, tuple[KeyValue, ...]]]:
        """Yield parts of the span with their rows.

        A part keeps to the limits, unless the versions of one key alone are above them.
        """
        most_rows, most_bytes = self._options.scan_chunk_rows, self._options.scan_chunk_bytes
        start, rows, size = span.start, list[KeyValue](), 0
        for versions in range_.rows.scan(self._scan, span):
            more = sum(len(row.key) + len(row.value) + len(row.prev_value or b"") for row in versions)
            if rows and (len(rows) + len(versions) > most_rows or size + more > most_bytes):
                key = versions[0].key
                yield Span(start, key), tuple(rows)
                start, rows, size = key, [], 0
            rows += versions
            size += more
        yield Span(start, span.end), tuple(rows)

    def _chunk(self, range_: Range, span: Span, rows: tuple[KeyValue, ...], *, last: bool) -> ScanChunk:
        scan = self._scan
        return ScanChunk(
            range_.id,
            range_.descriptor.generation,
            range_.applied,
            scan.request_id,
            span,
            scan.after,
            scan.upto,
            scan.all_versions,
            rows,
            last,
        )
