"""The rows of a DataFrame as columns of values, decoded from the records of one table.

Wrapped values of JSON are decoded by `WrappedValues`, thousands of them in one call. Rows of every other
format, and rows that it refuses, are decoded record by record. Both ways give the same rows and the same
errors.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Decimal
from operator import attrgetter
from typing import Any, Final, NamedTuple, TypeAlias

import msgspec
from msgspec import UNSET

from tidegate.changefeed.encoding.json_decoder import JsonDecoder
from tidegate.changefeed.encoding.record import RecordDecoder, RowRecord
from tidegate.errors import InputError
from tidegate.hlc import Timestamp, parse_decimal
from tidegate.spark.datasource.source_feed import FrameTable
from tidegate.subscribe.gate.feed_record import FeedRecord
from tidegate.subscribe.gate.row_chunk import IntColumn, RowChunk
from tidegate.subscribe.gate.stamps import has_stamp
from tidegate.subscribe.gate.wrapped_values import REFUSALS, WrappedValues, maybe_twice

#: The values of a row in the order of its table's columns; ``None`` for no row.
_Values: TypeAlias = tuple[Any, ...] | None

_AFTER, _BEFORE = attrgetter("after"), attrgetter("before")
_tuple_of = msgspec.structs.astuple
_KEYS: Final = msgspec.json.Decoder(list[Any], float_hook=Decimal)


class FrameRows(NamedTuple):
    """Some rows of one table; each sequence has one element for each row.

    Attributes:
        walls: the wall parts of their timestamps.
        logicals: the logical parts.
        deleted: whether the row is a deletion.
        after: a sequence for each column of the table. A deletion has values in the columns of its key alone.
        before: the same for the rows before; empty if records do not show them.
        is_new: whether there was no row before; empty if records do not show it.
    """

    walls: IntColumn
    logicals: IntColumn
    deleted: Sequence[bool]
    after: Sequence[Sequence[Any]]
    before: Sequence[Sequence[Any]] = ()
    is_new: Sequence[bool] = ()

    @property
    def size(self) -> int:
        """The number of rows."""
        return len(self.deleted)

    def without_deletions(self) -> FrameRows:
        """Return the rows that are no deletions."""
        at = [position for position, deleted in enumerate(self.deleted) if not deleted]
        if len(at) == self.size:
            return self

        def kept(column: Sequence[Any]) -> list[Any]:
            return [column[position] for position in at]

        return FrameRows(
            self.walls[at],
            self.logicals[at],
            kept(self.deleted),
            list(map(kept, self.after)),
            list(map(kept, self.before)),
            kept(self.is_new) if self.is_new else (),
        )


class FrameRowReader:
    """Decodes the rows of one table. ``decode`` reads one record, and raises ``UnreadableRow``."""

    def __init__(
        self,
        table: FrameTable,
        decoder: RecordDecoder,
        decode: Callable[[FeedRecord], RowRecord],
        *,
        tells_before: bool,
    ) -> None:
        self._table = table
        self._decode = decode
        self._tells_before = tells_before
        self._names = table.columns.names
        self._known = frozenset(self._names)
        self._key = [self._names.index(name) for name in table.columns.key]
        self._nothing: _Values = (UNSET,) * len(self._names)  # in the place of a row that is not there
        self._wrapped: list[WrappedValues] = []
        self._tells_mvcc = False
        if has_stamp(decoder) and isinstance(decoder, JsonDecoder) and decoder.members is not None:
            members = decoder.members.value.required
            self._tells_mvcc = "mvcc_timestamp" in members
            # Rows of older versions of the table may lack columns.
            self._wrapped = [WrappedValues(self._names, each, members) for each in ((), self._names)]

    def read(self, chunk: RowChunk) -> FrameRows:
        """Decode rows. Raises ``UnreadableRow``, and ``InputError`` for a row with a new column."""
        if not any(chunk.records):
            for wrapped in self._wrapped:
                try:
                    return self._read_wrapped(chunk, wrapped)
                except REFUSALS:
                    continue
        return self.read_alone(chunk)

    def read_alone(self, chunk: RowChunk) -> FrameRows:
        """Decode rows, each by itself. Raises as ``read`` does."""
        keys, after, before = list[Sequence[Any]](), list[_Values](), list[_Values]()
        for at in range(chunk.rows):
            row = self._row(chunk, at)
            self._require_key(row.key, chunk, at)
            keys.append(row.key)
            values, previous = self._pair(row, chunk, at)
            after.append(values)
            before.append(previous)
        return self._rows(chunk, keys, after, before)

    def _read_wrapped(self, chunk: RowChunk, wrapped: WrappedValues) -> FrameRows:
        """Decode all rows in one call. Raises one of ``REFUSALS``, and as ``read`` does."""
        values: Any = chunk.values  # a record without a value is refused, as all damage is
        decoded, members = wrapped.decoded(values)
        keys: list[Sequence[Any]] = list(map(_KEYS.decode, chunk.keys))
        if any(len(key) != len(self._key) for key in keys):
            raise ValueError("a key of other columns")
        if any(b"{" in key for key in chunk.keys):
            raise ValueError("a key with an object, which may have a member twice")
        if self._tells_mvcc:
            for each in decoded:
                parse_decimal(each.mvcc_timestamp)
        after = _tuples(map(_AFTER, decoded))
        before = _tuples(map(_BEFORE, decoded))
        for rows in (after, before) if self._tells_before else (after,):
            members += [0 if row is None else len(row) - row.count(UNSET) for row in rows]
        for at in maybe_twice(values, members):
            after[at], before[at] = self._pair(self._row(chunk, at), chunk, at)
        return self._rows(chunk, keys, after, before)

    def _rows(
        self, chunk: RowChunk, keys: Sequence[Sequence[Any]], after: list[_Values], before: list[_Values]
    ) -> FrameRows:
        deleted = [row is None for row in after]
        columns = self._columns(keys, after)
        if not self._tells_before:
            return FrameRows(chunk.walls, chunk.logicals, deleted, columns)
        is_new = [row is None for row in before]
        return FrameRows(chunk.walls, chunk.logicals, deleted, columns, self._columns(keys, before), is_new)

    def _columns(self, keys: Sequence[Sequence[Any]], rows: list[_Values]) -> list[Sequence[Any]]:
        """Return the values of each column. A missing value is the key's, or ``None``."""
        columns: list[Any] = list(zip(*[self._nothing if row is None else row for row in rows], strict=True))
        for position, column in enumerate(columns):
            if UNSET not in column:
                continue
            if position in self._key:
                part = self._key.index(position)
                columns[position] = [
                    key[part] if value is UNSET else value for key, value in zip(keys, column, strict=True)
                ]
            else:
                columns[position] = [None if value is UNSET else value for value in column]
        return columns

    def _require_key(self, key: Sequence[Any], chunk: RowChunk, at: int) -> None:
        if len(key) != len(self._key):
            raise InputError(
                f"The record at offset {chunk.offsets[at]} of {self._table.topic} has a key of {len(key)} "
                f"values, and the primary key of {self._table.name} has {len(self._key)} columns: something "
                "else has written to the topic."
            )

    def _row(self, chunk: RowChunk, at: int) -> RowRecord:
        record = chunk.records[at]
        if record is None:
            record = self._decode(FeedRecord(int(chunk.offsets[at]), chunk.keys[at], chunk.values[at]))
        return record

    def _pair(self, record: RowRecord, chunk: RowChunk, at: int) -> tuple[_Values, _Values]:
        """Return the row, and the row before.

        Raises ``InputError`` for a new column. A row may be older than every version of the table that the
        log still has. Columns that only such a row has are left out: the table has lost them.
        """
        row, previous = record.row, record.previous
        is_old = Timestamp(int(chunk.walls[at]), int(chunk.logicals[at])) < self._table.known_from
        new = frozenset[str]() if is_old or row is None else row.keys() - self._known
        if not is_old and row is None and previous is not None:
            new = previous.keys() - self._known  # only the deleted row tells its columns
        if new:
            raise InputError(
                f"{self._table.name} has a new column: {', '.join(sorted(new))}. Start the query again, with "
                "its checkpoint: it goes on here, with the column."
            )
        return self._values(row), self._values(previous)

    def _values(self, row: Mapping[str, Any] | None) -> _Values:
        return None if row is None else tuple([row.get(name, UNSET) for name in self._names])


def _tuples(rows: Iterable[Any]) -> list[_Values]:
    return [_tuple_of(row) if row else None for row in rows]
