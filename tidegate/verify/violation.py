"""The ways in which an output topic can break its promises, each with a name."""

from __future__ import annotations

import enum
from collections import Counter
from typing import NamedTuple

from tidegate.hlc import Timestamp
from tidegate.verify.record import TopicPartition, TopicRecord


class ViolationKind(enum.Enum):
    """A rule of the output topics. The value says the rule in words."""

    UNREADABLE = "every record is a row or a marker"
    WRONG_PARTITION = "a key's partition is FNV-1a of its bytes, modulo the partition count"
    WRONG_RECORD_TIME = "a row's record time is the wall time of its timestamp, in milliseconds"
    OUT_OF_ORDER = "first-seen rows of a key come in the order of their timestamps"
    LATE_ROW = "no unseen row at or below a marker follows it on its partition"
    CHANGED_DUPLICATE = "a repeated row repeats every byte but its provenance headers"
    MARKER_ZERO = "a marker is above zero"
    MARKER_FELL = "markers of a partition never fall"
    MARKER_MISSING = "every partition has every marker but, at most, the newest"
    MARKER_AMONG_ROWS = "a feed with a resolved_topic writes its markers there and nowhere else"
    MARKER_WITHOUT_OFFSET = "a marker on a resolved_topic names its partition's end in every topic of rows"
    MARKER_BEYOND_END = "a marker on a resolved_topic names offsets that the topics have reached"
    STRAY_TOMBSTONE = "a tombstone follows a deletion of its key with its record time and headers"
    MISSING_TOMBSTONE = (
        "a deletion has its tombstone before the marker that covers it, where the feed writes them"
    )
    BELOW_START = "no row stands at or below the feed's start, but for those of its initial scan"
    AFTER_SCAN = "a feed with initial_scan='only' writes no row above its start"
    WRONG_SCAN_ROW = "a row of an initial scan is no deletion, and its version stands at or below the start"
    MISSING_ROW = "every committed version that a marker covers stands in its topic"
    INVENTED_ROW = "every row is a version that the source committed"
    WRONG_VALUE = "a row's value and headers are those of the version that the source committed"


class Violation(NamedTuple):
    """One broken rule, where it was broken, and a sentence that says how.

    ``offset`` is ``None`` if the fault is that a record is missing. ``key`` is ``None`` for markers.
    """

    kind: ViolationKind
    topic: str
    partition: int
    offset: int | None
    key: bytes | None
    timestamp: Timestamp | None
    sentence: str


class Findings:
    """The violations that were found. All are counted, and the first ``limit`` of them are kept."""

    __slots__ = ("_limit", "counts", "kept")

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self.kept: list[Violation] = []
        self.counts: Counter[ViolationKind] = Counter()

    def at(
        self, kind: ViolationKind, record: TopicRecord, timestamp: Timestamp | None, sentence: str
    ) -> None:
        """Add a violation that one record shows."""
        self._add(
            Violation(kind, record.topic, record.partition, record.offset, record.key, timestamp, sentence)
        )

    def absent(
        self,
        kind: ViolationKind,
        place: TopicPartition,
        key: bytes | None,
        timestamp: Timestamp,
        sentence: str,
    ) -> None:
        """Add a violation: a record is missing in a partition."""
        self._add(Violation(kind, place.topic, place.partition, None, key, timestamp, sentence))

    def _add(self, violation: Violation) -> None:
        self.counts[violation.kind] += 1
        if len(self.kept) < self._limit:
            self.kept.append(violation)


def key_text(key: bytes | None) -> str:
    """Return a key as people can read it: its text, or hexadecimal if it is not UTF-8."""
    if key is None:
        return "null"
    try:
        return key.decode()
    except UnicodeDecodeError:
        return f"0x{key.hex()}"
