"""The columns of changefeed cases as they declare them, and the datums that they spell for them."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from tests.conformance.enum_types import declared_type, type_name
from tests.conformance.literals import datum_of, json_of
from tests.conformance.quoted_literals import bytea
from tests.conformance.sql_literals import stored, text_datum
from tidegate.rows import Datum, Json, Kind, SqlType

_NOT_NULL: Final = re.compile(r"\s+NOT NULL\b", re.IGNORECASE)
_COMPUTED: Final = re.compile(r"\s+AS\s*\((?P<formula>[^()]*)\)\s*(?P<how>VIRTUAL|STORED)\b", re.IGNORECASE)
_DEFAULT: Final = re.compile(r"\s+DEFAULT\s+(?P<literal>.+)$", re.IGNORECASE)
_NUMBER: Final = re.compile(r"[+-]?\d+(?:\.\d+)?")
_WORDS: Final = frozenset({"NULL", "TRUE", "FALSE"})
_NULL: Final = re.compile(r"\s+NULL$", re.IGNORECASE)
#: Other names of types, and what tidegate calls them.
_OTHER_NAMES: Final[Mapping[re.Pattern[str], str]] = {
    re.compile(r"^PGVECTOR\b", re.IGNORECASE): "VECTOR",
    re.compile(r"^(?:BIG|SMALL)?SERIAL[248]?$", re.IGNORECASE): "INT",
    re.compile(r"\s+ARRAY$", re.IGNORECASE): "[]",
}
_FORMULA: Final = re.compile(r"\s*(?P<column>\w+)\s*(?P<sign>[+*-])\s*(?P<number>\d+)\s*")


class DeclaredColumn(NamedTuple):
    """A column as its case declares it."""

    name: str
    type: SqlType
    nullable: bool = True
    virtual: bool = False
    formula: str = ""
    default: str = ""


class EnumLabels(NamedTuple):
    """The labels of a case's enum types by name, and those that it writes into columns of a type."""

    named: Mapping[str, Sequence[str]]
    written: Callable[[str], Sequence[str]]


def declare(column: Mapping[str, Any], enums: EnumLabels) -> DeclaredColumn:
    """The column with what its type's text says beside the type. Raises ``StatementError`` for no type."""
    text = str(column["type"])
    computed = _COMPUTED.search(text)
    not_null = _NOT_NULL.search(text) is not None
    text = _NULL.sub("", _NOT_NULL.sub("", _COMPUTED.sub("", text)))
    default = _DEFAULT.search(text)
    literal = _literal(column["default"]) if "default" in column else default["literal"] if default else ""
    text = _DEFAULT.sub("", text).strip()
    for pattern, name in _OTHER_NAMES.items():
        text = pattern.sub(name, text)
    beside = (column[name] for name in ("labels", "enum") if name in column)
    labels = next(beside, enums.named.get(type_name(text)))
    return DeclaredColumn(
        name=column["name"],
        type=declared_type(text, labels, lambda: enums.written(str(column["type"]))),
        nullable=not not_null and bool(column.get("nullable", not column.get("not_null", False))),
        virtual=computed is not None and computed["how"].upper() == "VIRTUAL",
        formula="" if computed is None else computed["formula"],
        default=literal,
    )


def _literal(default: Any) -> str:
    """The SQL literal of a default beside its column: as text, or as the JSON value that it is."""
    if default is None:
        return "NULL"
    if not isinstance(default, str):
        return json.dumps(default, default=str)
    is_literal = default.endswith("'") or default.upper() in _WORDS or _NUMBER.fullmatch(default)
    doubled = default.replace("'", "''")
    return default if is_literal else f"'{doubled}'"


def column_datum(sql_type: SqlType, value: Any, *, rounded: bool) -> Datum:
    """The datum of a JSON value: a text means what the same text means in SQL, but for BYTES' escapes."""
    if isinstance(value, dict) and value.keys() == {"jsonb"}:
        return Json(json_of(value["jsonb"]))
    if value is None:
        return None
    if isinstance(value, str) and sql_type.kind is Kind.BYTES:
        return bytea(value) if value.startswith("\\x") else value.encode()
    if isinstance(value, str) and sql_type.kind is not Kind.JSONB:
        return text_datum(sql_type, value, rounded=rounded)
    if isinstance(value, list) and sql_type.kind is Kind.ARRAY:
        assert sql_type.element is not None
        return tuple(column_datum(sql_type.element, element, rounded=rounded) for element in value)
    if isinstance(value, list) and sql_type.kind is Kind.VECTOR:
        return text_datum(sql_type, f"[{','.join(map(str, value))}]")
    if sql_type.kind is Kind.DECIMAL:
        return text_datum(sql_type, str(value), rounded=rounded)
    datum = datum_of(sql_type, value)
    return stored(sql_type, datum) if rounded else datum


def computed_datum(formula: str, row: Mapping[str, Datum]) -> Datum:
    """The datum of a column ``AS (b + 1)``; NULL where ``b`` is. Raises ``ValueError`` for other formulas."""
    match = _FORMULA.fullmatch(formula)
    if match is None:
        raise ValueError(f"the cases' reader cannot compute a column AS ({formula})")
    value, number = row.get(match["column"]), int(match["number"])
    if not isinstance(value, int):
        return None
    return {"+": value + number, "-": value - number, "*": value * number}[match["sign"]]
