"""Kafka Connect with the Debezium JDBC sink keeps a PostgreSQL table equal to the store's, by the
configurations of examples/connect: four forms of a feed, through a schema change, compared at a marker."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import psycopg
import pytest

from stack.connect import ConnectWorker
from stack.kafka import KafkaBroker
from stack.postgres import PostgresServer
from stack.registry import SchemaRegistry
from tests.e2e.downstream import create_feed, example, last_marker, rows_at_the_end, shop_log, wait_for_sink
from tests.e2e.scenario import Scenario

pytestmark = [pytest.mark.broker, pytest.mark.slow, pytest.mark.usefixtures("others_allowed")]

_AVRO: Final = "format='avro', confluent_schema_registry='{registry}', "
_FEEDS: Final = {
    "avro-upsert": _AVRO + "envelope='upsert'",
    "avro-debezium": _AVRO + "envelope='debezium'",
    "json-upsert": "envelope='upsert', connect_schema",
    "json-debezium": "envelope='debezium', connect_schema",
}


#: The sink breaks off at a deletion into a table that is not there yet; the added column it adds by itself.
_TABLE: Final = """
    CREATE TABLE "{name}" (
        id int8 PRIMARY KEY, name text, price numeric(10,2), weight_kg float8, stock int8, on_sale bool,
        since date, changed_at timestamp
    )
"""


@pytest.fixture
def shop(broker: KafkaBroker, topic_prefix: str, tmp_path: Path) -> Iterator[Scenario]:
    made = Scenario(broker.bootstrap, topic_prefix, tmp_path, shop_log(seed=11))
    yield made
    made.close()


def _configuration(
    form: str, topic: str, table: str, postgres: PostgresServer, registry: SchemaRegistry
) -> dict[str, str]:
    """The example's, with what this test's servers have otherwise."""
    settings = example(f"items-{form}.properties")
    settings |= {
        "topics": topic,
        "collection.name.format": table,
        "connection.url": postgres.jdbc_url,
        "connection.username": postgres.user,
        "connection.password": postgres.password,
        "connection.pool.min_size": "1",  # four connectors share a server with few connections
        "connection.pool.max_size": "2",
    }
    for name in settings:
        if name.endswith("registry.url"):
            settings[name] = registry.native_url
    del settings["name"]
    return settings


def _table(postgres: PostgresServer, name: str) -> dict[int, dict[str, Any]]:
    with psycopg.connect(postgres.dsn) as session:
        cursor = session.execute(f'SELECT * FROM "{name}"')
        columns = [column.name for column in cursor.description or ()]
        rows = [dict(zip(columns, row, strict=True)) for row in cursor.fetchall()]
    return {row["id"]: row for row in rows}


def _as_postgres_has_it(item: dict[str, Any]) -> dict[str, Any]:
    """Dates and times as the driver gives them."""
    return item | {
        "since": None if item["since"] is None else date(1970, 1, 1) + timedelta(days=item["since"]),
        "changed_at": None if item["changed_at"] is None else _time(item["changed_at"]),
    }


def _time(nanos: int) -> datetime:
    return datetime.fromtimestamp(0, UTC).replace(tzinfo=None) + timedelta(microseconds=nanos // 1000)


def test_tables_follow_the_source_through_updates_deletes_and_a_new_column(
    shop: Scenario, broker: KafkaBroker
) -> None:
    with ExitStack() as servers:
        registry = servers.enter_context(SchemaRegistry())
        postgres = servers.enter_context(PostgresServer())
        connect = servers.enter_context(ConnectWorker(broker.bootstrap))
        worker = shop.start_worker()
        shop.write_head(worker)
        feeds = {
            form: create_feed(shop, form, options.format(registry=registry.url))
            for form, options in _FEEDS.items()
        }
        for form, feed in feeds.items():
            table = form.replace("-", "_")
            with psycopg.connect(postgres.dsn) as session:
                session.execute(_TABLE.format(name=table))
            connect.put(form, _configuration(form, feed.topic, table, postgres, registry))
        shop.append()
        for form, feed in feeds.items():
            ends = last_marker(shop, feed, worker)
            wait_for_sink(shop, connect, form, feed.topic, ends)
            expected = {
                key: _as_postgres_has_it(item) for key, item in rows_at_the_end(shop.log, feed.start).items()
            }
            assert _table(postgres, form.replace("-", "_")) == expected, form
            assert any(item["note"] is not None for item in expected.values())
            assert any(item["note"] is None and item["name"] is not None for item in expected.values())
