"""One task of the warehouse loader: which buckets its partition closes."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from tests.unit.spark.warehouse.feed_histories import BUCKETS, COLUMNS, FeedHistory, ListReading, history_of
from tests.unit.spark.warehouse.hand_loads import A0, FIRST, IN_A0, account, seconds
from tidegate.changefeed.definition.options import Format
from tidegate.spark.warehouse.buckets import BucketEnd
from tidegate.spark.warehouse.columns import Columns, LoadedColumn
from tidegate.spark.warehouse.manifest import LoadedTable, LoadPosition
from tidegate.spark.warehouse.partition_task import LoadTask, load_partition
from tidegate.verify import TopicRecord

TABLE = LoadedTable("accounts", "id", 2, "1", Format.JSON, COLUMNS)


def keyed(
    key: tuple[str, ...], *rows: tuple[list[Any], dict[str, Any] | None]
) -> tuple[FeedHistory, Columns]:
    """Rows of ``accounts`` with these keys, and the columns of a table with ``id`` and ``a`` in this key."""
    history = history_of({A0: []})
    for number, (values, row) in enumerate(rows):
        value = {"after": row, "updated": seconds(0.1 * (number + 1)).decimal()}
        record = TopicRecord(*A0, number, json.dumps(values).encode(), json.dumps(value).encode(), 0)
        history.records[A0].append(record)
    marker = json.dumps({"resolved": seconds(1).decimal()}).encode()
    history.records[A0].append(TopicRecord(*A0, len(rows), None, marker, 0))
    return history, Columns(key, (LoadedColumn("id", "INT8"), LoadedColumn("a", "INT8")))


def task(history: FeedHistory, root: Path, position: LoadPosition, end: int) -> LoadTask:
    """A task of the first partition."""
    return LoadTask(
        ListReading(history), root.as_uri(), TABLE, A0, BUCKETS, BucketEnd(FIRST.wall), position, end
    )


@pytest.mark.parametrize(
    ("key", "row", "why"),
    [
        ([1], {"id": 1, "a": 2}, "has a key of 1 values, and the table's has 2: id, a"),
        ([1, 2, 3], {"id": 1, "a": 2}, "has a key of 3 values, and the table's has 2: id, a"),
        ([1], None, "has a key of 1 values, and the table's has 2: id, a"),
        ([1, 3], {"id": 1, "a": 2}, "has 3 in its key for a, and 2 in its row"),
    ],
)
def test_a_key_that_is_not_the_tables_is_named(
    key: list[int], row: dict[str, int] | None, why: str, tmp_path: Path
) -> None:
    history, columns = keyed(("id", "a"), ([1, 2], {"id": 1, "a": 2}), (key, row))
    asked = replace(task(history, tmp_path, LoadPosition(), end=3), table=replace(TABLE, columns=columns))
    assert f"offset 1 of accounts[0] {why}. The primary key was changed" in load_partition(asked).fault


def test_a_virtual_column_of_a_key_has_its_value_in_a_row_that_shows_null(tmp_path: Path) -> None:
    history, columns = keyed(("id", "a"), ([1, 7], {"id": 1, "a": None}), ([1, 7], None))
    asked = replace(task(history, tmp_path, LoadPosition(), end=3), table=replace(TABLE, columns=columns))
    (file,) = load_partition(asked).files
    assert pq.read_table(tmp_path / file.path).column("a").to_pylist() == [7, 7]


def test_a_marker_of_an_earlier_pass_closes_nothing_if_this_one_has_read_less(tmp_path: Path) -> None:
    history = history_of({A0: [account(IN_A0, 0.5), account(IN_A0, 1.5), seconds(2)]})
    position = LoadPosition(1, seconds(2), read_to=3)
    short = load_partition(task(history, tmp_path, position, end=2))
    assert (short.closed, short.files, short.marker) == (FIRST.wall, (), seconds(2))
    assert short.position(short.closed) == position
    again = load_partition(task(history, tmp_path, position, end=3))
    assert (again.closed, len(again.files)) == (seconds(2).wall, 1)


def test_a_marker_of_an_earlier_pass_counts_if_nothing_has_come_since(tmp_path: Path) -> None:
    history = history_of({A0: [seconds(2)]})
    quiet = load_partition(task(history, tmp_path, LoadPosition(1, seconds(2), read_to=1), end=1))
    assert quiet.closed == seconds(2).wall


def test_a_task_whose_file_system_cannot_be_opened_says_so(tmp_path: Path) -> None:
    asked = replace(task(history_of({A0: []}), tmp_path, LoadPosition(), end=0), root="nowhere://host/path")
    assert load_partition(asked).fault.startswith("A task cannot write. The file system of nowhere://")
