"""Flights: replays a year of real departures from New York, and the weather there, in their own order.

A carrier publishes the schedule of an hour half a day before that hour. A flight's row is inserted then. The
row is updated at departure and at arrival, or deleted when the flight is cancelled. Everything that one
carrier did in one minute is one transaction. Weather is written hour by hour, each airport's row by itself.
"""

from __future__ import annotations

import enum
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from itertools import groupby, islice
from operator import itemgetter
from pathlib import Path
from random import Random
from typing import Final, NamedTuple

from sim.nycflights import read_flights, read_weather
from sim.plan import ORDINARY, OutcomeMix, SimTable, TransactionPlan, Write
from sim.workload_tables import place_table
from sim.workloads.flight_tables import FLIGHTS_COLUMNS, flight_row, flights_table, weather_row, weather_table
from tidegate.hlc import ZERO, Timestamp
from tidegate.rows.table_codec import TableCodec
from tidegate.rows.types import Datum

_MINUTES_PER_DAY: Final = 1_440
_PUBLISHED_BEFORE: Final = 720  # minutes
_MILES_PER_MINUTE: Final = 7  # for the few flights whose time in the air is unknown
_SAMPLED: Final = 32  # one row in so many is used to find where to split a table

_COLUMN: Final = {name: at for at, (name, _) in enumerate(FLIGHTS_COLUMNS)}
# Columns that are not known before the flight has landed, and those that are not known when it is scheduled.
_AFTER_DEPARTURE: Final = [_COLUMN[name] for name in ("arr_time", "arr_delay", "air_time")]
_AFTER_SCHEDULE: Final = [_COLUMN[name] for name in ("dep_time", "dep_delay", "tailnum")] + _AFTER_DEPARTURE


@dataclass(frozen=True, slots=True)
class FlightsOptions:
    """The options of the workload.

    ``one_phase`` is the share of transactions on flights that ask for one phase.
    """

    flights_ranges: int = 8
    weather_ranges: int = 2
    one_phase: float = 0.3
    outcomes: OutcomeMix = ORDINARY


class Stage(enum.IntEnum):
    """The kind of an event. Events of one minute are in this order."""

    OBSERVED = 0
    SCHEDULED = 1
    DEPARTED = 2
    ARRIVED = 3
    CANCELLED = 4


class Event(NamedTuple):
    """A write in the data's own time, in local minutes; ``actor`` is a carrier or an airport."""

    minute: int
    stage: Stage
    actor: str
    write: Write


_ORDER = itemgetter(0, 1, 2)


class Flights:
    """Replays the archive of ``sim.nycflights`` once, as two tables."""

    def __init__(self, archive: Path, options: FlightsOptions, seed: int) -> None:
        self._archive = archive
        self._options = options
        self._seed = seed
        self._flights = TableCodec(flights_table(ZERO))
        self._weather = TableCodec(weather_table(ZERO))
        flights = map(flight_row, _sample(read_flights(archive)))
        weather = map(weather_row, _sample(read_weather(archive)))
        self._flight_splits = _quantiles(map(self._flights.encode_key, flights), options.flights_ranges)
        self._weather_splits = _quantiles(map(self._weather.encode_key, weather), options.weather_ranges)

    def tables(self, modified: Timestamp) -> Sequence[SimTable]:
        """See ``Workload``: flights and weather, split where the data has its quantiles."""
        return [
            place_table(flights_table(modified), self._flight_splits),
            place_table(weather_table(modified), self._weather_splits),
        ]

    def plans(self) -> Iterator[TransactionPlan]:
        """See ``Workload``. The plans end with the year."""
        rng = Random(self._seed)
        for (_, stage, _), events in groupby(self._events(), _ORDER):
            yield self._plan(rng, stage, tuple(event.write for event in events))

    def _plan(self, rng: Random, stage: Stage, writes: tuple[Write, ...]) -> TransactionPlan:
        if stage is Stage.OBSERVED:
            return TransactionPlan(writes, one_phase=True)
        one_phase = rng.random() < self._options.one_phase
        return TransactionPlan(
            writes, self._options.outcomes.choose(rng), rewrites=writes, one_phase=one_phase
        )

    def _events(self) -> Iterator[Event]:
        """Yield all events in order. A day's events start no earlier than its schedule is published."""
        weather = _by_day(read_weather(self._archive))
        pending: list[Event] = []
        for day, lines in groupby(read_flights(self._archive), _flight_day):
            next_day = (day + 1) * _MINUTES_PER_DAY - _PUBLISHED_BEFORE
            pending += map(self._observation, weather.pop(day, []))
            pending += (event for line in lines for event in self._flight(day, flight_row(line)))
            pending.sort(key=_ORDER)
            ready = sum(event.minute < next_day for event in pending)
            yield from pending[:ready]
            del pending[:ready]
        yield from pending

    def _flight(self, day: int, row: list[Datum]) -> Iterator[Event]:
        carrier = str(row[_COLUMN["carrier"]])
        minute = day * _MINUTES_PER_DAY + _minute_of_day(_number(row, "sched_dep_time"))
        published = minute - minute % 60 - _PUBLISHED_BEFORE
        yield Event(published, Stage.SCHEDULED, carrier, self._write(row, _AFTER_SCHEDULE))
        if row[_COLUMN["dep_time"]] is None:
            yield Event(minute, Stage.CANCELLED, carrier, Write(self._flights.encode_key(row), b""))
            return
        minute += _number(row, "dep_delay")
        yield Event(minute, Stage.DEPARTED, carrier, self._write(row, _AFTER_DEPARTURE))
        if row[_COLUMN["arr_time"]] is not None:
            minute += _number(row, "air_time") or _number(row, "distance") // _MILES_PER_MINUTE
            yield Event(minute, Stage.ARRIVED, carrier, self._write(row, ()))

    def _write(self, row: list[Datum], unknown: Iterable[int]) -> Write:
        known = row.copy()
        for column in unknown:
            known[column] = None
        return Write(*self._flights.encode(known))

    def _observation(self, line: list[str]) -> Event:
        origin, year, month, day, hour = line[:5]
        minute = _day_number(year, month, day) * _MINUTES_PER_DAY + int(hour) * 60
        return Event(minute, Stage.OBSERVED, origin, Write(*self._weather.encode(weather_row(line))))


def _number(row: Sequence[Datum], column: str) -> int:
    """Return an integer column's datum; 0 for NULL."""
    datum = row[_COLUMN[column]]
    return datum if isinstance(datum, int) else 0


def _minute_of_day(hhmm: int) -> int:
    return hhmm // 100 * 60 + hhmm % 100


def _day_number(year: str, month: str, day: str) -> int:
    return date(int(year), int(month), int(day)).toordinal()


def _flight_day(line: Sequence[str]) -> int:
    """Return the number of the day on which a flight was scheduled to depart."""
    return _day_number(*line[:3])


def _by_day(weather: Iterable[list[str]]) -> dict[int, list[list[str]]]:
    by_day: dict[int, list[list[str]]] = defaultdict(list)
    for line in weather:
        by_day[_day_number(*line[1:4])].append(line)
    return by_day


def _sample(lines: Iterator[list[str]]) -> Iterator[list[str]]:
    return islice(lines, 0, None, _SAMPLED)


def _quantiles(keys: Iterable[bytes], parts: int) -> list[bytes]:
    """Return the keys that divide the given ones into ``parts`` of equal size."""
    ordered = sorted(keys)
    return [ordered[part * len(ordered) // parts] for part in range(1, parts)]
