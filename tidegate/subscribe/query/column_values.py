"""The values that columns have in expressions: those of their SQL types, however a feed writes them.

A feed in JSON writes the FLOAT 5.0 as ``5``, which is read as an integer, and NaN as a text. It writes dates
and times as texts, a feed in Avro as dates, times and numbers.

| type | in expressions | compared and sorted by |
|---|---|---|
| FLOAT, DECIMAL | ``float``, ``Decimal`` | the same |
| DATE, TIME, TIMETZ, TIMESTAMP, TIMESTAMPTZ | as the feed has it | the number that `moments` gives |
| BYTES | as the feed has it | ``bytes`` |
| BIT | as the feed has it | text of ``0`` and ``1`` |
| OID, PG_LSN | as the feed has it | ``int`` |
| ARRAY | as the feed has it | what its elements are compared by |
| others | as the feed has it | the same |

`UNORDERED` types have no order here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from decimal import Decimal, InvalidOperation
from functools import partial
from typing import Any, Final, TypeAlias

from tidegate.changefeed.text.datum_text import (
    date_text,
    short_offset,
    time_text,
    timestamp_text,
    timestamptz_text,
)
from tidegate.errors import EvaluationError
from tidegate.rows.types import Kind, SqlType
from tidegate.subscribe.query.casts import numeric
from tidegate.subscribe.query.moments import (
    date_number,
    time_number,
    timestamp_nanos,
    timestamp_number,
    timetz_number,
)
from tidegate.subscribe.query.three_valued import Evaluate
from tidegate.subscribe.updates.update import RowValues

#: A value as a feed gives it, which is not NULL -> the value in expressions. Raises ``EvaluationError``.
Read: TypeAlias = Callable[[Any], Any]

_NO_VALUE: Final = (ValueError, TypeError, InvalidOperation, OverflowError)
_DAY_NANOS: Final = 86_400_000_000_000
_WORD_BITS: Final = 64


def reading(read: Read, evaluate: Evaluate) -> Evaluate:
    """Return the function that reads the value of an expression; NULL stays NULL."""

    def value(row: RowValues) -> Any:
        found = evaluate(row)
        return None if found is None else read(found)

    return value


def _of_kind(kind: Kind, read: Callable[[Any], Any]) -> Read:
    def value(found: Any) -> Any:
        try:
            return read(found)
        except _NO_VALUE:
            raise EvaluationError(
                f"a column of type {kind.value} has the value {found!r:.60}, which is none"
            ) from None

    return value


def _float(value: Any) -> float:
    return value if type(value) is float else float(value)


def _decimal(value: Any) -> Decimal:
    return value if type(value) is Decimal else numeric(value)


def _bytes(value: Any) -> bytes:
    if isinstance(value, bytes):
        return value
    if not isinstance(value, str) or ("\\" in value and not value.startswith("\\x")):
        raise ValueError
    return bytes.fromhex(value[2:]) if value.startswith("\\x") else value.encode()


def _bits(value: Any) -> str:
    """Return bits as text. Avro has first the number of bits in the last word, then the words in order."""
    if isinstance(value, str):
        if value.strip("01"):
            raise ValueError
        return value
    used, *words = value
    bits = "".join(f"{word % (1 << _WORD_BITS):0{_WORD_BITS}b}" for word in words)
    return bits[: len(bits) - _WORD_BITS + used] if words else ""


def _lsn(value: str) -> int:
    high, low = value.split("/")
    return (int(high, 16) << 32) | int(low, 16)


_NUMBERS: Final[Mapping[Kind, Read]] = {
    Kind.FLOAT: _of_kind(Kind.FLOAT, _float),
    Kind.DECIMAL: _of_kind(Kind.DECIMAL, _decimal),
}
_COMPARED: Final[Mapping[Kind, Read]] = {
    **_NUMBERS,
    Kind.DATE: _of_kind(Kind.DATE, date_number),
    Kind.TIME: _of_kind(Kind.TIME, time_number),
    Kind.TIMETZ: _of_kind(Kind.TIMETZ, timetz_number),
    Kind.TIMESTAMP: _of_kind(Kind.TIMESTAMP, timestamp_number),
    Kind.TIMESTAMPTZ: _of_kind(Kind.TIMESTAMPTZ, partial(timestamp_number, zoned=True)),
    Kind.BYTES: _of_kind(Kind.BYTES, _bytes),
    Kind.BIT: _of_kind(Kind.BIT, _bits),
    Kind.OID: _of_kind(Kind.OID, int),
    Kind.PG_LSN: _of_kind(Kind.PG_LSN, _lsn),
}
#: Types without an order here, and for each the text that tells a user what to compare or sort by instead.
UNORDERED: Final[Mapping[Kind, str]] = {
    **dict.fromkeys((Kind.ENUM, Kind.COLLATED_STRING), "the text, as in column::text, by its UTF-8 bytes"),
    Kind.INTERVAL: "the text that the feed writes, as in column::text, which = may compare",
    Kind.INET: "the text, as in column::text; = compares addresses",
    **dict.fromkeys(
        (Kind.JSONB, Kind.BOX2D, Kind.GEOMETRY, Kind.GEOGRAPHY, Kind.TSVECTOR, Kind.TSQUERY, Kind.VECTOR),
        "another column, or the text, as in column::text",
    ),
}


def number_reader(sql_type: SqlType | None) -> Read | None:
    """Return the function that reads a column's values; ``None`` if they are used as the feed gives them."""
    return None if sql_type is None else _NUMBERS.get(sql_type.kind)


def order_reader(sql_type: SqlType | None) -> Read | None:
    """Return the function that turns a column's value into what it is compared and sorted by.

    ``None`` means that this is the value itself.
    """
    if sql_type is None:
        return None
    if sql_type.kind is Kind.ARRAY and unordered_kind(sql_type) is None:
        return _of_kind(Kind.ARRAY, partial(_items, order_reader(sql_type.element)))
    return _COMPARED.get(sql_type.kind)


def unordered_kind(sql_type: SqlType | None) -> Kind | None:
    """Return the kind because of which a type has no order: its own, or that of its elements.

    ``None`` for a type that has an order.
    """
    while sql_type is not None and sql_type.kind is Kind.ARRAY:
        sql_type = sql_type.element
    return sql_type.kind if sql_type is not None and sql_type.kind in UNORDERED else None


def _items(read: Read | None, values: Any) -> list[Any]:
    if not isinstance(values, list | tuple):
        raise TypeError
    return [each if read is None or each is None else read(each) for each in values]


def _nanos_text(text: Callable[[int], str], value: Any) -> str:
    return text(timestamp_nanos(value))


def _short_offset(value: Any) -> Any:
    return short_offset(value) if isinstance(value, str) else value


_TEXTS: Final[Mapping[Kind, Callable[[Any], str]]] = {
    Kind.DATE: lambda value: date_text(date_number(value) // _DAY_NANOS),
    Kind.TIME: lambda value: time_text(time_number(value) // 1_000),
    Kind.TIMESTAMP: partial(_nanos_text, timestamp_text),
    Kind.TIMESTAMPTZ: partial(_nanos_text, timestamptz_text),
    Kind.BIT: _bits,
}


def text_reader(sql_type: SqlType | None) -> Read | None:
    """Return the function that turns a value into its text in a JSON feed; ``None`` if none is needed."""
    if sql_type is not None and sql_type.kind is Kind.TIMETZ:
        return _short_offset
    text = None if sql_type is None else _TEXTS.get(sql_type.kind)
    if sql_type is None or text is None:
        return None
    made = _of_kind(sql_type.kind, text)
    return lambda value: value if isinstance(value, str) else made(value)
