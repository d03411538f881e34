from __future__ import annotations

from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from tidegate.changefeed.definition.feed import FeedId
from tidegate.changefeed.definition.options import FeedOptions
from tidegate.changefeed.encoding.csv_records import CsvDecoder
from tidegate.changefeed.encoding.record import RowRecord
from tidegate.client.feed_topics import FeedTopics
from tidegate.client.kafka.connection import KafkaConnection
from tidegate.errors import InputError
from tidegate.hlc import Timestamp
from tidegate.spark.datasource.frame_columns import FrameColumns
from tidegate.spark.datasource.frame_rows import FrameRowReader, FrameRows
from tidegate.spark.datasource.source_feed import FrameTable, SourceFeed
from tidegate.spark.warehouse.columns import Columns, LoadedColumn
from tidegate.spark.warehouse.load_source import KafkaReading
from tidegate.subscribe.gate.row_chunk import RowChunk, int_column


def _table(name: str, *columns: tuple[str, str], key: tuple[str, ...] = ("id",)) -> FrameTable:
    loaded = tuple(LoadedColumn(*each) for each in (("id", "INT8"), *columns))
    return FrameTable(f"db.public.{name}", name, f"id of {name}", 1, Columns(key, loaded))


def _feed(*tables: FrameTable, diff: bool = False) -> SourceFeed:
    options = FeedOptions(updated=True, resolved_interval_ns=0, diff=diff)
    topics = FeedTopics(options, Timestamp(1), ())
    return SourceFeed(FeedId("f"), topics, tables, KafkaReading(KafkaConnection(), options))


def _rows(
    table: FrameTable, *pairs: tuple[dict[str, Any] | None, dict[str, Any] | None], tells_before: bool = False
) -> FrameRows:
    """Rows of the key 7, each with the row before."""
    records = [
        RowRecord((7,), after, after is None, Timestamp(17, 2), previous=before) for after, before in pairs
    ]
    count = len(pairs)
    walls, logicals = int_column([17] * count), int_column([2] * count)
    chunk = RowChunk(walls, walls, logicals, [b"[7]"] * count, [None] * count, [*records], 0)
    reader = FrameRowReader(table, CsvDecoder(), lambda _: records[0], tells_before=tells_before)
    return reader.read(chunk)


PETS = _table("pets", ("name", "STRING"), ("weight", "DECIMAL(5,1)"))
OWNERS = _table("owners", ("name", "STRING"))


def test_a_dataframe_has_the_tables_columns_and_what_tidegate_tells() -> None:
    columns = FrameColumns.of(_feed(PETS))
    assert columns.schema().names == ["id", "name", "weight", "_table", "_op", "_updated", "_resolved"]
    batch = columns.batch(
        PETS, _rows(PETS, ({"id": 7, "name": "a", "weight": "1.5"}, None), (None, None)), Timestamp(20)
    )
    known = {"_table": "db.public.pets", "_updated": Decimal("17.0000000002"), "_resolved": Decimal(20)}
    assert batch.to_pylist() == [
        {"id": 7, "name": "a", "weight": Decimal("1.5"), "_op": "upsert", **known},
        {"id": 7, "name": None, "weight": None, "_op": "delete", **known},
    ]


def test_with_the_row_before_operations_are_told_apart() -> None:
    columns = FrameColumns.of(_feed(OWNERS, diff=True))
    a, b = {"id": 7, "name": "a"}, {"id": 7, "name": "b"}
    given = _rows(OWNERS, (a, None), (b, a), (None, b), tells_before=True)
    rows = columns.batch(OWNERS, given, Timestamp(20)).to_pylist()
    assert [row["_op"] for row in rows] == ["insert", "update", "delete"]
    assert [row["_before"] for row in rows] == [None, a, b]


def test_several_tables_share_columns_of_one_name_and_type() -> None:
    columns = FrameColumns.of(_feed(PETS, OWNERS))
    batch = columns.batch(OWNERS, _rows(OWNERS, ({"id": 7, "name": "a"}, None)), Timestamp(20))
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


def test_timestamps_are_exact_decimals() -> None:
    columns = FrameColumns.of(_feed(OWNERS))
    times = [Timestamp(0), Timestamp(1), Timestamp(17, 2), Timestamp(2**63 - 1, 2**31 - 1)]
    rows = FrameRows(
        int_column([each.wall for each in times]),
        int_column([each.logical for each in times]),
        [False] * 4,
        [[1] * 4, [None] * 4],
    )
    batch = columns.batch(OWNERS, rows, times[-1])
    assert batch.column("_updated").to_pylist() == [Decimal(each.decimal()) for each in times]
    assert batch.column("_resolved").to_pylist() == [Decimal(times[-1].decimal())] * 4
    batch.validate(full=True)
