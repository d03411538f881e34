"""The log of one range: the entries that it writes, and those that it leaves out."""

from __future__ import annotations

from collections.abc import Callable

from sim.log.history import HistoryLog, HistoryVersion
from sim.log.log_writer import LogWriter, RangeEntry
from sim.store.write_batch import pointing_to_batch
from tidegate.raftlog.entry import Command, CommitIntent, WriteValue
from tidegate.rows.table_key import table_id_of

#: A write batch of CockroachDB's storage without any write: sequence number and count.
_EMPTY_BATCH = bytes(12)


class RangeLog:
    """The log of one range.

    While the log is ``silent``, nothing is written: it is the log of a replica that misses commands, until a
    snapshot brings it up to date. While the log is ``opless``, commands have no logical ops: they do not say
    what they write. Versions that are left out of the log in one of these two ways are noted in ``skipped``.
    ``points`` is called for each other command. If it returns true, the command's values stand only in the
    write batch.
    """

    __slots__ = ("_log", "_points", "_skipped", "opless", "silent")

    def __init__(self, log: LogWriter, skipped: HistoryLog, points: Callable[[], bool]) -> None:
        self._log = log
        self._skipped = skipped
        self._points = points
        self.silent = False
        self.opless = False

    def sibling(self) -> RangeLog:
        """Return the log of a range that splits off."""
        return RangeLog(self._log, self._skipped, self._points)

    def append(self, entry: RangeEntry, record_time_ms: int) -> None:
        """Write an entry: without ops while the log is ``opless``, and not at all while it is ``silent``."""
        if isinstance(entry, Command) and (self.silent or self.opless) and entry.ops:
            self._note_skipped(entry)
            entry = entry._replace(ops=None, write_batch=_EMPTY_BATCH)
        elif isinstance(entry, Command) and self._points():
            entry = pointing_to_batch(entry)
        if not self.silent:
            self._log.append(entry, record_time_ms)

    def _note_skipped(self, command: Command) -> None:
        for op in command.ops or ():
            if isinstance(op, WriteValue | CommitIntent):
                version = HistoryVersion(table_id_of(op.key), op.key, op.timestamp, op.value or b"")
                self._skipped.record(version)
