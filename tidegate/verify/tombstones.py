"""Deletions and their tombstones, held to each other.

Where a feed writes tombstones (Debezium's envelope), each record of a deletion is followed by one without a
value. A tombstone tells no timestamp and is no version of its row: it belongs to a deletion of its key with
its record time that stands before it, and after a crash both come again, in any number of copies. Before a
marker that covers a deletion, its tombstone is there.
"""

from __future__ import annotations

from typing import NamedTuple

from tidegate.hlc import NANOS_PER_MS, Timestamp
from tidegate.verify.memory import Version, VersionMemory
from tidegate.verify.record import TopicRecord
from tidegate.verify.violation import Findings, ViolationKind, key_text


class _Deletion(NamedTuple):
    """A deletion whose tombstone has not come yet."""

    record: TopicRecord
    updated: Timestamp


class Tombstones:
    """The deletions of one partition. ``memory`` holds them as versions whose timestamps are record times."""

    __slots__ = ("_findings", "_memory", "_waiting")

    def __init__(self, memory: VersionMemory, findings: Findings) -> None:
        self._memory = memory
        self._findings = findings
        self._waiting: dict[Version, _Deletion] = {}

    def take_deletion(self, record: TopicRecord, key: bytes, updated: Timestamp) -> None:
        """A deletion is seen for the first time."""
        version = key, _record_time(record)
        self._memory.remember(version, 0)
        self._waiting[version] = _Deletion(record, updated)

    def take_tombstone(self, record: TopicRecord, key: bytes) -> bool:
        """Check one tombstone. Returns whether it could be decided: its deletion may have been forgotten."""
        version = key, _record_time(record)
        self._waiting.pop(version, None)
        if self._memory.digest(version) is not None:
            return True
        if version[1] <= self._memory.forgotten:
            return False
        sentence = (
            f"Offset {record.offset} of {record.topic}[{record.partition}] has no value, and no deletion of"
            f" key {key_text(key)} at its record time, {record.timestamp_ms} ms, stands before it."
        )
        self._findings.at(ViolationKind.STRAY_TOMBSTONE, record, None, sentence)
        return True

    def pass_marker(self, resolved: Timestamp) -> None:
        """Every deletion that the marker covers must have its tombstone by now."""
        covered = [version for version, waiting in self._waiting.items() if waiting.updated <= resolved]
        for version in covered:
            record, updated = self._waiting.pop(version)
            sentence = (
                f"Offset {record.offset} of {record.topic}[{record.partition}] is the deletion of key"
                f" {key_text(record.key)} at {updated}, and no tombstone follows it before the marker at"
                f" {resolved} that covers it."
            )
            self._findings.at(ViolationKind.MISSING_TOMBSTONE, record, updated, sentence)
        self._memory.marker(resolved)


def _record_time(record: TopicRecord) -> Timestamp:
    return Timestamp(record.timestamp_ms * NANOS_PER_MS)
