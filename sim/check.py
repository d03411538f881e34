"""Checks the simulated store's log against the log contract, and against the store's true history."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import pairwise

from sim.log.history import HistoryVersion
from sim.log.sink import WrittenRecord
from tidegate.hlc import ZERO, Timestamp
from tidegate.logcheck import log_check as logcheck
from tidegate.logcheck.breach import Breach, BreachPlace, Rule
from tidegate.logcheck.log_check import CheckedRecord, LogOptions
from tidegate.raftlog.decode import decode_entry
from tidegate.raftlog.entry import Command, CommitIntent, KeyValue, ScanChunk, TxnId, WriteValue
from tidegate.rows.table_key import table_id_of


def check_log(
    records: Iterable[WrittenRecord], partitions: int, pushed: frozenset[TxnId] | None = None
) -> list[Breach]:
    """Return every breach of the contract in a log. The records of a partition are in log order.

    ``pushed`` are the transactions that were ever pushed; ``None`` when that is not known. The simulated
    store's log is complete, and no op in it has a timestamp above its record's time.
    """
    options = LogOptions(partitions, ended=True, pushed=pushed, ahead_ms=0)
    return logcheck.check_log(_placed(records), options)


def _placed(records: Iterable[WrittenRecord]) -> Iterator[CheckedRecord]:
    """Yield the records with the offsets that they would have in a topic of their own."""
    ends: Counter[int] = Counter()
    for partition, key, value, record_time_ms in records:
        yield CheckedRecord(BreachPlace(partition, ends[partition]), key, value, record_time_ms)
        ends[partition] += 1


def committed_versions(records: Iterable[WrittenRecord]) -> list[HistoryVersion]:
    """Return the versions that were committed according to the log, in the order of the log."""
    entries = (decode_entry(record.key, record.value) for record in records)
    return [
        HistoryVersion(table_id_of(op.key), op.key, op.timestamp, op.value or b"")
        for entry in entries
        if isinstance(entry, Command)
        for op in entry.ops or ()
        if isinstance(op, WriteValue | CommitIntent)
    ]


def check_history(
    records: Iterable[WrittenRecord],
    history: Iterable[HistoryVersion],
    skipped: Iterable[HistoryVersion] = (),
) -> list[Breach]:
    """Return where a complete log and the true history differ: versions that only one of them has.

    ``skipped`` are versions that the store left out on purpose.
    """
    logged, true = Counter(committed_versions(records)) + Counter(skipped), Counter(history)
    missing = [Breach(Rule.HISTORY, f"{version} is not in the log") for version in true - logged]
    invented = [Breach(Rule.HISTORY, f"{version} was never committed") for version in logged - true]
    return missing + invented


def check_scans(records: Iterable[WrittenRecord], history: Iterable[HistoryVersion]) -> list[Breach]:
    """Return where answers to scan requests and the true history differ."""
    versions: dict[bytes, list[HistoryVersion]] = {}
    for version in history:
        versions.setdefault(version.key, []).append(version)
    entries = (decode_entry(record.key, record.value) for record in records)
    return [
        Breach(Rule.SCAN, f"scan {chunk.request_id} of range {chunk.range_id} to {chunk.upto}: {difference}")
        for chunk in entries
        if isinstance(chunk, ScanChunk)
        for difference in _differences(chunk, versions)
    ]


def _differences(chunk: ScanChunk, versions: dict[bytes, list[HistoryVersion]]) -> list[str]:
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
    # A deletion that garbage collection has removed shows in no answer.
    missing = [f"{row} is missing" for at, row in expected.items() if at not in found and row.value]
    wrong = [f"{row} is wrong" for at, row in found.items() if not _same(row, expected.get(at))]
    return missing + wrong


def _same(row: KeyValue, expected: KeyValue | None) -> bool:
    if expected is None:
        return False
    return row == (expected if row.prev_value is not None else expected._replace(prev_value=None))
