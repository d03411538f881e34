"""One task of the warehouse loader: which buckets its partition closes."""

from __future__ import annotations

from pathlib import Path

from tests.unit.spark.warehouse.feed_histories import BUCKETS, COLUMNS, FeedHistory, ListReading, history_of
from tests.unit.spark.warehouse.hand_loads import A0, FIRST, IN_A0, account, seconds
from tidegate.changefeed.definition.options import Format
from tidegate.spark.warehouse.buckets import BucketEnd
from tidegate.spark.warehouse.manifest import LoadedTable, LoadPosition
from tidegate.spark.warehouse.partition_task import LoadTask, load_partition

TABLE = LoadedTable("accounts", "id", 2, "1", Format.JSON, COLUMNS)


def task(history: FeedHistory, root: Path, position: LoadPosition, end: int) -> LoadTask:
    """A task of the first partition."""
    closed = BucketEnd(FIRST.wall)
    return LoadTask(ListReading(history), root.as_uri(), TABLE, A0, BUCKETS, closed, position, end)


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
