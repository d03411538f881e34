"""Shapes for property tests."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from tidegate.rows.ewkb import Shape, ShapeType, write_ewkb

#: From CockroachDB's pkg/ccl/changefeedccl/avro/avro_test.go, value_goldens: 'POINT(1.0 1.0)'.
GEOMETRY_POINT = "0101000000000000000000f03f000000000000f03f"
GEOGRAPHY_POINT = "0101000020e6100000000000000000f03f000000000000f03f"

_coordinates = st.floats(-1e9, 1e9) | st.integers(-180, 180).map(float)
_MEMBERS = {
    ShapeType.MULTIPOINT: ShapeType.POINT,
    ShapeType.MULTILINESTRING: ShapeType.LINESTRING,
    ShapeType.MULTIPOLYGON: ShapeType.POLYGON,
}


@st.composite
def shapes(draw: st.DrawFn, of: ShapeType | None = None, srid: int | None = None, depth: int = 2) -> Shape:
    """A shape of two to four coordinates a position; ``depth`` bounds collections in collections."""
    types = [each for each in ShapeType if depth or each is not ShapeType.GEOMETRYCOLLECTION]
    shape_type = of or draw(st.sampled_from(types))
    flags = {"has_z": draw(st.booleans()), "has_m": draw(st.booleans())}
    number = draw(st.sampled_from([0, 4326, 26918])) if srid is None else srid
    return Shape(shape_type, draw(_parts(shape_type, flags, depth)), number, **flags)


def ewkb(srid: int | None = None) -> st.SearchStrategy[bytes]:
    """The bytes of a shape."""
    return shapes(srid=srid).map(write_ewkb)


def _parts(of: ShapeType, flags: dict[str, bool], depth: int) -> st.SearchStrategy[Any]:
    size = 2 + sum(flags.values())
    position = st.tuples(*[_coordinates] * size)
    line = st.lists(position, max_size=4).map(tuple)
    match of:
        case ShapeType.POINT:
            return position | st.just(())
        case ShapeType.LINESTRING:
            return line
        case ShapeType.POLYGON:
            return st.lists(line, max_size=3).map(tuple)
        case ShapeType.GEOMETRYCOLLECTION:
            return st.lists(shapes(srid=0, depth=depth - 1), max_size=3).map(tuple)
        case _:
            member = _parts(_MEMBERS[of], flags, 0).map(lambda each: Shape(_MEMBERS[of], each, 0, **flags))
            return st.lists(member, max_size=3).map(tuple)
