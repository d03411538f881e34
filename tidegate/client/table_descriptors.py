"""Reads the table descriptors of a log, from one partition, since each partition has all of them."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, TypeAlias

from tidegate.client.kafka.cluster import Cluster
from tidegate.client.kafka.connection import KafkaConnection
from tidegate.client.kafka.reader import PartitionReader
from tidegate.errors import DescriptorConflict, EncodingError, MalformedEntry
from tidegate.processor.containment import unforeseen
from tidegate.raftlog.decode import decode_entry
from tidegate.raftlog.encode import encode_key
from tidegate.raftlog.entry import BROADCAST, DescriptorUpdate
from tidegate.rows import Catalog, decode_descriptor
from tidegate.rows.descriptor import TableDescriptor
from tidegate.verify import TopicPartition, TopicRecord

_log: Final = logging.getLogger("tidegate.catalog")
_BROADCAST_KEY: Final = encode_key(BROADCAST)
#: The versions of each table, by table id, the newest one last.
TableVersions: TypeAlias = Mapping[int, Sequence[TableDescriptor]]


class LogDescriptors:
    """The descriptors of a log, for a process that asks for them again and again.

    Each look reads the records after those of the look before. A log is read from its beginning again if it
    was deleted and made anew (it has another topic id), or if it ends before the last position. Descriptors
    that retention has removed since an earlier look stay known. One thread at a time may look.
    """

    def __init__(self, connection: KafkaConnection, log_topic: str) -> None:
        self._connection = connection
        self._place = TopicPartition(log_topic, 0)
        self._topic_id = ""
        self._position = 0
        self._catalog = Catalog()
        self._versions: TableVersions = {}

    def look(self) -> TableVersions:
        """Return the versions of each table that the log describes now. Later looks do not change this
        result.

        Raises ``InputError`` when the log does not exist, ``BrokerUnavailable`` when Kafka does not answer.
        After an error the next look goes on after the last record that came.
        """
        cluster = Cluster(self._connection)
        cluster.partition_counts([self._place.topic])
        topic_id = cluster.topic_id(self._place.topic)
        low, end = cluster.bounds([self._place])[self._place]
        if topic_id != self._topic_id or end < self._position:
            self._topic_id, self._position = topic_id, 0
            self._catalog, self._versions = Catalog(), {}
        start = max(self._position, low)
        learnt = False
        try:
            for record in _records(self._connection, self._place, start, end):
                learnt |= _learn(self._catalog, record)
                self._position = record.offset + 1
            self._position = end
        finally:
            if learnt:
                self._versions = _by_table(self._catalog)
        return self._versions


def read_catalog(connection: KafkaConnection, log_topic: str) -> Catalog:
    """Return every table descriptor of the log. Raises as ``LogDescriptors.look`` does."""
    place = TopicPartition(log_topic, 0)
    cluster = Cluster(connection)
    cluster.partition_counts([log_topic])
    low, end = cluster.bounds([place])[place]
    catalog = Catalog()
    for record in _records(connection, place, low, end):
        _learn(catalog, record)
    return catalog


def versions_in_log(connection: KafkaConnection, log_topic: str) -> TableVersions:
    """Return the versions of each table that the log describes. Raises as ``LogDescriptors.look`` does."""
    return _by_table(read_catalog(connection, log_topic))


def _records(
    connection: KafkaConnection, place: TopicPartition, start: int, end: int
) -> Iterator[TopicRecord]:
    if start < end:
        with PartitionReader(connection, {place: start}) as reader:
            yield from reader.read_to({place: end})


def _by_table(catalog: Catalog) -> TableVersions:
    found: defaultdict[int, list[TableDescriptor]] = defaultdict(list)
    for descriptor in catalog.descriptors():
        found[descriptor.id].append(descriptor)
    return {table: sorted(versions, key=lambda each: each.version) for table, versions in found.items()}


def _learn(catalog: Catalog, record: TopicRecord) -> bool:
    """Add the descriptor of a record, if it has one; return whether it is new."""
    if record.key != _BROADCAST_KEY:
        return False
    try:
        return _take_descriptor(catalog, record.key, record.value)
    except Exception as error:
        cause = unforeseen(error)
        _log.error(
            "%s[%d] at offset %d is passed over: %s", record.topic, record.partition, record.offset, cause
        )
        return False


def _take_descriptor(catalog: Catalog, key: bytes, value: bytes | None) -> bool:
    try:
        entry = decode_entry(key, value)
    except MalformedEntry:
        return False  # nothing can be learnt from it, and workers treat it as a hole
    if not isinstance(entry, DescriptorUpdate):
        return False
    try:
        return catalog.add(decode_descriptor(entry.descriptor))
    except (DescriptorConflict, EncodingError):
        return False  # the first one that can be read counts, as for workers
