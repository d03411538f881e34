"""Makes output records of rows: the last stage of a step, with one emitter for each active feed.

It takes a batch and gives a batch, like the stages before it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from tidegate.changefeed.definition.feed import TableName
from tidegate.changefeed.definition.options import FeedOptions
from tidegate.changefeed.encoding.encoder import as_named, compile_encoder
from tidegate.changefeed.encoding.partition import partition_of
from tidegate.changefeed.encoding.record_encoder import RecordEncoder
from tidegate.changefeed.text.row_bytes import ROW_BYTES_MAX, too_large
from tidegate.errors import FeedError, RowError, UnsupportedTable
from tidegate.hlc import NANOS_PER_MS, ZERO, Timestamp
from tidegate.processor.batch import SOURCE_HEADER, OutputRecord, SchemedTopic, UnframedRecord
from tidegate.processor.containment import feed_error, unforeseen_in
from tidegate.processor.feeds.version_rows import Decoded, TableRowError
from tidegate.processor.written_records import row_size
from tidegate.ranges.version import Version
from tidegate.rows import Row, TableDescriptor

_NO_LIMIT: Final = 2**63 - 1


class Destination(NamedTuple):
    """The topic that the rows of a table go to, its partition count, and the name that the feed knows the
    table by; ``None``: the table's own.
    """

    topic: str
    partitions: int
    name: TableName | None = None


@dataclass(slots=True)
class Emission:
    """The records that a feed emits: finished ones, and ``unframed`` ones that still need schema ids.

    The rows of one entry of the log may have up to ``entry_bytes`` together. If rows count ``singly``, each
    row may have as many. All rows together have ``size``, in keys, values and headers.
    """

    records: list[OutputRecord]
    unframed: list[UnframedRecord]
    entry_bytes: int = _NO_LIMIT
    singly: bool = False
    size: int = 0
    _range_id: int = 0
    _raft_index: int = 0
    _before: int = 0

    def count(self, version: Version, size: int) -> None:
        """Count in a record of a version. Raises ``RowError`` if the version's entry has too many bytes.

        A version that a scan has found has no entry of its own, so it counts alone. A version that was held
        for a scan counts alone too: the versions of one entry come at different times, each with its key's
        chunk.
        """
        index = version.raft_index
        if index != self._raft_index or not index or self.singly or version.range_id != self._range_id:
            self._range_id, self._raft_index, self._before = version.range_id, index, self.size
        self.size += size
        if self.size - self._before > self.entry_bytes:
            raise RowError(
                f"one entry of the log makes more than {self.entry_bytes} bytes of rows for the feed, which "
                "is far more than the entry has. Shorter names of columns help, and fewer rows in one command"
            )


class Emitter:
    """Encodes the rows of one feed: those of its tables, above its start."""

    __slots__ = ("_destinations", "_options", "_start", "_tables")

    def __init__(
        self, options: FeedOptions, start: Timestamp, destinations: Mapping[int, Destination]
    ) -> None:
        self._options = options
        self._start = start
        self._destinations = destinations
        self._tables: dict[int, _TableEmitter] = {}

    @property
    def start(self) -> Timestamp:
        """The feed's start: live rows at or below it are not emitted."""
        return self._start

    @property
    def options(self) -> FeedOptions:
        """The options of the feed."""
        return self._options

    @property
    def destinations(self) -> Mapping[int, Destination]:
        """The destination of each table's rows, by table id."""
        return self._destinations

    def emit(
        self, versions: Sequence[Version], rows: Sequence[Decoded], into: Emission, *, scanned: bool = False
    ) -> FeedError | None:
        """Append the records of the rows that belong to the feed, in log order.

        ``scanned``: an initial scan found the rows. They are at or below the start, and are emitted even
        where their writer wanted them omitted from feeds. Stops at the first row that cannot be decoded or
        encoded, and returns the error (``None`` if there is no such row). Records that were appended before
        it stay.
        """
        start, tables = ZERO if scanned else self._start, self._tables
        try:
            for version, row in zip(versions, rows, strict=True):
                if row is None or version.timestamp <= start:
                    continue
                if version.omit_in_rangefeeds and not scanned:
                    continue
                if isinstance(row, TableRowError):
                    if row.table_id in self._destinations:
                        return row
                    continue
                table = row.table
                emitter = tables.get(table.id)
                if emitter is None or emitter.table is not table:
                    if table.id not in self._destinations:
                        continue
                    emitter = tables[table.id] = _table_emitter(
                        table, self._options, self._destinations[table.id]
                    )
                emitter.emit(row, version, into)
        except UnsupportedTable as error:  # no encoder can be made for the table
            return error
        except Exception as error:  # `encode` raised it: the row has a value that cannot be written
            cause = feed_error(error)
            failure = TableRowError(table.id, version, _naming(table, cause))
            failure.unforeseen = unforeseen_in(cause)
            return failure
        return None


class _TableEmitter:
    """The encoder of one table version's rows, compiled once."""

    __slots__ = ("_encode", "_headers", "_limit", "_partitions", "_tombstones", "_topic", "table")

    def __init__(self, table: TableDescriptor, encoder: RecordEncoder, destination: Destination) -> None:
        self.table = table
        self._encode, self._headers, self._limit = encoder.encode, encoder.headers, encoder.limit
        self._tombstones = encoder.tombstones
        self._topic, self._partitions, _ = destination

    def emit(self, row: Row, version: Version, into: Emission) -> None:
        """Append the row's record. After that of a deletion, append a tombstone if the encoder wants one."""
        key, value, headers = self._encoded(row, version)
        into.count(version, row_size(key, value, headers))
        partition = partition_of(key, self._partitions)
        wall_ms = version.timestamp.wall // NANOS_PER_MS
        into.records.append(OutputRecord(self._topic, partition, key, value, wall_ms, headers))
        if self._tombstones and row.values is None:
            into.count(version, row_size(key, None, headers))
            into.records.append(OutputRecord(self._topic, partition, key, None, wall_ms, headers))

    def _encoded(self, row: Row, version: Version) -> tuple[bytes, bytes | None, list[tuple[str, bytes]]]:
        """Return key, value and headers of the row's record."""
        key, value = self._encode(row, version.timestamp)
        headers = [(SOURCE_HEADER, b"%d/%d/%d" % version[5:8])] if version.raft_index else []
        if self._limit is not None:
            own = [] if self._headers is None else self._headers(row)
            value, own = self._limit.applied(row, version.timestamp, key, value, own)
            headers += own
        elif self._headers is not None:
            headers += self._headers(row)
        if value is not None and len(value) > ROW_BYTES_MAX:
            raise too_large("its value")
        return key, value, headers


class _SchemedTableEmitter(_TableEmitter):
    """The encoder of one table version's rows for a format whose records name their schemas."""

    __slots__ = ("_to",)

    def __init__(self, table: TableDescriptor, encoder: RecordEncoder, to: SchemedTopic) -> None:
        super().__init__(table, encoder, Destination(to.topic, to.partitions))
        self._to = to

    def emit(self, row: Row, version: Version, into: Emission) -> None:
        key, value, headers = self._encoded(row, version)
        into.count(version, row_size(key, value, headers))
        wall_ms = version.timestamp.wall // NANOS_PER_MS
        into.unframed.append(UnframedRecord(self._to, key, value, wall_ms, headers))
        if self._tombstones and row.values is None:
            into.count(version, row_size(key, None, headers))
            into.unframed.append(UnframedRecord(self._to, key, None, wall_ms, headers))


def _naming(table: TableDescriptor, error: FeedError) -> RowError:
    """Return the error with the name of the table, unless its sentence has the name already."""
    cause = str(error)
    named = f"table {table.name}" in cause
    return RowError(cause if named else f"table {table.name}: {cause}")


def _table_emitter(table: TableDescriptor, options: FeedOptions, destination: Destination) -> _TableEmitter:
    encoder = compile_encoder(as_named(table, destination.name), options)
    if encoder.schemas is None:
        return _TableEmitter(table, encoder, destination)
    topic = SchemedTopic(destination.topic, destination.partitions, encoder.schemas)
    return _SchemedTableEmitter(table, encoder, topic)
