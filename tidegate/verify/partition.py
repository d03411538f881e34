"""Checks the rules of one output partition, record by record in offset order."""

from __future__ import annotations

from dataclasses import dataclass

from tidegate.changefeed.encoding.partition import partition_of
from tidegate.changefeed.encoding.record import RowRecord
from tidegate.errors import InputError
from tidegate.hlc import ZERO, Timestamp
from tidegate.verify.history import ExpectedRows, VersionId
from tidegate.verify.memory import VersionMemory
from tidegate.verify.record import TopicPartition, TopicRecord, lasting_headers
from tidegate.verify.start_rules import StartRules
from tidegate.verify.tombstones import Tombstones
from tidegate.verify.violation import Findings, ViolationKind, key_text


@dataclass(slots=True)
class PartitionCounts:
    """The counts of one partition's audit. ``AuditCounts`` says what each field counts.

    ``unclear`` counts the records whose feed is not known.
    """

    rows: int = 0
    duplicates: int = 0
    undecided: int = 0
    untimed: int = 0
    tombstones: int = 0
    left_out: int = 0
    markers: int = 0
    unclear: int = 0


class PartitionAudit:
    """The audit of one partition, by the rules that concern it alone.

    ``marker`` is the partition's highest marker so far. ``tombstones`` is given if the feed writes them.
    Without ``row_keys`` a record's key does not say which row it is, so neither order nor repeats can be
    checked.
    """

    __slots__ = (
        *("_count", "_expected", "_findings", "_next", "_row_keys", "_start_rules", "_tombstones"),
        *("counts", "marker", "memory", "place"),
    )

    def __init__(
        self,
        place: TopicPartition,
        partition_count: int,
        memory: VersionMemory,
        findings: Findings,
        start_rules: StartRules,
        expected: ExpectedRows | None = None,
        tombstones: Tombstones | None = None,
        *,
        row_keys: bool = True,
    ) -> None:
        self.place = place
        self.memory = memory
        self.counts = PartitionCounts()
        self.marker = ZERO
        self._count = partition_count
        self._findings = findings
        self._expected = expected
        self._start_rules = start_rules
        self._tombstones = tombstones
        self._row_keys = row_keys
        self._next = 0

    def advance(self, record: TopicRecord) -> None:
        """Note a record's offset. Raises ``InputError`` if it does not come in offset order."""
        if record.offset < self._next:
            raise InputError(
                f"Records of {self.place} must be audited in offset order, but offset {record.offset}"
                f" came after {self._next - 1}."
            )
        self._next = record.offset + 1

    def take_row(self, record: TopicRecord, key: bytes, row: RowRecord) -> None:
        """Check one row or tombstone."""
        if not self.memory.knows_key(key):
            self.memory.meet(key)
            self._check_partition(record, key)
        if row.tombstone:
            self._take_tombstone(record, key)
            return
        self.counts.rows += 1
        self.counts.left_out += row.oversize_bytes > 0
        updated = self._start_rules.told(row)
        if updated is None:
            self.counts.untimed += 1
            if self._start_rules.keeps_untimed(record, row) and self._expected is not None:
                self._check_untimed(self._expected, record, key)
            return
        if self._start_rules.keeps(record, row, updated) and self._expected is not None:
            self._check_expected(self._expected, record, key, updated)
        if self._row_keys:
            self._take_version(record, key, updated, deleted=row.deleted is True)

    def take_unclear_row(self, record: TopicRecord, key: bytes) -> None:
        """Take a row that tells no timestamp and may be another feed's: it breaks no rule.

        It counts as the versions that it may be, so that these are not reported as missing.
        """
        self.counts.rows += 1
        self.counts.untimed += 1
        self.counts.unclear += 1
        if self._expected is not None:
            _confirm_untimed(self._expected, record, key)

    def _take_version(self, record: TopicRecord, key: bytes, updated: Timestamp, *, deleted: bool) -> None:
        """Check the rules that need to know whether the version was seen before."""
        digest = row_digest(record)
        known = self.memory.digest((key, updated))
        if known is not None:
            self._take_duplicate(record, updated, same=known == digest)
            if deleted and self._tombstones is not None:
                self._tombstones.take_copy(record, key, updated)
            return
        self._check_first_seen(record, key, updated)
        self.memory.remember((key, updated), digest)
        if deleted and self._tombstones is not None:
            self._tombstones.take_deletion(record, key, updated)

    def _take_tombstone(self, record: TopicRecord, key: bytes) -> None:
        self.counts.tombstones += 1
        if self._row_keys and self._tombstones is not None:
            highest = self.memory.highest(key)
            self.counts.undecided += not self._tombstones.take_tombstone(record, key, highest)

    def take_marker(self, record: TopicRecord, resolved: Timestamp) -> bool:
        """Check one marker. Returns whether it is above all earlier ones."""
        self.counts.markers += 1
        if resolved.wall == 0:
            sentence = f"{_at(record)} is a marker at zero: it promises nothing and resets its readers."
            self._findings.at(ViolationKind.MARKER_ZERO, record, resolved, sentence)
            return False
        if resolved < self.marker:
            sentence = f"{_at(record)} is a marker at {resolved}, but one at {self.marker} came before it."
            self._findings.at(ViolationKind.MARKER_FELL, record, resolved, sentence)
        return self.pass_marker(resolved)

    def pass_marker(self, resolved: Timestamp) -> bool:
        """Note a marker of this partition, even one that stands on a ``resolved_topic``. From here on rows
        that were not seen before have to be above it.

        Returns whether it is above all earlier markers.
        """
        if resolved <= self.marker:
            return False
        self.marker = resolved
        self.memory.marker(resolved)
        if self._tombstones is not None:
            self._tombstones.pass_marker(resolved)
        return True

    def _check_partition(self, record: TopicRecord, key: bytes) -> None:
        home = partition_of(key, self._count)
        if home != record.partition:
            sentence = f"{_at(record)} holds key {key_text(key)}, which belongs on partition {home}."
            self._findings.at(ViolationKind.WRONG_PARTITION, record, None, sentence)

    def _check_expected(
        self, expected: ExpectedRows, record: TopicRecord, key: bytes, updated: Timestamp
    ) -> None:
        version = VersionId(record.topic, key, updated)
        confirmed = expected.confirm(version, record.value, lasting_headers(record))
        self._take_confirmation(record, f"key {key_text(key)} updated at {updated}", updated, confirmed)
        scanned_ms = expected.scanned_ms(version)
        if scanned_ms is not None and scanned_ms != record.timestamp_ms:
            sentence = (
                f"{_at(record)} holds key {key_text(key)} of the initial scan at {updated}, committed at "
                f"{scanned_ms} ms; its record time is {record.timestamp_ms} ms."
            )
            self._findings.at(ViolationKind.WRONG_RECORD_TIME, record, updated, sentence)

    def _check_untimed(self, expected: ExpectedRows, record: TopicRecord, key: bytes) -> None:
        confirmed = _confirm_untimed(expected, record, key)
        what = f"key {key_text(key)} at record time {record.timestamp_ms} ms"
        self._take_confirmation(record, what, None, confirmed)

    def _take_confirmation(
        self, record: TopicRecord, what: str, updated: Timestamp | None, confirmed: bool | None
    ) -> None:
        if confirmed is None:
            sentence = f"{_at(record)} holds {what}, which was never committed."
            self._findings.at(ViolationKind.INVENTED_ROW, record, updated, sentence)
        elif not confirmed:
            sentence = f"{_at(record)} holds {what} with a value or headers never committed."
            self._findings.at(ViolationKind.WRONG_VALUE, record, updated, sentence)

    def _take_duplicate(self, record: TopicRecord, updated: Timestamp, *, same: bool) -> None:
        self.counts.duplicates += 1
        if not same:
            sentence = (
                f"{_at(record)} repeats key {key_text(record.key)} updated at {updated} with another value,"
                " record time or header than before."
            )
            self._findings.at(ViolationKind.CHANGED_DUPLICATE, record, updated, sentence)

    def _check_first_seen(self, record: TopicRecord, key: bytes, updated: Timestamp) -> None:
        """Check the rules of order, which hold for rows that were not seen before."""
        highest = self.memory.highest(key)
        if updated > self.marker and updated > highest:
            return
        if updated <= self.memory.forgotten:
            self.counts.undecided += 1
            return
        if updated <= self.marker:
            sentence = (
                f"{_at(record)} holds key {key_text(key)} updated at {updated}, not seen before, after the"
                f" marker at {self.marker} that covers it."
            )
            self._findings.at(ViolationKind.LATE_ROW, record, updated, sentence)
        if updated < highest:
            sentence = (
                f"{_at(record)} holds key {key_text(key)} updated at {updated}, not seen before, after the"
                f" same key updated at {highest}."
            )
            self._findings.at(ViolationKind.OUT_OF_ORDER, record, updated, sentence)


def _confirm_untimed(expected: ExpectedRows, record: TopicRecord, key: bytes) -> bool | None:
    """Note a row that tells no timestamp. Returns what ``ExpectedRows.confirm_untimed`` does."""
    return expected.confirm_untimed(
        record.topic, key, record.timestamp_ms, record.value, lasting_headers(record)
    )


def row_digest(record: TopicRecord) -> int:
    """Return a digest of everything in which copies of a row must agree.

    It is good within one process only.
    """
    return hash((record.value, record.timestamp_ms, lasting_headers(record)))


def _at(record: TopicRecord) -> str:
    return f"Offset {record.offset} of {record.topic}[{record.partition}]"
