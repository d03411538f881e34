from __future__ import annotations

from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from tidegate.changefeed.definition.options import FeedOptions
from tidegate.changefeed.encoding.record import RowRecord
from tidegate.client.feed_topics import FeedTopics
from tidegate.client.kafka.connection import KafkaConnection
from tidegate.errors import InputError
from tidegate.hlc import Timestamp
from tidegate.spark.datasource.frame_columns import FrameColumns
from tidegate.spark.datasource.source_feed import FrameTable, SourceFeed
from tidegate.spark.warehouse.columns import Columns, LoadedColumn
from tidegate.spark.warehouse.load_source import KafkaReading


def _table(name: str, *columns: tuple[str, str], key: tuple[str, ...] = ("id",)) -> FrameTable:
    loaded = tuple(LoadedColumn(*each) for each in (("id", "INT8"), *columns))
    return FrameTable(f"db.public.{name}", name, f"id of {name}", 1, Columns(key, loaded))


def _feed(*tables: FrameTable, diff: bool = False) -> SourceFeed:
    options = FeedOptions(updated=True, resolved_interval_ns=0, diff=diff)
    topics = FeedTopics(options, Timestamp(1), ())
    return SourceFeed("f", topics, tables, KafkaReading(KafkaConnection(), options))


def _row(after: dict[str, Any] | None, before: dict[str, Any] | None = None) -> RowRecord:
    return RowRecord((7,), after, after is None, Timestamp(17, 2), previous=before)


PETS = _table("pets", ("name", "STRING"), ("weight", "DECIMAL(5,1)"))
OWNERS = _table("owners", ("name", "STRING"))


def test_a_dataframe_has_the_tables_columns_and_what_tidegate_tells() -> None:
    columns = FrameColumns.of(_feed(PETS))
    assert columns.schema().names == ["id", "name", "weight", "_table", "_op", "_updated", "_resolved"]
    batch = columns.batch(PETS, [_row({"id": 7, "name": "a", "weight": "1.5"}), _row(None)], Timestamp(20))
    known = {"_table": "db.public.pets", "_updated": Decimal("17.0000000002"), "_resolved": Decimal(20)}
    assert batch.to_pylist() == [
        {"id": 7, "name": "a", "weight": Decimal("1.5"), "_op": "upsert", **known},
        {"id": 7, "name": None, "weight": None, "_op": "delete", **known},
    ]


def test_with_the_row_before_operations_are_told_apart() -> None:
    columns = FrameColumns.of(_feed(OWNERS, diff=True))
    a, b = {"id": 7, "name": "a"}, {"id": 7, "name": "b"}
    rows = columns.batch(OWNERS, [_row(a), _row(b, a), _row(None, b)], Timestamp(20)).to_pylist()
    assert [row["_op"] for row in rows] == ["insert", "update", "delete"]
    assert [row["_before"] for row in rows] == [None, a, b]


def test_several_tables_share_columns_of_one_name_and_type() -> None:
    columns = FrameColumns.of(_feed(PETS, OWNERS))
    batch = columns.batch(OWNERS, [_row({"id": 7, "name": "a"})], Timestamp(20))
    assert batch.schema == columns.schema()
    assert batch.column("weight").to_pylist() == [None]
    assert batch.column("_table").to_pylist() == ["db.public.owners"]


def test_types_are_those_of_loaded_tables() -> None:
    schema = FrameColumns.of(_feed(PETS, diff=True)).schema()
    assert schema.field("weight").type == pa.decimal128(5, 1)
    assert schema.field("_updated").type == pa.decimal128(29, 10)
    assert [field.name for field in schema.field("_before").type] == ["id", "name", "weight"]


@pytest.mark.parametrize(
    ("tables", "words"),
    [
        ((PETS, _table("owners", ("weight", "STRING"))), r"The column weight is decimal.* in db.public.pets"),
        ((_table("pets", ("_Op", "STRING")),), "has a column _Op, and so has each DataFrame"),
        ((PETS, _table("owners", ("NAME", "STRING"))), "does not tell names apart by case"),
    ],
)
def test_columns_that_one_dataframe_cannot_have_are_refused(
    tables: tuple[FrameTable, ...], words: str
) -> None:
    with pytest.raises(InputError, match=words):
        FrameColumns.of(_feed(*tables))


def test_a_column_that_came_later_is_named_with_what_to_do() -> None:
    columns = FrameColumns.of(_feed(OWNERS))
    with pytest.raises(InputError, match=r"has a new column: age\. Start the query again"):
        columns.batch(OWNERS, [_row({"id": 7, "name": "a", "age": 3})], Timestamp(20))
