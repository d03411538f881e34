"""Registration at a real schema registry: ids, compatibility, and what it says when it refuses."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace

import pytest

import stack.registry
from tests.destinations import DESTINATIONS
from tests.e2e.stack_end import registry_client
from tests.unit.changefeed.tables import table
from tidegate.changefeed.definition.feed import TableName
from tidegate.changefeed.definition.options import Envelope, FeedOptions, Format
from tidegate.changefeed.definition.registry_uri import parse_registry_uri
from tidegate.changefeed.encoding.confluent import NewSubjects, SubjectSchema
from tidegate.changefeed.encoding.encoder import compile_encoder, compile_marker
from tidegate.errors import FeedError, MalformedRecord, RegistryAway, SchemaRejected
from tidegate.registry.registry import SchemaReader
from tidegate.registry.schema_registration import SchemaRegistrar
from tidegate.rows import parse_sql_type
from tidegate.rows.descriptor import TableDescriptor

pytestmark = pytest.mark.broker

COLUMNS = {"id": "INT8", "note": "STRING", "price": "DECIMAL(10,2)"}


@pytest.fixture(scope="module")
def server() -> Iterator[stack.registry.SchemaRegistry]:
    with stack.registry.SchemaRegistry() as running:
        yield running


@pytest.fixture
def registry(server: stack.registry.SchemaRegistry) -> Iterator[SchemaRegistrar]:
    made = opened(server)
    yield made
    made.close()


def opened(server: stack.registry.SchemaRegistry) -> SchemaRegistrar:
    return SchemaRegistrar(parse_registry_uri(server.url), DESTINATIONS)


def orders(**columns: str) -> TableDescriptor:
    return table("orders", {name: parse_sql_type(of) for name, of in columns.items()}, ("id",))


def options(prefix: str, envelope: Envelope = Envelope.WRAPPED) -> FeedOptions:
    """A feed with topics, and so subjects, of its own."""
    return FeedOptions(
        format=Format.AVRO,
        envelope=envelope,
        updated=envelope is Envelope.WRAPPED,
        resolved_interval_ns=0,
        topic_prefix=prefix,
    )


def row_schema(chosen: FeedOptions, **columns: str) -> SubjectSchema:
    schemas = compile_encoder(orders(**columns), chosen).schemas
    assert schemas is not None
    return schemas.value


def marker_schema(chosen: FeedOptions) -> SubjectSchema:
    schema = compile_marker(TableName("orders"), chosen).schema
    assert schema is not None
    return schema


def test_a_subject_is_new_until_others_register_there(registry: SchemaRegistrar) -> None:
    marker, row = marker_schema(options("new-")), row_schema(options("new-"), **COLUMNS)
    subjects = NewSubjects(("new-orders-key", "new-orders-value"), (marker,))
    registry.require_new(subjects)
    registry.id_of(marker)
    registry.require_new(subjects)
    registry.id_of(row)
    with pytest.raises(FeedError, match="has the subject new-orders-value already"):
        registry.require_new(subjects)


def test_it_is_a_registry(registry: SchemaRegistrar) -> None:
    registry.check()


def test_a_wrong_path_is_no_registry(server: stack.registry.SchemaRegistry) -> None:
    wrong = SchemaRegistrar(parse_registry_uri(server.url.removesuffix("/apis/ccompat/v7")), DESTINATIONS)
    for ask in (wrong.check, lambda: wrong.id_of(SubjectSchema("s", '"int"'))):
        with pytest.raises(RegistryAway, match="Check the URL, its path too"):
            ask()


def test_two_workers_get_the_same_id_and_leave_one_version(
    server: stack.registry.SchemaRegistry, registry: SchemaRegistrar
) -> None:
    schema = row_schema(options("two_"), **COLUMNS)
    other = opened(server)
    assert registry.id_of(schema) == other.id_of(schema) == other.id_of(schema)
    assert (registry.calls, other.calls) == (1, 1)
    assert registry_client(server.url).get_versions(schema.subject) == [1]
    other.close()


def test_what_was_registered_is_read_back_by_its_id(
    server: stack.registry.SchemaRegistry, registry: SchemaRegistrar
) -> None:
    schema = row_schema(options("back_"), **COLUMNS)
    reader = SchemaReader(parse_registry_uri(server.url), DESTINATIONS)
    schema_id = registry.id_of(schema)
    assert json.loads(reader.schema_text(schema_id)) == json.loads(schema.text)
    assert reader.id_of(schema) == schema_id
    with pytest.raises(MalformedRecord, match="has no schema 2000000000"):
        reader.schema_text(2_000_000_000)


@pytest.mark.parametrize("level", ["BACKWARD", "FULL"])
@pytest.mark.parametrize("envelope", [Envelope.WRAPPED, Envelope.BARE])
@pytest.mark.parametrize("marker_first", [False, True])
def test_rows_and_markers_of_a_changing_table_live_on_one_subject(
    level: str,
    envelope: Envelope,
    marker_first: bool,
    server: stack.registry.SchemaRegistry,
    registry: SchemaRegistrar,
) -> None:
    chosen = options(f"{level}_{envelope.value}_{marker_first}_", envelope)
    marker, row = marker_schema(chosen), row_schema(chosen, **COLUMNS)
    wider = row_schema(chosen, **COLUMNS, added="TIMESTAMPTZ")
    narrower = row_schema(chosen, id="INT8", price="DECIMAL(10,2)")
    assert marker.subject == row.subject
    registry_client(server.url).set_compatibility(row.subject, level)
    order = (marker, row) if marker_first else (row, marker)
    ids = [registry.id_of(schema) for schema in (*order, wider, narrower)]
    assert len(set(ids)) == 4


@pytest.mark.parametrize("level", ["BACKWARD", "FULL"])
@pytest.mark.parametrize("envelope", [Envelope.UPSERT, Envelope.DEBEZIUM])
def test_rows_for_connect_live_on_one_subject_while_their_table_changes(
    level: str, envelope: Envelope, server: stack.registry.SchemaRegistry, registry: SchemaRegistrar
) -> None:
    chosen = options(f"{level}_{envelope.value}_", envelope)
    row = row_schema(chosen, **COLUMNS)
    wider = row_schema(chosen, **COLUMNS, added="TIMESTAMPTZ")
    narrower = row_schema(chosen, id="INT8", price="DECIMAL(10,2)")
    registry_client(server.url).set_compatibility(row.subject, level)
    assert len({registry.id_of(schema) for schema in (row, wider, narrower)}) == 3


def test_a_column_that_changes_its_type_is_rejected_in_the_registrys_words(
    registry: SchemaRegistrar,
) -> None:
    chosen = options("changed_")
    registry.id_of(row_schema(chosen, id="INT8", note="STRING"))
    changed = row_schema(chosen, id="INT8", note="INT8")
    with pytest.raises(SchemaRejected) as caught:
        registry.id_of(changed)
    text = str(caught.value)
    assert f"under the subject {changed.subject} (409: " in text
    assert "ncompatible" in text
    assert "Nothing was written with that schema" in text
    assert registry.known(changed) is None
    registry.id_of(row_schema(replace(chosen, topic_prefix="other_"), id="INT8", note="INT8"))


def test_what_is_no_schema_is_rejected(registry: SchemaRegistrar) -> None:
    with pytest.raises(SchemaRejected, match=r"\(422: "):
        registry.id_of(SubjectSchema("nonsense-value", '{"type": "record"}'))


def test_a_registry_that_comes_back_gives_the_same_id(
    server: stack.registry.SchemaRegistry, registry: SchemaRegistrar
) -> None:
    chosen = options("again_")
    before, after = row_schema(chosen, **COLUMNS), marker_schema(chosen)
    schema_id = registry.id_of(before)
    server.kill()
    try:
        assert registry.id_of(before) == schema_id
        with pytest.raises(RegistryAway, match=f"under the subject {after.subject}"):
            registry.id_of(after)
    finally:
        server.start()
    assert registry.id_of(after) == opened(server).id_of(after)
    assert opened(server).id_of(before) == schema_id
