"""Reads wrapped values of JSON as Arrow arrays. Arrow's own reader reads many values together.

That reader accepts some texts that are no valid rows, and does not report a member that is absent. So this
module adds checks. The first three make sure that each value is one complete object:

1. All values stand in one text, one on each line. No value has a newline, and each one begins with ``{`` and
   ends with ``}``. JSON has no newline within a string, and ``{`` follows ``}`` only between two objects. So
   no object goes over the end of its line.
2. There are as many objects as lines.
3. There are as many members as the objects should have. The reader refuses members that are unknown, and
   members that come twice. So none is absent.

The other checks make sure that each column has the values that decoded rows would have:

4. The text is UTF-8.
5. No FLOAT is NaN, infinite or a negative zero. As JSON the first two are no numbers, and rows read -0 as 0.
6. No DECIMAL has more digits than its type, and none is a text. The reader takes both, and rows order texts
   after numbers. The number of quotes in the text tells that there are no such texts.
7. Each member beside the rows has a value.

If the checks or the reader refuse values, these are decoded as rows, one by one. That also finds out what is
wrong.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any, Final, NamedTuple

import msgspec
import numpy as np
import pyarrow as pa
from pyarrow import json as arrow_json

from tidegate.changefeed.encoding.arrow_types import MAX_DECIMAL_DIGITS
from tidegate.rows.types import Kind, SqlType
from tidegate.subscribe.gate.row_chunk import Mask
from tidegate.subscribe.updates.relation import Relation

#: The kinds of columns whose values are texts in JSON.
_TEXTS: Final = frozenset(
    {
        *(Kind.STRING, Kind.COLLATED_STRING, Kind.ENUM, Kind.BYTES, Kind.UUID, Kind.INET, Kind.BIT),
        *(Kind.DATE, Kind.TIME, Kind.TIMETZ, Kind.TIMESTAMP, Kind.TIMESTAMPTZ, Kind.INTERVAL),
        *(Kind.PG_LSN, Kind.BOX2D, Kind.TSVECTOR, Kind.TSQUERY),
    }
)
_NUMBERS: Final = {Kind.BOOL: pa.bool_(), Kind.INT: pa.int64(), Kind.FLOAT: pa.float64()}
#: The members that hold a row, and those that hold a text.
_ROWS: Final = ("after", "before")
_PLAIN: Final = ("updated", "mvcc_timestamp", "topic")
#: The most values, and about the most bytes of values, that are read together: their joined text is a copy.
_READ_ROWS, _READ_BYTES = 20_000, 16 * 1024 * 1024
#: Names with these bytes are escaped in JSON, and the reader compares names as they are written.
_ESCAPED: Final = frozenset([*map(chr, range(0x20)), '"', "\\"])


class RowArrays(NamedTuple):
    """Rows as columns; ``there`` is false where a value has no row, and all columns are NULL."""

    there: Mask
    columns: list[pa.Array]


class ReadArrays(NamedTuple):
    """The rows that some values set, and the rows before them; ``before`` is ``None`` if no value has one."""

    after: RowArrays
    before: RowArrays | None


class WrappedArrays:
    """Reads wrapped values of one relation. ``types`` are those that `array_types` returns for it."""

    def __init__(self, relation: Relation, types: Sequence[pa.DataType]) -> None:
        self._columns = relation.columns
        self._row = pa.struct(list(zip(relation.columns, types, strict=True)))
        self._floats = [at for at, type_ in enumerate(types) if pa.types.is_floating(type_)]
        self._decimals = [at for at, type_ in enumerate(types) if pa.types.is_decimal(type_)]
        self._texts = [at for at, type_ in enumerate(types) if pa.types.is_string(type_)]

    def read(self, values: Sequence[bytes | None]) -> ReadArrays | None:
        """Return the rows of values; ``None`` if they have to be decoded as rows, and for no values."""
        parts: list[ReadArrays] = []
        for piece in () if None in values else _pieces(values):
            part = self._part(piece)
            if part is None:
                return None
            parts.append(part)
        return None if not parts else _joined(parts)

    def _part(self, values: Sequence[Any]) -> ReadArrays | None:
        members = _members_of(values[0])
        if members is None:
            return None
        text = b"\n".join(values)
        if not _is_framed(text, len(values)):
            return None
        try:
            table = self._parsed(text, members)
        except (pa.ArrowException, UnicodeError, OverflowError):  # the last one: of more than 2 GiB
            return None
        if table.num_rows != len(values):
            return None
        rows = {name: self._rows_of(table.column(name)) for name in members if name in _ROWS}
        expected = len(members) * len(values)
        expected += len(self._columns) * sum(int(np.count_nonzero(each.there)) for each in rows.values())
        beside = [name for name in members if name not in _ROWS]
        if _members(text) != expected or any(table.column(name).null_count for name in beside):
            return None
        if not all(map(self._are_exact, rows.values())):
            return None
        if self._decimals:
            texts = len(beside) * len(values) + sum(map(self._count_texts, rows.values()))
            if not _has_quotes(text, 2 * (expected + texts)):
                return None
        return ReadArrays(rows["after"], rows.get("before"))

    def _parsed(self, text: bytes, members: Sequence[str]) -> pa.Table:
        """Parse the lines. Raises ``ArrowException`` for JSON of another form, ``UnicodeError`` for other
        bytes than UTF-8."""
        if not text.isascii():
            text.decode()
        fields = [(name, self._row if name in _ROWS else pa.string()) for name in members]
        return arrow_json.read_json(
            pa.BufferReader(text),
            read_options=arrow_json.ReadOptions(use_threads=False, block_size=len(text) + 1),
            parse_options=arrow_json.ParseOptions(
                explicit_schema=pa.schema(fields), unexpected_field_behavior="error"
            ),
        )

    def _rows_of(self, column: pa.ChunkedArray) -> RowArrays:
        rows = column.combine_chunks()
        return RowArrays(_mask(rows.is_valid()), rows.flatten())

    def _are_exact(self, rows: RowArrays) -> bool:
        """Whether all numbers are those that decoded rows would have (checks 5 and 6)."""
        with suppress(pa.ArrowInvalid):  # a decimal has more digits than its type
            for at in self._decimals:
                rows.columns[at].validate(full=True)
            return all(_is_exact(rows.columns[at]) for at in self._floats)
        return False

    def _count_texts(self, rows: RowArrays) -> int:
        return sum(len(rows.columns[at]) - rows.columns[at].null_count for at in self._texts)


def array_types(relation: Relation) -> list[pa.DataType] | None:
    """Return the types as which the relation's columns are read; ``None`` if some column has none.

    That is a column whose values have several types in JSON, as JSONB has, or numbers of any length, or whose
    type is not known. Returns ``None`` also if the name of a column is escaped in JSON.
    """
    if not relation.columns or any(not _ESCAPED.isdisjoint(name) for name in relation.columns):
        return None
    types = [_array_type(each) for each in relation.known_types if each is not None]
    found = [each for each in types if each is not None]
    return found if len(found) == len(relation.columns) else None


def _array_type(sql_type: SqlType) -> pa.DataType | None:
    if sql_type.kind is Kind.DECIMAL and 0 < sql_type.width <= MAX_DECIMAL_DIGITS:
        return pa.decimal128(sql_type.width, sql_type.scale)
    return pa.string() if sql_type.kind in _TEXTS else _NUMBERS.get(sql_type.kind)


def _members_of(value: bytes) -> list[str] | None:
    """Return the members of a wrapped value in their order; ``None`` if others are among them."""
    try:
        members = list(msgspec.json.decode(value, type=dict[str, msgspec.Raw]))
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None
    return members if "after" in members and {*members} <= {*_ROWS, *_PLAIN} else None


def _is_framed(text: bytes, lines: int) -> bool:
    """Whether a text has this many lines, each of which begins with ``{`` and ends with ``}``."""
    between = lines - 1
    framed = text.startswith(b"{") and text.endswith(b"}") and text.count(b"}\n{") == between
    return framed and text.count(b"\n") == between


def _members(text: bytes) -> int:
    """Count the members of the objects in a text; fewer if a name is written in an unusual way."""
    escaped = text.count(b'\\":') if b"\\" in text else 0
    return text.count(b'":') - escaped


def _is_exact(floats: pa.Array) -> bool:
    numbers = floats.drop_null().to_numpy()
    return bool(np.isfinite(numbers).all()) and not np.signbit(numbers[numbers == 0]).any()


def _has_quotes(text: bytes, expected: int) -> bool:
    """Whether a text has this many quotes around names and texts.

    False also if one of the texts ends with a backslash.
    """
    if b"\\" not in text:
        return text.count(b'"') == expected
    return b'\\\\"' not in text and text.count(b'"') - text.count(b'\\"') == expected


def _pieces(values: Sequence[Any]) -> Iterator[Sequence[Any]]:
    """Yield the values in pieces. The values of a piece are read together."""
    begin = size = 0
    for at, value in enumerate(values):
        if at > begin and (at - begin == _READ_ROWS or size + len(value) > _READ_BYTES):
            yield values[begin:at]
            begin, size = at, 0
        size += len(value)
    if begin < len(values):
        yield values[begin:]


def _mask(booleans: pa.Array) -> Mask:
    mask: Mask = booleans.to_numpy(zero_copy_only=False)
    return mask


def _joined(parts: Sequence[ReadArrays]) -> ReadArrays | None:
    if len(parts) == 1:
        return parts[0]
    after = _joined_rows([each.after for each in parts])
    before = [each.before for each in parts if each.before is not None]
    if before and len(before) < len(parts):
        return None  # only some values have a member for the row before
    return ReadArrays(after, _joined_rows(before) if before else None)


def _joined_rows(parts: Sequence[RowArrays]) -> RowArrays:
    columns = zip(*(each.columns for each in parts), strict=True)
    return RowArrays(np.concatenate([each.there for each in parts]), list(map(pa.concat_arrays, columns)))
