"""Refuses a row if a part of its key would be left out.

Keys have times to the microsecond, and Kafka Connect has a FLOAT4 in 32 bits. CockroachDB stores nothing
finer, but the log of another source may. Two keys that differ only in the part that is left out would become
the same key, and a sink or compaction would keep only one of their rows.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from math import isnan
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar

from tidegate.errors import RowError
from tidegate.rows.descriptor import Column, TableDescriptor
from tidegate.rows.row import Row
from tidegate.rows.types import Interval, Kind, SqlType

#: Returns whether a key has all of a datum that is not NULL.
_IsWhole: TypeAlias = Callable[[Any], bool]

KeyT = TypeVar("KeyT")
_NANOS_PER_MICRO: Final = 1000
_FLOAT4: Final = struct.Struct("<f")


class KeyPrecision(NamedTuple):
    """The precision of a form of keys.

    Datums of the kinds in ``columns`` are cut to the microsecond. So are items of arrays of the kinds in
    ``items``.

    If ``float4_bits`` is 32, a FLOAT4 in a key has 32 bits. Otherwise it has all bits that are stored.
    """

    columns: frozenset[Kind]
    items: frozenset[Kind]
    float4_bits: int = 64

    def is_whole(self, sql_type: SqlType) -> _IsWhole | None:
        """Return a function that tells whether a key has all of a datum; ``None`` for a type never cut."""
        if sql_type.kind is Kind.ARRAY and sql_type.element is not None:
            return _of_items(self._of_kind(sql_type.element, self.items))
        return self._of_kind(sql_type, self.columns)

    def _of_kind(self, sql_type: SqlType, to_micros: frozenset[Kind]) -> _IsWhole | None:
        if sql_type.kind is Kind.FLOAT:
            return _is_float4 if sql_type.width == self.float4_bits == 32 else None
        if sql_type.kind not in to_micros:
            return None
        return _is_whole_interval if sql_type.kind is Kind.INTERVAL else _is_whole_timestamp


JSON_KEYS: Final = KeyPrecision(frozenset({Kind.INTERVAL}), frozenset({Kind.INTERVAL}))
_TIMES: Final = frozenset({Kind.INTERVAL, Kind.TIMESTAMP, Kind.TIMESTAMPTZ})
AVRO_KEYS: Final = KeyPrecision(_TIMES, _TIMES)
#: Times of other kinds are text in Kafka Connect's keys, to the nanosecond.
CONNECT_KEYS: Final = KeyPrecision(
    frozenset({Kind.INTERVAL, Kind.TIMESTAMP}), frozenset({Kind.INTERVAL}), float4_bits=32
)


def of_whole_keys(
    table: TableDescriptor, precision: KeyPrecision, make: Callable[[Row], KeyT]
) -> Callable[[Row], KeyT]:
    """Return ``make`` with a check before it.

    The check raises ``RowError`` if a record would leave out a part of the row's primary key.
    """
    by_id = {column.id: column for column in table.columns}
    columns = [by_id[part.column_id] for part in table.primary_key]
    questions = [
        (at, column, is_whole)
        for at, column in enumerate(columns)
        if (is_whole := precision.is_whole(column.type)) is not None
    ]
    if not questions:
        return make

    def make_whole(row: Row) -> KeyT:
        for at, column, is_whole in questions:
            if not is_whole(row.key[at]):
                raise _cut(table.name, column)
        return make(row)

    return make_whole


def _cut(table_name: str, column: Column) -> RowError:
    is_whole_in_json = JSON_KEYS.is_whole(column.type) is None
    return RowError(
        f"table {table_name}, column {column.name}: its value is finer than a key of this format can say, "
        "and the keys of different rows would be the same; the feed fails. Correct the row in the source and "
        f"create the feed again{', or create it with format=json and envelope=wrapped' * is_whole_in_json}"
    )


def _is_whole_timestamp(nanos: int) -> bool:
    return nanos % _NANOS_PER_MICRO == 0


def _is_whole_interval(interval: Interval) -> bool:
    return interval.nanos % _NANOS_PER_MICRO == 0


def _is_float4(value: float) -> bool:
    try:
        (nearest,) = _FLOAT4.unpack(_FLOAT4.pack(value))
    except OverflowError:
        return True  # nothing is left out: the converter refuses the whole value
    return isnan(value) or nearest == value


def _of_items(is_whole: _IsWhole | None) -> _IsWhole | None:
    if is_whole is None:
        return None
    return lambda items: all(item is None or is_whole(item) for item in items)
