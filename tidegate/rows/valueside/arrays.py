"""Array payloads: a header, the element type, a count, which elements are NULL, the others untagged.

Source: CockroachDB pkg/sql/rowenc/valueside/array.go. Only one dimension exists.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from tidegate.errors import EncodingError
from tidegate.rows.take import Decode, Encode, take
from tidegate.rows.valueside.tags import WireType, decode_tag, encode_tag
from tidegate.rows.valueside.varints import decode_length, encode_length

_DIMENSIONS: Final = 0x0F
_HAS_NULLS: Final = 0x10


def encode_array(elements: Sequence[Any], wire_type: WireType, encode: Encode) -> bytes:
    """The payload of an array whose elements ``encode`` writes; ``None`` is NULL."""
    bitmap = _null_bitmap(elements)
    header = 1 | (_HAS_NULLS if bitmap else 0)
    written = b"".join(encode(element) for element in elements if element is not None)
    return bytes((header,)) + encode_tag(0, wire_type) + encode_length(len(elements)) + bitmap + written


def decode_array(payload: bytes, wire_type: WireType, decode: Decode) -> tuple[Any, ...]:
    """Inverse of `encode_array`; `EncodingError` when malformed, of another element type, or too long."""
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
    """One bit an element, lowest first, set for NULL; empty when none is."""
    if all(element is not None for element in elements):
        return b""
    bits = sum(1 << i for i, element in enumerate(elements) if element is None)
    return bits.to_bytes(-(-len(elements) // 8), "little")


def _decode_elements(
    payload: bytes, position: int, count: int, bitmap: bytes, decode: Decode
) -> tuple[Any, ...]:
    nulls = int.from_bytes(bitmap, "little")
    if count - nulls.bit_count() > len(payload) - position:
        raise EncodingError(f"an array of {len(payload)} bytes announces {count} elements")
    elements: list[Any] = []
    for i in range(count):
        if nulls >> i & 1:
            elements.append(None)
        else:
            element, position = decode(payload, position)
            elements.append(element)
    if position != len(payload):
        raise EncodingError(f"{len(payload) - position} bytes follow an array's {count} elements")
    return tuple(elements)
