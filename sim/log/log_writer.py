"""Encodes entries to records, and puts each on the partition that the contract names."""

from __future__ import annotations

from typing import TypeAlias

from sim.log.sink import LogSink
from tidegate.raftlog.encode import encode_entry, encode_key, partition_of
from tidegate.raftlog.entry import (
    BROADCAST,
    Command,
    DescriptorUpdate,
    Heartbeat,
    RangeEnd,
    ScanChunk,
    Snapshot,
)

RangeEntry: TypeAlias = Command | Heartbeat | Snapshot | RangeEnd | ScanChunk

_BROADCAST_KEY = encode_key(BROADCAST)


class LogWriter:
    """Writes entries to a sink, and counts records and bytes."""

    def __init__(self, sink: LogSink, partitions: int) -> None:
        self._sink = sink
        self._partitions = partitions
        self.records = 0
        self.bytes = 0

    def append(self, entry: RangeEntry, record_time_ms: int) -> None:
        """Write an entry of a range to the range's partition."""
        partition = partition_of(entry.range_id, self._partitions)
        self._put(partition, encode_key(entry.range_id), encode_entry(entry), record_time_ms)

    def broadcast(self, update: DescriptorUpdate, record_time_ms: int) -> None:
        """Write a descriptor version to every partition."""
        value = encode_entry(update)
        for partition in range(self._partitions):
            self._put(partition, _BROADCAST_KEY, value, record_time_ms)

    def _put(self, partition: int, key: bytes, value: bytes, record_time_ms: int) -> None:
        self._sink.append(partition, key, value, record_time_ms)
        self.records += 1
        self.bytes += len(key) + len(value)
