"""Boxes in keys: a marker, then the four sides as floats in the key's direction.

Source: CockroachDB pkg/util/encoding/encoding.go (Box2D). The sides of a box have no negative zero, so a box
in a key never has to be written to the value too.
"""

from __future__ import annotations

from typing import Final

from tidegate.errors import EncodingError
from tidegate.rows.keyside.floats import (
    decode_float_asc,
    decode_float_desc,
    encode_float_asc,
    encode_float_desc,
)
from tidegate.rows.take import Decode, marker_at
from tidegate.rows.types import Box2D

MARKER: Final = 0x41
_MARKER: Final = bytes((MARKER,))


def encode_box_asc(box: Box2D) -> bytes:
    """Encode a box so that boxes sort by their least x, greatest x, least y, greatest y."""
    return _MARKER + encode_sides_asc(box)


def decode_box_asc(buffer: bytes, position: int) -> tuple[Box2D, int]:
    """Undo `encode_box_asc`. Raises `EncodingError` for bytes that are truncated or no box."""
    return decode_sides_asc(buffer, _behind_marker(buffer, position))


def encode_box_desc(box: Box2D) -> bytes:
    """Encode a box so that greater boxes sort first."""
    return _MARKER + b"".join(map(encode_float_desc, box))


def decode_box_desc(buffer: bytes, position: int) -> tuple[Box2D, int]:
    """Undo `encode_box_desc`. Raises as `decode_box_asc`."""
    return _decode_sides(buffer, _behind_marker(buffer, position), decode_float_desc)


def encode_sides_asc(box: Box2D) -> bytes:
    """Encode the sides alone, without a marker. Values have this form too."""
    return b"".join(map(encode_float_asc, box))


def decode_sides_asc(buffer: bytes, position: int) -> tuple[Box2D, int]:
    """Undo `encode_sides_asc`. Raises as `decode_box_asc`."""
    return _decode_sides(buffer, position, decode_float_asc)


def _behind_marker(buffer: bytes, position: int) -> int:
    marker = marker_at(buffer, position)
    if marker != MARKER:
        raise EncodingError(f"byte 0x{marker:02x} at offset {position} does not begin a box")
    return position + 1


def _decode_sides(buffer: bytes, position: int, decode: Decode) -> tuple[Box2D, int]:
    lo_x, position = decode(buffer, position)
    hi_x, position = decode(buffer, position)
    lo_y, position = decode(buffer, position)
    hi_y, position = decode(buffer, position)
    return Box2D(lo_x, hi_x, lo_y, hi_y), position
