"""Array payloads: a header, the element type, a count, a bitmap of NULLs, then the elements.

Elements that are NULL are left out. Elements have no tags.

Source: CockroachDB pkg/sql/rowenc/valueside/array.go. Only one dimension exists.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain, islice, repeat
from typing import Any, Final

from tidegate.errors import EncodingError
from tidegate.rows.take import Decode, Encode, take
from tidegate.rows.valueside.tags import WireType, decode_tag, encode_tag
from tidegate.rows.valueside.varints import decode_length, encode_length

#: The most elements. A NULL is one bit here, and several bytes in other forms. With this limit an array takes
#: no more time than a megabyte may take.
MAX_ELEMENTS: Final = 2 << 20

_DIMENSIONS: Final = 0x0F
_HAS_NULLS: Final = 0x10


def encode_array(elements: Sequence[Any], wire_type: WireType, encode: Encode) -> bytes:
    """Return the payload of an array whose elements ``encode`` writes; ``None`` is NULL."""
    bitmap = _null_bitmap(elements)
    header = 1 | (_HAS_NULLS if bitmap else 0)
    written = b"".join(encode(element) for element in elements if element is not None)
    return bytes((header,)) + encode_tag(0, wire_type) + encode_length(len(elements)) + bitmap + written


def decode_array(payload: bytes, wire_type: WireType, decode: Decode) -> tuple[Any, ...]:
    """Undo `encode_array`.

    Raises `EncodingError` for an array that is malformed, of another element type, or too long.
    """
    (header,), position = take(payload, 0, 1)
    if header & _DIMENSIONS != 1 or header & ~(_DIMENSIONS | _HAS_NULLS):
        raise EncodingError(f"an array's header 0x{header:02x} is not that of one dimension")
    _, found, position = decode_tag(payload, position)
    if found != wire_type and {found, wire_type} != {WireType.TRUE, WireType.FALSE}:
        raise EncodingError(f"an array holds elements of wire type {found}, not {int(wire_type)}")
    count, position = decode_length(payload, position)
    if header & _HAS_NULLS:
        bitmap, position = take(payload, position, -(-count // 8))
    else:
        bitmap = b""
    return _decode_elements(payload, position, count, bitmap, decode)


def _null_bitmap(elements: Sequence[Any]) -> bytes:
    """Return one bit for each element, lowest first, set for NULL; empty when no element is NULL."""
    bitmap = bytearray(-(-len(elements) // 8))
    for i, element in enumerate(elements):
        if element is None:
            bitmap[i >> 3] |= 1 << (i & 7)
    return bytes(bitmap) if any(bitmap) else b""


def _decode_elements(
    payload: bytes, position: int, count: int, bitmap: bytes, decode: Decode
) -> tuple[Any, ...]:
    if count > MAX_ELEMENTS:
        raise EncodingError(f"an array announces {count} elements, and {MAX_ELEMENTS} can be read")
    nulls = int.from_bytes(bitmap, "little").bit_count()
    if count - nulls > len(payload) - position:
        raise EncodingError(f"an array of {len(payload)} bytes announces {count} elements")
    elements: list[Any] = []
    for is_null in _null_marks(bitmap, count) if nulls else repeat(False, count):
        if is_null:
            elements.append(None)
        else:
            element, position = decode(payload, position)
            elements.append(element)
    if position != len(payload):
        raise EncodingError(f"{len(payload) - position} bytes follow an array's {count} elements")
    return tuple(elements)


def _null_marks(bitmap: bytes, count: int) -> Iterable[bool]:
    """Yield for each element whether it is NULL. The bitmap is read byte by byte: if it were shifted for each
    element, the time would grow with n * n.
    """
    return islice(chain.from_iterable(map(_MARKS.__getitem__, bitmap)), count)


#: For each byte of a bitmap, the marks of its eight elements, lowest bit first.
_MARKS: Final = tuple(tuple(bool(byte >> bit & 1) for bit in range(8)) for byte in range(256))
