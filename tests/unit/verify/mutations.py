"""Ways to break a correct stream by one change, each with the violations that must be found."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import NamedTuple

from tests.unit.verify.streams import Stream, marker, numbered, row
from tidegate.hlc import ZERO, Timestamp, parse_decimal
from tidegate.verify import TopicRecord, ViolationKind


class Mutant(NamedTuple):
    """A broken stream. One of ``kinds`` must be found on this partition, with this key."""

    records: list[TopicRecord]
    kinds: frozenset[ViolationKind]
    topic: str
    partition: int
    key: bytes | None


def updated_of(record: TopicRecord) -> Timestamp:
    """The timestamp of a generated row or marker."""
    assert record.value is not None
    return parse_decimal(record.value.decode().rpartition(': "')[2].rpartition(':"')[2].rstrip('"}'))


def _mutant(records: list[TopicRecord], at: TopicRecord, *kinds: ViolationKind) -> Mutant:
    return Mutant(numbered(records), frozenset(kinds), at.topic, at.partition, at.key)


def _place(record: TopicRecord) -> tuple[str, int]:
    return record.topic, record.partition


def _version(record: TopicRecord) -> tuple[str, bytes | None, bytes | None]:
    return record.topic, record.key, record.value


def _single_rows(records: list[TopicRecord]) -> Iterator[int]:
    """Indexes of rows that stand in the stream once only."""
    copies = Counter(_version(record) for record in records)
    return (i for i, record in enumerate(records) if record.key is not None and copies[_version(record)] == 1)


def drop_a_row(stream: Stream) -> Iterator[Mutant]:
    """A row is lost."""
    for i in _single_rows(stream.records):
        records = stream.records[:i] + stream.records[i + 1 :]
        yield _mutant(records, stream.records[i], ViolationKind.MISSING_ROW)


def repeat_with_other_bytes(stream: Stream) -> Iterator[Mutant]:
    """A row is repeated with another value, record time or header."""
    for record in stream.records:
        if record.key is not None and record.value is not None:
            for changed in (
                record._replace(value=record.value.replace(b'"v"', b'"w"')),
                record._replace(timestamp_ms=record.timestamp_ms + 1),
                record._replace(headers=[("trace", b"1")]),
            ):
                yield _mutant([*stream.records, changed], record, ViolationKind.CHANGED_DUPLICATE)


def swap_two_versions(stream: Stream) -> Iterator[Mutant]:
    """Two versions of a key change places."""
    records = stream.records
    rows = list(_single_rows(records))
    for n, i in enumerate(rows):
        for j in rows[n + 1 :]:
            if _place(records[i]) == _place(records[j]) and records[i].key == records[j].key:
                swapped = list(records)
                swapped[i], swapped[j] = records[j], records[i]
                yield _mutant(swapped, records[i], ViolationKind.OUT_OF_ORDER)


def delay_a_row(stream: Stream) -> Iterator[Mutant]:
    """A row moves after the marker that covers it."""
    records = stream.records
    for i in _single_rows(records):
        j = _first_marker_over(records, i)
        if j is not None:
            moved = [*records[:i], *records[i + 1 : j + 1], records[i], *records[j + 1 :]]
            yield _mutant(moved, records[i], ViolationKind.LATE_ROW)


def _first_marker_over(records: list[TopicRecord], i: int) -> int | None:
    """The index of the first marker on the partition of row ``i`` that covers it."""
    place, updated = _place(records[i]), updated_of(records[i])
    for j in range(i + 1, len(records)):
        if records[j].key is None and _place(records[j]) == place and updated_of(records[j]) >= updated:
            return j
    return None


def _single_markers(records: list[TopicRecord]) -> list[int]:
    """Indexes of markers that were not repeated on their partition."""
    marks = Counter((_place(record), record.value) for record in records)
    return [
        i
        for i, record in enumerate(records)
        if record.key is None and marks[_place(record), record.value] == 1
    ]


def _with_marker(stream: Stream, i: int, resolved: Timestamp, *kinds: ViolationKind) -> Mutant:
    record = stream.records[i]
    moved = marker(resolved, record.topic, record.partition)
    return _mutant([*stream.records[:i], moved, *stream.records[i + 1 :]], record, *kinds)


def raise_a_marker(stream: Stream) -> Iterator[Mutant]:
    """A marker promises more than it may: its partition lacks the true one."""
    for i in _single_markers(stream.records):
        resolved = updated_of(stream.records[i])
        yield _with_marker(stream, i, resolved.next(), ViolationKind.MARKER_MISSING)


def lower_a_marker(stream: Stream) -> Iterator[Mutant]:
    """A marker promises less than it may: another value than its other partitions have."""
    newest = max(updated_of(record) for record in stream.records if record.key is None)
    for i in _single_markers(stream.records):
        resolved = updated_of(stream.records[i])
        if resolved < newest:
            yield _with_marker(stream, i, resolved.prev(), ViolationKind.MARKER_MISSING)


def zero_a_marker(stream: Stream) -> Iterator[Mutant]:
    """A marker at zero."""
    for i in _single_markers(stream.records):
        yield _with_marker(stream, i, ZERO, ViolationKind.MARKER_ZERO)


def drop_a_marker(stream: Stream) -> Iterator[Mutant]:
    """A marker other than the newest is lost on one partition."""
    newest = max(updated_of(record) for record in stream.records if record.key is None)
    for i in _single_markers(stream.records):
        record = stream.records[i]
        if updated_of(record) < newest:
            records = stream.records[:i] + stream.records[i + 1 :]
            yield _mutant(records, record, ViolationKind.MARKER_MISSING)


def repeat_an_older_marker(stream: Stream) -> Iterator[Mutant]:
    """A marker comes again after a higher one."""
    newest = max(updated_of(record) for record in stream.records if record.key is None)
    for record in stream.records:
        if record.key is None and updated_of(record) < newest:
            yield _mutant([*stream.records, record], record, ViolationKind.MARKER_FELL)


def invent_a_row(stream: Stream) -> Iterator[Mutant]:
    """A row that nobody committed: of a new key, or a new version of a known one."""
    above = max(version.timestamp for version in stream.history).next().next()
    for topic, count in stream.topics.items():
        for key in (0, 77):
            invented = row(key, above, topic, count)
            yield _mutant([*stream.records, invented], invented, ViolationKind.INVENTED_ROW)


def change_a_value(stream: Stream) -> Iterator[Mutant]:
    """A row, and all its copies, hold what nobody committed."""
    for version in stream.history:
        wrong = [
            record._replace(value=b'{"after": null, "updated": "%s"}' % version.timestamp.decimal().encode())
            if (record.topic, record.key, record.value) == (version.topic, version.key, version.value)
            else record
            for record in stream.records
        ]
        at = next(new for old, new in zip(stream.records, wrong, strict=True) if old is not new)
        yield _mutant(wrong, at, ViolationKind.WRONG_VALUE)


def shift_a_record_time(stream: Stream) -> Iterator[Mutant]:
    """A row with a record time that is not its timestamp's."""
    for i in _single_rows(stream.records):
        record = stream.records[i]
        shifted = record._replace(timestamp_ms=record.timestamp_ms + 1)
        records = [*stream.records[:i], shifted, *stream.records[i + 1 :]]
        yield _mutant(records, record, ViolationKind.WRONG_RECORD_TIME)


def move_to_another_partition(stream: Stream) -> Iterator[Mutant]:
    """A row on a partition where its key does not belong."""
    for i in _single_rows(stream.records):
        record = stream.records[i]
        count = stream.topics[record.topic]
        if count > 1:
            moved = record._replace(partition=(record.partition + 1) % count)
            records = [*stream.records[:i], moved, *stream.records[i + 1 :]]
            yield _mutant(records, moved, ViolationKind.WRONG_PARTITION)


def garble_a_value(stream: Stream) -> Iterator[Mutant]:
    """A value cut short."""
    for i, record in enumerate(stream.records):
        assert record.value is not None
        garbled = record._replace(value=record.value[:-1])
        records = [*stream.records[:i], garbled, *stream.records[i + 1 :]]
        yield _mutant(records, record, ViolationKind.UNREADABLE)


MUTATIONS: list[Callable[[Stream], Iterator[Mutant]]] = [
    drop_a_row,
    repeat_with_other_bytes,
    swap_two_versions,
    delay_a_row,
    raise_a_marker,
    lower_a_marker,
    zero_a_marker,
    drop_a_marker,
    repeat_an_older_marker,
    invent_a_row,
    change_a_value,
    shift_a_record_time,
    move_to_another_partition,
    garble_a_value,
]
