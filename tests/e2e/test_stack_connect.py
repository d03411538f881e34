"""The real Connect worker: files, and Avro records with registered schemas into a real PostgreSQL."""

from __future__ import annotations

import io
import json
import struct
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import fastavro
import psycopg
import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from confluent_kafka.schema_registry import Schema

from stack.connect import ConnectWorker
from stack.errors import ConnectorFailed, StackError
from stack.kafka import KafkaBroker
from stack.ports import choose_port
from stack.postgres import PostgresServer
from stack.registry import SchemaRegistry
from tests.e2e.stack_end import nothing_is_left_of, registry_client, stack

pytestmark = pytest.mark.broker


@pytest.fixture(scope="module")
def worker(broker: KafkaBroker) -> Iterator[ConnectWorker]:
    with ConnectWorker(broker.bootstrap) as running:
        yield running


def create_topic(broker: KafkaBroker, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    for created in admin.create_topics([NewTopic(topic, 1, 1)]).values():
        created.result(timeout=30)


def await_that(holds: Callable[[], bool], worker: ConnectWorker, name: str) -> None:
    """Wait until it holds; a connector that breaks off meanwhile says why."""
    deadline = time.monotonic() + 60
    while not holds():
        worker.states(name)
        assert time.monotonic() < deadline, worker.log.read_text()[-4000:]
        time.sleep(0.1)


def file_sink(topic: str, into: Path) -> dict[str, str]:
    return {
        "connector.class": "org.apache.kafka.connect.file.FileStreamSinkConnector",
        "topics": topic,
        "file": str(into),
        "value.converter": "org.apache.kafka.connect.storage.StringConverter",
        "key.converter": "org.apache.kafka.connect.storage.StringConverter",
    }


_WITHOUT_TOPICS = {"connector.class": "org.apache.kafka.connect.file.FileStreamSinkConnector"}


@pytest.mark.soak
def test_records_reach_a_sink_again_after_a_kill(
    broker: KafkaBroker, worker: ConnectWorker, topic_prefix: str, tmp_path: Path
) -> None:
    topic, output = topic_prefix + "t", tmp_path / "lines"
    create_topic(broker, topic)
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    worker.put("lines", file_sink(topic, output))
    producer.produce(topic, "before")
    producer.flush(30)
    await_that(lambda: output.exists() and "before\n" in output.read_text(), worker, "lines")
    with pytest.raises(ConnectorFailed):
        worker.put("wrong", _WITHOUT_TOPICS)
    worker.kill()
    producer.produce(topic, "after")
    producer.flush(30)
    worker.start()  # not with what was refused
    await_that(lambda: "after\n" in output.read_text(), worker, "lines")
    worker.delete("lines")


def test_a_configuration_that_cannot_be_is_refused_with_connects_words(worker: ConnectWorker) -> None:
    with pytest.raises(ConnectorFailed, match=r"(?s)refused to PUT wrong/config \(status 400\): .*topics"):
        worker.put("wrong", _WITHOUT_TOPICS)
    with pytest.raises(ConnectorFailed, match=r"Failed to find any class .* Nonsense"):
        worker.put("wrong", {"connector.class": "Nonsense", "topics": "t"})


def test_a_task_that_breaks_off_says_why(
    broker: KafkaBroker, worker: ConnectWorker, topic_prefix: str, tmp_path: Path
) -> None:
    topic = topic_prefix + "t"
    create_topic(broker, topic)
    json_sink = file_sink(topic, tmp_path / "lines") | {
        "value.converter": "org.apache.kafka.connect.json.JsonConverter"
    }
    worker.put("broken", json_sink)
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    producer.produce(topic, "no JSON")
    producer.flush(30)
    with pytest.raises(ConnectorFailed, match=r"Task 0 of the connector broken broke off.*\n(.*\n)*.*'no'"):
        await_that(lambda: False, worker, "broken")
    worker.put("broken", file_sink(topic, tmp_path / "lines"))  # corrected, it goes on where it was
    await_that(lambda: (tmp_path / "lines").read_text() == "no JSON\n", worker, "broken")
    worker.delete("broken")


def test_a_connector_that_is_unknown_cannot_be_ended(worker: ConnectWorker) -> None:
    with pytest.raises(ConnectorFailed, match=r"refused to DELETE absent \(status 404\): .*not found"):
        worker.delete("absent")


def test_nothing_is_left_of_an_ended_worker(broker: KafkaBroker) -> None:
    nothing_is_left_of(ConnectWorker(broker.bootstrap), lambda running: running.pid)


def test_a_broker_that_is_away_is_said_at_once() -> None:
    with pytest.raises(StackError, match="nothing listens at"):
        ConnectWorker(f"127.0.0.1:{choose_port()}")


KEY = {"type": "record", "name": "k", "fields": [{"name": "id", "type": ["null", "long"], "default": None}]}


def value_schema(*columns: str) -> dict[str, Any]:
    fields = [{"name": column, "type": ["null", "string"], "default": None} for column in columns]
    return {**KEY, "name": "v", "fields": [*KEY["fields"], *fields]}


class AvroTable:
    """A topic of rows by key, framed as Confluent's serializers do it."""

    def __init__(self, broker: KafkaBroker, registry: SchemaRegistry, topic: str) -> None:
        create_topic(broker, topic)
        self._topic = topic
        self._producer = Producer({"bootstrap.servers": broker.bootstrap})
        self._registry = registry_client(registry.url)

    def write(self, key: int, row: dict[str, str] | None) -> None:
        value = None if row is None else self._framed("value", value_schema(*row), {"id": key, **row})
        self._producer.produce(self._topic, key=self._framed("key", KEY, {"id": key}), value=value)
        self._producer.flush(30)

    def _framed(self, part: str, schema: dict[str, Any], record: dict[str, Any]) -> bytes:
        schema_id = self._registry.register_schema(
            f"{self._topic}-{part}", Schema(json.dumps(schema), "AVRO")
        )
        framed = io.BytesIO()
        framed.write(struct.pack(">bI", 0, schema_id))
        fastavro.schemaless_writer(framed, schema, record)
        return framed.getvalue()


def jdbc_sink(topic: str, table: str, postgres: PostgresServer, registry: SchemaRegistry) -> dict[str, str]:
    """The configuration of a sink that keeps a table equal to a topic of rows by key."""
    converter = {
        "": "io.apicurio.registry.utils.converter.AvroConverter",
        ".apicurio.registry.url": registry.native_url,
        ".apicurio.registry.id-handler": "io.apicurio.registry.serde.Legacy4ByteIdHandler",
        ".apicurio.registry.use-id": "contentId",
    }
    return {
        "connector.class": "io.debezium.connector.jdbc.JdbcSinkConnector",
        "topics": topic,
        "connection.url": postgres.jdbc_url,
        "connection.username": postgres.user,
        "connection.password": postgres.password,
        "collection.name.format": table,
        "insert.mode": "upsert",
        "delete.enabled": "true",
        "primary.key.mode": "record_key",
        "schema.evolution": "basic",
        **{f"{part}.converter{name}": text for part in ("key", "value") for name, text in converter.items()},
    }


@pytest.fixture(scope="module")
def registry() -> Iterator[SchemaRegistry]:
    with SchemaRegistry() as running:
        # Ids of contents and of versions must differ, or the converter could take one for the other.
        client = registry_client(running.url)
        for subject in ("one", "two"):
            client.register_schema(subject, Schema(json.dumps(KEY), "AVRO"))
        yield running


@pytest.fixture(scope="module")
def postgres() -> Iterator[PostgresServer]:
    with PostgresServer() as running:
        yield running


def is_in(table: str, postgres: PostgresServer, rows: list[tuple[object, ...]]) -> Callable[[], bool]:
    """Whether the table holds exactly these rows, as a question that can be asked again."""

    def holds() -> bool:
        try:
            with psycopg.connect(postgres.dsn) as session:
                found = session.execute(f"SELECT * FROM {table} ORDER BY id".encode()).fetchall()
        except psycopg.errors.UndefinedTable:
            return False
        return found == rows

    return holds


def test_a_table_follows_avro_records_through_update_delete_and_a_new_column(
    broker: KafkaBroker,
    worker: ConnectWorker,
    registry: SchemaRegistry,
    postgres: PostgresServer,
    topic_prefix: str,
) -> None:
    topic = topic_prefix + "rows"
    source = AvroTable(broker, registry, topic)
    for key in range(3):
        source.write(key, {"city": "Zürich"})
    worker.put("rows", jdbc_sink(topic, "rows", postgres, registry))
    await_that(is_in("rows", postgres, [(0, "Zürich"), (1, "Zürich"), (2, "Zürich")]), worker, "rows")
    source.write(1, {"city": "Genève"})
    source.write(2, None)
    await_that(is_in("rows", postgres, [(0, "Zürich"), (1, "Genève")]), worker, "rows")
    source.write(3, {"city": "Bern", "canton": "BE"})
    widened: list[tuple[object, ...]] = [(0, "Zürich", None), (1, "Genève", None), (3, "Bern", "BE")]
    await_that(is_in("rows", postgres, widened), worker, "rows")
    worker.delete("rows")


def test_a_sink_whose_database_was_away_goes_on_after_a_restart(
    broker: KafkaBroker,
    worker: ConnectWorker,
    registry: SchemaRegistry,
    postgres: PostgresServer,
    topic_prefix: str,
) -> None:
    topic = topic_prefix + "rows"
    source = AvroTable(broker, registry, topic)
    source.write(1, {"city": "Zürich"})
    worker.put("away", jdbc_sink(topic, "away", postgres, registry))
    await_that(is_in("away", postgres, [(1, "Zürich")]), worker, "away")
    postgres.stop()
    source.write(2, {"city": "Genève"})
    with pytest.raises(ConnectorFailed, match="JDBC"):
        await_that(lambda: False, worker, "away")
    postgres.start()
    worker.restart("away")
    await_that(is_in("away", postgres, [(1, "Zürich"), (2, "Genève")]), worker, "away")
    worker.delete("away")


@pytest.mark.soak
def test_up_uses_the_kafka_of_the_stack(tmp_path: Path) -> None:
    assert "run `tidegate stack up kafka` first" in stack(tmp_path, "up", "connect", succeeds=False)
    try:
        stack(tmp_path, "up", "kafka")
        url = stack(tmp_path, "up", "connect").split(" at ")[1].split()[0]
        assert f"connect  {url}" in stack(tmp_path, "status")
        assert stack(tmp_path, "status").count("healthy") == 2
    finally:
        down = stack(tmp_path, "down")
    assert down.index("connect (pid") < down.index("kafka (pid"), "who needs another goes first"
    assert stack(tmp_path, "status") == "Nothing is up.\n"
