"""Checks deletions and their tombstones against each other.

In a feed that writes tombstones (Debezium's envelope) each record of a deletion is followed by a record
without a value, its tombstone. A tombstone tells no timestamp, and is no version of the row. It belongs to
the last deletion before it that has its key and its record time, and it has the headers of that deletion.

A tombstone comes before any newer row of the key: log compaction would remove a row that has a tombstone
after it. It also comes before a marker that covers the deletion. After a crash deletion and tombstone come
again, in any number of copies.
"""

from __future__ import annotations

from dataclasses import dataclass

from tidegate.hlc import NANOS_PER_MS, Timestamp
from tidegate.verify.memory import Version, VersionMemory
from tidegate.verify.record import TopicRecord, lasting_headers
from tidegate.verify.violation import Findings, ViolationKind, key_text


@dataclass(slots=True)
class _Waiting:
    """The deletions of one key within one millisecond whose tombstones have not come yet.

    ``last`` is the timestamp of the deletion that was seen last, as a first record or as a copy. The next
    tombstone belongs to it.
    """

    records: dict[Timestamp, TopicRecord]
    last: Timestamp


class Tombstones:
    """The deletions of one partition.

    ``memory`` holds each deletion as a version, with its record time as the timestamp and the digest of its
    headers.
    """

    __slots__ = ("_findings", "_memory", "_waiting")

    def __init__(self, memory: VersionMemory, findings: Findings) -> None:
        self._memory = memory
        self._findings = findings
        self._waiting: dict[Version, _Waiting] = {}

    def take_deletion(self, record: TopicRecord, key: bytes, updated: Timestamp) -> None:
        """Take a deletion that is seen for the first time."""
        version = key, _record_time(record)
        self._memory.remember(version, _headers_digest(record))
        waiting = self._waiting.setdefault(version, _Waiting({}, updated))
        waiting.records[updated] = record
        waiting.last = updated

    def take_copy(self, record: TopicRecord, key: bytes, updated: Timestamp) -> None:
        """Take a copy of a deletion."""
        waiting = self._waiting.get((key, _record_time(record)))
        if waiting is not None:
            waiting.last = updated

    def take_tombstone(self, record: TopicRecord, key: bytes, highest: Timestamp) -> bool:
        """Check one tombstone. ``highest`` is the highest timestamp of its key's rows so far.

        Returns ``False`` if nothing could be decided, since its deletion may have been forgotten.
        """
        version = key, _record_time(record)
        updated = self._settle(version)
        if updated is not None and updated < highest:
            self._find_behind(record, updated, highest)
        headers = self._memory.digest(version)
        if headers is None and version[1] <= self._memory.forgotten:
            return False
        if headers is None:
            self._find_stray(record, "no deletion of", "stands before it")
        elif headers != _headers_digest(record):
            self._find_stray(record, "the deletion of", "has other headers")
        return True

    def pass_marker(self, resolved: Timestamp) -> None:
        """Check that every deletion that the marker covers has its tombstone by now."""
        for version, waiting in [*self._waiting.items()]:
            for updated in [each for each in waiting.records if each <= resolved]:
                self._find_missing(waiting.records.pop(updated), updated, resolved)
            if not waiting.records:
                del self._waiting[version]
        self._memory.marker(resolved)

    def _settle(self, version: Version) -> Timestamp | None:
        """Remove the deletion that waited for this tombstone. Returns its timestamp, ``None`` if none did."""
        waiting = self._waiting.get(version)
        if waiting is None or waiting.records.pop(waiting.last, None) is None:
            return None
        if not waiting.records:
            del self._waiting[version]
        return waiting.last

    def _find_behind(self, record: TopicRecord, updated: Timestamp, highest: Timestamp) -> None:
        sentence = (
            f"{_at(record)} is the tombstone of key {key_text(record.key)} deleted at {updated}, not seen "
            f"before, after the same key updated at {highest}."
        )
        self._findings.at(ViolationKind.OUT_OF_ORDER, record, updated, sentence)

    def _find_stray(self, record: TopicRecord, deletion: str, fault: str) -> None:
        sentence = (
            f"{_at(record)} has no value, and {deletion} key {key_text(record.key)} at its record time, "
            f"{record.timestamp_ms} ms, {fault}."
        )
        self._findings.at(ViolationKind.STRAY_TOMBSTONE, record, None, sentence)

    def _find_missing(self, record: TopicRecord, updated: Timestamp, resolved: Timestamp) -> None:
        sentence = (
            f"{_at(record)} is the deletion of key {key_text(record.key)} at {updated}, and no tombstone "
            f"follows it before the marker at {resolved} that covers it."
        )
        self._findings.at(ViolationKind.MISSING_TOMBSTONE, record, updated, sentence)


def _record_time(record: TopicRecord) -> Timestamp:
    return Timestamp(record.timestamp_ms * NANOS_PER_MS)


def _headers_digest(record: TopicRecord) -> int:
    return hash(lasting_headers(record))


def _at(record: TopicRecord) -> str:
    return f"Offset {record.offset} of {record.topic}[{record.partition}]"
