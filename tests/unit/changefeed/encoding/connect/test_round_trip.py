"""Rows of any table come back as they were, from each of the four forms."""

from __future__ import annotations

import json
import math
import re
import uuid
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from decimal import Decimal
from ipaddress import ip_interface
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.changefeed.encoding.connect.forms import AT, FORMS, read_back
from tests.unit.rows.strategies import rows, tables
from tidegate.changefeed.definition.options import FeedOptions, Format
from tidegate.changefeed.encoding.envelopes.registry import shows_previous
from tidegate.changefeed.text.json_text import json_string, text_encoder
from tidegate.errors import RowError
from tidegate.rows.descriptor import TableDescriptor
from tidegate.rows.row import Row
from tidegate.rows.types import Datum, Interval, Json, Kind, SqlType, TimeTz

_INTERVAL: Final = re.compile(
    r"P(?:(-?\d+)Y)?(?:(-?\d+)M)?(?:(-?\d+)D)?(?:T(?:(-?\d+)H)?(?:(-?\d+)M)?(?:(-?[\d.]+)S)?)?"
)
_ZONED_TIME: Final = re.compile(r"(\d\d):(\d\d):(\d\d)(\.\d{1,6})?(?:Z|([+-])(\d\d):(\d\d)(?::(\d\d))?)")
_EPOCH: Final = datetime(2000, 1, 1)
_EPOCH_DAYS: Final = 10_957
_DAY_NANOS: Final = 86_400 * 10**9
#: The Gregorian calendar repeats itself, so that Python's can stand for years that it does not have.
_ERA_YEARS: Final = 400
_ERA_DAYS: Final = 146_097


def _interval(text: str) -> Interval:
    match = _INTERVAL.fullmatch(text)
    assert match
    assert text not in ("P", "PT")
    years, months, days, hours, minutes = (int(part or 0) for part in match.groups()[:5])
    nanos = int(Decimal(match[6] or 0) * 10**9)
    return Interval(years * 12 + months, days, (hours * 60 + minutes) * 60 * 10**9 + nanos)


def _timetz(text: str) -> TimeTz:
    match = _ZONED_TIME.fullmatch(text)
    assert match
    hours, minutes, seconds = (int(part) for part in match.groups()[:3])
    micros = (hours * 3600 + minutes * 60 + seconds) * 1_000_000 + int(Decimal(match[4] or 0) * 1_000_000)
    if match[5] is None:
        return TimeTz(micros, 0)
    offset = int(match[6]) * 3600 + int(match[7]) * 60 + int(match[8] or 0)
    return TimeTz(micros, offset if match[5] == "-" else -offset)


def _days(text: str) -> int:
    """Return the day of a date such as ``-0044-03-15``, whose year counts from zero."""
    year, month, day = re.fullmatch(r"([+-]?\d+)-(\d\d)-(\d\d)", text).groups()  # type: ignore[union-attr]
    eras, year_of_era = divmod(int(year) - 2000, _ERA_YEARS)
    return (datetime(2000 + year_of_era, int(month), int(day)) - _EPOCH).days + eras * _ERA_DAYS + _EPOCH_DAYS


def _sql_date_days(text: str) -> int:
    if not text.endswith(" BC"):
        return _days(text)
    year, rest = text.removesuffix(" BC").split("-", 1)
    return _days(f"{1 - int(year):04d}-{rest}")


def _timestamp_nanos(text: str) -> int:
    date, time = text.removesuffix("Z").split("T")
    clock, _, fraction = time.partition(".")
    hours, minutes, seconds = map(int, clock.split(":"))
    within = timedelta(hours=hours, minutes=minutes, seconds=seconds) // timedelta(seconds=1)
    return _days(date) * _DAY_NANOS + within * 10**9 + int(fraction.ljust(9, "0") or 0)


def _time_micros(text: str) -> int:
    return _timetz(f"{text}Z").micros


def _json(text: str) -> Json:
    return Json(json.loads(text, parse_int=Decimal, parse_float=Decimal))


#: Compared as the text that a JSON feed has.
_AS_TEXT: Final = (Kind.PG_LSN, Kind.BOX2D, Kind.TSVECTOR, Kind.TSQUERY, Kind.VECTOR)
_SAME: Final = lambda value: value  # noqa: E731
_READERS: Final[Mapping[Kind, Callable[[Any], Any]]] = {
    **dict.fromkeys(
        (Kind.BOOL, Kind.INT, Kind.FLOAT, Kind.STRING, Kind.COLLATED_STRING, Kind.ENUM, Kind.BYTES), _SAME
    ),
    **dict.fromkeys((Kind.DATE, Kind.TIME, Kind.BIT, Kind.OID), _SAME),
    Kind.DECIMAL: Decimal,
    Kind.UUID: uuid.UUID,
    Kind.INET: ip_interface,
    Kind.TIMETZ: _timetz,
    Kind.TIMESTAMP: lambda micros: micros * 1000,
    Kind.TIMESTAMPTZ: _timestamp_nanos,
    Kind.INTERVAL: _interval,
    Kind.JSONB: _json,
    **dict.fromkeys((Kind.GEOMETRY, Kind.GEOGRAPHY), _SAME),
    **dict.fromkeys(_AS_TEXT, json_string),
}
_ITEM_READERS: Final[Mapping[Kind, Callable[[Any], Any]]] = {
    **_READERS,
    Kind.BYTES: lambda text: bytes.fromhex(text.removeprefix("\\x")),
    Kind.DATE: _sql_date_days,
    Kind.TIME: _time_micros,
    Kind.TIMESTAMP: _timestamp_nanos,
    **dict.fromkeys((Kind.GEOMETRY, Kind.GEOGRAPHY), bytes.fromhex),
}


def _read(sql_type: SqlType, value: Any) -> Any:
    if value is None:
        return None
    if sql_type.element is not None:
        reader = _ITEM_READERS[sql_type.element.kind]
        return tuple(None if item is None else reader(item) for item in value)
    return _READERS[sql_type.kind](value)


def _comparable(sql_type: SqlType, datum: Any, *, item: bool = False) -> Any:
    """The datum as far as a record keeps it: microseconds, and NaN equal to itself."""
    if sql_type.element is not None and datum is not None:
        return [_comparable(sql_type.element, each, item=True) for each in datum]
    match datum:
        case float() | Decimal() if math.isnan(datum):
            return "NaN"
        case Interval():
            return datum._replace(nanos=int(Decimal(datum.nanos) / 1000) * 1000)
        case int() if sql_type.kind is Kind.TIMESTAMP and not item:
            return datum // 1000
    if sql_type.kind in _AS_TEXT and datum is not None and not isinstance(datum, str):
        return text_encoder(sql_type)(datum)
    return datum


def _same_row(table: TableDescriptor, read: Mapping[str, Any] | None, datums: tuple[Datum, ...]) -> None:
    assert read is not None
    for column, datum in zip(table.columns, datums, strict=True):
        back = _read(column.type, read[column.name])
        assert _comparable(column.type, back) == _comparable(column.type, datum), column


def _key(table: TableDescriptor, datums: tuple[Datum, ...]) -> tuple[Datum, ...]:
    by_id = {column.id: datum for column, datum in zip(table.columns, datums, strict=True)}
    return tuple(by_id[part.column_id] for part in table.primary_key)


def _same_key(table: TableDescriptor, read: tuple[Any, ...], key: tuple[Datum, ...]) -> None:
    types = {column.id: column.type for column in table.columns}
    for part, value, datum in zip(table.primary_key, read, key, strict=True):
        sql_type = types[part.column_id]
        assert _comparable(sql_type, _read(sql_type, value)) == _comparable(sql_type, datum)


def _is_finite(datums: tuple[Any, ...]) -> bool:
    return all(
        _is_finite(datum)
        if isinstance(datum, tuple)
        else not isinstance(datum, float) or math.isfinite(datum)
        for datum in datums
    )


@st.composite
def changes(draw: st.DrawFn) -> tuple[TableDescriptor, tuple[Any, ...], tuple[Any, ...]]:
    """A table, a row before and a row after, with the same key."""
    table = draw(tables())
    before, after = draw(rows(table)), draw(rows(table))
    in_key = {part.column_id for part in table.primary_key}
    kept = [
        old if column.id in in_key else new
        for column, old, new in zip(table.columns, before, after, strict=True)
    ]
    return table, before, tuple(kept)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("form", FORMS)
@given(change=changes())
def test_a_changed_row_comes_back_and_so_does_its_deletion(
    form: str, change: tuple[TableDescriptor, tuple[Any, ...], tuple[Any, ...]]
) -> None:
    options = FORMS[form]
    table, before, after = change
    key = _key(table, after)
    row = Row(table, key, after, previous=before)
    if options.format is Format.JSON and not _is_finite(before + after):
        _refused_or_unshown(row, options)
        return
    record = read_back(row, options)
    _same_key(table, record.key, key)
    _same_row(table, record.row, after)
    assert record.deleted is False
    deleted = read_back(row._replace(values=None), options)
    _same_key(table, deleted.key, key)
    assert (deleted.row, deleted.deleted) == (None, True)
    if shows_previous(options):
        _same_row(table, record.previous, before)
        _same_row(table, deleted.previous, before)
        assert record.updated == deleted.updated == AT


def _refused_or_unshown(row: Row, options: FeedOptions) -> None:
    """JSON has no such numbers: only a row before that nobody shows may have had one."""
    assert row.values is not None
    if shows_previous(options) or not _is_finite(row.values):
        with pytest.raises(RowError, match="in JSON: use format=avro"):
            read_back(row, options)
