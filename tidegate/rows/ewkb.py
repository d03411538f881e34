"""EWKB, the stored bytes of a shape: reads and writes GEOMETRY and GEOGRAPHY datums.

    shape = byte order (0 big, 1 little endian) | type and flags, 4 bytes | [SRID, 4 bytes] | body
    body  = coordinates of a point (all NaN when it is empty)
          | count, then points, rings or whole shapes

Sources: PostGIS ``doc/ZMSgeoms.txt``; CockroachDB ``pkg/geo``, which leaves the reading to go-geom's ewkb.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from enum import IntEnum
from typing import Any, Final, NamedTuple, TypeAlias

from tidegate.errors import EncodingError

#: The most levels of collections in collections. Real shapes have far fewer, and bytes with more levels could
#: overflow the stack.
MAX_NESTING: Final = 32
HAS_Z: Final = 0x8000_0000
HAS_M: Final = 0x4000_0000
HAS_SRID: Final = 0x2000_0000

_FLAGS: Final = HAS_Z | HAS_M | HAS_SRID
_LITTLE_ENDIAN: Final = 1
_ORDERS: Final = {0: ">", 1: "<"}
_COORDINATE_BYTES: Final = 8
_COUNT_BYTES: Final = 4
#: The fewest bytes of a shape in a shape: byte order, type, and at least a count.
_LEAST_SHAPE_BYTES: Final = 9

Position: TypeAlias = tuple[float, ...]


class ShapeType(IntEnum):
    """The kind of a shape, without flags."""

    POINT = 1
    LINESTRING = 2
    POLYGON = 3
    MULTIPOINT = 4
    MULTILINESTRING = 5
    MULTIPOLYGON = 6
    GEOMETRYCOLLECTION = 7


#: The type of the shapes in a shape. A collection may have any.
_MEMBERS: Final = {
    ShapeType.MULTIPOINT: ShapeType.POINT,
    ShapeType.MULTILINESTRING: ShapeType.LINESTRING,
    ShapeType.MULTIPOLYGON: ShapeType.POLYGON,
}


class Shape(NamedTuple):
    """A shape. Its type says what its ``parts`` are.

    The parts of a POINT are its coordinates, and an empty point has no parts. The parts of a LINESTRING are
    positions, those of a POLYGON are rings of positions, and those of other shapes are shapes. ``has_z`` and
    ``has_m`` say which coordinates follow x and y. ``srid`` is 0 if there is none.
    """

    type: ShapeType
    parts: tuple[Any, ...]
    srid: int = 0
    has_z: bool = False
    has_m: bool = False

    @property
    def coordinates(self) -> int:
        """The number of coordinates that a position has."""
        return 2 + self.has_z + self.has_m


class EwkbHead(NamedTuple):
    """The start of EWKB: the shape's type, flags and SRID, and the position where its body begins."""

    type: ShapeType
    has_z: bool
    has_m: bool
    srid: int
    order: str
    body: int


def read_head(data: bytes, position: int = 0) -> EwkbHead:
    """Return the head, which stands before the coordinates.

    Raises `EncodingError` for EWKB that is cut short or of an unknown type.
    """
    order = _ORDERS.get(data[position]) if position < len(data) else None
    if order is None:
        raise EncodingError(f"EWKB has no byte order at offset {position}")
    code, end = _uint32(data, position + 1, order)
    try:
        shape_type = ShapeType(code & ~_FLAGS)
    except ValueError:
        raise EncodingError(f"EWKB type 0x{code:08x} is no shape that tidegate knows") from None
    srid, end = _uint32(data, end, order) if code & HAS_SRID else (0, end)
    return EwkbHead(shape_type, bool(code & HAS_Z), bool(code & HAS_M), srid, order, end)


def read_ewkb(data: bytes) -> Shape:
    """Return the shape in ``data``.

    Raises `EncodingError` if it is malformed or nested beyond `MAX_NESTING`.
    """
    shape, end = _read_shape(data, 0, 0)
    if end != len(data):
        raise EncodingError(f"{len(data) - end} bytes follow the shape in EWKB")
    return shape


def write_ewkb(shape: Shape) -> bytes:
    """Undo `read_ewkb`. The bytes are little endian, as CockroachDB writes them."""
    code = shape.type | (HAS_Z if shape.has_z else 0) | (HAS_M if shape.has_m else 0)
    if shape.srid:
        head = struct.pack("<BII", _LITTLE_ENDIAN, code | HAS_SRID, shape.srid)
    else:
        head = struct.pack("<BI", _LITTLE_ENDIAN, code)
    if shape.type is ShapeType.POINT:
        return head + _write_position(shape.parts or (math.nan,) * shape.coordinates)
    return head + struct.pack("<I", len(shape.parts)) + b"".join(map(_WRITERS[shape.type], shape.parts))


def _read_shape(data: bytes, position: int, depth: int) -> tuple[Shape, int]:
    if depth > MAX_NESTING:
        raise EncodingError(f"EWKB nests shapes in more than {MAX_NESTING} collections")
    head = read_head(data, position)
    empty = Shape(head.type, (), head.srid, head.has_z, head.has_m)
    match head.type:
        case ShapeType.POINT:
            (point,), end = _read_positions(data, head.body, head.order, 1, empty.coordinates)
            parts: tuple[Any, ...] = () if all(map(math.isnan, point)) else point
        case ShapeType.LINESTRING:
            parts, end = _read_line(data, head.body, head.order, empty.coordinates)
        case ShapeType.POLYGON:
            parts, end = _read_rings(data, head.body, head.order, empty.coordinates)
        case _:
            parts, end = _read_members(data, head, depth)
    return empty._replace(parts=parts), end


def _read_line(data: bytes, position: int, order: str, coordinates: int) -> tuple[tuple[Position, ...], int]:
    count, start = _uint32(data, position, order)
    return _read_positions(data, start, order, count, coordinates)


def _read_rings(data: bytes, position: int, order: str, coordinates: int) -> tuple[tuple[Any, ...], int]:
    count, end = _count(data, position, order, _COUNT_BYTES)
    rings = []
    for _ in range(count):
        ring, end = _read_line(data, end, order, coordinates)
        rings.append(ring)
    return tuple(rings), end


def _read_members(data: bytes, head: EwkbHead, depth: int) -> tuple[tuple[Shape, ...], int]:
    count, end = _count(data, head.body, head.order, _LEAST_SHAPE_BYTES)
    wanted = _MEMBERS.get(head.type)
    members = []
    for _ in range(count):
        member, end = _read_shape(data, end, depth + 1)
        if wanted is not None and (member.type, member.has_z, member.has_m) != (
            wanted,
            head.has_z,
            head.has_m,
        ):
            raise EncodingError(
                f"EWKB has a {member.type.name} in a {head.type.name}, or a part of other dimensions than it"
            )
        members.append(member)
    return tuple(members), end


def _read_positions(
    data: bytes, position: int, order: str, count: int, coordinates: int
) -> tuple[tuple[Position, ...], int]:
    size = count * coordinates * _COORDINATE_BYTES
    if size > len(data) - position:
        raise EncodingError(f"EWKB of {len(data)} bytes announces {count} positions at offset {position}")
    flat = struct.unpack_from(f"{order}{count * coordinates}d", data, position)
    starts = range(0, len(flat), coordinates)
    return tuple(flat[at : at + coordinates] for at in starts), position + size


def _count(data: bytes, position: int, order: str, least_bytes: int) -> tuple[int, int]:
    """Return a number of parts, and the position after it.

    Raises `EncodingError` if the bytes that follow have no room for so many parts.
    """
    count, end = _uint32(data, position, order)
    if count * least_bytes > len(data) - end:
        raise EncodingError(f"EWKB of {len(data)} bytes announces {count} parts at offset {position}")
    return count, end


def _uint32(data: bytes, position: int, order: str) -> tuple[int, int]:
    if position + 4 > len(data):
        raise EncodingError(f"EWKB ends at byte {len(data)}, inside a number")
    (value,) = struct.unpack_from(f"{order}I", data, position)
    return value, position + 4


def _write_position(position: Position) -> bytes:
    return struct.pack(f"<{len(position)}d", *position)


def _write_line(positions: tuple[Position, ...]) -> bytes:
    return struct.pack("<I", len(positions)) + b"".join(map(_write_position, positions))


_WRITERS: Final[dict[ShapeType, Callable[[Any], bytes]]] = {
    ShapeType.LINESTRING: _write_position,
    ShapeType.POLYGON: _write_line,
    ShapeType.MULTIPOINT: write_ewkb,
    ShapeType.MULTILINESTRING: write_ewkb,
    ShapeType.MULTIPOLYGON: write_ewkb,
    ShapeType.GEOMETRYCOLLECTION: write_ewkb,
}
