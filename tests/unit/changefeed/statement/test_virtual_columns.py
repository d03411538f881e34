"""Virtual computed columns: no datum in the log, nothing in a record, or null where the feed asks for it."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from tests.unit.changefeed.tables import INT, STRING, deletion, deletion_of, row, table, update, with_virtual
from tidegate.changefeed.definition.options import Envelope, FeedOptions, Format, VirtualColumns
from tidegate.changefeed.encoding.confluent import frame_prefix
from tidegate.changefeed.encoding.decoder import decoder_for
from tidegate.changefeed.encoding.encoder import compile_encoder
from tidegate.changefeed.encoding.record import RowRecord
from tidegate.changefeed.statement.option_clauses import OptionClause, read_options
from tidegate.errors import StatementError, UnsupportedTable
from tidegate.hlc import Timestamp
from tidegate.rows import Json, Kind, Row, SqlType, TableCodec

AT = Timestamp(1, 2)
NULL = VirtualColumns.NULL


#: The virtual column stands between the stored ones, so that a wrong position would show.
CC = with_virtual(table("cc", {"a": INT, "v": INT, "b": STRING}, key=("a",)), "v")
OLD = Row(CC, (1,), (1, "x"), previous=())
NEW = Row(CC, (1,), (1, "y"), previous=(1, "x"))


def json_value(options: FeedOptions, change: Row) -> bytes | None:
    return compile_encoder(CC, options).encode(change, AT)[1]


@pytest.mark.parametrize(
    ("envelope", "value"),
    [
        (Envelope.WRAPPED, b'{"after": {"a": 1, "b": "x"}}'),
        (Envelope.ROW, b'{"a": 1, "b": "x"}'),
        (Envelope.BARE, b'{"a": 1, "b": "x"}'),
        (Envelope.ENRICHED, b'{"after": {"a": 1, "b": "x"}, "op": "c", "ts_ns": 1}'),
        (Envelope.UPSERT, b'{"a": 1, "b": "x"}'),
    ],
)
def test_they_are_left_out(envelope: Envelope, value: bytes) -> None:
    assert json_value(FeedOptions(envelope=envelope), OLD) == value


@pytest.mark.parametrize(
    ("envelope", "value"),
    [
        (Envelope.WRAPPED, b'{"after": {"a": 1, "b": "x", "v": null}}'),
        (Envelope.ROW, b'{"a": 1, "b": "x", "v": null}'),
        (Envelope.BARE, b'{"a": 1, "b": "x", "v": null}'),
        (Envelope.ENRICHED, b'{"after": {"a": 1, "b": "x", "v": null}, "op": "c", "ts_ns": 1}'),
    ],
)
def test_they_are_null_where_that_is_asked_for(envelope: Envelope, value: bytes) -> None:
    assert json_value(FeedOptions(envelope=envelope, virtual_columns=NULL), OLD) == value


def test_the_row_before_has_them_too() -> None:
    options = FeedOptions(diff=True, virtual_columns=NULL)
    before, after = b'{"a": 1, "b": "x", "v": null}', b'{"a": 1, "b": "y", "v": null}'
    assert json_value(options, NEW) == b'{"after": %s, "before": %s}' % (after, before)
    assert json_value(options, deletion_of(OLD)) == b'{"after": null, "before": %s}' % before
    assert json_value(FeedOptions(diff=True), NEW) == (
        b'{"after": {"a": 1, "b": "y"}, "before": {"a": 1, "b": "x"}}'
    )


@pytest.mark.parametrize(
    ("virtual", "value"),
    [(NULL, b'{"a": 1, "b": null, "v": null}'), (VirtualColumns.OMITTED, b'{"a": 1, "b": null}')],
)
def test_a_bare_deletion_follows_the_option(virtual: VirtualColumns, value: bytes) -> None:
    options = FeedOptions(envelope=Envelope.BARE, virtual_columns=virtual)
    assert json_value(options, deletion_of(OLD)) == value


def test_the_deletion_of_nothing_in_the_debezium_envelope_has_the_key_and_no_datum_of_one() -> None:
    value = json_value(FeedOptions(envelope=Envelope.DEBEZIUM), deletion(CC, 1))
    assert value is not None
    assert json.loads(value)["before"] == {"a": 1, "b": None}


def avro_record(options: FeedOptions, change: Row) -> tuple[RowRecord, Any]:
    """Return what a reader gets, and the value's schema."""
    encoder = compile_encoder(CC, replace(options, format=Format.AVRO))
    assert encoder.schemas is not None
    texts = {1: encoder.schemas.key.text, 2: encoder.schemas.value.text}
    key, value = encoder.encode(change, AT)
    assert value is not None
    decoder = decoder_for(replace(options, format=Format.AVRO), texts.__getitem__)
    record = decoder.decode(frame_prefix(1) + key, frame_prefix(2) + value)
    assert isinstance(record, RowRecord)
    return record, json.loads(texts[2])


def avro_row(options: FeedOptions, change: Row, member: str = "after") -> tuple[Any, list[str]]:
    """The row that a reader gets, and the names of its fields in the schema."""
    record, schema = avro_record(options, change)
    fields = {each["name"]: each["type"][1] for each in schema["fields"]}
    return record.row, [each["name"] for each in fields[member]["fields"]]


def test_avro_leaves_them_out_of_schema_and_row() -> None:
    assert avro_row(FeedOptions(), OLD) == ({"a": 1, "b": "x"}, ["a", "b"])


def test_avro_has_them_in_table_order_and_null() -> None:
    expected = ({"a": 1, "v": None, "b": "x"}, ["a", "v", "b"])
    assert avro_row(FeedOptions(virtual_columns=NULL), OLD) == expected
    bare = FeedOptions(envelope=Envelope.BARE, virtual_columns=NULL)
    assert avro_row(bare, OLD, "record") == expected
    assert avro_row(bare, deletion_of(OLD), "record")[0] == {"a": 1, "v": None, "b": None}


def test_avro_has_them_in_the_row_before() -> None:
    record, _ = avro_record(FeedOptions(diff=True, virtual_columns=NULL), NEW)
    assert record.previous == {"a": 1, "v": None, "b": "x"}


@pytest.mark.parametrize("envelope", ["upsert", "debezium"])
def test_rows_that_sinks_store_cannot_show_a_null_that_is_none(envelope: str) -> None:
    with pytest.raises(StatementError, match=f"not usable with envelope={envelope}, whose rows sinks store"):
        read_options([OptionClause("virtual_columns", "null"), OptionClause("envelope", envelope)], 0)
    read_options([OptionClause("virtual_columns", "omitted"), OptionClause("envelope", envelope)], 0)


@pytest.mark.parametrize("virtual", VirtualColumns)
@pytest.mark.parametrize(
    ("option", "options"),
    [
        ("key_column", FeedOptions(key_column="v", unordered=True)),
        ("headers_json_column_name", FeedOptions(headers_json_column_name="v")),
    ],
)
def test_an_option_cannot_name_one(option: str, options: FeedOptions, virtual: VirtualColumns) -> None:
    with pytest.raises(UnsupportedTable, match=f"table cc, column v, which {option} names: it is virtual"):
        compile_encoder(CC, replace(options, virtual_columns=virtual))


def test_one_that_goes_by_the_metadatas_name_is_in_the_way_only_where_it_is_shown() -> None:
    descriptor = with_virtual(table("m", {"a": INT, "__crdb__": INT}, key=("a",)), "__crdb__")
    options = FeedOptions(envelope=Envelope.ROW, updated=True)
    assert compile_encoder(descriptor, options).encode(Row(descriptor, (1,), (1,)), AT)[1] == (
        b'{"__crdb__": {"updated": "1.0000000002"}, "a": 1}'
    )
    with pytest.raises(UnsupportedTable, match="has a column named __crdb__"):
        compile_encoder(descriptor, replace(options, virtual_columns=NULL))


def test_a_column_of_headers_beside_one() -> None:
    descriptor = with_virtual(table("noted", {"a": INT, "v": INT, "h": SqlType(Kind.JSONB)}, key=("a",)), "v")
    encoder = compile_encoder(descriptor, FeedOptions(headers_json_column_name="h", virtual_columns=NULL))
    noted = Row(descriptor, (1,), (1, Json({"k": "x"})))
    assert encoder.headers is not None
    assert encoder.headers(noted) == [("k", b"x")]
    assert encoder.encode(noted, AT)[1] == b'{"after": {"a": 1, "v": null}}'


def test_the_shard_of_a_hash_sharded_key_is_in_the_key_and_not_in_the_row() -> None:
    plain = table("sharded", {"shard": INT, "a": INT, "b": STRING}, key=("shard", "a"))
    sharded = with_virtual(plain, "shard")
    codec = TableCodec(sharded)
    key, value = codec.encode({"shard": 3, "a": 1, "b": "x"})
    assert key == TableCodec(plain).encode((3, 1, "x"))[0]
    decoded = codec.decode(key, value)
    assert decoded == Row(sharded, (3, 1), (1, "x"))
    assert compile_encoder(sharded, FeedOptions()).encode(decoded, AT) == (
        b"[3, 1]",
        b'{"after": {"a": 1, "b": "x"}}',
    )
    bare = FeedOptions(envelope=Envelope.BARE)
    gone = codec.decode(key, b"")
    assert gone is not None
    assert compile_encoder(sharded, bare).encode(gone, AT) == (b"[3, 1]", b'{"a": 1, "b": null}')


def test_the_tables_helper_rows_have_no_datum_of_one() -> None:
    assert row(CC, a=1, v=None, b="x").values == (1, "x")
    assert update(OLD, NEW).previous == (1, "x")
