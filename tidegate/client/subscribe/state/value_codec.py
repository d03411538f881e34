"""The stored form of a row's values: exact, compact, and the same on every machine.

A row is its number of values, then the values. A value is a tag of one byte, then what the tag says. Sizes
and counts are LEB128. What is read has the type and the form of what was written: ``True`` is not 1, ``1.10``
keeps its zero, ``-0.0`` its sign.

| tag | value | bytes after the tag |
|---|---|---|
| ``N``, ``T``, ``F`` | NULL, true, false | none |
| ``i`` | int of any size | size, two's complement, most significant byte first |
| ``d`` | float | IEEE 754 binary64, most significant byte first |
| ``D`` | Decimal | size, its text |
| ``s``, ``b`` | str, bytes | size, UTF-8 (single surrogates as WTF-8) or bytes |
| ``a``, ``c``, ``C`` | date, time, datetime | size, ISO 8601; a time zone becomes its offset |
| ``u`` | UUID | 16 bytes |
| ``l``, ``t`` | list, tuple | count, values |
| ``o`` | dict | count, keys and values in turn |

Example: ``(1, "ab", None)`` is ``03 69 01 01 73 02 61 62 4e``.

Neither direction recurses: JSON may be nested to any depth.
"""

from __future__ import annotations

import datetime
import struct
import uuid
from collections.abc import Callable
from decimal import Decimal
from typing import Any, Final, TypeAlias

from tidegate.subscribe.updates.update import RowValues

_FLOAT: Final = struct.Struct(">d")
_NULL, _TRUE, _FALSE, _INT, _REAL, _DECIMAL, _TEXT, _BYTES = b"NTFidDsb"
_DATE, _TIME, _DATETIME, _UUID, _LIST, _TUPLE, _DICT = b"acCulto"
_MORE: Final = 0x80

_Items: TypeAlias = list[Any]


def size_bytes(size: int) -> bytes:
    """Encode a size or count as LEB128: seven bits a byte, the lowest first."""
    if size < _MORE:
        return _SIZES[size]
    written = bytearray()
    while size >= _MORE:
        written.append(size & 0x7F | _MORE)
        size >>= 7
    written.append(size)
    return bytes(written)


def read_size(data: bytes, at: int) -> tuple[int, int]:
    """Return the size that is encoded at ``at``, and the position after it.

    Raises ``IndexError`` if the data end within the size.
    """
    size = shift = 0
    while (byte := data[at]) >= _MORE:
        size |= (byte & 0x7F) << shift
        shift += 7
        at += 1
    return size | byte << shift, at + 1


_SIZES: Final = tuple(bytes((size,)) for size in range(_MORE))
#: Tags with their sizes, for short values: most values are short.
_TEXT_HEADS: Final = tuple(bytes((_TEXT, size)) for size in range(_MORE))
_INT_HEADS: Final = tuple(bytes((_INT, size)) for size in range(_MORE))


def _sized(tag: bytes, content: bytes) -> bytes:
    return tag + size_bytes(len(content)) + content


def _text(value: str) -> bytes:
    content = value.encode("utf-8", "surrogatepass")
    return _TEXT_HEADS[len(content)] + content if len(content) < _MORE else _sized(b"s", content)


def _int(value: int) -> bytes:
    size = value.bit_length() // 8 + 1
    content = value.to_bytes(size, "big", signed=True)
    return _INT_HEADS[size] + content if size < _MORE else _sized(b"i", content)


def _datetime(value: datetime.datetime) -> bytes:
    return _sized(b"C", value.isoformat().encode())


_PLAIN: Final[dict[type, Callable[[Any], bytes]]] = {
    type(None): lambda _: b"N",
    bool: lambda value: b"T" if value else b"F",
    int: _int,
    float: lambda value: b"d" + _FLOAT.pack(value),
    Decimal: lambda value: _sized(b"D", str(value).encode()),
    str: _text,
    bytes: lambda value: _sized(b"b", value),
    datetime.date: lambda value: _sized(b"a", value.isoformat().encode()),
    datetime.time: lambda value: _sized(b"c", value.isoformat().encode()),
    datetime.datetime: _datetime,
    uuid.UUID: lambda value: b"u" + value.bytes,
}


def encode_row(row: RowValues) -> bytes:
    """Encode a row. Raises ``TypeError`` for a value of a type that is not in the table above."""
    pieces = [size_bytes(len(row))]
    for value in row:
        encode = _PLAIN.get(type(value))
        if encode is not None:
            pieces.append(encode(value))
        else:
            _append_nested(pieces, value)
    return b"".join(pieces)


def _append_nested(pieces: list[bytes], value: Any) -> None:
    waiting = [value]
    while waiting:
        value = waiting.pop()
        encode = _PLAIN.get(type(value))
        if encode is not None:
            pieces.append(encode(value))
        elif type(value) is list or type(value) is tuple:
            pieces.append((b"l" if type(value) is list else b"t") + size_bytes(len(value)))
            waiting += reversed(value)
        elif type(value) is dict:
            pieces.append(b"o" + size_bytes(len(value)))
            waiting += [part for member in reversed(value.items()) for part in reversed(member)]
        else:
            raise TypeError(f"a value of the type {type(value).__name__} has no stored form")


def _pairs(items: _Items) -> dict[Any, Any]:
    return dict(zip(items[::2], items[1::2], strict=True))


#: The readers of the content of each tag with a size.
_SIZED: Final[dict[int, Callable[[bytes], Any]]] = {
    _TEXT: lambda content: content.decode("utf-8", "surrogatepass"),
    _INT: lambda content: int.from_bytes(content, "big", signed=True),
    _DECIMAL: lambda content: Decimal(content.decode("ascii")),
    _BYTES: bytes,
    _DATE: lambda content: datetime.date.fromisoformat(content.decode("ascii")),
    _TIME: lambda content: datetime.time.fromisoformat(content.decode("ascii")),
    _DATETIME: lambda content: datetime.datetime.fromisoformat(content.decode("ascii")),
}
#: The same for tags whose content has always one size.
_FIXED: Final[dict[int, tuple[int, Callable[[bytes], Any]]]] = {
    _REAL: (8, lambda content: _FLOAT.unpack(content)[0]),
    _UUID: (16, lambda content: uuid.UUID(bytes=content)),
}
_NESTED: Final[dict[int, tuple[Callable[[_Items], Any], int]]] = {
    _LIST: (list, 1),
    _TUPLE: (tuple, 1),
    _DICT: (_pairs, 2),
}
_SINGLE: Final = {_NULL: None, _TRUE: True, _FALSE: False}


def decode_row(data: bytes) -> RowValues:
    """Return the row that ``encode_row`` made these bytes of. Raises ``ValueError`` for any other bytes."""
    try:
        row, end = _decoded(data)
    except (ValueError, IndexError, KeyError, ArithmeticError, TypeError, struct.error) as error:
        raise ValueError(f"no stored row: {error!r}") from None
    if end != len(data):
        raise ValueError(f"a stored row of {len(data)} bytes that ends at {end}")
    return row


def _decoded(data: bytes) -> tuple[RowValues, int]:
    items: _Items = []
    build: Callable[[_Items], Any] = tuple
    outer: list[tuple[_Items, int, Callable[[_Items], Any]]] = []
    left, at = read_size(data, 0)
    while True:
        while not left:
            built = build(items)
            if not outer:
                return built, at
            items, left, build = outer.pop()
            items.append(built)
        left -= 1
        tag = data[at]
        at += 1
        if tag in _SINGLE:
            items.append(_SINGLE[tag])
            continue
        if tag in _FIXED:
            size, read = _FIXED[tag]
        else:
            size = data[at]
            at += 1
            if size >= _MORE:
                size, at = read_size(data, at - 1)
            if tag in _NESTED:
                outer.append((items, left, build))
                build, of_each = _NESTED[tag]
                items, left = [], size * of_each
                continue
            read = _SIZED[tag]
        end = at + size
        items.append(read(data[at:end]))
        at = end
