"""Tags of datums in values: the difference of column ids, and the type of the bytes that follow.

For example, the tag ``23`` is that of an INT (3) in a column whose id is 2 above that of the column before.
Source: CockroachDB pkg/util/encoding/encoding.go (value encoding, `EncodeValueTag`).
"""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum
from functools import cache
from typing import Final

from tidegate.errors import EncodingError
from tidegate.rows.inet import decode_inet
from tidegate.rows.keyside.boxes import decode_sides_asc
from tidegate.rows.take import take
from tidegate.rows.valueside.varints import decode_length, decode_uvarint, encode_length


class WireType(IntEnum):
    """The type of the bytes after a tag."""

    NULL = 1
    NOT_NULL = 2
    INT = 3
    FLOAT = 4
    DECIMAL = 5
    BYTES = 6
    TIME = 8
    DURATION = 9
    TRUE = 10
    FALSE = 11
    UUID = 12
    ARRAY = 13
    IP_ADDRESS = 14
    JSON = 15
    TUPLE = 16
    BIT_ARRAY = 17
    TIME_TZ = 18
    GEO = 19
    BOX2D = 24
    VOID = 25
    TS_QUERY = 26
    TS_VECTOR = 27
    PG_VECTOR = 44
    LTREE = 45


_TYPE_BITS: Final = 4
_EXTENDED: Final = 15  # value of the low four bits if the type follows as an integer of its own
_BITS_PER_WORD: Final = 64
#: The greatest known wire type. Readers of rows find a column's reader by the column id and the wire type in
#: one number, in which a wire type has eight bits.
_MOST: Final = max(WireType)


@cache  # few different tags are in use
def encode_tag(column_delta: int, wire_type: int) -> bytes:
    """Return the tag of a datum whose column id is ``column_delta`` above that of the datum before it."""
    if wire_type < _EXTENDED:
        return encode_length(column_delta << _TYPE_BITS | wire_type)
    return encode_length(column_delta << _TYPE_BITS | _EXTENDED) + encode_length(wire_type)


def decode_tag(buffer: bytes, position: int) -> tuple[int, int, int]:
    """Return (column id difference, wire type number, position of the datum).

    Raises `EncodingError` when truncated, or for a wire type above the known ones.
    """
    tag, end = decode_length(buffer, position)
    wire_type = tag & _EXTENDED
    if wire_type == _EXTENDED:
        wire_type, end = decode_length(buffer, end)
        if wire_type > _MOST:
            raise _unknown(wire_type)
    return tag >> _TYPE_BITS, wire_type, end


def skip_datum(buffer: bytes, position: int, wire_type: int) -> int:
    """Return the position after the datum that starts at ``position``, after its tag.

    The type of the column is not needed, so columns that were dropped or are not public yet can be passed
    over. Raises `EncodingError` for an unknown wire type or truncated bytes.
    """
    skip = _SKIP.get(wire_type)
    if skip is None:
        raise _unknown(wire_type)
    return skip(buffer, position)


def _unknown(wire_type: int) -> EncodingError:
    return EncodingError(f"a datum has the unknown wire type {wire_type}")


def _nothing(_buffer: bytes, position: int) -> int:
    return position


def _fixed(size: int) -> Callable[[bytes, int], int]:
    return lambda buffer, position: take(buffer, position, size)[1]


def _integers(count: int) -> Callable[[bytes, int], int]:
    def skip(buffer: bytes, position: int) -> int:
        for _ in range(count):
            _, position = decode_uvarint(buffer, position)
        return position

    return skip


def _sized(buffer: bytes, position: int) -> int:
    size, start = decode_length(buffer, position)
    return take(buffer, start, size)[1]


def _decimal(buffer: bytes, position: int) -> int:
    size, start = decode_uvarint(buffer, position)
    return take(buffer, start, size)[1]


def _bit_array(buffer: bytes, position: int) -> int:
    length, start = decode_length(buffer, position)
    return take(buffer, start, 8 * -(-length // _BITS_PER_WORD))[1]


def _tuple(buffer: bytes, position: int) -> int:
    """Skip a tuple.

    The elements of a tuple within a tuple stand in the same sequence, so one count is enough for any nesting.
    """
    left, position = decode_length(buffer, position)
    while left:
        left -= 1
        _, wire_type, position = decode_tag(buffer, position)
        if wire_type == WireType.TUPLE:
            more, position = decode_length(buffer, position)
            left += more
        else:
            position = skip_datum(buffer, position, wire_type)
    return position


_SKIP: Final[dict[int, Callable[[bytes, int], int]]] = {
    WireType.NULL: _nothing,
    WireType.NOT_NULL: _nothing,
    WireType.INT: _integers(1),
    WireType.FLOAT: _fixed(8),
    WireType.DECIMAL: _decimal,
    WireType.BYTES: _sized,
    WireType.TIME: _integers(2),
    WireType.DURATION: _integers(3),
    WireType.TRUE: _nothing,
    WireType.FALSE: _nothing,
    WireType.UUID: _fixed(16),
    WireType.ARRAY: _sized,
    WireType.IP_ADDRESS: lambda buffer, position: decode_inet(buffer, position)[1],
    WireType.JSON: _sized,
    WireType.TUPLE: _tuple,
    WireType.BIT_ARRAY: _bit_array,
    WireType.TIME_TZ: _integers(2),
    WireType.GEO: _sized,
    WireType.BOX2D: lambda buffer, position: decode_sides_asc(buffer, position)[1],
    WireType.VOID: _nothing,
    WireType.TS_QUERY: _sized,
    WireType.TS_VECTOR: _sized,
    WireType.PG_VECTOR: _sized,
    WireType.LTREE: _sized,
}
