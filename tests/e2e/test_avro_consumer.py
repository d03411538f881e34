"""Confluent's own deserializer reads every record of an Avro feed, and gives the rows that were committed."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

import pytest
from confluent_kafka.schema_registry.avro import AvroDeserializer
from confluent_kafka.serialization import MessageField, SerializationContext

from sim.workloads.random import RandomOptions, RandomTransactions
from sim.workloads.random_datums import VALUE_TYPES
from stack.kafka import KafkaBroker
from stack.registry import SchemaRegistry
from tests.e2e.scenario import PARTITIONS, Scenario
from tests.e2e.stack_end import registry_client
from tests.logs import eventful_store, simulate
from tidegate.changefeed.definition.feed import FeedId, FeedState
from tidegate.changefeed.lifecycle.job_records import StateRecord
from tidegate.changefeed.statement.definition import define_feed
from tidegate.changefeed.text.datum_text import inet_text, timetz_text
from tidegate.changefeed.text.json_text import json_value
from tidegate.client.jobs import Jobs
from tidegate.client.output import OutputTopics
from tidegate.hlc import ZERO, Timestamp, parse_decimal
from tidegate.rows import Catalog, Kind, Row, SqlType, parse_sql_type
from tidegate.verify import TopicRecord

pytestmark = [pytest.mark.broker, pytest.mark.usefixtures("others_allowed")]

_SEED: Final = 24  # whose tables have every type that is drawn
_TABLES: Final = 8
_HEAD_RECORDS: Final = 2 * _TABLES + 4  # of a partition: descriptors, and snapshots of its ranges
_DAY_ZERO: Final = dt.date(1970, 1, 1)
_EPOCH: Final = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


@pytest.fixture
def types(broker: KafkaBroker, topic_prefix: str, tmp_path: Path) -> Iterator[Scenario]:
    """A log of tables of random types."""
    workload = RandomTransactions(RandomOptions(tables=_TABLES, ranges=2), _SEED)
    log = simulate(workload, eventful_store(PARTITIONS), seed=_SEED, transactions=300)
    made = Scenario(broker.bootstrap, topic_prefix, tmp_path, log)
    yield made
    made.close()


def _interval(value: Any) -> str:
    """ISO 8601, by the parts: no unit that is zero, and a T before the time."""
    years, months = _signed_divmod(value.months, 12)
    hours, rest = _signed_divmod(_cut(value.nanos, 1_000), 3_600_000_000)
    minutes, micros = _signed_divmod(rest, 60_000_000)
    seconds = Decimal(micros).scaleb(-6).normalize()
    day_part = "".join(
        f"{count}{unit}" for count, unit in ((years, "Y"), (months, "M"), (value.days, "D")) if count
    )
    time_part = "".join(f"{count}{unit}" for count, unit in ((hours, "H"), (minutes, "M")) if count)
    time_part += f"{seconds:f}S" if seconds else ""
    return f"P{day_part}{'T' + time_part if time_part else ''}" if day_part or time_part else "PT0S"


def _units(*counts: tuple[int, str]) -> str:
    return "".join(f"{count}{unit}" for count, unit in counts if count)


def _cut(value: int, unit: int) -> int:
    return abs(value) // unit * (-1 if value < 0 else 1)


def _signed_divmod(value: int, unit: int) -> tuple[int, int]:
    whole = _cut(value, unit)
    return whole, value - whole * unit


def _bits(text: str) -> list[int]:
    assert 0 < len(text) <= 64, "longer ones are not drawn here"
    word = int(text.ljust(64, "0"), 2)
    return [len(text), word - (1 << 64) if word >= 1 << 63 else word]


#: What the deserializer gives for a datum, by kind; equal for those that are not here.
_AS_READ: Final[dict[Kind, Callable[[Any], Any]]] = {
    Kind.UUID: str,
    Kind.INET: inet_text,
    Kind.DATE: lambda days: _DAY_ZERO + dt.timedelta(days=days),
    Kind.TIME: lambda micros: (dt.datetime.min + dt.timedelta(microseconds=micros)).time(),
    Kind.TIMETZ: timetz_text,
    Kind.TIMESTAMP: lambda nanos: _EPOCH + dt.timedelta(microseconds=nanos // 1_000),
    Kind.TIMESTAMPTZ: lambda nanos: _EPOCH + dt.timedelta(microseconds=nanos // 1_000),
    Kind.INTERVAL: _interval,
    Kind.JSONB: lambda datum: json_value(datum.value),
    Kind.BIT: _bits,
    Kind.ARRAY: list,
}


def _as_read(sql_type: SqlType, datum: Any) -> Any:
    return datum if datum is None else _AS_READ.get(sql_type.kind, lambda same: same)(datum)


def _row_as_read(row: Row) -> dict[str, Any] | None:
    if row.values is None:
        return None
    return {
        column.name: _as_read(column.type, datum)
        for column, datum in zip(row.table.columns, row.values, strict=True)
    }


def _key_as_read(row: Row) -> dict[str, Any]:
    by_id = {column.id: column for column in row.table.columns}
    columns = [by_id[part.column_id] for part in row.table.primary_key]
    return {c.name: _as_read(c.type, datum) for c, datum in zip(columns, row.key, strict=True)}


def _committed(scenario: Scenario, start: Timestamp) -> set[tuple[Any, ...]]:
    """(table, key, row, timestamp) of every version above the start, comparable."""
    catalog = Catalog()
    for table in scenario.log.tables:
        catalog.add(table)
    found = set()
    for version in scenario.log.history:
        row = catalog.at(version.table_id, version.timestamp).decode(version.key, version.value)
        assert row is not None
        if version.timestamp > start:
            at = version.timestamp.decimal()
            found.add((row.table.name, repr(_key_as_read(row)), repr(_row_as_read(row)), at))
    return found


def _created(types: Scenario, registry: SchemaRegistry) -> StateRecord:
    """The state of a feed on all tables, once it runs."""
    names = ", ".join(table.name for table in types.log.tables)
    statement = (
        f"CREATE CHANGEFEED FOR TABLE {names} "
        f"INTO 'kafka://{types.bootstrap}?topic_prefix={types.prefix}' WITH initial_scan='no', updated, "
        f"resolved, format='avro', confluent_schema_registry='{registry.url}'"
    )
    definition = define_feed(statement, FeedId("types"), 1).definition
    jobs = Jobs(types.connection, types.app_id)
    jobs.create(definition)
    feed = jobs.wait(definition.id, 60)
    assert feed.status is FeedState.RUNNING, feed
    assert feed.current_state is not None
    return feed.current_state


def _high_water(types: Scenario) -> Timestamp:
    return Jobs(types.connection, types.app_id).feed(FeedId("types")).high_water or ZERO


class _Reader:
    """All records of a feed's topics, by Confluent's deserializer."""

    def __init__(self, scenario: Scenario, registry: SchemaRegistry, state: StateRecord) -> None:
        self._connection = scenario.connection
        self._tables = {target.topic: target.table.name for target in state.targets}
        self._partitions = sum(target.partitions for target in state.targets)
        client = registry_client(registry.url)
        self._deserialize = AvroDeserializer(client)
        self.rows: set[tuple[Any, ...]] = set()
        self.markers: dict[tuple[str, int], Timestamp] = {}

    def read_rows(self) -> None:
        """Read all rows that are there now."""
        for record in self._records():
            if record.key is not None:
                key = self._deserialize(record.key, SerializationContext(record.topic, MessageField.KEY))
                value = self._value(record)
                self.rows.add((self._tables[record.topic], repr(key), repr(value["after"]), value["updated"]))

    def covers(self, end: Timestamp) -> bool:
        """Whether every partition has a marker at ``end`` or above by now."""
        for record in self._records():
            if record.key is None:
                resolved = parse_decimal(self._value(record)["resolved"])
                self.markers[record.topic, record.partition] = resolved
        return len(self.markers) == self._partitions and min(self.markers.values()) >= end

    def _records(self) -> Iterator[TopicRecord]:
        return OutputTopics.now(self._connection, list(self._tables)).records()

    def _value(self, record: TopicRecord) -> Any:
        return self._deserialize(record.value, SerializationContext(record.topic, MessageField.VALUE))


def test_the_deserializer_reads_every_record_and_gives_the_committed_rows(types: Scenario) -> None:
    with SchemaRegistry() as registry:
        worker = types.start_worker()
        types.write_head(worker, _HEAD_RECORDS)
        state = _created(types, registry)
        types.append()
        end = max(version.timestamp for version in types.log.history)
        reader = _Reader(types, registry, state)
        # Reading all records takes seconds on a busy machine. It begins when markers are about to be there.
        worker.wait_until(lambda: _high_water(types) >= end, "a high-water that covers the history")
        worker.wait_until(lambda: reader.covers(end), "a marker that covers the history")
        reader.read_rows()
    assert state.start is not None
    assert reader.rows == _committed(types, state.start)


def test_the_tables_have_every_type_that_is_drawn(types: Scenario) -> None:
    drawn = {parse_sql_type(text).kind for text in VALUE_TYPES}
    assert drawn == {column.type.kind for table in types.log.tables for column in table.columns}
