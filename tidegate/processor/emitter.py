"""Rows into output records: the last stage of a step, one emitter for each active feed.

Batch in, batch out, as the stages before it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from tidegate.changefeed.envelope import compile_encoder
from tidegate.changefeed.options import FeedOptions
from tidegate.changefeed.partition import partition_of
from tidegate.errors import FeedError, RowError, UnsupportedTable
from tidegate.hlc import NANOS_PER_MS, Timestamp
from tidegate.processor.batch import SOURCE_HEADER, OutputRecord
from tidegate.processor.rows import Decoded, TableRowError
from tidegate.rangefeed.range_state import Version
from tidegate.rows import TableDescriptor


class Destination(NamedTuple):
    """Where the rows of a table go."""

    topic: str
    partitions: int


class Emitter:
    """Encodes one feed's rows: those of its tables, above its start."""

    __slots__ = ("_destinations", "_options", "_start", "_tables")

    def __init__(
        self, options: FeedOptions, start: Timestamp, destinations: Mapping[int, Destination]
    ) -> None:
        self._options = options
        self._start = start
        self._destinations = destinations
        self._tables: dict[int, _TableEmitter] = {}

    def emit(
        self, versions: Sequence[Version], rows: Sequence[Decoded], into: list[OutputRecord]
    ) -> FeedError | None:
        """Append the output records of the rows that belong to the feed, in log order.

        Stops at the first row that cannot be decoded or encoded and returns why; what was appended before it
        stands.
        """
        start, tables = self._start, self._tables
        try:
            for version, row in zip(versions, rows, strict=True):
                if row is None or version.omit_in_rangefeeds or version.timestamp <= start:
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
                    emitter = tables[table.id] = _TableEmitter(
                        table, self._options, self._destinations[table.id]
                    )
                key, value = emitter.encode(row, version.timestamp)
                into.append(
                    OutputRecord(
                        emitter.topic,
                        partition_of(key, emitter.partitions),
                        key,
                        value,
                        version.timestamp.wall // NANOS_PER_MS,
                        [(SOURCE_HEADER, b"%d/%d/%d" % version[5:8])],
                    )
                )
        except UnsupportedTable as error:  # no encoder can be made for it
            return error
        except FeedError as error:  # of `encode`: the row holds what cannot be written
            return TableRowError(table.id, version, RowError(f"table {table.name}: {error}"))
        return None


class _TableEmitter:
    """What is compiled once for a table version."""

    __slots__ = ("encode", "partitions", "table", "topic")

    def __init__(self, table: TableDescriptor, options: FeedOptions, destination: Destination) -> None:
        self.table = table
        self.encode = compile_encoder(table, options).encode
        self.topic, self.partitions = destination
