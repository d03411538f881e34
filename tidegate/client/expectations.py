"""Computes what a feed should have written, from the versions that its source committed.

The feed's own encoders turn the versions into records. So an audit against them finds rows that were lost,
invented or changed on the way. It does not find an encoder's own mistake.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Protocol, TypeAlias

from tidegate.changefeed.definition.feed import TableName
from tidegate.changefeed.definition.options import FeedOptions, InitialScan
from tidegate.changefeed.encoding.confluent import RecordSchemas, SubjectSchema, frame_prefix
from tidegate.changefeed.encoding.encoder import as_named, compile_encoder
from tidegate.changefeed.encoding.envelopes.registry import needs_previous
from tidegate.changefeed.encoding.record_encoder import RecordEncoder
from tidegate.errors import InputError
from tidegate.hlc import Timestamp
from tidegate.rows import Catalog, Datum, TableCodec, TableDescriptor
from tidegate.verify import ExpectedVersion


class CommittedVersion(Protocol):
    """A version that the source committed; an empty ``value`` is a deletion."""

    @property
    def table_id(self) -> int: ...
    @property
    def key(self) -> bytes: ...
    @property
    def timestamp(self) -> Timestamp: ...
    @property
    def value(self) -> bytes: ...


SchemaIds: TypeAlias = Callable[[SubjectSchema], int]


def _no_registry(schema: SubjectSchema) -> int:
    raise InputError(f"The id of a schema of {schema.subject} is needed, and no registry is known to ask.")


def expected_versions(
    versions: Iterable[CommittedVersion],
    catalog: Catalog,
    options: FeedOptions,
    topics: dict[int, str],
    schema_ids: SchemaIds = _no_registry,
    *,
    start: Timestamp | None = None,
    names: Mapping[int, TableName] = MappingProxyType({}),
) -> Iterator[ExpectedVersion]:
    """Yield the records that a feed has to write for these versions; ``topics`` are those of its tables, by
    table id.

    ``start`` is the feed's start. An initial scan shows, for each key, the newest version at or below it,
    unless that is a deletion. Without ``start`` every version has a record, as for a feed without a scan.
    ``schema_ids`` returns the id of a schema, if the feed's format has schemas. ``names`` are the names by
    which the feed knows its tables, by table id. A table that is not among them has the name that stands in
    each version of its descriptor.

    The versions of a key have to come in the order of their timestamps, from the first one that was ever
    written: so each one's previous value is known. A deletion's tombstone is not listed, since the audit
    compares it with its deletion. Raises ``RowError`` for a version that cannot be decoded, and
    ``UnsupportedTable``.
    """
    encoding = _Encoding(catalog, options, schema_ids, names)
    scanned: dict[tuple[int, bytes], CommittedVersion] = {}
    for version, replaced in _with_replaced(versions, topics, keep=needs_previous(options)):
        if start is not None and version.timestamp <= start:
            scanned[version.table_id, version.key] = version
        elif options.initial_scan is not InitialScan.ONLY:
            yield from encoding.expected(version, topics[version.table_id], replaced)
    if start is not None and options.initial_scan is not InitialScan.NO:
        for version in scanned.values():
            if version.value:
                yield from encoding.expected(version, topics[version.table_id], b"", start)


class _Encoding:
    """Makes the records of one feed from versions."""

    def __init__(
        self, catalog: Catalog, options: FeedOptions, schema_ids: SchemaIds, names: Mapping[int, TableName]
    ) -> None:
        self._catalog = catalog
        self._names = names
        self._options = options
        self._schema_ids = schema_ids
        self._needs_previous = needs_previous(options)
        self._encoders: dict[tuple[int, int], RecordEncoder] = {}

    def expected(
        self, version: CommittedVersion, topic: str, replaced: bytes, scanned_at: Timestamp | None = None
    ) -> Iterator[ExpectedVersion]:
        """Yield the record of a version, if it has one. ``replaced`` is the value that the version has
        replaced.

        ``scanned_at`` is the timestamp of the scan that brings the version; ``None`` without a scan. A scan
        reads its rows by the table version that is valid at its timestamp.
        """
        codec = self._catalog.at(version.table_id, scanned_at or version.timestamp)
        row = codec.decode(version.key, version.value)
        if row is None:
            return
        if self._needs_previous:
            row = row._replace(previous=_previous(codec, version.key, replaced))
        row = row._replace(scanned_at=scanned_at)
        encoder = self._encoder(codec.descriptor)
        key, value = encoder.encode(row, version.timestamp)
        headers = [] if encoder.headers is None else encoder.headers(row)
        if encoder.limit is not None:
            value, headers = encoder.limit.applied(row, version.timestamp, key, value, headers)
        if encoder.schemas is not None:
            key, value = _framed(encoder.schemas, key, value, self._schema_ids)
        yield ExpectedVersion(topic, key, version.timestamp, value, tuple(headers), scanned_at)

    def _encoder(self, table: TableDescriptor) -> RecordEncoder:
        version = table.id, table.version
        if version not in self._encoders:
            named = as_named(table, self._names.get(table.id))
            self._encoders[version] = compile_encoder(named, self._options)
        return self._encoders[version]


def _with_replaced(
    versions: Iterable[CommittedVersion], tables: Container[int], *, keep: bool
) -> Iterator[tuple[CommittedVersion, bytes]]:
    """Yield the versions of these tables, each with the value that it replaced. Without ``keep`` that is
    empty."""
    newest: dict[bytes, bytes] = {}
    for version in versions:
        if version.table_id in tables:
            yield version, newest.get(version.key, b"")
            if keep:
                newest[version.key] = version.value


def _framed(
    schemas: RecordSchemas, key: bytes, value: bytes | None, schema_ids: SchemaIds
) -> tuple[bytes, bytes | None]:
    """Return key and value with their frames. An empty value has no frame, and its schema may have no id."""
    framed_key = frame_prefix(schema_ids(schemas.key)) + key
    return framed_key, frame_prefix(schema_ids(schemas.value)) + value if value else value


def _previous(codec: TableCodec, key: bytes, replaced: bytes) -> tuple[Datum, ...]:
    """Return the datums that a version replaced, read by the table version that is valid for the version
    itself.
    """
    row = codec.decode(key, replaced)
    return () if row is None or row.values is None else row.values
