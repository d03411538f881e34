"""The exact text of schemas, their names, and the subjects that they are for."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from fastavro import parse_schema

from tests.unit.changefeed.encoding.avro.tables_of_types import AVRO, sql_table
from tests.unit.changefeed.tables import FOO, INT, table
from tidegate.changefeed.definition.feed import TableName
from tidegate.changefeed.definition.options import Envelope
from tidegate.changefeed.encoding.avro.marker import compile_avro_marker
from tidegate.changefeed.encoding.confluent import RecordSchemas
from tidegate.changefeed.encoding.encoder import compile_encoder
from tidegate.errors import UnsupportedTable
from tidegate.rows.descriptor import Column, TableDescriptor

A = '{"type":["null","long"],"name":"a","default":null,"__crdb__":"a INT8 NOT NULL"}'
B = '{"type":["null","string"],"name":"b","default":null,"__crdb__":"b STRING NULL"}'
UPDATED = '{"type":["null","string"],"name":"updated","default":null}'
MVCC = '{"type":["null","string"],"name":"mvcc_timestamp","default":null}'
RESOLVED = '{"type":["null","string"],"name":"resolved","default":null}'


def schemas(described: TableDescriptor, **options: Any) -> RecordSchemas:
    compiled = compile_encoder(described, replace(AVRO, **options)).schemas
    assert compiled is not None
    return compiled


def record(name: str, *fields: str, namespace: str = "") -> str:
    tail = f',"namespace":"{namespace}"' if namespace else ""
    return f'{{"type":"record","name":"{name}","fields":[{",".join(fields)}]{tail}}}'


def row_field(name: str, of: str) -> str:
    return f'{{"type":["null",{of}],"name":"{name}","default":null}}'


def test_the_wrapped_envelope() -> None:
    key, value = schemas(FOO)
    assert (key.subject, key.text) == ("foo-key", record("foo", A))
    assert (value.subject, value.text) == (
        "foo-value",
        record("foo_envelope", row_field("after", record("foo", A, B))),
    )


def test_the_wrapped_envelopes_fields_stand_in_the_sources_order() -> None:
    _, value = schemas(FOO, diff=True, updated=True, mvcc_timestamp=True)
    before, after = record("foo_before", A, B), record("foo", A, B)
    assert value.text == record(
        "foo_envelope", row_field("before", before), row_field("after", after), UPDATED, MVCC
    )


def test_the_bare_envelope_has_one_field() -> None:
    _, value = schemas(FOO, envelope=Envelope.BARE)
    assert value.text == record("foo_envelope", row_field("record", record("foo", A, B)))


def test_the_bare_envelopes_timestamps_stand_before_its_row() -> None:
    _, value = schemas(FOO, envelope=Envelope.BARE, updated=True, mvcc_timestamp=True)
    assert value.text == record("foo_envelope", UPDATED, MVCC, row_field("record", record("foo", A, B)))


TS_NS = '{"type":["null","long"],"name":"ts_ns","default":null}'
OP = '{"type":["null","string"],"name":"op","default":null}'


def test_the_enriched_envelope() -> None:
    key, value = schemas(FOO, envelope=Envelope.ENRICHED)
    assert key.text == record("foo", A)
    assert value.text == record("foo_envelope", row_field("after", record("foo", A, B)), TS_NS, OP)


@pytest.mark.parametrize("prefix", ["", "super"])
def test_the_enriched_envelopes_fields_stand_in_the_sources_order(prefix: str) -> None:
    _, value = schemas(
        FOO,
        envelope=Envelope.ENRICHED,
        diff=True,
        enriched_properties="schema,source",
        avro_schema_prefix=prefix,
    )
    types = {
        "changefeed_sink": '"string"',
        "crdb_internal_table_id": '"int"',
        "database_name": '"string"',
        "mvcc_timestamp": '"string"',
        "origin": '"string"',
        "primary_keys": '{"type":"array","items":"string"}',
        "schema_name": '"string"',
        "table_name": '"string"',
        "ts_hlc": '"string"',
        "ts_ns": '"long"',
    }
    source = [row_field(name, of) for name, of in types.items()]
    assert value.text == record(
        f"{prefix}foo_envelope",
        row_field("before", record("foo_before", A, B, namespace=prefix)),
        row_field("after", record("foo", A, B, namespace=prefix)),
        row_field("source", record("source", *source, namespace=prefix)),
        TS_NS,
        OP,
        namespace=prefix,
    )


@pytest.mark.parametrize("asked", ["updated", "mvcc_timestamp"])
def test_timestamps_alone_make_a_source_of_timestamps(asked: str) -> None:
    _, value = schemas(FOO, envelope=Envelope.ENRICHED, **{asked: True})
    fields = {field["name"]: field for field in json.loads(value.text)["fields"]}
    (_, source) = fields["source"]["type"]
    assert [field["name"] for field in source["fields"]] == ["mvcc_timestamp", "ts_hlc", "ts_ns"]


def test_a_table_by_the_name_of_the_source_is_refused_where_there_is_one() -> None:
    named = replace(FOO, name="source")
    with pytest.raises(
        UnsupportedTable, match="table source: its rows and the envelope's source would be Avro records"
    ):
        schemas(named, envelope=Envelope.ENRICHED, updated=True)
    schemas(named, envelope=Envelope.ENRICHED)


def test_key_only_has_the_markers_schema_for_its_values() -> None:
    key, value = schemas(FOO, envelope=Envelope.KEY_ONLY)
    marker = compile_avro_marker(TableName.of(FOO), replace(AVRO, envelope=Envelope.KEY_ONLY))
    assert (key.text, value) == (record("foo", A), marker.schema)


def test_the_marker_has_the_rows_name_and_subject() -> None:
    schema = compile_avro_marker(TableName.of(FOO), AVRO).schema
    assert schema is not None
    assert (schema.subject, schema.text) == ("foo-value", record("foo_envelope", RESOLVED))


def test_names_are_escaped_and_definitions_are_not() -> None:
    key, value = schemas(table("☃", {"🍦": INT}, ("🍦",)))
    text = (
        '{"type":"record","name":"_u2603_","fields":[{"type":["null","long"],"name":"_u0001f366_",'
        '"default":null,"__crdb__":"🍦 INT8 NOT NULL"}]}'
    )
    assert key.text == text
    assert value.text == record("_u2603__envelope", row_field("after", text))
    assert (key.subject, value.subject) == ("_u2603_-key", "_u2603_-value")


def test_what_html_reads_is_escaped_as_gos_encoder_does() -> None:
    key, _ = schemas(
        table("t", {'<a&"b">\u2028\u2029\\\x7f\x01\n': INT}, ('<a&"b">\u2028\u2029\\\x7f\x01\n',))
    )
    (field,) = json.loads(key.text)["fields"]
    assert field["__crdb__"] == '"<a&""b"">\u2028\u2029\\\x7f\x01\n" INT8 NOT NULL'
    assert (
        r'"__crdb__":"\"\u003ca\u0026\"\"b\"\"\u003e\u2028\u2029\\' + "\x7f" + r'\u0001\n\" INT8 NOT NULL"'
    ) in key.text


def test_the_prefix_is_the_namespace_and_stands_in_the_names_of_what_is_not_a_row() -> None:
    key, value = schemas(FOO, avro_schema_prefix="super")
    assert key.text == record("superfoo", A, namespace="super")
    assert value.text == record(
        "superfoo_envelope", row_field("after", record("foo", A, B, namespace="super")), namespace="super"
    )
    assert (key.subject, value.subject) == ("superfoo-key", "superfoo-value")
    marker = compile_avro_marker(TableName.of(FOO), replace(AVRO, avro_schema_prefix="super")).schema
    assert marker is not None
    assert marker.text == record("superfoo_envelope", RESOLVED, namespace="super")


def test_full_table_names_are_the_keys_and_the_envelopes_but_not_the_rows() -> None:
    drivers = replace(FOO, name="drivers", database="movr")
    key, value = schemas(drivers, full_table_name=True, avro_schema_prefix="super")
    assert json.loads(key.text)["name"] == "supermovr_u002e_public_u002e_drivers"
    envelope = json.loads(value.text)
    assert envelope["name"] == "supermovr_u002e_public_u002e_drivers_envelope"
    assert envelope["fields"][0]["type"][1]["name"] == "drivers"
    assert (key.subject, value.subject) == (
        "supermovr.public.drivers-key",
        "supermovr.public.drivers-value",
    )


@pytest.mark.parametrize("prefix", ["my-prefix", "com.", ".com", "a..b", "1a", "a.1", "é", " "])
def test_a_prefix_that_is_no_namespace_is_refused(prefix: str) -> None:
    options = replace(AVRO, avro_schema_prefix=prefix)
    with pytest.raises(UnsupportedTable, match="cannot be an Avro namespace"):
        compile_encoder(FOO, options)
    with pytest.raises(UnsupportedTable, match="table foo: avro_schema_prefix="):
        compile_avro_marker(TableName.of(FOO), options)


def test_a_dotted_prefix_is_a_namespace() -> None:
    key, _ = schemas(FOO, avro_schema_prefix="com.acme_1")
    assert key.text == record("com_u002e_acme_1foo", A, namespace="com.acme_1")


def test_the_key_has_its_columns_in_index_order_and_the_value_in_the_tables() -> None:
    pair = sql_table("pair", ("c", "b"), a="INT", b="STRING", c="INT")
    key, value = schemas(pair)
    assert [field["name"] for field in json.loads(key.text)["fields"]] == ["c", "b"]
    after = json.loads(value.text)["fields"][0]["type"][1]
    assert [field["name"] for field in after["fields"]] == ["a", "b", "c"]


def test_a_key_column_is_the_key() -> None:
    key, _ = schemas(FOO, key_column="b", unordered=True)
    assert key.text == record("foo", B)


def test_a_key_column_that_the_table_has_not_is_refused() -> None:
    with pytest.raises(UnsupportedTable, match=r"^required column x not present on table foo, which"):
        schemas(FOO, key_column="x", unordered=True)


@pytest.mark.parametrize(
    "envelope", [each for each in Envelope if each not in (Envelope.ROW, Envelope.KEY_ONLY)]
)
@pytest.mark.parametrize("key", [("a",), ("_u0021!", "!u0021_")])
def test_two_columns_of_one_avro_name_are_refused(envelope: Envelope, key: tuple[str, ...]) -> None:
    """One of the two would be written in place of both."""
    twins = table("twins", {"a": INT, "_u0021!": INT, "!u0021_": INT}, key=key)
    with pytest.raises(UnsupportedTable, match=r"^table twins: two columns have the Avro name _u0021_u0021_"):
        compile_encoder(twins, replace(AVRO, envelope=envelope))


def test_hidden_columns_are_fields_and_columns_in_transition_are_not() -> None:
    plain = table("t", {"a": INT, "rowid": INT}, key=("rowid",), hidden=("rowid",))
    adding = replace(plain, columns=(*plain.columns, Column(3, "new", INT, public=False)))
    _, value = schemas(adding)
    after = json.loads(value.text)["fields"][0]["type"][1]
    assert [field["name"] for field in after["fields"]] == ["a", "rowid"]


def test_a_schema_that_avro_does_not_allow_is_refused() -> None:
    wrong = sql_table("t", ("a",), a="DECIMAL(2,5)")
    with pytest.raises(UnsupportedTable, match=r"table t has no Avro schema: .*scale"):
        schemas(wrong)


@pytest.mark.parametrize("name", ["null", "boolean", "int", "long", "float", "double", "bytes", "string"])
def test_a_table_by_the_name_of_an_avro_type_is_refused(name: str) -> None:
    with pytest.raises(UnsupportedTable, match=f"table {name}: {name} is a type of Avro's own"):
        schemas(replace(FOO, name=name))
    # A longer name of the key's record does not help: the rows are named by the table alone.
    with pytest.raises(UnsupportedTable, match=f"table {name}: {name} is a type of Avro's own"):
        schemas(replace(FOO, name=name), full_table_name=True, avro_schema_prefix="p")
    schemas(replace(FOO, name=name.upper()))


def test_an_envelope_without_an_avro_form_is_refused() -> None:
    with pytest.raises(UnsupportedTable, match="envelope=row has no Avro form"):
        schemas(FOO, envelope=Envelope.ROW)


def test_another_library_parses_what_we_write() -> None:
    every = sql_table(
        "every", ("a",), a="INT", b="DECIMAL(5,2)", c="DATE", d="TIME", e="TIMESTAMPTZ", f="VARBIT[]"
    )
    for schema in schemas(every, diff=True, updated=True, avro_schema_prefix="x"):
        parse_schema(json.loads(schema.text))
