"""``make demo-connect``: flights from a range store into a PostgreSQL table, by Kafka Connect.

Kafka, a schema registry, Kafka Connect and PostgreSQL are started. A worker writes the flights to topics as
Avro records in Debezium's envelope. The Debezium JDBC sink writes them to a table. At the end the table is
queried and compared, row by row, with what the store committed, and the topics are audited.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any, Final

import click
import psycopg
from confluent_kafka import Consumer, TopicPartition
from rich.console import Console
from rich.table import Table

from examples.demo.run import Demo, Options, audit, run_to_exit, show, within
from sim.log.history import History
from sim.nycflights import fetch_archive
from sim.workloads.flight_tables import FLIGHTS_TABLE_ID, flights_table
from stack.connect import ConnectWorker
from stack.kafka import KafkaBroker
from stack.postgres import PostgresServer
from stack.registry import SchemaRegistry
from tidegate.changefeed.lifecycle.jobs import FeedView
from tidegate.client.kafka.cluster import Cluster
from tidegate.client.kafka.connection import KafkaConnection
from tidegate.errors import FatalError, brief
from tidegate.hlc import ZERO
from tidegate.rows import TableCodec

_CONFIGURATION: Final = Path(__file__).parents[1] / "connect" / "items-avro-debezium.properties"
_SINK_TIMEOUT_S: Final = 300.0
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_QUERY: Final = """
    SELECT carrier, count(*) AS flights, count(DISTINCT dest) AS destinations,
           round(avg(dep_delay), 1) AS mean_delay_minutes, max(dep_delay) AS worst
    FROM flights GROUP BY carrier ORDER BY flights DESC, carrier LIMIT 8
"""


@click.command()
@click.option("--seconds", default=30.0, show_default=True, help="How long the store runs.")
@click.option("--rate", default=1000.0, show_default=True, help="Rows that it writes per second.")
@click.option("--seed", default=1, show_default=True, help="Decides everything but the times.")
def main(seconds: float, rate: float, seed: int) -> None:
    """Real flights through Kafka Connect into PostgreSQL, compared and audited."""
    run_to_exit(partial(_run, Options(seconds, rate, seed, partitions=4, keep=False)))


def _run(options: Options, name: str, directory: Path) -> int:
    fetch_archive()
    with ExitStack() as stack:
        click.echo("Starting Kafka, a schema registry, PostgreSQL and Kafka Connect ...")
        broker = stack.enter_context(KafkaBroker())
        registry = stack.enter_context(SchemaRegistry())
        _allow(registry, directory)
        postgres = stack.enter_context(PostgresServer())
        connect = stack.enter_context(ConnectWorker(broker.bootstrap))
        statement = (
            f"CREATE CHANGEFEED FOR TABLE flights INTO 'kafka://{broker.bootstrap}?topic_prefix={name}_' "
            f"WITH format='avro', envelope='debezium', confluent_schema_registry='{registry.url}', resolved, "
            f"resolved_topic='{name}_markers', initial_scan='no'"
        )
        demo = Demo(options, broker.bootstrap, name, directory, statement)
        topic = f"{name}_flights"

        def start_sink(_: FeedView) -> None:
            connect.put("flights", _sink(topic, postgres, registry))
            click.echo(f"Connect's sink runs: topic {topic} into the table flights of {postgres.jdbc_url}")

        shown = show(demo, stack, start_sink)
        _wait_for_sink(demo.bootstrap, "connect-flights", topic, connect)
        _print_query(postgres.dsn)
        differences = _differences(postgres.dsn, demo.history, shown.feed)
        return max(audit(demo, shown), min(differences, 1))


def _allow(registry: SchemaRegistry, directory: Path) -> None:
    """Let feeds of this process and its children use the registry, as an operator does."""
    file = directory / "destinations.toml"
    file.write_text(f'[registries.demo]\nurls = ["{registry.url}"]\n')
    os.environ["TIDEGATE_DESTINATIONS_FILE"] = str(file)


def _sink(topic: str, postgres: PostgresServer, registry: SchemaRegistry) -> dict[str, str]:
    """Return the configuration of examples/connect, with the addresses of this run."""
    lines = (line for line in _CONFIGURATION.read_text().splitlines() if line and not line.startswith("#"))
    settings = dict(line.split("=", 1) for line in lines)
    settings |= {
        "name": "flights",
        "topics": topic,
        "collection.name.format": "flights",
        "connection.url": postgres.jdbc_url,
        "connection.username": postgres.user,
        "connection.password": postgres.password,
    }
    addresses = {name: registry.native_url for name in settings if name.endswith("registry.url")}
    return settings | addresses


def _wait_for_sink(bootstrap: str, group: str, topic: str, connect: ConnectWorker) -> None:
    """Wait until the sink has committed the end of the topic."""
    cluster = Cluster(KafkaConnection(bootstrap))
    counts = cluster.partition_counts([topic])
    places = [TopicPartition(topic, number) for number in range(counts[topic])]
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group})
    try:
        ends = {place.partition: consumer.get_watermark_offsets(place)[1] for place in places}
        for _ in within(_SINK_TIMEOUT_S, "the sink did not reach the end of its topic"):
            connect.states("flights")
            committed = {place.partition: place.offset for place in consumer.committed(places, timeout=10)}
            if all(not end or committed[number] >= end for number, end in ends.items()):
                return
    finally:
        consumer.close()


def _print_query(dsn: str) -> None:
    with _session(dsn) as session:
        cursor = session.execute(_QUERY)
        table = Table(title="PostgreSQL: flights by carrier", title_justify="left")
        for column in cursor.description or ():
            table.add_column(column.name.replace("_", " "), justify="right")
        for row in cursor.fetchall():
            table.add_row(*("-" if cell is None else str(cell) for cell in row))
    Console().print(table)


@contextmanager
def _session(dsn: str) -> Iterator[psycopg.Connection[Any]]:
    """Open a session of PostgreSQL. Raises ``FatalError`` if it, or a statement in it, fails."""
    try:
        with psycopg.connect(dsn) as session:
            yield session
    except psycopg.Error as error:
        raise FatalError(
            f"PostgreSQL did not give the rows of the table flights: {brief(str(error))}"
        ) from error


def _differences(dsn: str, history: Path, feed: FeedView) -> int:
    """Return how many rows of the table differ from what the store has at the end."""
    if feed.current_state is None or feed.current_state.start is None:
        raise FatalError("the feed has no start")
    start, codec = feed.current_state.start, TableCodec(flights_table(ZERO))
    expected: dict[tuple[Any, ...], Mapping[str, Any]] = {}
    versions = History.load(history)
    last = max(version.timestamp for version in versions)
    for version in versions.as_of(last, FLIGHTS_TABLE_ID).values():
        row = codec.decode(version.key, version.value)
        if row is not None and row.values is not None and version.timestamp > start:
            names = (column.name for column in row.table.columns)
            item: dict[str, Any] = dict(zip(names, row.values, strict=True))
            item["time_hour"] = _EPOCH + timedelta(microseconds=item["time_hour"] // 1_000)
            expected[_key(item)] = item
    found = _rows(dsn)
    differing = sum(found.get(key) != expected.get(key) for key in found.keys() | expected.keys())
    click.echo(
        f"The table has {len(found):,} rows, the store {len(expected):,} at {last}; {differing:,} differ."
    )
    return differing


def _rows(dsn: str) -> dict[tuple[Any, ...], Mapping[str, Any]]:
    with _session(dsn) as session:
        session.execute("SET TIME ZONE 'UTC'")
        cursor = session.execute("SELECT * FROM flights")
        names = [column.name for column in cursor.description or ()]
        items = [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]
    return {_key(item): item for item in items}


def _key(item: Mapping[str, Any]) -> tuple[Any, ...]:
    return item["carrier"], item["flight"], item["time_hour"]


if __name__ == "__main__":
    main()
