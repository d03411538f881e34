"""``enriched_properties``: what ``source`` tells, and schemas that every payload fits."""

from __future__ import annotations

import json
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given

from tests.unit.changefeed.tables import FOO, INT, STRING, deletion, deletion_of, row, table, update
from tests.unit.rows.strategies import tables_with_rows
from tidegate.changefeed.definition.options import Envelope, FeedOptions, VirtualColumns
from tidegate.changefeed.encoding.decoder import decoder_for
from tidegate.changefeed.encoding.encoder import compile_encoder
from tidegate.changefeed.encoding.record import RowRecord
from tidegate.hlc import Timestamp
from tidegate.rows import Datum, Kind, Row, SqlType, TableDescriptor, parse_sql_type

AT = Timestamp(1_743_792_394_409_866_000, 2)
SOURCE = FeedOptions(envelope=Envelope.ENRICHED, enriched_properties="source")
SCHEMA = FeedOptions(envelope=Envelope.ENRICHED, enriched_properties="schema")
BOTH = FeedOptions(
    envelope=Envelope.ENRICHED,
    enriched_properties="schema,source",
    diff=True,
    updated=True,
    mvcc_timestamp=True,
    key_in_value=True,
    topic_in_value=True,
)


def parsed(options: FeedOptions, change: Row) -> tuple[Any, Any]:
    """Key and value as a JSON parser gives them, numbers as ``Decimal``."""
    key, value = compile_encoder(change.table, options).encode(change, AT)
    assert value is not None
    read = [json.loads(each, parse_float=Decimal, parse_int=Decimal) for each in (key, value)]
    return read[0], read[1]


def test_source_tells_of_the_table_in_its_own_database() -> None:
    orders = replace(
        table("orders", {"a": INT, "b": STRING, "c": INT}, key=("c", "a")),
        database="shop",
        schema="eu",
        id=77,
    )
    _, value = parsed(SOURCE, row(orders, a=1, b="x", c=2))
    assert value["source"] == {
        "changefeed_sink": "kafka",
        "crdb_internal_table_id": 77,
        "database_name": "shop",
        "origin": "cockroachdb",
        "primary_keys": ["c", "a"],
        "schema_name": "eu",
        "table_name": "orders",
    }


@pytest.mark.parametrize(
    ("updated", "mvcc", "stamps"),
    [
        (False, False, set()),
        (True, False, {"ts_hlc", "ts_ns"}),
        (False, True, {"mvcc_timestamp"}),
        (True, True, {"ts_hlc", "ts_ns", "mvcc_timestamp"}),
    ],
)
def test_source_has_the_timestamps_that_are_asked_for(updated: bool, mvcc: bool, stamps: set[str]) -> None:
    asked = replace(SOURCE, updated=updated, mvcc_timestamp=mvcc)
    _, told = parsed(SOURCE, row(FOO, a=1, b="x"))
    _, value = parsed(asked, row(FOO, a=1, b="x"))
    assert value["source"].keys() - told["source"].keys() == stamps
    _, alone = parsed(replace(asked, enriched_properties=""), row(FOO, a=1, b="x"))
    assert alone.get("source", {}).keys() == stamps
    assert all(value["source"][name] == alone["source"][name] for name in stamps)


PRODUCTS = table(
    "products",
    {
        "id": SqlType(Kind.UUID),
        "name": STRING,
        "price": parse_sql_type("DECIMAL(10,2)"),
        "in_stock": SqlType(Kind.BOOL),
        "created_at": SqlType(Kind.TIMESTAMP),
        "tags": parse_sql_type("STRING[]"),
        "prices": parse_sql_type("DECIMAL(5,1)[]"),
        "more": SqlType(Kind.JSONB),
    },
    key=("id",),
)


def test_columns_have_cockroachdbs_types() -> None:
    encoder = compile_encoder(PRODUCTS, SCHEMA)
    _, value = encoder.encode(deletion(PRODUCTS, None), AT)
    assert value is not None
    (after, *_) = json.loads(value)["schema"]["fields"]
    assert (after["name"], after["optional"]) == ("products.after.value", False)
    assert after["fields"] == [
        {"field": "id", "optional": False, "type": "string"},
        {"field": "name", "optional": True, "type": "string"},
        {
            "field": "price",
            "name": "decimal",
            "optional": True,
            "parameters": {"precision": "10", "scale": "2"},
            "type": "float64",
        },
        {"field": "in_stock", "optional": True, "type": "boolean"},
        {"field": "created_at", "name": "timestamp", "optional": True, "type": "string"},
        {
            "field": "tags",
            "items": {"optional": False, "type": "string"},
            "optional": True,
            "type": "array",
        },
        {
            "field": "prices",
            "items": {
                "name": "decimal",
                "optional": False,
                "parameters": {"precision": "5", "scale": "1"},
                "type": "float64",
            },
            "optional": True,
            "type": "array",
        },
        {"field": "more", "optional": True, "type": "json"},
    ]


_NOT_FINITE = ("NaN", "Infinity", "-Infinity")


def fits(value: Any, schema: dict[str, Any], *, optional: bool = False) -> bool:
    """Whether a payload is of its schema, members and all."""
    if value is None:
        return optional or bool(schema["optional"]) or schema["type"] == "json"
    match schema["type"]:
        case "struct":
            names = {each["field"] for each in schema["fields"]}
            members = all(
                fits(value[each["field"]], each) for each in schema["fields"] if each["field"] in value
            )
            return isinstance(value, dict) and value.keys() == names and members
        case "array":
            # Items may be null, whatever their schema says.
            return isinstance(value, list) and all(
                fits(item, schema["items"], optional=True) for item in value
            )
        case "int64" | "int32":
            return isinstance(value, Decimal) and value == int(value)
        case "float64":
            return isinstance(value, Decimal) or value in _NOT_FINITE
        case "boolean":
            return isinstance(value, bool)
        case "string" | "bytes":
            return isinstance(value, str)
        case of:
            return bool(of == "json")


@pytest.mark.long
@given(tables_with_rows())
def test_every_payload_fits_its_schema(generated: tuple[TableDescriptor, tuple[Datum, ...]]) -> None:
    descriptor, values = generated
    by_id = {column.id: value for column, value in zip(descriptor.columns, values, strict=True)}
    key = tuple(by_id[part.column_id] for part in descriptor.primary_key)
    made = Row(descriptor, key, values, previous=())
    for change in (made, update(made, made)):
        key_record, value_record = parsed(BOTH, change)
        assert fits(key_record["payload"], key_record["schema"])
        assert fits(value_record["payload"], value_record["schema"])


@pytest.mark.parametrize("options", [SOURCE, SCHEMA, BOTH, replace(BOTH, key_column="b", unordered=True)])
def test_records_read_back(options: FeedOptions) -> None:
    old, new = row(FOO, a=1, b="x"), row(FOO, a=1, b="y")
    for change, expected in (
        (old, {"a": 1, "b": "x"}),
        (update(old, new), {"a": 1, "b": "y"}),
        (deletion_of(new), None),
    ):
        key, value = compile_encoder(FOO, options).encode(change, AT)
        record = decoder_for(options).decode(key, value)
        assert isinstance(record, RowRecord)
        assert record.row == expected
        assert record.deleted is (expected is None)
        assert record.updated == (AT if options.updated else None)
        if not options.key_column:
            assert record.key == (1,)


def test_the_key_of_a_column_may_be_null_because_deletions_do_not_know_it() -> None:
    not_null = replace(FOO, columns=tuple(replace(column, nullable=False) for column in FOO.columns))
    options = replace(SCHEMA, key_column="b", unordered=True)
    key, _ = parsed(options, deletion(not_null, 1))
    assert key["payload"] == {"b": None}
    assert fits(key["payload"], key["schema"])
    key, _ = parsed(replace(options, key_column="a"), deletion(not_null, 1))
    assert [field["optional"] for field in key["schema"]["fields"]] == [False]


def test_a_virtual_column_is_in_the_schema_where_it_is_in_the_row() -> None:
    columns = tuple(replace(each, virtual=each.name == "b", nullable=False) for each in FOO.columns)
    virtual = replace(FOO, columns=columns)
    made = Row(virtual, (1,), (1,), previous=())
    for shown in VirtualColumns:
        _, value = parsed(replace(SCHEMA, virtual_columns=shown), made)
        assert fits(value["payload"], value["schema"])
