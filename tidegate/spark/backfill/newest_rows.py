"""Finds in the log what a scan at the start would find: for each key its newest version up to then (F4).

The first tasks find versions in the log's records. Spark groups these versions by key. The second tasks
encode one row for each key and write it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Final, NoReturn, TypeAlias

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as sql

from tidegate.access.header_secrets import HeaderSecrets
from tidegate.access.secret_store import SecretStore
from tidegate.changefeed.definition.feed import FeedDefinition, FeedTarget
from tidegate.client.kafka.connection import KafkaConnection
from tidegate.delivery.sink_identity import held_backfill, uncertain
from tidegate.errors import (
    BrokerUnavailable,
    DescriptorConflict,
    EncodingError,
    FeedError,
    RetryError,
    SinkHeld,
    TidegateError,
)
from tidegate.hlc import ZERO, Timestamp
from tidegate.processor.batch import OutputRecord
from tidegate.processor.catchup.committed import scanned_version
from tidegate.processor.feeds.descriptor_room import UNLIMITED
from tidegate.processor.feeds.emitter import Destination, Emission, Emitter
from tidegate.processor.feeds.framing import frame, schemas_of
from tidegate.processor.feeds.keys_read import keys_read
from tidegate.processor.feeds.version_rows import PartitionRows
from tidegate.raftlog.entry import (
    Command,
    DescriptorUpdate,
    Entry,
    KeyValue,
    RaftIndex,
    RangeId,
    ScanChunk,
    Snapshot,
)
from tidegate.raftlog.shown_versions import deletions_shown, versions_shown
from tidegate.ranges.scan import fault_of
from tidegate.ranges.version import Version
from tidegate.rows import table_id_of
from tidegate.rows.table_key import watched_parts
from tidegate.spans import Span
from tidegate.spark.backfill.log_entries import readable
from tidegate.spark.backfill.scanned_keys import is_of_newest
from tidegate.spark.changefeed.query_sinks import sink_connection
from tidegate.spark.changefeed.row_producer import FeedRefused, RowProducer, SinkStalled
from tidegate.spark.changefeed.task.registry_ids import schema_ids
from tidegate.spark.platform.faults import fault_to_bytes, read_fault
from tidegate.spark.platform.python_worker import settle_process

#: A version in the order of the columns below, or a sentence that says why there can be no scan.
_Found: TypeAlias = tuple[bytes, int, int, bytes, int, str | None]
_FOUND: Final = "key binary, wall long, logical int, value binary, range_id long, fault string"
_FOUND_SCHEMA: Final = pa.schema(
    [
        ("key", pa.binary()),
        ("wall", pa.int64()),
        ("logical", pa.int32()),
        ("value", pa.binary()),
        ("range_id", pa.int64()),
        ("fault", pa.string()),
    ]
)
_ANSWER: Final = "rows long, fault binary"
_ANSWER_SCHEMA: Final = pa.schema([("rows", pa.int64()), ("fault", pa.binary())])


@dataclass(frozen=True, slots=True)
class ScanAt:
    """A feed's initial scan at ``start``. It travels to the tasks, with the secrets of ``connection`` in it.

    ``descriptors`` are all that the log holds, and the log has ``partitions`` partitions. The log is complete
    above ``base`` and up to ``start``. Scans that stand in the log tell what keys held at ``base``
    (`tidegate.spark.backfill.scanned_keys`). ``cluster`` is the stored id of the cluster that the feed writes
    to.
    """

    connection: KafkaConnection
    definition: FeedDefinition
    targets: tuple[FeedTarget, ...]
    start: Timestamp
    descriptors: tuple[DescriptorUpdate, ...]
    partitions: int
    base: Timestamp = ZERO
    cluster: str | None = None

    @property
    def table_ids(self) -> frozenset[int]:
        """The ids of the tables that are scanned."""
        return frozenset(target.table_id for target in self.targets)

    @property
    def keys_read(self) -> tuple[Span, ...]:
        """The spans of the indexes that are primary at ``start``, without tenant prefixes.

        A change of these keys shows in the scan, also a change from before the index became the primary one.
        """
        return tuple(keys_read(self.targets, rows_by(self.descriptors), self.start, self.start))


def write_scan(records: DataFrame, scan: ScanAt) -> int:
    """Write the scan's rows from a log that is complete up to ``start``; return how many, all acknowledged.

    Raises ``FeedError`` for a row that cannot be written, and for a log that hides versions. Raises
    ``DeliveryError`` and ``RetryError``, and ``SinkHeld`` when the sink's address means another cluster than
    the stored one.
    """
    columns = records.select("partition", "offset", "key", "value")
    found = columns.mapInArrow(partial(find_versions, scan), _FOUND)
    newest = sql.max(sql.struct("wall", "logical", "value", "range_id", "fault")).alias("newest")
    of_keys = found.groupBy("key").agg(newest).select("key", "newest.*")
    answers = of_keys.mapInArrow(partial(write_rows, scan), _ANSWER).collect()
    for _, fault in answers:
        if fault is not None:
            raise read_fault(bytes(fault))
    return sum(rows for rows, _ in answers)


def find_versions(scan: ScanAt, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the versions of the scan's tables that records show, above the base and at or below ``start``.

    Records that cannot be read, or stand in the wrong partition, are passed over. The survey has seen them as
    holes of their ranges, and the log counts as complete only below them.
    """
    settle_process()
    wanted, start, watched = scan.table_ids, scan.start, scan.keys_read
    for batch in batches:
        found: list[_Found] = []
        for offset, entry in readable(scan.partitions, batch):
            if isinstance(entry, ScanChunk) and fault_of(entry):
                continue  # every reader refuses this chunk, and the source sends another one
            range_id, above = entry.range_id, _known_above(entry, scan)
            for key, timestamp, value, _, _ in versions_shown(entry):
                if above < timestamp <= start and _table_of(key) in wanted:
                    found.append((key, timestamp.wall, timestamp.logical, value, range_id, None))
            for deletion in deletions_shown(entry):
                span = Span(deletion.start, deletion.end)
                if scan.base < deletion.timestamp <= start and any(watched_parts(span, watched)):
                    found.append((b"", 0, 0, b"", range_id, _hidden(range_id, offset)))
            if _mutates(entry, watched):
                found.append((b"", 0, 0, b"", range_id, _hidden(range_id, offset)))
            found += _told_of(entry, scan, watched, offset)
        columns = [list(column) for column in zip(*found, strict=True)] or [[]] * len(_FOUND_SCHEMA)
        yield pa.record_batch(columns, schema=_FOUND_SCHEMA)


def write_rows(scan: ScanAt, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Write a row for each key whose newest version is not a deletion, and wait for acknowledgements.

    Yields how many rows were written, and the fault, if there is one.
    """
    settle_process()
    count, fault = 0, None
    try:
        count = _write(scan, map(_newest, batches))
    except FeedRefused as refused:
        fault = fault_to_bytes(_run_again(refused) if refused.is_doubted else refused.refusal)
    except TidegateError as error:
        fault = fault_to_bytes(error)
    for _ in batches:  # Spark requires a task to read all of its records
        pass
    yield pa.record_batch([[count], [fault]], schema=_ANSWER_SCHEMA)


def _run_again(refused: FeedRefused) -> RetryError:
    return RetryError(f"{refused}. The backfill ends here and stores no progress: run it again.")


def _write(scan: ScanAt, found: Iterable[list[Version]]) -> int:
    rows: ScannedRows | None = None
    sink: _StoredSink | None = None
    count = 0
    for versions in filter(None, found):
        if rows is None:
            rows = ScannedRows(scan)
        if records := rows.of(versions):
            if sink is None:
                sink = _StoredSink(scan, records[0].topic)
            sink.send(records)
            count += len(records)
    if sink is not None:
        sink.acknowledge()
    return count


class _StoredSink:
    """The sink of a scan: the cluster whose id is stored with the feed, whatever the address means by now.

    The cluster is asked for its id, and the question names ``topic``. The engine's own cluster is not asked.
    Methods raise what ``RowProducer.send`` raises. But in place of ``SinkStalled`` they raise ``SinkHeld`` or
    ``BrokerUnavailable``. It is unknown then which rows the cluster has, so no progress may be stored.
    """

    def __init__(self, scan: ScanAt, topic: str) -> None:
        self._secrets = HeaderSecrets(scan.definition, SecretStore.of_environment())
        self._feed_id, self._stored, self._topic = scan.definition.id, scan.cluster, topic
        self._sink = sink_connection(scan.connection, scan.definition.sink, scan.cluster, scan.definition.id)
        self._producer = self._open()
        if self._stored:
            try:
                self._require_stored(self._producer)
            except SinkStalled:
                self._end()

    def send(self, records: list[OutputRecord]) -> None:
        """Hand rows to the producer; wait while it has no room."""
        try:
            self._producer.send(self._feed_id, self._secrets.into(records))
        except SinkStalled:
            self._end()

    def acknowledge(self) -> None:
        """Wait until the stored cluster has acknowledged every row."""
        try:
            self._producer.acknowledge()
        except SinkStalled:
            self._end()

    def _open(self) -> RowProducer:
        return RowProducer(self._sink.config(), watched=bool(self._stored))

    def _require_stored(self, producer: RowProducer) -> None:
        found = producer.cluster_id(self._topic)
        if self._stored and found != self._stored:
            sentence = held_backfill(self._feed_id, self._sink.bootstrap_servers, self._stored, found)
            raise SinkHeld(
                f"{sentence}. It ends here and stores no progress: run it again once the address means "
                f"{self._stored}."
            )

    def _end(self) -> NoReturn:
        """Raise the exception that ends the backfill.

        The old producer saw several clusters or none, so a new one asks for the id.
        """
        self._producer.abandon()
        with suppress(SinkStalled):
            self._require_stored(self._open())
        sentence = uncertain(self._sink.bootstrap_servers, self._stored or "", [self._feed_id])
        raise BrokerUnavailable(f"{sentence}. The backfill ends here and stores no progress: run it again.")


class ScannedRows:
    """Makes records of the versions that a scan found, by the same emitter as a processor."""

    def __init__(self, scan: ScanAt) -> None:
        self._scan = scan
        self._rows = rows_by(scan.descriptors)
        for table_id in scan.table_ids:
            if reason := self._rows.unfit(table_id):
                raise FeedError(reason)
        destinations = {
            target.table_id: Destination(target.topic, target.partitions, target.table)
            for target in scan.targets
        }
        self._emitter = Emitter(scan.definition.options, scan.start, destinations)

    def of(self, versions: list[Version]) -> list[OutputRecord]:
        """Return the records of the versions, in order.

        Raises ``FeedError`` for a row that cannot be read or written.
        """
        scan = self._scan
        decoded = self._rows.decode(versions, scan.table_ids, scanned_at=scan.start)
        into = Emission([], [])
        error = self._emitter.emit(versions, decoded, into, scanned=True)
        if error is not None:
            raise FeedError(str(error))
        if into.unframed:
            url = scan.definition.options.confluent_schema_registry
            ids = schema_ids(scan.connection.destinations, url, schemas_of(into.unframed))
            return frame(into.unframed, ids)
        return into.records


def rows_by(descriptors: Iterable[DescriptorUpdate]) -> PartitionRows:
    """Return the row reader that knows these descriptors.

    A table whose descriptor cannot be taken has no rows that can be read, unless a later descriptor can be
    taken.
    """
    rows = PartitionRows(UNLIMITED)
    for update in sorted(descriptors, key=lambda update: (update.table_id, update.version)):
        with suppress(DescriptorConflict, EncodingError):
            rows.learn(update)
    return rows


def _newest(batch: pa.RecordBatch) -> list[Version]:
    versions = []
    names = ("key", "wall", "logical", "value", "range_id", "fault")
    for key, wall, logical, value, range_id, fault in zip(
        *(batch.column(name).to_pylist() for name in names), strict=True
    ):
        if fault is not None:
            raise FeedError(fault)
        if value:
            at = Timestamp(wall, logical)
            versions.append(scanned_version(RangeId(range_id), KeyValue(key, at, value)))
    return versions


def _known_above(entry: Entry, scan: ScanAt) -> Timestamp:
    """Return the timestamp above which the versions that the entry shows count.

    For a chunk that shows the newest versions at a moment from the base to ``start`` it is zero, since such a
    chunk shows what its keys held at that moment. For any other entry it is the scan's base: a version from
    below the base may have been replaced or deleted in a part of the log that is lost.
    """
    if isinstance(entry, ScanChunk) and is_of_newest(entry) and scan.base <= entry.upto <= scan.start:
        return ZERO
    return scan.base


def _table_of(key: bytes) -> int | None:
    try:
        return table_id_of(key)
    except EncodingError:
        return None


def _mutates(entry: Entry, watched: Sequence[Span]) -> bool:
    """Return whether a command changes versions of these keys without an op for each.

    A command that names no keys may have changed any of them.
    """
    if not isinstance(entry, Command):
        return False
    return any(any(watched_parts(span, watched)) for span in entry.mutated_spans(watched))


def _told_of(entry: Entry, scan: ScanAt, watched: Iterable[Span], offset: int) -> Iterator[_Found]:
    """Yield what a command or a Snapshot tells of a change outside the op log.

    If both tell of one change, they get the same key. So the grouping by key brings them together, and the
    command wins, since it says which keys it changed (`_mutates`). A change that only a Snapshot tells of is
    a fault, since nobody knows which keys it changed. A change at or below the base does no harm, since every
    chunk that counts is from after it. Without a base no version is older than the log, and the survey has
    looked at every hole.
    """
    if scan.base == ZERO:
        return
    if isinstance(entry, Command) and entry.mutates:
        yield _change(entry.range_id, entry.raft_index), 1, 0, b"", entry.range_id, None
    elif isinstance(entry, Snapshot) and entry.last_mutation is not None:
        told = entry.last_mutation
        if told.time > scan.base and any(watched_parts(entry.span, watched)):
            key = _change(entry.range_id, told.raft_index)
            yield key, 0, 0, b"", entry.range_id, _unread(entry.range_id, offset, told.time)


def _change(range_id: RangeId, raft_index: RaftIndex) -> bytes:
    """Return a key that stands for a change, and that no row has.

    No command has index 0. A Snapshot has index 0 for a change in a range that its own range came from.
    """
    return b"\0" + range_id.to_bytes(8, "big", signed=True) + raft_index.to_bytes(8, "big")


def _unread(range_id: RangeId, offset: int, time: Timestamp) -> str:
    return (
        f"range {range_id} changed rows outside its op log at {time}, as its Snapshot says (offset {offset} "
        "of its log partition), in entries that are missing or cannot be read, and nobody knows which rows: "
        "create the feed without a backfill, on other topics, so that the store scans its tables"
    )


def _hidden(range_id: RangeId, offset: int) -> str:
    return (
        f"range {range_id} deleted or changed a span of keys (offset {offset} of its log partition), and the "
        "log does not say which versions that hides: create the feed without a backfill, on other topics, so "
        "that the store scans its tables"
    )
