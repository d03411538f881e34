"""The history of a case as a log: one range for each table, every write with the value that it replaced.

A transaction of several writes lays down its intents first and commits them in one command; a single write
is committed in one phase. Two writes of one key at one timestamp, which some cases have and no store could,
become two commands: nothing in a log tells them from a store's, and the processor emits both.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import count

from tests.conformance.case_history import Close, Commit, Erase, Fault, History, Redefine
from tests.conformance.case_intents import Intent, IntentOp, RowVersion
from tests.conformance.case_tables import CaseTable
from tests.conformance.feed_events import txn_of
from tests.hand_log import BASE_S, HandLog, HandRange, HandTable
from tidegate.hlc import NANOS_PER_SECOND, ZERO, ClosedTimestamp, Timestamp
from tidegate.raftlog.entry import (
    AbortIntent,
    AbortTxn,
    CommitIntent,
    DeleteRange,
    Generation,
    Heartbeat,
    KeyValue,
    Op,
    RaftIndex,
    RangeId,
    TxnId,
    UpdateIntent,
    WriteIntent,
    WriteValue,
)
from tidegate.raftlog.request import Scan

#: Seconds after the base of hand-written logs at which nothing is closed yet.
_NEVER = -BASE_S


class CaseLog:
    """Writes a history into a log. ``faults`` are the records of each partition before each fault."""

    def __init__(self, log: HandLog, history: History, range_ids: Iterator[int]) -> None:
        self.faults: list[tuple[int, ...]] = []
        #: The tables at the feeds' creation.
        self.descriptors = [table.descriptor for table in history.fed]
        self._history = history
        self._log = log
        self._transactions = count(1)
        self._versions: dict[RangeId, list[WriteValue]] = {}
        self._tables = {table.id: HandTable(table.descriptor) for table in history.tables}
        log.describe(*self._tables.values())
        self._ranges = {
            table_id: log.open_range(next(range_ids), table.span, close=_NEVER)
            for table_id, table in self._tables.items()
        }

    def write(self) -> None:
        """Everything, closed at the history's end and once more above it."""
        end = self._history.end
        for step in self._history.steps:
            match step:
                case Commit():
                    self._commit(step)
                case Intent():
                    self._intent(step)
                case Close():
                    self._close(step.timestamp)
                case Redefine():
                    self._redefine(step.table)
                case Erase(table_id, timestamp):
                    span = self._tables[table_id].span
                    self._ranges[table_id].apply(DeleteRange(span.start, span.end, timestamp))
                case Fault():
                    self.faults.append(tuple(map(len, self._log.partitions)))
        self._close(end)
        self._close(Timestamp(end.wall + NANOS_PER_SECOND))

    def answer(self, scan: Scan) -> None:
        """Write what a store would find, in the order of keys."""
        opened = next(opened for opened in self._ranges.values() if opened.id == scan.range_id)
        found = [
            KeyValue(op.key, op.timestamp, op.value or b"", op.prev_value if scan.with_prev else None)
            for op in sorted(self._versions.get(opened.id, ()), key=lambda op: (op.key, op.timestamp))
            if scan.span.contains(op.key) and (scan.after or ZERO) < op.timestamp <= scan.upto
        ]
        if not scan.all_versions:
            newest = {row.key: row for row in found}
            found = [row for row in newest.values() if row.value]
        opened.scanned(scan, *found)

    def _redefine(self, table: CaseTable) -> None:
        self._tables[table.id] = HandTable(table.descriptor)
        self._log.wait_for(table.descriptor.modified)
        self._log.describe(self._tables[table.id])

    def _commit(self, commit: Commit) -> None:
        number = next(self._transactions)
        for table_id, versions in _by_table(commit.versions).items():
            table, opened = self._tables[table_id], self._ranges[table_id]
            ops = [self._op(table, version, commit.timestamp) for version in versions]
            self._versions.setdefault(opened.id, []).extend(ops)
            if commit.in_transaction:
                self._transaction(opened, ops, TxnId(number.to_bytes(16, "big")))
            else:
                opened.apply(*ops)

    def _intent(self, step: Intent) -> None:
        table, opened = self._tables[step.version.table_id], self._ranges[step.version.table_id]
        op, txn_id = self._op(table, step.version, step.timestamp), txn_of(step.txn)
        match step.op:
            case IntentOp.WRITTEN:
                opened.apply(WriteIntent(txn_id, op.key, op.timestamp, op.timestamp))
            case IntentOp.MOVED:
                opened.apply(UpdateIntent(txn_id, op.timestamp))
            case IntentOp.COMMITTED:
                self._versions.setdefault(opened.id, []).append(op)
                opened.apply(CommitIntent(txn_id, op.key, op.timestamp, op.value, op.prev_value))
            case IntentOp.ABORTED:
                opened.apply(AbortIntent(txn_id))
            case IntentOp.ABORTED_WITH_TXN:  # once for each of its intents: the first takes all away
                opened.apply(AbortTxn(txn_id))

    def _transaction(self, opened: HandRange, ops: Iterable[WriteValue], txn_id: TxnId) -> None:
        commits: list[Op] = []
        for op in ops:
            opened.apply(WriteIntent(txn_id, op.key, op.timestamp, op.timestamp))
            commits.append(CommitIntent(txn_id, op.key, op.timestamp, op.value, op.prev_value))
        opened.apply(*commits)

    def _op(self, table: HandTable, version: RowVersion, timestamp: Timestamp) -> WriteValue:
        previous = b"" if version.previous is None else table.pair(*version.previous)[1]
        if version.values is None:
            return WriteValue(table.key(*version.key), timestamp, b"", previous)
        key, value = table.pair(*version.values)
        return WriteValue(key, timestamp, value, previous)

    def _close(self, timestamp: Timestamp) -> None:
        for opened in self._ranges.values():
            self._log.write(
                Heartbeat(
                    opened.id,
                    Generation(opened.generation),
                    ClosedTimestamp(timestamp),
                    RaftIndex(opened.index),
                )
            )


def _by_table(versions: Iterable[RowVersion]) -> dict[int, list[RowVersion]]:
    found: dict[int, list[RowVersion]] = {}
    for version in versions:
        found.setdefault(version.table_id, []).append(version)
    return found
