"""The real schema registry, with the client that the feeds use."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient
from confluent_kafka.schema_registry.error import SchemaRegistryError

from stack.registry import SchemaRegistry
from tests.e2e.stack_end import nothing_is_left_of, registry_client, stack

pytestmark = pytest.mark.broker


def record(**types: str) -> Schema:
    """A record schema with a field for each argument; none has a default."""
    fields = [{"name": name, "type": of} for name, of in types.items()]
    return Schema(json.dumps({"type": "record", "name": "r", "fields": fields}), "AVRO")


@pytest.fixture(scope="module")
def registry() -> Iterator[SchemaRegistry]:
    with SchemaRegistry() as running:
        yield running


@pytest.fixture
def client(registry: SchemaRegistry) -> SchemaRegistryClient:
    return registry_client(registry.url)


def test_a_registered_schema_is_found_by_its_id(
    registry: SchemaRegistry, client: SchemaRegistryClient
) -> None:
    schema_id = client.register_schema("found-value", record(a="int"))
    assert client.register_schema("found-value", record(a="int")) == schema_id
    found = registry_client(registry.url).get_schema(schema_id)  # without the other's cache
    assert json.loads(found.schema_str)["fields"] == [{"name": "a", "type": "int"}]


def test_an_incompatible_schema_is_refused_with_409(client: SchemaRegistryClient) -> None:
    client.register_schema("refused-value", record(a="int"))
    with pytest.raises(SchemaRegistryError, match="ncompatible") as refused:
        client.register_schema("refused-value", record(a="int", b="int"))
    assert refused.value.http_status_code == 409


def test_compatibility_can_be_set_per_subject(client: SchemaRegistryClient) -> None:
    client.register_schema("free-value", record(a="int"))
    client.set_compatibility("free-value", "NONE")
    assert client.register_schema("free-value", record(a="int", b="int")) > 0
    assert client.get_compatibility("free-value") == "NONE"


@pytest.mark.soak
def test_schemas_outlive_a_stop_and_a_kill(registry: SchemaRegistry) -> None:
    ids: list[int] = []
    for end in (registry.stop, registry.kill):
        ids.append(registry_client(registry.url).register_schema(f"kept-{len(ids)}", record(a="int")))
        end()
        registry.start()
    again = registry_client(registry.url)
    assert [again.register_schema(f"kept-{n}", record(a="int")) for n in range(2)] == ids


def test_a_frozen_registry_answers_once_it_goes_on(registry: SchemaRegistry) -> None:
    hurried = SchemaRegistryClient({"url": registry.url, "timeout": 0.5, "max.retries": 0})
    registry.pause()
    with pytest.raises(Exception, match=r"(?i)time"):
        hurried.get_subjects()
    registry.resume()
    registry_client(registry.url).get_subjects()


@pytest.mark.soak
def test_nothing_is_left_of_an_ended_registry() -> None:
    nothing_is_left_of(SchemaRegistry(), lambda running: registry_client(running.address).get_subjects())


@pytest.mark.soak
def test_up_status_and_down(tmp_path: Path) -> None:
    try:
        started = stack(tmp_path, "up", "registry")
        url = started.split(" at ")[1].split()[0]
        assert registry_client(url).register_schema("s", record(a="int")) == 1
        assert f"registry  {url}" in stack(tmp_path, "status")
        assert stack(tmp_path, "status").strip().endswith("healthy")
    finally:
        down = stack(tmp_path, "down")
    assert "registry (pid" in down
    assert stack(tmp_path, "status") == "Nothing is up.\n"
