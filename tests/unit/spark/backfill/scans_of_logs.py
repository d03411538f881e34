"""Scans of logs without Spark: what a survey finds, and the rows that tasks make of versions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, Final, Protocol

import pyarrow as pa

from tests.destinations import DESTINATIONS
from tests.feeds import WITH_MARKERS, activation
from tests.logs import Record
from tidegate.changefeed.definition.feed import FeedId
from tidegate.changefeed.definition.options import FeedOptions, InitialScan
from tidegate.changefeed.lifecycle.control import KnownTable
from tidegate.client.kafka.connection import KafkaConnection
from tidegate.hlc import ZERO, Timestamp
from tidegate.processor.batch import OutputRecord
from tidegate.processor.catchup.committed import scanned_version
from tidegate.processor.reference import ReferenceEngine
from tidegate.raftlog.decode import decode_entry
from tidegate.raftlog.encode import encode_key
from tidegate.raftlog.entry import BROADCAST, DescriptorUpdate, KeyValue, RangeId
from tidegate.rows import TableDescriptor
from tidegate.spark.backfill.newest_rows import ScanAt, ScannedRows, find_versions, rows_by
from tidegate.spark.backfill.one_feed import watching

SCAN: Final = replace(WITH_MARKERS, initial_scan=InitialScan.YES)
_BATCH: Final = 50


class AnyLog(Protocol):
    """A log by partition, and its tables."""

    @property
    def partitions(self) -> Sequence[Sequence[Record]]: ...
    @property
    def tables(self) -> Sequence[TableDescriptor]: ...


def complete_to(log: AnyLog, partitions: Any, base: Timestamp = ZERO) -> Timestamp:
    """Return how far a survey of these partitions comes that begins at ``base``."""
    feed = activation(log.tables, replace(SCAN, resolved_interval_ns=None))
    tables = [KnownTable(target.table, target.table_id) for target in feed.targets]
    watched = watching(feed.definition, tables, rows_by(descriptors_of(log)), base)
    engine = ReferenceEngine(len(partitions), [watched])
    for number, records in enumerate(partitions):
        for first in range(0, len(records), _BATCH):
            engine.step(number, records[first : first + _BATCH])
    assert not engine.output, "a survey writes nothing"
    return engine.high_water(FeedId("feed"))


def scan_of(log: AnyLog, options: FeedOptions, start: Timestamp) -> ScanAt:
    feed = activation(log.tables, options, start=start)
    descriptors = tuple(descriptors_of(log))
    connection = KafkaConnection(destinations=DESTINATIONS)
    return ScanAt(connection, feed.definition, feed.targets, start, descriptors, len(log.partitions))


def descriptors_of(log: AnyLog) -> set[DescriptorUpdate]:
    """Return the descriptors that the log has broadcast."""
    return {
        entry
        for records in log.partitions
        for record in records
        if record.key == encode_key(BROADCAST)
        and isinstance(entry := decode_entry(record.key, record.value), DescriptorUpdate)
    }


def rows_of_scan(scan: ScanAt, log: AnyLog) -> list[OutputRecord]:
    """Return what the tasks do, and Spark between them."""
    newest: dict[bytes, tuple[int, int, bytes]] = {}
    for key, *version in _found(scan, log.partitions):
        newest[key] = max(newest.get(key, (0, 0, b"")), tuple(version))
    versions = [
        scanned_version(RangeId(0), KeyValue(key, Timestamp(wall, logical), value))
        for key, (wall, logical, value) in newest.items()
        if value
    ]
    return ScannedRows(scan).of(versions)


def faults_of_scan(scan: ScanAt, log: AnyLog) -> list[str]:
    """Return why there can be none, of what Spark leaves of each key."""
    newest: dict[bytes, tuple[int, str]] = {}
    for number, records in enumerate(log.partitions):
        for found in find_versions(scan, [batch_of(number, records)]):
            columns = (found[name].to_pylist() for name in ("key", "wall", "fault"))
            for key, wall, fault in zip(*columns, strict=True):
                newest[key] = max(newest.get(key, (0, "")), (wall, fault or ""))
    return [fault for _, fault in newest.values() if fault]


def _found(scan: ScanAt, partitions: Any) -> Iterator[Any]:
    for number, records in enumerate(partitions):
        for found in find_versions(scan, [batch_of(number, records)]):
            names = ("key", "wall", "logical", "value")
            yield from zip(*(found[name].to_pylist() for name in names), strict=True)


def batch_of(number: int, records: Any) -> pa.RecordBatch:
    columns = {
        "partition": pa.array([number] * len(records), pa.int32()),
        "offset": pa.array([record.offset for record in records], pa.int64()),
        "key": pa.array([record.key for record in records], pa.binary()),
        "value": pa.array([record.value for record in records], pa.binary()),
    }
    return pa.record_batch(columns)
