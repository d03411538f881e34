"""The history of a case as a log: one range for each table, every write with the value that it replaced.

A transaction of several writes lays down its intents first and commits them in one command; a single write
is committed in one phase. Two writes of one key at one timestamp, which some cases have and no store could,
become two commands: nothing in a log tells them from a store's, and the processor emits both.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import count

from tests.conformance.case_history import Close, Commit, Fault, History, RowVersion
from tests.conformance.case_tables import CaseTable
from tests.hand_log import BASE_S, HandLog, HandRange, HandTable
from tidegate.hlc import NANOS_PER_SECOND, ClosedTimestamp, Timestamp
from tidegate.raftlog.entry import (
    CommitIntent,
    Generation,
    Heartbeat,
    Op,
    RaftIndex,
    TxnId,
    WriteIntent,
    WriteValue,
)
from tidegate.rows import TableDescriptor

#: Seconds after the base of hand-written logs at which nothing is closed yet.
_NEVER = -BASE_S


class CaseLog:
    """Writes a history into a log. ``faults`` are the records of each partition before each fault."""

    def __init__(self, log: HandLog, tables: Mapping[str, CaseTable], range_ids: Iterator[int]) -> None:
        self.faults: list[tuple[int, ...]] = []
        self._log = log
        self._transactions = count(1)
        self._tables = {name: HandTable(table.descriptor) for name, table in tables.items()}
        log.describe(*self._tables.values())
        self._ranges = {
            name: log.open_range(next(range_ids), table.span, close=_NEVER)
            for name, table in self._tables.items()
        }

    @property
    def descriptors(self) -> list[TableDescriptor]:
        """The tables."""
        return [table.descriptor for table in self._tables.values()]

    def write(self, history: History) -> None:
        """Everything, closed at the history's end and once more above it."""
        for step in history.steps:
            match step:
                case Commit():
                    self._commit(step)
                case Close():
                    self._close(step.timestamp)
                case Fault():
                    self.faults.append(tuple(map(len, self._log.partitions)))
        self._close(history.end)
        self._close(Timestamp(history.end.wall + NANOS_PER_SECOND))

    def _commit(self, commit: Commit) -> None:
        number = next(self._transactions)
        for name, versions in _by_table(commit.versions).items():
            table, opened = self._tables[name], self._ranges[name]
            ops = [self._op(table, version, commit.timestamp) for version in versions]
            if commit.in_transaction:
                self._transaction(opened, ops, TxnId(number.to_bytes(16, "big")))
            else:
                opened.apply(*ops)

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


def _by_table(versions: Iterable[RowVersion]) -> dict[str, list[RowVersion]]:
    found: dict[str, list[RowVersion]] = {}
    for version in versions:
        found.setdefault(version.table, []).append(version)
    return found
