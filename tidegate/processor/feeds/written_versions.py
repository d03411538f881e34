"""Committed versions whose rows a kernel has written already, and that are not given to the feeds yet."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from tidegate.hlc import Timestamp
from tidegate.processor.batch import LogRecord
from tidegate.processor.feeds.row_kernel import Taken
from tidegate.raftlog.decode import decode_entry
from tidegate.raftlog.entry import Command, CommitIntent, Entry, WriteValue
from tidegate.ranges.version import Version


class WrittenRows(NamedTuple):
    """Rows that a kernel has written for shared versions, by the plan with that number.

    The versions are those from ``first`` on, up to ``end``.
    """

    first: int
    end: int
    rows: Taken
    plan: int


class WrittenVersions:
    """The versions that ``records`` have committed, in order, with their ``rows``.

    ``places`` has, for each version, the number of its record and the ordinal of its op there. ``high`` is
    the highest timestamp of the versions. ``plan`` is the number of the plan by which the rows were written.
    ``before`` are the versions that were committed earlier and whose rows are not written yet.
    """

    def __init__(
        self,
        records: Sequence[LogRecord],
        places: Sequence[tuple[int, int]],
        rows: Taken,
        high: Timestamp,
        plan: int,
        before: list[Version],
    ) -> None:
        self._records = records
        self._places = places
        self.rows = rows
        self.high = high
        self.plan = plan
        self.before = before
        self._entries: dict[int, Entry] = {}

    def versions(self) -> list[Version]:
        """Return the versions, as Python reads them."""
        return self.at(range(len(self._places)))

    def at(self, numbers: Iterable[int]) -> list[Version]:
        """Return the versions with these numbers."""
        return [self._version(*self._places[number]) for number in numbers]

    def _version(self, number: int, ordinal: int) -> Version:
        entry = self._entries.get(number)
        if entry is None:
            record = self._records[number]
            entry = self._entries[number] = decode_entry(record.key, record.value)
        assert isinstance(entry, Command)
        assert entry.ops is not None
        op = entry.ops[ordinal]
        assert isinstance(op, WriteValue | CommitIntent)
        assert op.value is not None
        return Version(
            op.key,
            op.timestamp,
            op.value,
            op.prev_value,
            op.omit_in_rangefeeds,
            entry.range_id,
            entry.raft_index,
            ordinal,
        )
