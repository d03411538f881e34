"""Arrays in keys: a marker, the elements in their own key form, a terminator.

No element begins with a byte that could be taken for NULL or the terminator. Source: CockroachDB
pkg/sql/rowenc/keyside/array.go.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from tidegate.errors import EncodingError
from tidegate.rows.take import Decode, Encode, marker_at

ASC: Final = 0x3F
DESC: Final = 0x40

_ASC_NULL: Final = 0x01
_ASC_END: Final = 0x00
_DESC_NULL: Final = 0xFE
_DESC_END: Final = 0xFF


def array_encoder(encode: Encode, descending: bool) -> Encode:
    """Return an encoder of arrays, made from the encoder of their elements in the same direction."""
    marker, null, end = _bytes_of(descending)

    def encode_array(elements: Sequence[Any]) -> bytes:
        body = b"".join(null if element is None else encode(element) for element in elements)
        return marker + body + end

    return encode_array


def array_decoder(decode: Decode, descending: bool) -> Decode:
    """Return the inverse of `array_encoder`. The decoder raises `EncodingError` for a malformed array."""
    marker, null, end = (byte[0] for byte in _bytes_of(descending))

    def decode_array(buffer: bytes, position: int) -> tuple[tuple[Any, ...], int]:
        if marker_at(buffer, position) != marker:
            raise EncodingError(f"byte 0x{buffer[position]:02x} at offset {position} does not begin an array")
        elements: list[Any] = []
        position += 1
        while (byte := marker_at(buffer, position)) != end:
            if byte == null:
                element, position = None, position + 1
            else:
                element, position = decode(buffer, position)
            elements.append(element)
        return tuple(elements), position + 1

    return decode_array


def _bytes_of(descending: bool) -> tuple[bytes, bytes, bytes]:
    if descending:
        return bytes((DESC,)), bytes((_DESC_NULL,)), bytes((_DESC_END,))
    return bytes((ASC,)), bytes((_ASC_NULL,)), bytes((_ASC_END,))
