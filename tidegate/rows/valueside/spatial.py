"""Spatial datums in values: a shape is a protobuf message that has its EWKB, a box is four numbers.

Source: CockroachDB pkg/util/encoding/encoding.go (Geo and Box2D values), pkg/geo/geopb, pkg/roachpb/data.go.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Final

from google.protobuf.message import DecodeError

from tidegate.errors import EncodingError
from tidegate.rows.ewkb import EwkbHead, ShapeType, read_head
from tidegate.rows.keyside.boxes import decode_sides_asc, encode_sides_asc
from tidegate.rows.spatial_pb2 import SpatialObject
from tidegate.rows.types import Box2D

GEOGRAPHY: Final = 1
GEOMETRY: Final = 2

_Z: Final = 1 << 30
_M: Final = 1 << 29
_COLLECTION: Final = 8  # 7 means "any shape" and is no type of a shape
_SIDES: Final = struct.Struct(">4d")

#: Boxes in tuples and arrays have their form in keys, without the marker.
encode_box, decode_box = encode_sides_asc, decode_sides_asc


def shape_writer(object_type: int) -> Callable[[bytes], bytes]:
    """Return a writer of shapes as messages of type `GEOGRAPHY` or `GEOMETRY`; the bounding box is left out.

    The writer raises `EncodingError` for bytes that do not begin as EWKB does.
    """

    def encode(ewkb: bytes) -> bytes:
        head = read_head(ewkb)
        message = SpatialObject(type=object_type, ewkb=ewkb, srid=head.srid, shape_type=_shape_type(head))
        return message.SerializeToString(deterministic=True)

    return encode


def shape_of(data: bytes) -> bytes:
    """Return the EWKB in a message that `shape_writer` wrote.

    Raises `EncodingError` if the message is damaged or has no shape.
    """
    try:
        ewkb = SpatialObject.FromString(data).ewkb
    except DecodeError as error:
        raise EncodingError(f"a spatial object of {len(data)} bytes is damaged: {error}") from None
    if not ewkb:
        raise EncodingError("a spatial object holds no shape")
    return ewkb


def encode_bare_box(box: Box2D) -> bytes:
    """Encode a box as four floats of eight bytes, without anything around it."""
    return _SIDES.pack(*box)


def bare_box_of(data: bytes) -> Box2D:
    """Undo `encode_bare_box`. Raises `EncodingError` for another length."""
    if len(data) != _SIDES.size:
        raise EncodingError(f"a bare box has {len(data)} bytes instead of {_SIDES.size}")
    return Box2D(*_SIDES.unpack(data))


def _shape_type(head: EwkbHead) -> int:
    base = _COLLECTION if head.type is ShapeType.GEOMETRYCOLLECTION else head.type
    return base | (_Z if head.has_z else 0) | (_M if head.has_m else 0)
