"""The flights workload, over three small days."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from sim.check import check_history, check_log
from sim.log.history import History
from sim.log.sink import ListSink
from sim.options import StoreOptions
from sim.plan import OutcomeMix, TransactionPlan
from sim.simulation import Simulation
from sim.workloads.flight_tables import (
    FLIGHTS_COLUMNS,
    FLIGHTS_TABLE_ID,
    WEATHER_TABLE_ID,
    flights_table,
    weather_table,
)
from sim.workloads.flights import Flights, FlightsOptions
from tests.strategies import BASE_NS
from tests.unit.sim.flight_archive import FLIGHTS, WEATHER, write_archive
from tidegate.hlc import MAX, Timestamp
from tidegate.rows.table_codec import TableCodec
from tidegate.rows.table_key import table_id_of
from tidegate.spans import Span

_MODIFIED = Timestamp(1)
_FLIGHTS = TableCodec(flights_table(_MODIFIED))
_WEATHER = TableCodec(weather_table(_MODIFIED))
_NAMES = [name for name, _ in FLIGHTS_COLUMNS]


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_archive(tmp_path_factory.mktemp("flights") / "archive.tar.gz")


def _plans(archive: Path, **options: Any) -> list[TransactionPlan]:
    mix = OutcomeMix()
    return list(Flights(archive, FlightsOptions(outcomes=mix, **options), seed=1).plans())


def _rows(plans: list[TransactionPlan], flight: int) -> list[dict[str, Any] | None]:
    """Return what was written of one flight number, in order; ``None`` for a deletion."""
    rows: list[dict[str, Any] | None] = []
    for write in (write for plan in plans for write in plan.writes):
        assert isinstance(write.value, bytes)
        if table_id_of(write.key) != FLIGHTS_TABLE_ID:
            continue
        row = _FLIGHTS.decode(write.key, write.value)
        if row is not None and row.key[1] == flight:
            rows.append(None if row.values is None else dict(zip(_NAMES, row.values, strict=True)))
    return rows


def test_a_flight_is_scheduled_then_departs_then_arrives(archive: Path) -> None:
    scheduled, departed, arrived = _rows(_plans(archive), 1545)
    assert scheduled is not None
    assert departed is not None
    assert arrived is not None
    assert scheduled["dest"] == "IAH"
    assert scheduled["dep_time"] is scheduled["tailnum"] is scheduled["arr_delay"] is None
    assert (departed["dep_time"], departed["dep_delay"], departed["arr_time"]) == (517, 2, None)
    assert (arrived["arr_time"], arrived["arr_delay"], arrived["air_time"]) == (830, 11, 227)
    assert arrived["time_hour"] == 1_357_034_400_000_000_000


def test_a_cancelled_flight_is_deleted(archive: Path) -> None:
    assert [row is None for row in _rows(_plans(archive), 4308)] == [False, True]


def test_a_flight_that_never_arrived_stays_departed(archive: Path) -> None:
    scheduled, departed = _rows(_plans(archive), 11)
    assert scheduled is not None
    assert departed is not None
    assert departed["dep_time"] == 1012


def test_one_carriers_flights_of_an_hour_are_scheduled_in_one_transaction(archive: Path) -> None:
    [together] = [plan for plan in _plans(archive) if len(plan.writes) > 1]
    rows = [_FLIGHTS.decode(write.key, write.value) for write in together.writes]  # type: ignore[arg-type]
    assert {row.key[:2] for row in rows if row is not None} == {("B6", 507), ("B6", 371)}


def test_everything_else_is_a_transaction_of_its_own(archive: Path) -> None:
    cancelled_or_diverted = 2
    events = 3 * len(FLIGHTS) - cancelled_or_diverted + len(WEATHER)
    assert len(_plans(archive)) == events - 1


def test_weather_is_written_in_one_phase(archive: Path) -> None:
    weather = [plan for plan in _plans(archive) if table_id_of(plan.writes[0].key) == WEATHER_TABLE_ID]
    assert all(plan.one_phase for plan in weather)
    rows = [_WEATHER.decode(*plan.writes[0]) for plan in weather]  # type: ignore[arg-type]  # no change here
    first = rows[0]
    assert first is not None
    assert first.values is not None
    assert first.values[11:13] == (Decimal("0.00"), Decimal("1012.0"))


def test_events_come_in_the_order_of_the_data(archive: Path) -> None:
    written = [table_id_of(plan.writes[0].key) for plan in _plans(archive)]
    assert written.count(WEATHER_TABLE_ID) == len(WEATHER)
    assert len(_rows(_plans(archive), 727)) == 6  # two days' flights: scheduled, departed, arrived


def test_a_transaction_can_ask_for_one_phase(archive: Path) -> None:
    assert all(plan.one_phase for plan in _plans(archive, one_phase=1.0))


def test_ranges_cover_the_whole_key_space_of_the_tables(archive: Path) -> None:
    options = FlightsOptions(flights_ranges=1, weather_ranges=1)
    flights, weather = Flights(archive, options, seed=1).tables(_MODIFIED)
    assert flights.spans == (Span(b"\xf6\x6e", b"\xf6\x6f"),)
    assert weather.spans == (Span(b"\xf6\x6f", b"\xf6\x70"),)
    assert (flights.descriptor.modified, flights.descriptor.version) == (_MODIFIED, 1)


def test_the_replay_ends_with_the_flights_that_were_flown(archive: Path) -> None:
    sink, history = ListSink(), History()
    options = StoreOptions(partitions=3, write_rate=50)
    workload = Flights(archive, FlightsOptions(outcomes=OutcomeMix()), seed=1)
    simulation = Simulation(workload, sink, history, options, seed=1, base_ns=BASE_NS)
    simulation.run(1_000)
    assert simulation.exhausted
    simulation.finish()
    assert check_log(sink.records, 3, frozenset()) == []
    assert check_history(sink.records, history) == []
    cancelled = 1
    assert len(history.as_of(MAX, FLIGHTS_TABLE_ID)) == len(FLIGHTS) - cancelled
    assert len(history.as_of(MAX, WEATHER_TABLE_ID)) == len(WEATHER)
