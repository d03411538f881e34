"""Finds the versions that an entry of the log shows. The state of the entry's range does not matter.

Every op that commits, and every row of a scan, is a version that the store has. So once a processor has found
that a log is complete up to a timestamp, the versions up to that timestamp can be collected from the log in
any order, and in parallel (docs/protocols/backfill.md).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from tidegate.raftlog.entry import Command, CommitIntent, DeleteRange, Entry, KeyValue, ScanChunk, WriteValue

_COMMITTING: Final = (WriteValue, CommitIntent)


def versions_shown(entry: Entry) -> Iterator[KeyValue]:
    """Yield the versions that a command commits, without previous values, or the rows of a ScanChunk.

    An op whose value the log does not hold shows no version: it is a hole of its range.
    """
    if isinstance(entry, Command):
        for op in entry.ops or ():
            if isinstance(op, _COMMITTING) and op.value is not None:
                yield KeyValue(op.key, op.timestamp, op.value, None, op.omit_in_rangefeeds)
    elif isinstance(entry, ScanChunk):
        yield from entry.rows


def deletions_shown(entry: Entry) -> Iterator[DeleteRange]:
    """Yield the range tombstones that the entry writes.

    They delete versions of keys that they do not name.
    """
    if isinstance(entry, Command):
        for op in entry.ops or ():
            if isinstance(op, DeleteRange):
                yield op
