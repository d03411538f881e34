"""The columns of loaded tables: their types, what has no form, and what is refused."""

from __future__ import annotations

import dataclasses
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from sim.workload_tables import declare_table
from tidegate.changefeed.definition.options import Envelope, FeedOptions, Format, InitialScan
from tidegate.changefeed.encoding.confluent import frame_prefix
from tidegate.changefeed.encoding.decoder import decoder_for
from tidegate.changefeed.encoding.encoder import compile_encoder
from tidegate.changefeed.encoding.record import RowRecord
from tidegate.errors import InputError, RowError, UnsupportedTable
from tidegate.hlc import Timestamp
from tidegate.rows.descriptor import TableDescriptor
from tidegate.rows.row import Row
from tidegate.rows.types import Json
from tidegate.spark.warehouse.columns import Columns, LoadedColumn, columns_of, rows_to_arrays
from tidegate.spark.warehouse.load_source import loading_fault

JSON = FeedOptions(updated=True, resolved_interval_ns=0)
AVRO = dataclasses.replace(JSON, format=Format.AVRO, confluent_schema_registry="http://r")
AT = Timestamp(1_795_305_591_000_000_000)

#: SQL type, datum, and what pyarrow gives of the loaded column.
VALUES = [
    ("BOOL", True, True),
    ("INT8", -(2**63), -(2**63)),
    ("FLOAT8", 0.1, 0.1),
    ("FLOAT8", float("inf"), float("inf")),
    ("FLOAT8", 100.0, 100.0),
    ("DECIMAL(10,2)", Decimal("1.5"), Decimal("1.50")),
    ("DECIMAL(10,2)", Decimal("1E+2"), Decimal("100.00")),
    ("DECIMAL", Decimal("1.50"), "1.50"),
    ("DECIMAL(39,2)", Decimal("1.50"), "1.50"),
    ("STRING", "é\\x00", "é\\x00"),
    ("BYTES", b"\x00\xff", b"\x00\xff"),
    ("DATE", 19_000, date(2022, 1, 8)),
    ("TIMESTAMP", 1_700_000_000_123_456_000, datetime(2023, 11, 14, 22, 13, 20, 123456)),
    ("TIMESTAMP", -1_000, datetime(1969, 12, 31, 23, 59, 59, 999999)),
    ("TIMESTAMPTZ", 1_700_000_000_100_000_000, datetime(2023, 11, 14, 22, 13, 20, 100000, UTC)),
    ("TIME", 86_400_000_000, "24:00:00"),
    ("TIME", 11_045_600_000, "03:04:05.6"),
    ("JSONB", Json({"a": [Decimal("1.0"), None]}), '{"a": [1.0, null]}'),
    ("JSONB", Json("text"), '"text"'),
    ("BIT(3)", "010", "010"),
    ("INT8[]", (1, None, 3), [1, None, 3]),
    ("DATE[]", (19_000,), [date(2022, 1, 8)]),
    ("STRING[]", ("a", None), ["a", None]),
    ("season('spring','autumn')", "spring", "spring"),
]
IN_AVRO = [("GEOMETRY", b"\x01\x02", b"\x01\x02"), ("DECIMAL(10,2)", Decimal("1.50"), Decimal("1.50"))]
#: What feeds, or the loader, refuse in Avro.
NOT_IN_AVRO = {"DECIMAL", "BIT(3)"}
#: SQL type and a datum that has no form in the table.
FORMLESS = [
    ("DECIMAL(10,2)", Decimal("NaN")),
    ("DATE", 2**63 - 1),
    ("DATE", -800_000),
    ("TIMESTAMP", 9_224_318_015_999 * 10**9),
]


def table(*columns: tuple[str, str], key: tuple[str, ...] = ("id",)) -> TableDescriptor:
    """A table with a key and more columns."""
    return declare_table(104, "pets", (("id", "INT8"), *columns), key, Timestamp(1))


def loaded(
    descriptor: TableDescriptor, options: FeedOptions, datum: Any, as_text: tuple[str, ...] = ()
) -> list[Any]:
    """Return what the second column of a table holds of a row and of its deletion, the way a feed writes
    them."""
    columns = columns_of([descriptor], options, as_text)
    encoder, texts = compile_encoder(descriptor, options), dict[int, str]()
    rows = []
    for values in ((7, datum), None):
        key, value = encoder.encode(Row(descriptor, (7,), values), AT)
        if encoder.schemas is not None and value is not None:
            texts |= {1: encoder.schemas.key.text, 2: encoder.schemas.value.text}
            key, value = frame_prefix(1) + key, frame_prefix(2) + value
        record = decoder_for(options, texts.__getitem__).decode(key, value)
        assert isinstance(record, RowRecord)
        rows.append((record.key, record.row))
    ids, arrays = rows_to_arrays(columns, options.format, rows)
    assert ids.to_pylist() == [7, 7]
    assert arrays.type == columns.schema(options.format).field("v").type
    return list(arrays.to_pylist())


@pytest.mark.parametrize(("sql", "datum", "expected"), VALUES)
def test_a_value_is_loaded_as_what_it_is(sql: str, datum: Any, expected: Any) -> None:
    assert loaded(table(("v", sql)), JSON, datum) == [expected, None]


@pytest.mark.parametrize(("sql", "datum", "expected"), [*VALUES, *IN_AVRO])
def test_a_value_of_an_avro_feed_is_loaded_as_the_same(sql: str, datum: Any, expected: Any) -> None:
    if sql in NOT_IN_AVRO:
        with pytest.raises(UnsupportedTable):
            loaded(table(("v", sql)), AVRO, datum)
    else:
        assert loaded(table(("v", sql)), AVRO, datum) == [expected, None]


@pytest.mark.parametrize(
    ("sql", "value", "expected"),
    [
        ("DATE", 19_000, date(2022, 1, 8)),
        ("TIME", 11_045_600_000, "03:04:05.6"),
        ("TIMESTAMP", -1, datetime(1969, 12, 31, 23, 59, 59, 999999)),
        ("TIMESTAMPTZ", 0, datetime(1970, 1, 1, tzinfo=UTC)),
    ],
)
def test_dates_and_times_that_come_as_numbers_are_what_they_are(sql: str, value: int, expected: Any) -> None:
    """An Avro record has them so, all of its own, where one is beyond Python's calendar."""
    columns = columns_of([table(("v", sql))], AVRO)
    _, loaded_column = rows_to_arrays(columns, Format.AVRO, [((7,), {"id": 7, "v": value})])
    assert loaded_column.to_pylist() == [expected]


def test_columns_of_an_avro_feed_are_not_loaded_as_text() -> None:
    with pytest.raises(UnsupportedTable, match="pets has a column v that cannot be loaded as text"):
        columns_of([table(("v", "DATE"))], AVRO, ["v"])


@pytest.mark.parametrize(("sql", "datum"), FORMLESS)
def test_a_value_without_a_form_is_never_made_into_another(sql: str, datum: Any) -> None:
    with pytest.raises(RowError, match=r"column v of type .* has no form in the table .*--as-text"):
        loaded(table(("v", sql)), JSON, datum)


@pytest.mark.parametrize(("sql", "datum"), FORMLESS)
def test_any_value_can_be_loaded_as_text(sql: str, datum: Any) -> None:
    text, none = loaded(table(("v", sql)), JSON, datum, ("v",))
    assert isinstance(text, str)
    assert text
    assert none is None


@pytest.mark.parametrize(
    ("sql", "value"), [("INT8", "7"), ("INT8", Decimal("0.5")), ("INT8", 2**63), ("BOOL", 1), ("STRING", 1)]
)
def test_a_value_of_another_type_is_named(sql: str, value: Any) -> None:
    columns = columns_of([table(("v", sql))], JSON)
    with pytest.raises(RowError, match="column v of type"):
        rows_to_arrays(columns, Format.JSON, [((7,), {"id": 7, "v": value})])


def test_a_column_that_changed_its_type_is_refused() -> None:
    before = table(("v", "INT8"))
    after = dataclasses.replace(table(("v", "STRING")), version=2, modified=Timestamp(2))
    with pytest.raises(InputError, match=r"column v of pets was INT8 and is STRING: .*--as-text pets\.v"):
        columns_of([before, after], JSON)


@pytest.mark.parametrize(
    ("was", "new"),
    [("INT4", "INT8"), ("VARCHAR(10)", "STRING"), ("TIMESTAMP(3)", "TIMESTAMP"), ("INT2[]", "INT8[]")],
)
def test_a_column_whose_type_has_another_width_holds_both(was: str, new: str) -> None:
    after = dataclasses.replace(table(("v", new)), version=2, modified=Timestamp(2))
    assert (
        columns_of([table(("v", was)), after], JSON).columns == columns_of([table(("v", was))], JSON).columns
    )


@pytest.mark.parametrize(
    ("was", "new"),
    [
        ("BYTES", "STRING"),
        ("JSONB", "STRING"),
        ("DECIMAL(10,2)", "DECIMAL(12,2)"),
        ("INT8", "INT8[]"),
        ("INT8[]", "STRING[]"),
        ("season('a','b')", "STRING"),
    ],
)
def test_a_column_whose_type_has_another_form_is_refused(was: str, new: str) -> None:
    after = dataclasses.replace(table(("v", new)), version=2, modified=Timestamp(2))
    with pytest.raises(InputError, match="column v of pets was"):
        columns_of([table(("v", was)), after], JSON)


def test_columns_of_all_versions_are_loaded() -> None:
    before = table(("old", "INT8"))
    after = dataclasses.replace(table(("new", "INT8")), version=2, modified=Timestamp(2))
    assert columns_of([before, after], JSON).names == ("id", "old", "new")


def test_keys_that_are_objects_have_their_members_sorted() -> None:
    pets = table(("a", "INT8"), key=("id", "a"))
    assert columns_of([pets], JSON).key == ("id", "a")
    enriched = dataclasses.replace(JSON, envelope=Envelope.ENRICHED)
    assert columns_of([pets], enriched).key == ("a", "id")


@pytest.mark.parametrize("sql", ["FLOAT8", "DECIMAL", "INTERVAL", "JSONB", "STRING COLLATE en"])
def test_a_key_that_may_be_printed_in_two_ways_is_refused(sql: str) -> None:
    with pytest.raises(UnsupportedTable, match="pets has v in its primary key"):
        columns_of([table(("v", sql), key=("id", "v"))], JSON)


@pytest.mark.parametrize("name", ["_wall", "_Bucket", "ID"])
def test_a_name_that_cannot_be_told_from_another_is_refused(name: str) -> None:
    with pytest.raises(UnsupportedTable, match=f"pets has a column {name}"):
        columns_of([table((name, "INT8"))], JSON)


def test_columns_that_grow_keep_their_order() -> None:
    before = Columns(("id",), (LoadedColumn("id", "INT8"), LoadedColumn("b", "INT8")))
    after = Columns(("id",), (LoadedColumn("a", "BOOL"), LoadedColumn("id", "INT8")))
    assert before.grown(after, "pets").names == ("id", "b", "a")
    assert before.schema(Format.JSON) == pa.schema([("id", pa.int64()), ("b", pa.int64())])


LOADABLE = [
    JSON,
    dataclasses.replace(JSON, diff=True, mvcc_timestamp=True, key_in_value=True),
    dataclasses.replace(JSON, envelope=Envelope.ENRICHED, enriched_properties="source,schema"),
    FeedOptions(envelope=Envelope.DEBEZIUM, resolved_interval_ns=0),
    AVRO,
    FeedOptions(updated=True, initial_scan=InitialScan.ONLY),
]
REFUSED = [
    (FeedOptions(resolved_interval_ns=0), "WITH updated"),
    (FeedOptions(updated=True), "no markers"),
    (dataclasses.replace(JSON, envelope=Envelope.ROW), "envelope='row'"),
    (dataclasses.replace(JSON, envelope=Envelope.BARE), "envelope='bare'"),
    (dataclasses.replace(JSON, envelope=Envelope.KEY_ONLY), "envelope='key_only'"),
    (dataclasses.replace(JSON, envelope=Envelope.UPSERT), "envelope='upsert'"),
    (FeedOptions(Format.CSV, initial_scan=InitialScan.ONLY), "format='json'"),
    (dataclasses.replace(JSON, key_column="name", unordered=True), "key_column"),
    (dataclasses.replace(JSON, resolved_topic="markers"), "resolved_topic"),
    (FeedOptions(Format.AVRO, Envelope.DEBEZIUM, resolved_interval_ns=0), "Connect's types"),
    (FeedOptions(envelope=Envelope.DEBEZIUM, connect_schema=True, resolved_interval_ns=0), "Connect's types"),
]


@pytest.mark.parametrize("options", LOADABLE)
def test_a_feed_that_tells_what_it_must_can_be_loaded(options: FeedOptions) -> None:
    assert loading_fault(options) == ""


@pytest.mark.parametrize(("options", "sentence"), REFUSED)
def test_a_feed_that_tells_too_little_is_refused(options: FeedOptions, sentence: str) -> None:
    assert sentence in loading_fault(options)
