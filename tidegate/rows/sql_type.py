"""Reads and prints the SQL text of column types.

Types are spelled as in CockroachDB's SHOW CREATE: INT is INT8, VARCHAR(20) stays VARCHAR(20).
"""

from __future__ import annotations

import re
from typing import Final

from tidegate.errors import StatementError
from tidegate.rows.enum_labels import members_from_labels
from tidegate.rows.types import Kind, SqlType

_INT8: Final = SqlType(Kind.INT, width=64)
_FLOAT8: Final = SqlType(Kind.FLOAT, width=64)
_VARYING_STRINGS: Final = ("VARCHAR", "CHAR", "NAME")

_TYPES: Final = {
    "BOOL": SqlType(Kind.BOOL),
    "BOOLEAN": SqlType(Kind.BOOL),
    "INT": _INT8,
    "INT2": SqlType(Kind.INT, width=16),
    "SMALLINT": SqlType(Kind.INT, width=16),
    "INT4": SqlType(Kind.INT, width=32),
    "INT8": _INT8,
    "INT64": _INT8,
    "INTEGER": _INT8,
    "BIGINT": _INT8,
    "FLOAT": _FLOAT8,
    "FLOAT4": SqlType(Kind.FLOAT, width=32),
    "REAL": SqlType(Kind.FLOAT, width=32),
    "FLOAT8": _FLOAT8,
    "DOUBLE PRECISION": _FLOAT8,
    "DECIMAL": SqlType(Kind.DECIMAL),
    "DEC": SqlType(Kind.DECIMAL),
    "NUMERIC": SqlType(Kind.DECIMAL),
    "STRING": SqlType(Kind.STRING),
    "TEXT": SqlType(Kind.STRING),
    "VARCHAR": SqlType(Kind.STRING, name="VARCHAR"),
    "CHARACTER VARYING": SqlType(Kind.STRING, name="VARCHAR"),
    "CHAR": SqlType(Kind.STRING, width=1, name="CHAR"),
    "CHARACTER": SqlType(Kind.STRING, width=1, name="CHAR"),
    "NAME": SqlType(Kind.STRING, name="NAME"),
    "BYTES": SqlType(Kind.BYTES),
    "BYTEA": SqlType(Kind.BYTES),
    "BLOB": SqlType(Kind.BYTES),
    "UUID": SqlType(Kind.UUID),
    "INET": SqlType(Kind.INET),
    "DATE": SqlType(Kind.DATE),
    "TIME": SqlType(Kind.TIME),
    "TIME WITHOUT TIME ZONE": SqlType(Kind.TIME),
    "TIMETZ": SqlType(Kind.TIMETZ),
    "TIME WITH TIME ZONE": SqlType(Kind.TIMETZ),
    "TIMESTAMP": SqlType(Kind.TIMESTAMP),
    "TIMESTAMP WITHOUT TIME ZONE": SqlType(Kind.TIMESTAMP),
    "TIMESTAMPTZ": SqlType(Kind.TIMESTAMPTZ),
    "TIMESTAMP WITH TIME ZONE": SqlType(Kind.TIMESTAMPTZ),
    "INTERVAL": SqlType(Kind.INTERVAL),
    "BIT": SqlType(Kind.BIT, width=1),
    "VARBIT": SqlType(Kind.BIT, varying=True),
    "BIT VARYING": SqlType(Kind.BIT, varying=True),
    "JSONB": SqlType(Kind.JSONB),
    "JSON": SqlType(Kind.JSONB),
    "OID": SqlType(Kind.OID),
    "PG_LSN": SqlType(Kind.PG_LSN),
    "BOX2D": SqlType(Kind.BOX2D),
    "GEOMETRY": SqlType(Kind.GEOMETRY),
    "GEOGRAPHY": SqlType(Kind.GEOGRAPHY),
    "TSVECTOR": SqlType(Kind.TSVECTOR),
    "TSQUERY": SqlType(Kind.TSQUERY),
    "VECTOR": SqlType(Kind.VECTOR),
    "REFCURSOR": SqlType(Kind.STRING, name="REFCURSOR"),
}
_TIMES: Final = {Kind.TIME, Kind.TIMETZ, Kind.TIMESTAMP, Kind.TIMESTAMPTZ, Kind.INTERVAL}
# the width of a time is its precision
_WITH_WIDTH: Final = {Kind.DECIMAL, Kind.STRING, Kind.BIT, Kind.VECTOR} | _TIMES
_SPATIAL: Final = {Kind.GEOMETRY, Kind.GEOGRAPHY}
_ANY_SHAPE: Final = "GEOMETRY"
_DEFAULT_GEOGRAPHY_SRID: Final = 4326

_COLLATED: Final = re.compile(r"(?P<type>.+?)\s+COLLATE\s+\"?(?P<locale>[\w.@-]+)\"?", re.IGNORECASE)
_SHAPED: Final = re.compile(
    r"(?P<kind>GEOMETRY|GEOGRAPHY)\s*\(\s*(?P<shape>(?:GEOMETRY|POINT|LINESTRING|POLYGON|MULTIPOINT"
    r"|MULTILINESTRING|MULTIPOLYGON|GEOMETRYCOLLECTION)(?:Z|M|ZM)?)\s*(?:,\s*(?P<srid>\d+)\s*)?\)",
    re.IGNORECASE,
)
_ENUM: Final = re.compile(r"(?P<name>[\w.]+)\s*\(\s*(?P<labels>.*[^\d\s,].*?)\s*\)", re.DOTALL)
_SIMPLE: Final = re.compile(
    r"(?P<name>[A-Za-z]\w*(?:\s+[A-Za-z]+)*?)\s*(?:\(\s*(?P<width>\d+)\s*(?:,\s*(?P<scale>\d+)\s*)?\))?"
    r"(?P<zone>\s+WITH(?:OUT)?\s+TIME\s+ZONE)?",
    re.IGNORECASE,
)


def parse_sql_type(text: str) -> SqlType:
    """Return the type that ``text`` spells: ``INT``, ``DECIMAL(10,2)``, ``STRING COLLATE en``, ``BOOL[]`` ...

    An enum is spelled with its labels, ``status('open', 'closed')`` (quotes may be left out). It gets evenly
    spaced physical values. Raises `StatementError` for a text that spells no type.
    """
    text = text.strip()
    if text.endswith("[]"):
        return SqlType(Kind.ARRAY, element=_element(text[:-2]))
    if collated := _COLLATED.fullmatch(text):
        inner = parse_sql_type(collated["type"])
        if inner.kind is not Kind.STRING:
            raise StatementError(f"{text!r}: only strings have a collation")
        return SqlType(Kind.COLLATED_STRING, width=inner.width, locale=collated["locale"], name=inner.name)
    if shaped := _SHAPED.fullmatch(text):
        return _shaped(shaped)
    simple = _SIMPLE.fullmatch(text)
    found = _simple(simple) if simple else None
    if found is not None:
        return found
    if enum := _ENUM.fullmatch(text):
        return _enum(enum)
    raise StatementError(f"{text!r} is not a column type that tidegate knows")


def sql_type_text(sql_type: SqlType) -> str:
    """Return the SQL text of a type.

    It is the inverse of `parse_sql_type`, except that an enum has only its name.
    """
    kind = sql_type.kind
    if kind is Kind.ARRAY:
        element = sql_type_text(sql_type.element) if sql_type.element else "?"
        return f"{element}[]"
    if kind is Kind.COLLATED_STRING:
        return f"{_sized(sql_type.name or 'STRING', sql_type)} COLLATE {sql_type.locale}"
    if kind is Kind.ENUM:
        return sql_type.name or "ENUM"
    if kind is Kind.INT:
        return f"INT{(sql_type.width or 64) // 8}"
    if kind is Kind.FLOAT:
        return f"FLOAT{(sql_type.width or 64) // 8}"
    if kind is Kind.BIT and sql_type.varying:
        return _sized("VARBIT", sql_type)
    if kind in _SPATIAL:
        return f"{kind.value}{_shape_text(sql_type)}"
    return _sized(sql_type.name or kind.value, sql_type)


def _element(text: str) -> SqlType:
    element = parse_sql_type(text)
    if element.kind is Kind.ARRAY:
        raise StatementError(f"{text + '[]'!r}: arrays have one dimension")
    return element


def _simple(match: re.Match[str]) -> SqlType | None:
    """Return the type that has this name and these numbers; ``None`` if no type has the name."""
    zone = " ".join((match["zone"] or "").upper().split())
    name = " ".join(match["name"].upper().split())
    found = _TYPES.get(f"{name} {zone}".strip())
    if found is None or match["width"] is None:
        return found
    if found.kind not in _WITH_WIDTH or (match["scale"] and found.kind is not Kind.DECIMAL):
        raise StatementError(f"{match[0]!r}: {name} takes no such numbers")
    return SqlType(
        found.kind, int(match["width"]), int(match["scale"] or 0), varying=found.varying, name=found.name
    )


def _shaped(match: re.Match[str]) -> SqlType:
    kind = Kind(match["kind"].upper())
    default = _DEFAULT_GEOGRAPHY_SRID if kind is Kind.GEOGRAPHY else 0
    return SqlType(kind, width=int(match["srid"] or default), name=match["shape"].upper())


def _shape_text(sql_type: SqlType) -> str:
    if sql_type.width:
        return f"({sql_type.name or _ANY_SHAPE},{sql_type.width})"
    return f"({sql_type.name})" if sql_type.name else ""


def _enum(match: re.Match[str]) -> SqlType:
    labels = [label.strip().strip("'") for label in match["labels"].split(",")]
    name = "" if match["name"].upper() == "ENUM" else match["name"]
    return SqlType(Kind.ENUM, name=name, members=members_from_labels(labels))


def _sized(name: str, sql_type: SqlType) -> str:
    implied = _TYPES.get(name)
    if implied is not None and (implied.width, implied.scale) == (sql_type.width, sql_type.scale):
        return name
    if sql_type.scale:
        return f"{name}({sql_type.width},{sql_type.scale})"
    return f"{name}({sql_type.width})" if sql_type.width else name
