"""GEOMETRY and GEOGRAPHY in JSON: a GeoJSON object, as CockroachDB prints it.

Names are sorted like those of any object. A coordinate is rounded to nine decimals, then printed as any
number is: ``1E-9``, but ``100``. Z and M follow x and y. The object has no SRID and no bounding box.
Sources: CockroachDB ``pkg/geo/encode.go`` (``SpatialObjectToGeoJSON``, no flags, nine digits), go-geom's
geojson, ``pkg/util/json`` (``FromSpatialObject``).
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from decimal import Decimal
from typing import Final

from tidegate.errors import RowError
from tidegate.rows.ewkb import Position, Shape, ShapeType, read_ewkb

_DECIMALS: Final = 9
_NAMES: Final = {
    ShapeType.POINT: "Point",
    ShapeType.LINESTRING: "LineString",
    ShapeType.POLYGON: "Polygon",
    ShapeType.MULTIPOINT: "MultiPoint",
    ShapeType.MULTILINESTRING: "MultiLineString",
    ShapeType.MULTIPOLYGON: "MultiPolygon",
    ShapeType.GEOMETRYCOLLECTION: "GeometryCollection",
}


def geojson_text(ewkb: bytes) -> str:
    """Return a shape as GeoJSON.

    Raises ``RowError`` for bytes that are no EWKB, and for coordinates that JSON has no number for.
    """
    return _shape_text(read_ewkb(ewkb))


def _shape_text(shape: Shape) -> str:
    name = _NAMES[shape.type]
    if shape.type is ShapeType.GEOMETRYCOLLECTION:
        return f'{{"geometries": {_list(map(_shape_text, shape.parts))}, "type": "{name}"}}'
    return f'{{"coordinates": {_coordinates(shape)}, "type": "{name}"}}'


def _coordinates(shape: Shape) -> str:
    match shape.type:
        case ShapeType.POINT:
            return _position(shape.parts)
        case ShapeType.LINESTRING:
            return _line(shape.parts)
        case ShapeType.POLYGON:
            return _list(map(_line, shape.parts))
        case _:
            return _list(map(_coordinates, shape.parts))


def _line(positions: Iterable[Position]) -> str:
    return _list(map(_position, positions))


def _position(position: Position) -> str:
    return _list(map(_number, position))


def _number(coordinate: float) -> str:
    if not math.isfinite(coordinate):
        raise RowError(f"a shape has the coordinate {coordinate}, which GeoJSON cannot hold; the feed fails")
    rounded = f"{coordinate:.{_DECIMALS}f}".rstrip("0").rstrip(".")
    return str(Decimal(rounded))


def _list(items: Iterable[str]) -> str:
    return f"[{', '.join(items)}]"
