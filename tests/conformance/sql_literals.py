"""SQL literals as the VALUES lists of changefeed cases hold them."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from decimal import ROUND_HALF_UP, Context, Decimal
from typing import Final

from tests.conformance.interval_literals import interval_of
from tests.conformance.literals import datum_of
from tests.conformance.quoted_literals import array_items, bytea, split_list, unquoted
from tests.conformance.time_literals import days_of, time_of, timestamp_of, timetz_of
from tidegate.rows import Datum, Kind, SqlType, TimeTz

_VALUES: Final = re.compile(r"\s*VALUES\b", re.IGNORECASE)
_ARRAY: Final = re.compile(r"ARRAY\s*\[(?P<items>.*)\]", re.IGNORECASE | re.DOTALL)
_TYPE: Final = r"""[\w."]+(?:\s+[\w"]+)*\s*(?:\([^()']*\))?(?:\s+[A-Za-z]+)*(?:\[\])*"""
_CAST: Final = re.compile(rf"(:{{2,3}}\s*{_TYPE}|\s+COLLATE\s+\"?[\w-]+\"?)$", re.IGNORECASE)
_CAST_CALL: Final = re.compile(rf"CAST\s*\((?P<inner>.*)\s+AS\s+{_TYPE}\)", re.IGNORECASE | re.DOTALL)
_BOOLS: Final = {
    **dict.fromkeys(("true", "t", "yes", "y", "on", "1"), True),
    **dict.fromkeys(("false", "f", "no", "n", "off", "0"), False),
}
#: Kinds whose literals have quotes, so that no expression is taken for a text.
_QUOTED_KINDS: Final = frozenset({Kind.STRING, Kind.COLLATED_STRING, Kind.ENUM, Kind.BYTES})
#: Digits of a fraction in microseconds.
_MICROS: Final = 6
#: The units of a time's datum in a microsecond.
_PER_MICRO: Final[Mapping[Kind, int]] = {Kind.TIME: 1, Kind.TIMESTAMP: 1000, Kind.TIMESTAMPTZ: 1000}
#: Wider than any DECIMAL of a case.
_EXACT: Final = Context(prec=2000)


def split_rows(text: str) -> list[list[str]]:
    """The literals of each row in ``(1, 'a'), (2, 'b')``."""
    return [split_list(row.strip()[1:-1]) for row in split_list(_VALUES.sub("", text, count=1))]


def sql_literal(sql_type: SqlType, text: str, *, rounded: bool = True) -> Datum:
    """The datum of one literal; ``rounded`` to what a column of its type keeps.

    Raises ``ValueError`` for a literal that has no meaning for its type.
    """
    text = _without_casts(text)
    if text.upper() == "NULL":
        return None
    if sql_type.kind is Kind.ARRAY and (array := _ARRAY.fullmatch(text)):
        assert sql_type.element is not None
        items = [item for item in split_list(array["items"]) if item]
        return tuple(sql_literal(sql_type.element, item, rounded=rounded) for item in items)
    if sql_type.kind in _QUOTED_KINDS and not text.endswith("'"):
        raise ValueError(f"{text} is no literal of a {sql_type.kind.value}")
    inside = unquoted(text)
    if inside == text and "'" in text:
        raise ValueError(f"{text} is no literal but an expression, which the cases' reader does not compute")
    if isinstance(inside, bytes):
        return inside if sql_type.kind is Kind.BYTES else text_datum(sql_type, inside.decode())
    return text_datum(sql_type, inside, rounded=rounded)


def text_datum(sql_type: SqlType, text: str, *, rounded: bool = True) -> Datum:
    """The datum that a text without quotes means for a type; errors as `sql_literal`."""
    if sql_type.kind is Kind.ARRAY:
        element = sql_type.element
        assert element is not None
        return tuple(
            None if item is None else text_datum(element, item, rounded=rounded) for item in array_items(text)
        )
    reader = _READERS.get(sql_type.kind)
    datum = datum_of(sql_type, text) if reader is None else reader(text)
    return stored(sql_type, datum) if rounded else datum


def stored(sql_type: SqlType, datum: Datum) -> Datum:
    """The datum as a column of that type keeps it: a decimal has its scale, and a time its precision.

    A precision of 0 is not told from none at all: the types here have one number for both.
    """
    if isinstance(datum, Decimal) and sql_type.kind is Kind.DECIMAL:
        if not sql_type.width or not datum.is_finite():
            return datum
        return datum.quantize(Decimal(1).scaleb(-sql_type.scale), rounding=ROUND_HALF_UP, context=_EXACT)
    if not 0 < sql_type.width < _MICROS:
        return datum
    unit = 10 ** (_MICROS - sql_type.width)
    if isinstance(datum, TimeTz):
        return datum._replace(micros=_nearest(datum.micros, unit))
    if isinstance(datum, int) and sql_type.kind in _PER_MICRO:
        return _nearest(datum, unit * _PER_MICRO[sql_type.kind])
    return datum


def _nearest(number: int, unit: int) -> int:
    return (2 * number + unit) // (2 * unit) * unit


def _without_casts(text: str) -> str:
    """The literal in ``'x'::UUID``, ``(-1):::INT8``, ``CAST('x' AS UUID)``, ``'x' COLLATE en``."""
    while True:
        inner = _CAST.sub("", text.strip())
        if (call := _CAST_CALL.fullmatch(inner)) is not None:
            inner = call["inner"]
        elif inner.startswith("(") and inner.endswith(")"):
            inner = inner[1:-1]
        if inner == text:
            return text
        text = inner


def _bool(text: str) -> bool:
    if text.strip().lower() not in _BOOLS:
        raise ValueError(f"{text!r} is no BOOL")
    return _BOOLS[text.strip().lower()]


def _decimal(text: str) -> Decimal:
    """SQL's decimals have no negative zero, and one NaN."""
    number = Decimal(text.strip())
    return number.copy_abs() if number.is_zero() or number.is_nan() else number


def _json(text: str) -> Datum:
    document = json.loads(text, parse_float=Decimal, parse_int=Decimal)
    return datum_of(SqlType(Kind.JSONB), document)


_READERS: Final[Mapping[Kind, Callable[[str], Datum]]] = {
    Kind.BOOL: _bool,
    Kind.BYTES: bytea,
    Kind.DATE: days_of,
    Kind.DECIMAL: _decimal,
    Kind.INTERVAL: interval_of,
    Kind.JSONB: _json,
    Kind.TIME: time_of,
    Kind.TIMESTAMP: timestamp_of,
    Kind.TIMESTAMPTZ: timestamp_of,
    Kind.TIMETZ: timetz_of,
}
