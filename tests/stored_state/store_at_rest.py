"""A range store whose log is written: it answers scans from what truly happened, and lets its time pass."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Final

from tests.logs import Record
from tests.stored_state.stored import PARTITIONS, FinalRange, Stored
from tidegate.hlc import NANOS_PER_MS, ZERO, ClosedTimestamp, Timestamp
from tidegate.raftlog.encode import encode_entry, encode_key, partition_of
from tidegate.raftlog.entry import Entry, Heartbeat, KeyValue, ScanChunk
from tidegate.raftlog.request import RangeRequest, Scan

_BEAT_MS: Final = 1_000


class StoreAtRest:
    """The store behind the whole log of ``stored``. Whatever it writes is the next record of a partition.

    Pushes have no answer: every transaction has ended in the log.
    """

    def __init__(self, stored: Stored) -> None:
        self.log = stored.log
        self._ranges: dict[int, FinalRange] = {range_.id: range_ for range_ in stored.ranges}
        self._versions: dict[bytes, list[KeyValue]] = defaultdict(list)
        for _, key, at, value in sorted(stored.history, key=lambda version: version.timestamp):
            before = self._versions[key]
            self._versions[key].append(KeyValue(key, at, value, before[-1].value if before else b""))
        self._now_ms = max(record.timestamp for records in self.log for record in records)

    def answer(self, request: RangeRequest) -> None:
        """Answer a scan of a range that there is, by one piece."""
        range_ = self._ranges.get(request.range_id)
        if not isinstance(request, Scan) or range_ is None:
            return
        span = range_.span.intersect(request.span)
        if span is None:
            return
        rows = tuple(
            row for key in sorted(self._versions) if span.contains(key) for row in self._rows(key, request)
        )
        self._write(
            ScanChunk(
                range_.id,
                range_.generation,
                range_.applied,
                request.request_id,
                span,
                request.after,
                request.upto,
                request.all_versions,
                rows,
                last=True,
            )
        )

    def beat(self) -> None:
        """Let a second pass: every range says that all is closed."""
        self._now_ms += _BEAT_MS
        closed = ClosedTimestamp(Timestamp(self._now_ms * NANOS_PER_MS))
        for range_ in self._ranges.values():
            self._write(Heartbeat(range_.id, range_.generation, closed, range_.applied))

    def _rows(self, key: bytes, scan: Scan) -> Iterator[KeyValue]:
        wanted = [row for row in self._versions[key] if (scan.after or ZERO) < row.timestamp <= scan.upto]
        for row in wanted if scan.all_versions else wanted[-1:]:
            yield row if scan.with_prev else row._replace(prev_value=None)

    def _write(self, entry: Entry) -> None:
        assert isinstance(entry, ScanChunk | Heartbeat)
        records = self.log[partition_of(entry.range_id, PARTITIONS)]
        key, value = encode_key(entry.range_id), encode_entry(entry)
        records.append(Record(records[-1].offset + 1, key, value, self._now_ms))
