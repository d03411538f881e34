"""The log contract, checked: reads a log as anyone could, and says where it breaks a rule.

It knows nothing of the store that wrote the log, so that the two can disagree.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from itertools import pairwise

from sim.breach import Breach, Rule
from sim.history import Version
from sim.lineage import Lineage
from sim.range_check import RangeCheck
from sim.sink import LogRecord
from tidegate.errors import MalformedEntry
from tidegate.hlc import ZERO, Timestamp
from tidegate.raftlog.decode import decode_entry
from tidegate.raftlog.encode import partition_of
from tidegate.raftlog.entry import (
    AbortIntent,
    AbortTxn,
    Command,
    CommitIntent,
    DeleteRange,
    DescriptorUpdate,
    Entry,
    KeyValue,
    Op,
    Parent,
    RangeId,
    ScanChunk,
    TxnId,
    WriteValue,
)
from tidegate.rows.table_key import table_id_of
from tidegate.spans import Span


def check_log(
    records: Iterable[LogRecord], partitions: int, pushed: frozenset[TxnId] | None = None
) -> list[Breach]:
    """Every breach of the contract in a log; per partition, the records stand in log order.

    ``pushed`` are the transactions that were ever pushed; ``None`` when that is not known.
    """
    check = _LogCheck(partitions, pushed)
    for record in records:
        check.take(record)
    return check.finish()


def committed_versions(records: Iterable[LogRecord]) -> list[Version]:
    """The versions that a log says were committed, in its order."""
    entries = (decode_entry(record.key, record.value) for record in records)
    return [
        Version(table_id_of(op.key), op.key, op.timestamp, op.value or b"")
        for entry in entries
        if isinstance(entry, Command)
        for op in entry.ops or ()
        if isinstance(op, WriteValue | CommitIntent)
    ]


def check_history(
    records: Iterable[LogRecord], history: Iterable[Version], skipped: Iterable[Version] = ()
) -> list[Breach]:
    """Where a complete log and the true history differ: versions that only one of them has.

    ``skipped`` are those that the store left out on purpose.
    """
    logged, true = Counter(committed_versions(records)) + Counter(skipped), Counter(history)
    missing = [Breach(Rule.HISTORY, f"{version} is not in the log") for version in true - logged]
    invented = [Breach(Rule.HISTORY, f"{version} was never committed") for version in logged - true]
    return missing + invented


def check_scans(records: Iterable[LogRecord], history: Iterable[Version]) -> list[Breach]:
    """Where answers to scan requests and the true history differ."""
    versions: dict[bytes, list[Version]] = {}
    for version in history:
        versions.setdefault(version.key, []).append(version)
    entries = (decode_entry(record.key, record.value) for record in records)
    return [
        Breach(Rule.SCAN, f"scan {chunk.request_id} of range {chunk.range_id} to {chunk.upto}: {difference}")
        for chunk in entries
        if isinstance(chunk, ScanChunk)
        for difference in _differences(chunk, versions)
    ]


def _differences(chunk: ScanChunk, versions: dict[bytes, list[Version]]) -> list[str]:
    expected: dict[tuple[bytes, Timestamp], KeyValue] = {}
    for key in filter(chunk.span.contains, versions):
        asked = [
            KeyValue(key, version.timestamp, version.value, before.value if before else b"")
            for before, version in pairwise([None, *versions[key]])
            if version is not None and (chunk.after or ZERO) < version.timestamp <= chunk.upto
        ]
        for row in asked if chunk.all_versions else asked[-1:]:
            expected[key, row.timestamp] = row
    found = {(row.key, row.timestamp): row for row in chunk.rows}
    # A deletion that garbage collection has taken away is told by nothing.
    missing = [f"{row} is missing" for at, row in expected.items() if at not in found and row.value]
    wrong = [f"{row} is wrong" for at, row in found.items() if not _same(row, expected.get(at))]
    return missing + wrong


def _same(row: KeyValue, expected: KeyValue | None) -> bool:
    if expected is None:
        return False
    return row == (expected if row.prev_value is not None else expected._replace(prev_value=None))


def _joined(spans: Iterable[Span]) -> list[Span]:
    """The same keys in as few spans as possible."""
    joined: list[Span] = []
    for span in sorted(spans):
        if joined and span.start <= joined[-1].end:
            joined[-1] = Span(joined[-1].start, max(joined[-1].end, span.end))
        else:
            joined.append(span)
    return joined


class _LogCheck:
    """What spans ranges; a ``RangeCheck`` for each of them does the rest."""

    def __init__(self, partitions: int, pushed: frozenset[TxnId] | None) -> None:
        self._breaches: list[Breach] = []
        self._partitions = partitions
        self._pushed = pushed
        self._ranges: dict[RangeId, RangeCheck] = {}
        self._lineage = Lineage(self._is_skipped)
        self._modified: dict[tuple[int, int], Timestamp] = {}
        self._versions: dict[tuple[int, int], int] = {}
        self._highs: dict[tuple[int, int], Timestamp] = {}
        self._broadcasts: Counter[tuple[DescriptorUpdate, int]] = Counter()
        self._committed_at: dict[TxnId, Timestamp] = {}

    def take(self, record: LogRecord) -> None:
        try:
            entry = decode_entry(record.key, record.value)
        except MalformedEntry as error:
            self._report(Rule.READABLE, str(error))
            return
        if isinstance(entry, DescriptorUpdate):
            self._broadcasts[entry, record.partition] += 1
            place = record.partition, entry.table_id
            self._check_in_time(entry, place)
            self._modified[place] = min(entry.modified, self._modified.get(place, entry.modified))
        else:
            self._take_ranged(entry, record)

    def finish(self) -> list[Breach]:
        """All breaches, those included that only the end shows."""
        for update in {update for update, _ in self._broadcasts}:
            counts = {self._broadcasts[update, partition] for partition in range(self._partitions)}
            if len(counts) > 1:
                self._report(Rule.PARTITION, f"table {update.table_id} is not broadcast to every partition")
        for range_id, check in self._ranges.items():
            if check.waits:
                self._report(Rule.LINEAGE, f"range {range_id} waits for a parent that never came so far")
        self._check_coverage()
        return self._breaches

    def _check_coverage(self) -> None:
        """In the end every key that a first range held is held by one range."""
        checks = self._ranges.values()
        held = sorted(check.span for check in checks if check.span is not None)
        for left, right in pairwise(held):
            if left.end > right.start:
                self._report(Rule.LINEAGE, f"{left} and {right} overlap")
        first = (check.first_span for check in checks if check.first_span is not None)
        if _joined(held) != _joined(first):
            self._report(Rule.LINEAGE, "the ranges do not hold the keys that the first ones held")

    def _is_skipped(self, parent: Parent) -> bool:
        check = self._ranges.get(parent.range_id)
        return check is not None and check.skipped(parent.last_index)

    def _take_ranged(self, entry: Entry, record: LogRecord) -> None:
        assert not isinstance(entry, DescriptorUpdate)
        if record.partition != partition_of(entry.range_id, self._partitions):
            self._report(Rule.PARTITION, f"range {entry.range_id} stands in partition {record.partition}")
        if entry.range_id not in self._ranges:
            self._ranges[entry.range_id] = RangeCheck(entry.range_id, self._report, self._lineage)
        self._ranges[entry.range_id].take(entry)
        while any(check.resume() for check in self._ranges.values() if check.waits):
            pass
        if isinstance(entry, Command):
            for op in entry.ops or ():
                self._check_op(op, record)

    def _check_op(self, op: Op, record: LogRecord) -> None:
        if isinstance(op, AbortTxn):
            if self._pushed is not None and op.txn_id not in self._pushed:
                self._report(Rule.PUSHED, f"{op.txn_id.hex()} was not pushed")
            return
        if isinstance(op, AbortIntent | DeleteRange):
            return
        if op.timestamp.wall_ms > record.record_time_ms:
            self._report(Rule.RECORD_TIME, f"{op} at record time {record.record_time_ms}")
        if isinstance(op, WriteValue | CommitIntent):
            self._check_descriptor(op, record.partition)
        if isinstance(op, CommitIntent):
            at = self._committed_at.setdefault(op.txn_id, op.timestamp)
            if at != op.timestamp:
                self._report(Rule.COMMIT_TIME, f"{op.txn_id.hex()} commits at {at} and at {op.timestamp}")

    def _check_descriptor(self, op: WriteValue | CommitIntent, partition: int) -> None:
        table_id = table_id_of(op.key)
        modified = self._modified.get((partition, table_id))
        if modified is None or modified > op.timestamp:
            self._report(
                Rule.DESCRIPTOR, f"partition {partition} has none for table {table_id} at {op.timestamp}"
            )

        place = partition, table_id
        self._highs[place] = max(op.timestamp, self._highs.get(place, op.timestamp))

    def _check_in_time(self, update: DescriptorUpdate, place: tuple[int, int]) -> None:
        """A new version stands before every row that it governs."""
        if self._versions.get(place, 0) >= update.version:
            return
        self._versions[place] = update.version
        high = self._highs.get(place)
        if high is not None and high >= update.modified:
            self._report(
                Rule.DESCRIPTOR,
                f"partition {place[0]} has version {update.version} of table {place[1]} from "
                f"{update.modified} on after a row at {high}",
            )

    def _report(self, rule: Rule, sentence: str) -> None:
        self._breaches.append(Breach(rule, sentence))
