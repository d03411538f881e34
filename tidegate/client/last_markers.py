"""Finds the last marker in each partition of a feed's topics, from their ends backwards.

A copied partition has everything up to the last marker that was copied with it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from tidegate.changefeed.encoding.record import MarkerRecord, RecordDecoder
from tidegate.client.kafka.cluster import Bounds, partitions_of
from tidegate.client.kafka.watched_cluster import WatchedCluster
from tidegate.errors import InputError, MalformedRecord
from tidegate.hlc import ResolvedTimestamp, Timestamp
from tidegate.verify import TopicPartition, TopicRecord

_FIRST_LOOK: Final = 1_000  # records before the end; each further look takes ``_MORE`` times as many
_MORE: Final = 8
#: The most records of one partition that are looked through. A feed writes a marker every few seconds.
_LOOK_MAX: Final = 4_000_000


def last_markers(
    cluster: WatchedCluster, topics: Iterable[str], decoder: RecordDecoder
) -> dict[TopicPartition, Timestamp | None]:
    """Return the last marker in each partition of the topics that exist; ``None`` if there is none.

    The result counts only if a later call of ``WatchedCluster.require_same`` returns. Raises ``InputError``
    for a record that the feed cannot have written, ``BrokerUnavailable`` when Kafka does not answer.
    """
    bounds = cluster.bounds(partitions_of(cluster.partition_counts(topics)))
    found: dict[TopicPartition, Timestamp | None] = dict.fromkeys(bounds)
    look = _FIRST_LOOK
    windows = {place: _window(each, each.end, look) for place, each in bounds.items()}
    while windows := {place: window for place, window in windows.items() if window.low < window.end}:
        found |= _highest(cluster, windows, decoder)
        look *= _MORE
        windows = {
            place: _window(bounds[place], window.low, look)
            for place, window in windows.items()
            if found[place] is None and bounds[place].end - window.low < _LOOK_MAX
        }
    return found


def _window(bounds: Bounds, end: int, records: int) -> Bounds:
    """Return at most ``records`` offsets below ``end``, not below the partition's beginning."""
    return Bounds(max(bounds.low, end - records), end)


def _highest(
    cluster: WatchedCluster, windows: Mapping[TopicPartition, Bounds], decoder: RecordDecoder
) -> dict[TopicPartition, ResolvedTimestamp]:
    """Return the highest marker within each window that has one.

    A copied partition may have records twice, so its last marker may not be its highest.
    """
    found: dict[TopicPartition, ResolvedTimestamp] = {}
    for record in cluster.read(windows):
        if record.key is None:
            place = TopicPartition(record.topic, record.partition)
            resolved = _resolved(record, decoder)
            found[place] = max(resolved, found.get(place, resolved))
    return found


def _resolved(record: TopicRecord, decoder: RecordDecoder) -> ResolvedTimestamp:
    """Return the timestamp of a record without a key, which has to be a marker."""
    place = f"{record.topic}[{record.partition}] offset {record.offset}"
    try:
        decoded = decoder.decode(record.key, record.value)
    except MalformedRecord as error:
        raise InputError(f"{place} holds what the feed cannot have written: {error}") from None
    if not isinstance(decoded, MarkerRecord):
        raise InputError(
            f"{place} holds a record without a key that is no marker: another program writes to this topic"
        )
    return ResolvedTimestamp(decoded.resolved)
