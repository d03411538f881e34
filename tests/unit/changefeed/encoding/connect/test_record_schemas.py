"""Names of schemas and fields, and keys other than the primary key's."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from tests.unit.changefeed.encoding.connect.forms import AT, FORMS, read_back
from tests.unit.changefeed.tables import FOO, INT, STRING, deletion, row, table
from tidegate.changefeed.definition.options import FeedOptions
from tidegate.changefeed.encoding.connect.record_schemas import namespace_of
from tidegate.changefeed.encoding.encoder import compile_encoder
from tidegate.errors import RowError, UnsupportedTable
from tidegate.rows.descriptor import TableDescriptor
from tidegate.rows.types import Datum, Kind, SqlType

UPSERTS = [form for form in FORMS if form.endswith("upsert")]


def value_schema(descriptor: TableDescriptor, options: FeedOptions) -> dict[str, Any]:
    schemas = compile_encoder(descriptor, options).schemas
    assert schemas is not None
    schema: dict[str, Any] = json.loads(schemas.value.text)
    return schema


@pytest.mark.parametrize(
    ("topic", "namespace"),
    [
        ("foo", "foo"),
        ("db.public.foo", "db.public.foo"),
        ("my-topic", "my_u002d_topic"),
        ("a..b", "a_u002e__u002e_b"),
        (".a", "_u002e_a"),
        ("1.2x", "_u0031_._u0032_x"),
    ],
)
def test_the_topic_is_the_namespace_in_characters_of_avro(topic: str, namespace: str) -> None:
    assert namespace_of(topic) == namespace


def test_names_are_debeziums_and_the_same_in_both_formats() -> None:
    avro = value_schema(FOO, replace(FORMS["avro-debezium"], topic_prefix="p-", full_table_name=True))
    namespace = "p_u002d_defaultdb.public.foo"
    assert (avro["namespace"], avro["name"]) == (namespace, "Envelope")
    assert avro["connect.name"] == f"{namespace}.Envelope"
    before, after = avro["fields"][:2]
    assert before["type"][1]["connect.name"] == after["type"][1] == f"{namespace}.Value"
    options = replace(FORMS["json-debezium"], topic_prefix="p-", full_table_name=True)
    encode = compile_encoder(FOO, options).encode
    key, value = encode(row(FOO, a=1, b="x")._replace(previous=()), AT)
    assert json.loads(key)["schema"]["name"] == f"{namespace}.Key"
    schema = json.loads(value or b"")["schema"]
    assert schema["name"] == f"{namespace}.Envelope"
    assert [field["name"] for field in schema["fields"][:3]] == [
        f"{namespace}.Value",
        f"{namespace}.Value",
        "tidegate.Source",
    ]


@pytest.mark.parametrize("form", UPSERTS)
def test_columns_of_any_name_come_back_under_it(form: str) -> None:
    odd = table("🍦 odd", {"%s": INT, '"{}"': INT, "1x": INT, "_u2603_": STRING}, key=("%s",))
    values: dict[str, Datum] = {"%s": 1, '"{}"': 2, "1x": 3, "_u2603_": "x"}
    assert read_back(row(odd, **values), FORMS[form]).row == values


def test_columns_that_avro_cannot_tell_apart_are_refused_there() -> None:
    twins = table("twins", {"a": INT, "_u0021!": INT, "!u0021_": INT}, key=("a",))
    with pytest.raises(UnsupportedTable, match=r"table twins: two columns have the Avro name _u0021_u0021_"):
        compile_encoder(twins, FORMS["avro-upsert"])
    compile_encoder(twins, FORMS["json-upsert"])


@pytest.mark.parametrize("form", FORMS)
def test_a_column_without_a_type_is_named(form: str) -> None:
    odd = table("odd", {"a": INT, "b": SqlType(Kind.ARRAY)}, key=("a",))
    with pytest.raises(UnsupportedTable, match="table odd, column b: columns of type ARRAY have no"):
        compile_encoder(odd, FORMS[form])


@pytest.mark.parametrize("form", UPSERTS)
def test_the_key_has_the_primary_keys_columns_in_index_order_and_never_null(form: str) -> None:
    pair = table("pair", {"a": INT, "b": STRING, "c": INT}, key=("c", "b"))
    assert read_back(row(pair, a=1, b="x", c=3), FORMS[form]).key == (3, "x")
    encoder = compile_encoder(pair, FORMS[form])
    if encoder.schemas is not None:
        fields = json.loads(encoder.schemas.key.text)["fields"]
        assert fields == [{"name": "c", "type": "long"}, {"name": "b", "type": "string"}]
    else:
        fields = json.loads(encoder.encode(row(pair, a=1, b="x", c=3), AT)[0])["schema"]["fields"]
        assert [(field["field"], field["optional"]) for field in fields] == [("c", False), ("b", False)]


@pytest.mark.parametrize("form", UPSERTS)
def test_a_key_column_may_be_null_and_is_where_a_deletion_does_not_tell_it(form: str) -> None:
    options = replace(FORMS[form], key_column="b", unordered=True)
    assert read_back(row(FOO, a=1, b="x"), options).key == ("x",)
    assert read_back(row(FOO, a=1, b=None), options).key == (None,)
    assert read_back(deletion(FOO, 1), options).key == (None,)


@pytest.mark.parametrize("form", UPSERTS)
def test_a_key_column_of_the_primary_key_is_known_of_deletions_too(form: str) -> None:
    pair = table("pair", {"a": INT, "b": STRING, "c": INT}, key=("c", "b"))
    options = replace(FORMS[form], key_column="b", unordered=True)
    assert read_back(row(pair, a=1, b="x", c=3), options).key == ("x",)
    assert read_back(deletion(pair, 3, "x"), options).key == ("x",)


@pytest.mark.parametrize("form", UPSERTS)
def test_a_key_column_that_is_not_there_is_refused(form: str) -> None:
    with pytest.raises(
        UnsupportedTable, match=r"^required column z not present on table foo, which key_column names"
    ):
        compile_encoder(FOO, replace(FORMS[form], key_column="z", unordered=True))


def test_a_column_that_goes_into_headers_is_not_in_the_row() -> None:
    noted = table("noted", {"a": INT, "h": SqlType(Kind.JSONB)}, key=("a",))
    options = replace(FORMS["json-upsert"], headers_json_column_name="h")
    assert read_back(row(noted, a=1, h=None), options).row == {"a": 1}
    assert compile_encoder(noted, options).headers is not None


@pytest.mark.parametrize("form", [form for form in FORMS if form.endswith("debezium")])
def test_a_row_whose_previous_value_the_log_does_not_hold_is_refused(form: str) -> None:
    encoder = compile_encoder(FOO, FORMS[form])
    assert encoder.tombstones
    with pytest.raises(RowError, match="envelope=debezium needs the value that a row of table foo replaces"):
        encoder.encode(row(FOO, a=1, b="x")._replace(previous=None), AT)


@pytest.mark.parametrize("form", UPSERTS)
def test_a_deletion_has_no_value_and_no_tombstone_of_its_own(form: str) -> None:
    encoder = compile_encoder(FOO, FORMS[form])
    assert not encoder.tombstones
    assert encoder.encode(deletion(FOO, 1), AT)[1] is None


@pytest.mark.parametrize("form", [form for form in FORMS if form.endswith("debezium")])
def test_the_deletion_of_a_row_that_was_not_there_shows_its_key_for_a_row_before(form: str) -> None:
    pair = table("pair", {"a": INT, "b": STRING, "c": INT}, key=("c", "b"))
    record = read_back(deletion(pair, 3, "x")._replace(previous=()), FORMS[form])
    assert (record.deleted, record.previous) == (True, {"a": None, "b": "x", "c": 3})
    assert read_back(row(pair, a=1, b="x", c=3)._replace(previous=()), FORMS[form]).previous is None
