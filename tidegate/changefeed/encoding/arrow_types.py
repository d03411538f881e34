"""SQL types as Arrow types, and the conversion of records' values to values of these types.

This is the only such mapping of the project: tables that are loaded and batches of subscriptions use it.
pyarrow is in extras, so only what needs Arrow imports this module.

| SQL | Arrow, and Parquet |
|---|---|
| BOOL | boolean |
| INT | 64-bit integer |
| FLOAT | double |
| DECIMAL(p,s) with p at most 38 | decimal(p,s); NaN and the infinities have no form |
| BYTES | binary |
| DATE | date; those outside the years 1 to 9999 have no form |
| TIMESTAMP | timestamp in microseconds, without a zone; the same years |
| TIMESTAMPTZ | timestamp in microseconds, UTC; the same years |
| ARRAY | a list of the element's form |
| GEOMETRY, GEOGRAPHY with Avro | binary: EWKB |
| BIT with Avro | refused |
| JSONB | string: JSON text, strings in quotes |
| everything else | string: the text that a JSON feed has |
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from functools import partial
from operator import index
from typing import Any, Final, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from tidegate.changefeed.definition.options import Format
from tidegate.changefeed.text.datum_text import time_text
from tidegate.changefeed.text.json_text import json_value
from tidegate.errors import InputError, RowError, UnsupportedTable
from tidegate.rows.sql_type import parse_sql_type, sql_type_text
from tidegate.rows.types import Kind, SqlType

#: Converts a record's value to the column's type; ``None`` when no conversion is needed. Never called for
#: NULL.
Convert: TypeAlias = Callable[[Any], Any] | None
#: An Arrow type, and what converts values to it.
ArrowForm: TypeAlias = tuple[pa.DataType, Convert]

#: Decimals of more digits are text.
MAX_DECIMAL_DIGITS: Final = 38
_EPOCH: Final = datetime(1970, 1, 1)
_NULL: Final = type(None)
_ZERO: Final = Decimal(0)
_MICROSECOND: Final = timedelta(microseconds=1)


def arrow_array(name: str, type_text: str, form: ArrowForm, values: Sequence[Any], advice: str) -> pa.Array:
    """Return the values of a column as an array.

    Raises ``RowError`` for a value that has no form. The error names the column and its type, and ends with
    ``advice``.
    """
    arrow_type, convert = form
    if pa.types.is_timestamp(arrow_type) and set(map(type, values)) <= {str, _NULL}:
        with suppress(UnicodeError):  # no text
            if (array := usual_timestamps(arrow_type, pa.array(values, pa.string()))) is not None:
                return array
    value: Any = None
    converted = values
    if convert is not None and not set(map(type, values)) <= _AS_THEY_ARE.get(convert, frozenset()):
        done = []
        try:
            for value in values:
                done.append(None if value is None else convert(value))
        except (ValueError, TypeError, ArithmeticError, RecursionError) as error:
            raise _formless(name, type_text, value, error, advice) from None
        converted = done
    if pa.types.is_decimal(arrow_type):  # Arrow counts the zeros that 0E+10 stands for
        converted = [value if value is None or value else _ZERO for value in converted]
    try:
        return pa.array(converted, arrow_type)
    except (pa.ArrowException, OverflowError) as error:  # the error does not say which value it is
        for value in converted:
            try:
                pa.array([value], arrow_type)
            except (pa.ArrowException, OverflowError):
                raise _formless(name, type_text, value, error, advice) from None
        raise


def usual_timestamps(arrow_type: pa.DataType, texts: pa.Array) -> pa.Array | None:
    """Return the timestamps of ``texts``, if all have the form in which JSON feeds print timestamps.

    Return ``None`` if one has another form or names no day of the calendar, or if ``arrow_type`` is no type
    of timestamps.
    """
    if not pa.types.is_timestamp(arrow_type):
        return None
    form = _USUAL_TIMESTAMP + ("Z" if arrow_type.tz else "")
    try:
        if pc.all(pc.match_substring_regex(texts, f"^{form}$")).as_py() is False:
            return None
        return texts.cast(arrow_type)
    except pa.ArrowInvalid:  # no day of the calendar
        return None


def _formless(name: str, type_text: str, value: Any, error: Exception, advice: str) -> RowError:
    try:
        told = repr(value)
    except RecursionError:
        told = "JSON that is nested too deeply"
    return RowError(
        f"the column {name} of type {type_text} has the value {told:.300}, which has no form in the table"
        f" ({error!s:.300}): {advice}"
    )


def parsed_type(text: str) -> SqlType:
    """Return the type that ``sql_type_text`` printed."""
    if text.endswith("[]"):
        return SqlType(Kind.ARRAY, element=parsed_type(text[:-2]))
    try:
        return parse_sql_type(text)
    except InputError:
        return SqlType(Kind.ENUM, name=text)  # only the name of a type: an enum


def arrow_form(sql_type: SqlType, record_format: Format) -> ArrowForm:
    """Return the Arrow type of a SQL type, with the function that converts a record's values to it.

    The function depends on the record's format. ``None`` stands for values that need no conversion.

    Raises ``UnsupportedTable`` for BIT in an Avro feed. The error's text is the end of a sentence about the
    column.
    """
    match sql_type.kind:
        case Kind.ARRAY if sql_type.element is not None:
            item, convert = arrow_form(sql_type.element, record_format)
            return pa.list_(item), None if convert is None else partial(_items, convert)
        case Kind.DECIMAL if 0 < sql_type.width <= MAX_DECIMAL_DIGITS:
            return pa.decimal128(sql_type.width, sql_type.scale), Decimal
        case Kind.GEOMETRY | Kind.GEOGRAPHY if record_format is Format.AVRO:
            return pa.binary(), bytes
        case Kind.JSONB if record_format is Format.JSON:
            return pa.string(), _json_text
        case Kind.BIT if record_format is Format.AVRO:
            raise UnsupportedTable(
                f"is of type {sql_type_text(sql_type)}, which is loaded of JSON feeds alone"
            )
    return _FORMS.get(sql_type.kind, TEXT_FORM)


def _items(convert: Callable[[Any], Any], values: Sequence[Any]) -> list[Any]:
    return [None if each is None else convert(each) for each in values]


def _text(value: Any) -> str:
    """Return a value as a JSON feed prints it, strings without quotes. Avro's values are texts already."""
    return value if isinstance(value, str) else _json_text(value)


def _json_text(value: Any) -> str:
    return json_value(_exact(value))


def _exact(value: Any) -> Any:
    """Return a JSON value with every number as a ``Decimal``."""
    match value:
        case None | bool() | str() | Decimal():
            return value
        case int():
            return Decimal(value)
        case list():
            return [_exact(each) for each in value]
        case dict():
            return {name: _exact(each) for name, each in value.items()}
    raise TypeError("not a value of JSON")


def _binary(value: Any) -> bytes:
    if isinstance(value, bytes):
        return value
    if not isinstance(value, str) or not value.startswith("\\x"):
        raise ValueError("bytes begin with \\x")
    return bytes.fromhex(value[2:])


def _date(value: Any) -> date:
    """Return a date from its text, from an Avro date, or from a number of days since 1970-01-01.

    An Avro record has numbers for all of its dates and times when one of them is outside Python's calendar.
    """
    if isinstance(value, int):
        return _EPOCH.date() + timedelta(days=value)
    return value if isinstance(value, date) else date.fromisoformat(value)


def _time(value: Any) -> str:
    """Return the text of a time of day.

    Avro's record may have microseconds since midnight instead of a time.
    """
    if isinstance(value, str):
        return value
    if isinstance(value, time):
        since = timedelta(hours=value.hour, minutes=value.minute, seconds=value.second)
        value = since // _MICROSECOND + value.microsecond
    return time_text(value)


def _timestamp(value: Any) -> datetime:
    """Return a timestamp without a zone. Avro's are in UTC, or numbers of microseconds since 1970-01-01."""
    if isinstance(value, int):
        return _EPOCH + value * _MICROSECOND
    if isinstance(value, datetime):
        return value.replace(tzinfo=None)
    return datetime.fromisoformat(value)


def _timestamptz(value: Any) -> datetime:
    """Return a timestamp in UTC. Its text ends in ``Z``."""
    if isinstance(value, int):
        return _timestamp(value).replace(tzinfo=UTC)
    return value if isinstance(value, datetime) else datetime.fromisoformat(value)


_FORMS: Final[dict[Kind, ArrowForm]] = {
    Kind.BOOL: (pa.bool_(), None),
    Kind.INT: (pa.int64(), index),  # pyarrow would cut a fraction off
    Kind.STRING: (pa.string(), None),
    Kind.FLOAT: (pa.float64(), float),
    Kind.BYTES: (pa.binary(), _binary),
    Kind.DATE: (pa.date32(), _date),
    Kind.TIME: (pa.string(), _time),
    Kind.TIMESTAMP: (pa.timestamp("us"), _timestamp),
    Kind.TIMESTAMPTZ: (pa.timestamp("us", "UTC"), _timestamptz),
}
#: For each conversion, the types of values that it would leave as they are.
_AS_THEY_ARE: Final[Mapping[Callable[[Any], Any], frozenset[type]]] = {
    index: frozenset({int, _NULL}),
    float: frozenset({float, _NULL}),
    Decimal: frozenset({Decimal, _NULL}),
    _text: frozenset({str, _NULL}),
    _time: frozenset({str, _NULL}),
}
#: The form in which JSON feeds print timestamps. Years begin with 1, as in Python.
_USUAL_TIMESTAMP: Final = (
    r"(?:[1-9]\d{3}|0[1-9]\d\d|00[1-9]\d|000[1-9])-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,6})?"
)
#: The form of a column that is loaded as the text that a JSON feed has.
TEXT_FORM: Final[ArrowForm] = (pa.string(), _text)
