"""The tables of the flights workload, and their rows, which it reads from the lines of the data."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from decimal import Decimal
from functools import cache
from typing import Final

from sim.workload_tables import declare_table
from tidegate.hlc import NANOS_PER_SECOND, Timestamp
from tidegate.rows.descriptor import TableDescriptor
from tidegate.rows.types import Datum

FLIGHTS_TABLE_ID: Final = 110
WEATHER_TABLE_ID: Final = 111
_UNKNOWN: Final = "NA"

#: (column, SQL type) in the order of flights.csv.
FLIGHTS_COLUMNS: Final = (
    ("year", "INT2"),
    ("month", "INT2"),
    ("day", "INT2"),
    ("dep_time", "INT2"),  # local, as hhmm
    ("sched_dep_time", "INT2"),
    ("dep_delay", "INT2"),  # minutes
    ("arr_time", "INT2"),
    ("sched_arr_time", "INT2"),
    ("arr_delay", "INT2"),
    ("carrier", "STRING"),
    ("flight", "INT"),
    ("tailnum", "STRING"),
    ("origin", "STRING"),
    ("dest", "STRING"),
    ("air_time", "INT2"),  # minutes
    ("distance", "INT2"),  # miles
    ("hour", "INT2"),
    ("minute", "INT2"),
    ("time_hour", "TIMESTAMPTZ"),  # hour of the scheduled departure
)
#: (column, SQL type) in the order of weather.csv.
WEATHER_COLUMNS: Final = (
    ("origin", "STRING"),
    ("year", "INT2"),
    ("month", "INT2"),
    ("day", "INT2"),
    ("hour", "INT2"),
    ("temp", "FLOAT"),
    ("dewp", "FLOAT"),
    ("humid", "FLOAT"),
    ("wind_dir", "INT2"),
    ("wind_speed", "FLOAT"),
    ("wind_gust", "FLOAT"),
    ("precip", "DECIMAL(5,2)"),
    ("pressure", "DECIMAL(6,1)"),
    ("visib", "FLOAT"),
    ("time_hour", "TIMESTAMPTZ"),
)
#: This key is unique among the year's 336,776 flights. Flight numbers alone repeat, some on the same day.
FLIGHTS_KEY: Final = ("carrier", "flight", "time_hour")
WEATHER_KEY: Final = ("origin", "time_hour")


def flights_table(modified: Timestamp) -> TableDescriptor:
    """Return the table flights: a row for each departure."""
    return declare_table(FLIGHTS_TABLE_ID, "flights", FLIGHTS_COLUMNS, FLIGHTS_KEY, modified)


def weather_table(modified: Timestamp) -> TableDescriptor:
    """Return the table weather: a row for each airport and hour."""
    return declare_table(WEATHER_TABLE_ID, "weather", WEATHER_COLUMNS, WEATHER_KEY, modified)


def flight_row(line: Sequence[str]) -> list[Datum]:
    """Return the datums of a line of flights.csv."""
    return _row(_FLIGHT_PARSERS, line)


def weather_row(line: Sequence[str]) -> list[Datum]:
    """Return the datums of a line of weather.csv."""
    return _row(_WEATHER_PARSERS, line)


_Parse = Callable[[str], Datum]


def _row(parsers: Iterable[_Parse], line: Sequence[str]) -> list[Datum]:
    return [None if text == _UNKNOWN else parse(text) for parse, text in zip(parsers, line, strict=True)]


@cache
def _nanos(text: str) -> int:
    """Return nanoseconds since 1970 for a text like ``2013-01-01T10:00:00Z``."""
    return int(datetime.fromisoformat(text).timestamp()) * NANOS_PER_SECOND


def _rounded(unit: str) -> _Parse:
    """Return a parser that rounds a decimal to the scale of its column."""
    return lambda text: Decimal(text).quantize(Decimal(unit))


_PARSERS: Final[dict[str, _Parse]] = {
    "INT": int,
    "INT2": int,
    "STRING": str,
    "FLOAT": float,
    "DECIMAL(5,2)": _rounded("0.01"),
    "DECIMAL(6,1)": _rounded("0.1"),
    "TIMESTAMPTZ": _nanos,
}
_FLIGHT_PARSERS: Final = tuple(_PARSERS[sql_type] for _, sql_type in FLIGHTS_COLUMNS)
_WEATHER_PARSERS: Final = tuple(_PARSERS[sql_type] for _, sql_type in WEATHER_COLUMNS)
