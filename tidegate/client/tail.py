"""Yields rows and markers of output topics as they come."""

from __future__ import annotations

import enum
import json
from collections.abc import Callable, Collection, Generator, Iterable, Mapping
from contextlib import suppress
from typing import Any, Final

from tidegate.changefeed.encoding.record import MarkerRecord, RecordDecoder, RowRecord
from tidegate.client.kafka.cluster import Bounds, Cluster, partitions_of
from tidegate.client.kafka.connection import KafkaConnection
from tidegate.client.kafka.reader import PartitionReader
from tidegate.client.shown_text import shown_text
from tidegate.errors import BrokerUnavailable, InputError, MalformedRecord
from tidegate.processor.containment import unforeseen_in
from tidegate.verify import TopicPartition, TopicRecord

#: The first byte of a key with a schema. No JSON text begins with it.
_FRAMED: Final = b"\x00"


class TailFrom(enum.Enum):
    """A place to begin: the beginning or the end of the topics."""

    BEGINNING = "beginning"
    END = "end"


def _never() -> bool:
    return False


def tail_topics(
    connection: KafkaConnection,
    topics: Iterable[str],
    begin: TailFrom,
    *,
    follow: bool,
    ended: Callable[[], bool] = _never,
) -> Generator[TopicRecord, None, None]:
    """Yield the records of topics.

    Without ``follow`` it stops at the offsets at which the topics ended when it was called. With ``follow``
    it goes on until ``ended`` returns true, which it asks several times a second. Then it reads up to the
    offsets at which the topics end at that time, and leaves out topics that were deleted by then.

    Records of different partitions interleave as they arrive. The ends of the topics are asked for in the
    call itself, not when the first record is taken. So with ``END`` every record that is written after the
    call has returned is read.

    Raises ``InputError`` for a topic that does not exist at the call, ``BrokerUnavailable`` when Kafka does
    not answer. While it follows topics, it waits for Kafka if that goes away.
    """
    cluster = Cluster(connection)
    bounds = cluster.bounds(partitions_of(cluster.partition_counts(topics)))
    at_end = begin is TailFrom.END
    starts = {place: each.end if at_end else each.low for place, each in bounds.items()}
    if not follow:
        return _read_to_ends(connection, starts, bounds)
    return _read_until(connection, cluster, starts, ended)


def _read_until(
    connection: KafkaConnection,
    cluster: Cluster,
    starts: Mapping[TopicPartition, int],
    ended: Callable[[], bool],
) -> Generator[TopicRecord, None, None]:
    nexts = yield from _follow(connection, starts, ended)
    bounds = _bounds_left(cluster, nexts)
    while True:
        try:
            # A new reader: one that has seen an end does not know of records after it.
            for record in _read_to_ends(connection, nexts, bounds):
                nexts[TopicPartition(record.topic, record.partition)] = record.offset + 1
                yield record
        except (InputError, BrokerUnavailable):
            left = _existing(cluster, bounds)
            if left.keys() == bounds.keys():
                raise
            bounds = left  # a topic was deleted just now: no broker answers for it any more
        else:
            return


def _existing(cluster: Cluster, bounds: Mapping[TopicPartition, Bounds]) -> dict[TopicPartition, Bounds]:
    """Return the bounds of the topics that still exist."""
    topics = frozenset(cluster.existing(place.topic for place in bounds))
    return {place: each for place, each in bounds.items() if place.topic in topics}


def _read_to_ends(
    connection: KafkaConnection,
    starts: Mapping[TopicPartition, int],
    bounds: Mapping[TopicPartition, Bounds],
) -> Generator[TopicRecord, None, None]:
    ends = {place: each.end for place, each in bounds.items() if starts[place] < each.end}
    with PartitionReader(connection, {place: starts[place] for place in ends}) as reader:
        yield from reader.read_to(ends)


def _follow(
    connection: KafkaConnection, starts: Mapping[TopicPartition, int], ended: Callable[[], bool]
) -> Generator[TopicRecord, None, dict[TopicPartition, int]]:
    """Yield records as they come until ``ended`` returns true; return the next offset of each partition."""
    nexts = dict(starts)
    with PartitionReader(connection, starts) as reader:
        while not ended():
            for record in reader.poll():
                nexts[TopicPartition(record.topic, record.partition)] = record.offset + 1
                yield record
    return nexts


def _bounds_left(cluster: Cluster, places: Collection[TopicPartition]) -> dict[TopicPartition, Bounds]:
    """Return the bounds of the partitions that still exist: a user who drops a feed may delete its topics
    at once.
    """
    bounds: dict[TopicPartition, Bounds] = {}
    for topic in cluster.existing(place.topic for place in places):
        with suppress(InputError):  # the topic was deleted just now
            bounds |= cluster.bounds(place for place in places if place.topic == topic)
    return bounds


def line_of(record: TopicRecord, decoder: RecordDecoder) -> str:
    """Return one line of text for a record: its topic, partition and offset, and its content.

    A record that the feed cannot have written is shown as its bytes. Control characters are shown as
    ``shown_text`` does.
    """
    return shown_text(_line_of(record, decoder))


def _line_of(record: TopicRecord, decoder: RecordDecoder) -> str:
    place = f"{record.topic}[{record.partition}]@{record.offset}"
    try:
        decoded = decoder.decode(record.key, record.value, record.headers)
    except MalformedRecord as error:
        told = unforeseen_in(error)
        cause = "" if told is None else f" ({told})"
        return f"{place} unreadable{cause}: key {record.key!r} value {record.value!r}"
    if isinstance(decoded, MarkerRecord):
        below = ", ".join(f"{topic} below {offset}" for topic, offset in decoded.offsets.items())
        return f"{place} resolved {decoded.resolved}{below and f': {below}'}"
    framed = (record.key or b"").startswith(_FRAMED)
    key = _json(decoded.key) if framed else _text(record.key)
    if decoded.oversize_bytes:
        return f"{place} {key} -> {_left_out(decoded)}"
    return f"{place} {key} -> {_framed_value(decoded) if framed else _text(record.value)}"


def _text(data: bytes | None) -> str:
    return "null" if data is None else data.decode("utf-8", "backslashreplace")


def _left_out(row: RowRecord) -> str:
    what = "deletion" if row.deleted else "row"
    return f"left out: a {what} of {row.oversize_bytes} bytes, version {row.mvcc_timestamp}"


def _framed_value(row: RowRecord) -> str:
    """Return an Avro value of any envelope in the form of the wrapped envelope's JSON."""
    if row.tombstone:
        return "null"
    if row.deleted is None and row.row is None:
        return ""
    members: dict[str, Any] = {"after": row.row}
    if row.previous is not None:
        members["before"] = row.previous
    for name, timestamp in (("mvcc_timestamp", row.mvcc_timestamp), ("updated", row.updated)):
        if timestamp is not None:
            members[name] = timestamp.decimal()
    return _json(members)


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=_other_text)


def _other_text(value: object) -> str:
    """Return a text for a value without a JSON form: bytes as CockroachDB prints them, others as Python
    does.
    """
    return f"\\x{value.hex()}" if isinstance(value, bytes) else str(value)
