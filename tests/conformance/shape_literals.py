"""Shapes and boxes as SQL spells them.

A shape is EWKT (``SRID=4326;POINT Z (1 2 3)``) or EWKB in hexadecimal, a box ``BOX(1 2,3 4)``.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final

from tidegate.rows import Box2D
from tidegate.rows.ewkb import Shape, ShapeType, read_ewkb, write_ewkb

_GEOGRAPHY_SRID: Final = 4326
_HEXADECIMAL: Final = re.compile(r"(?:[0-9A-Fa-f]{2})+")
_EWKT: Final = re.compile(r"(?:SRID=(?P<srid>\d+)\s*;)?\s*(?P<shape>.+)", re.IGNORECASE | re.DOTALL)
_TAG: Final = re.compile(r"([A-Z]+?)\s*(ZM|Z|M)?")
_TOKEN: Final = re.compile(r"\s*([A-Za-z]+(?:\s+(?:ZM|Z|M)\b)?|[-+\d.eE]+|[(),])", re.IGNORECASE)
_BOX: Final = re.compile(r"BOX\(\s*(\S+)\s+(\S+?)\s*,\s*(\S+)\s+(\S+?)\s*\)", re.IGNORECASE)
_MEMBERS: Final = {
    ShapeType.MULTIPOINT: ShapeType.POINT,
    ShapeType.MULTILINESTRING: ShapeType.LINESTRING,
    ShapeType.MULTIPOLYGON: ShapeType.POLYGON,
}


def geometry_of(text: str) -> bytes:
    """The EWKB of a GEOMETRY. Raises ``ValueError`` for what this reader does not know."""
    return write_ewkb(_shape(text))


def geography_of(text: str) -> bytes:
    """The same of a GEOGRAPHY, whose SRID is 4326 where none is said."""
    shape = _shape(text)
    return write_ewkb(shape if shape.srid else shape._replace(srid=_GEOGRAPHY_SRID))


def box_of(text: str) -> Box2D:
    """A BOX2D."""
    match = _BOX.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"{text!r} is no BOX2D")
    lo_x, lo_y, hi_x, hi_y = map(float, match.groups())
    return Box2D(lo_x, hi_x, lo_y, hi_y)


def _shape(text: str) -> Shape:
    text = text.strip()
    if _HEXADECIMAL.fullmatch(text):
        return read_ewkb(bytes.fromhex(text))
    match = _EWKT.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is no shape")
    reader = _Reader(match["shape"])
    shape = reader.shape()
    if reader.tokens:
        raise ValueError(f"{text!r} goes on after its shape")
    return shape._replace(srid=int(match["srid"] or 0))


class _Reader:
    def __init__(self, text: str) -> None:
        self.tokens = _TOKEN.findall(text)[::-1]
        if _TOKEN.sub("", text).strip():
            raise ValueError(f"{text!r} is no shape")

    def shape(self) -> Shape:
        tag = _TAG.fullmatch(self._next().upper())
        if tag is None or tag[1] not in ShapeType.__members__:
            raise ValueError("a shape has an unknown name")
        of, flags = ShapeType[tag[1]], tag[2] or ""
        shape = Shape(of, self._parts(of, flags), 0, "Z" in flags, "M" in flags)
        # POINT(1 2 3) has a Z without saying so.
        if of is ShapeType.POINT and not flags and len(shape.parts) > 2:
            return shape._replace(has_z=True, has_m=len(shape.parts) > 3)
        return shape

    def _parts(self, of: ShapeType, flags: str) -> tuple[Any, ...]:
        if self.tokens and self.tokens[-1].upper() == "EMPTY":
            self.tokens.pop()
            return ()
        match of:
            case ShapeType.POINT:
                (position,) = self._list(self._position)
                return tuple(position)
            case ShapeType.LINESTRING:
                return self._list(self._position)
            case ShapeType.POLYGON:
                return self._list(lambda: self._list(self._position))
            case ShapeType.GEOMETRYCOLLECTION:
                return self._list(self.shape)
        return self._list(lambda: self._member(_MEMBERS[of], flags))

    def _member(self, of: ShapeType, flags: str) -> Shape:
        bare = of is ShapeType.POINT and self.tokens[-1] not in ("(", "EMPTY")
        parts = self._position() if bare else self._parts(of, flags)
        return Shape(of, parts, 0, "Z" in flags, "M" in flags)

    def _position(self) -> tuple[float, ...]:
        numbers = []
        while self.tokens and self.tokens[-1] not in ",)":
            numbers.append(float(self.tokens.pop()))
        return tuple(numbers)

    def _list(self, item: Callable[[], Any]) -> tuple[Any, ...]:
        items = []
        opening = self._next()
        while opening in ("(", ","):
            items.append(item())
            opening = self._next()
        if opening != ")":
            raise ValueError(f"{opening!r} stands in the list of a shape")
        return tuple(items)

    def _next(self) -> str:
        if not self.tokens:
            raise ValueError("a shape ends too early")
        return str(self.tokens.pop())
