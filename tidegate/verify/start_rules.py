"""Checks the rules about a feed's start, and about the rows of its initial scan.

A row of an initial scan shows the newest version of its key at or below the scan's timestamp S, which is the
feed's start. The row tells S in place of the version's timestamp, but keeps the record time of the version.
All other rows stand above S.
"""

from __future__ import annotations

from dataclasses import dataclass

from tidegate.changefeed.definition.options import InitialScan
from tidegate.changefeed.encoding.record import RowRecord
from tidegate.hlc import MAX, Timestamp
from tidegate.verify.record import TopicRecord
from tidegate.verify.violation import Findings, ViolationKind, key_text


@dataclass(slots=True)
class _MaybeScanned:
    """Rows that all tell one timestamp, which is later than their record times. ``first`` is one of them."""

    first: TopicRecord
    count: int = 0


class StartRules:
    """The rules that hold for every copy of a row, on all partitions of one feed.

    ``start`` and ``scan`` are ``None`` if they are not known. Then the record times of some rows may be
    before their timestamps. If all these rows tell one timestamp, and no row tells a lower one, they are
    accepted as rows of an initial scan.
    """

    __slots__ = ("_findings", "_lowest", "_maybe", "_scan", "_start")

    def __init__(self, start: Timestamp | None, scan: InitialScan | None, findings: Findings) -> None:
        self._start = start
        self._scan = scan
        self._findings = findings
        self._lowest = MAX
        self._maybe: dict[Timestamp, _MaybeScanned] = {}

    @property
    def scans(self) -> bool:
        """Whether the feed is known to begin with a scan."""
        return self._start is not None and self._scan in (InitialScan.YES, InitialScan.ONLY)

    def told(self, row: RowRecord) -> Timestamp | None:
        """Return the timestamp that the row's version has in this feed; ``None`` if the record tells none."""
        if row.updated is not None or row.mvcc_timestamp is None:
            return row.updated
        if self._start is not None and self.scans and row.mvcc_timestamp <= self._start:
            return self._start
        return row.mvcc_timestamp

    def keeps(self, record: TopicRecord, row: RowRecord, updated: Timestamp) -> bool:
        """Check a row against the start. Returns whether the feed may have a row at this timestamp."""
        start = self._start
        if start is None:
            self._check_time_unless_scanned(record, row, updated)
            return True
        if updated < start or (updated == start and not self.scans):
            what = f"updated at {updated}, at or below the feed's start {start}"
            self._find(ViolationKind.BELOW_START, record, updated, what)
            return False
        if updated == start:
            self._check_scanned(record, row, start)
            return True
        self._check_time(record, updated)
        return self._keeps_above(record, updated, f"updated at {updated}")

    def keeps_untimed(self, record: TopicRecord, row: RowRecord) -> bool:
        """Check a row that tells no timestamp, by its record time in ms. Returns what ``keeps`` does.

        Within the millisecond of the start nothing can be decided: the row is accepted.
        """
        start, time_ms = self._start, record.timestamp_ms
        if start is None:
            return True
        if time_ms > start.wall_ms:
            return self._keeps_above(record, None, f"at record time {time_ms} ms")
        if time_ms == start.wall_ms:
            return True
        if not self.scans:
            what = f"at record time {time_ms} ms, below the feed's start {start}"
            self._find(ViolationKind.BELOW_START, record, None, what)
            return False
        if row.deleted:
            self._find(ViolationKind.WRONG_SCAN_ROW, record, None, f"deleted, in the initial scan at {start}")
        return True

    def finish(self) -> None:
        """Check the rows that only an initial scan can explain, if it is not known whether there was one."""
        for updated, rows in sorted(self._maybe.items()):
            if updated != self._lowest:
                sentence = (
                    f"{_at(rows.first)} holds key {key_text(rows.first.key)} updated at {updated}, as do "
                    f"{rows.count - 1} more rows, with an earlier record time, as rows of an initial scan "
                    f"have; but other rows are updated at {self._lowest}, below it."
                )
                self._findings.at(ViolationKind.WRONG_RECORD_TIME, rows.first, updated, sentence)

    def _keeps_above(self, record: TopicRecord, updated: Timestamp | None, how: str) -> bool:
        if self._scan is not InitialScan.ONLY:
            return True
        what = f"{how}, and the feed was to write its initial scan at {self._start} and nothing more"
        self._find(ViolationKind.AFTER_SCAN, record, updated, what)
        return False

    def _check_time_unless_scanned(self, record: TopicRecord, row: RowRecord, updated: Timestamp) -> None:
        self._lowest = min(self._lowest, updated)
        if self._scan is not None or row.updated is None or record.timestamp_ms >= updated.wall_ms:
            self._check_time(record, updated)
        else:
            self._maybe.setdefault(updated, _MaybeScanned(record)).count += 1

    def _check_time(self, record: TopicRecord, updated: Timestamp) -> None:
        if record.timestamp_ms != updated.wall_ms:
            sentence = (
                f"{_at(record)} holds key {key_text(record.key)} updated at {updated}, so its record time "
                f"should be {updated.wall_ms} ms; it is {record.timestamp_ms} ms."
            )
            self._findings.at(ViolationKind.WRONG_RECORD_TIME, record, updated, sentence)

    def _check_scanned(self, record: TopicRecord, row: RowRecord, start: Timestamp) -> None:
        committed = row.mvcc_timestamp
        if row.deleted:
            self._find(
                ViolationKind.WRONG_SCAN_ROW, record, start, f"deleted, in the initial scan at {start}"
            )
        if committed is not None and committed > start:
            what = f"committed at {committed}, in the initial scan at {start}"
            self._find(ViolationKind.WRONG_SCAN_ROW, record, start, what)
        elif committed is not None:
            self._check_time(record, committed)
        elif record.timestamp_ms > start.wall_ms:
            what = f"with record time {record.timestamp_ms} ms, in the initial scan at {start}"
            self._find(ViolationKind.WRONG_RECORD_TIME, record, start, what)

    def _find(self, kind: ViolationKind, record: TopicRecord, updated: Timestamp | None, what: str) -> None:
        sentence = f"{_at(record)} holds key {key_text(record.key)} {what}."
        self._findings.at(kind, record, updated, sentence)


def _at(record: TopicRecord) -> str:
    return f"Offset {record.offset} of {record.topic}[{record.partition}]"
