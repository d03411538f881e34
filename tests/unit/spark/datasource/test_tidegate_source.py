"""Tests what a stream says of a batch that was planned by an earlier run of the query."""

from __future__ import annotations

from typing import Final

import pytest

from tidegate.changefeed.definition.feed import FeedId
from tidegate.changefeed.definition.options import FeedOptions
from tidegate.client.feed_topics import FeedTopics
from tidegate.client.kafka.connection import KafkaConnection
from tidegate.errors import HistoryLost, InputError
from tidegate.hlc import Timestamp
from tidegate.spark.datasource.closed_cut import ClosedCut
from tidegate.spark.datasource.frame_columns import FrameColumns
from tidegate.spark.datasource.partition_read import PartitionRead
from tidegate.spark.datasource.source_feed import FrameTable, SourceFeed
from tidegate.spark.datasource.source_options import SourceOptions
from tidegate.spark.datasource.tidegate_source import CutStreamReader
from tidegate.spark.warehouse.columns import Columns, LoadedColumn
from tidegate.spark.warehouse.load_source import KafkaReading
from tidegate.subscribe.gate.feed_record import FeedPartition

_FLIGHTS: Final = FeedPartition("flights", 0)


def _reader(topic: str = "flights", topic_id: str = "x", feed_id: str = "1") -> CutStreamReader:
    options = FeedOptions(updated=True, resolved_interval_ns=0)
    columns = Columns(("id",), (LoadedColumn("id", "INT8"),))
    table = FrameTable(f"db.public.{topic}", topic, topic_id, 1, columns)
    topics = FeedTopics(options, Timestamp(1), ())
    feed = SourceFeed(FeedId(feed_id), topics, (table,), KafkaReading(KafkaConnection(), options))
    return CutStreamReader(feed, FrameColumns.of(feed), SourceOptions())


def _cut(closed: int, offset: int, feed_id: str = "1") -> ClosedCut:
    return ClosedCut(Timestamp(closed), {_FLIGHTS: offset}, {"flights": "x"}, feed_id)


@pytest.mark.parametrize("feed_id", ["1", ""])
def test_a_batch_of_an_earlier_run_is_planned_again(feed_id: str) -> None:
    begin, end = _cut(100, 500, feed_id), _cut(200, 900, feed_id)
    (task,) = _reader().partitions(begin.to_dict(), end.to_dict())
    assert isinstance(task, PartitionRead)
    assert (task.place, task.position, task.above, task.closed) == (_FLIGHTS, 500, begin.closed, end.closed)


def test_a_topic_that_was_made_anew_since_is_named() -> None:
    with pytest.raises(HistoryLost, match="Topic flights was deleted and created anew"):
        _reader(topic_id="another").partitions(_cut(100, 500).to_dict(), _cut(200, 900).to_dict())


def test_another_option_tables_is_a_sentence() -> None:
    with pytest.raises(InputError, match="is of the topics flights, and the query reads weather"):
        _reader(topic="weather").partitions(_cut(100, 500).to_dict(), _cut(200, 900).to_dict())


def test_another_feed_of_the_same_topics_is_refused() -> None:
    with pytest.raises(InputError, match="is of the feed 1, and the query reads 2"):
        _reader(feed_id="2").partitions(_cut(100, 500).to_dict(), _cut(200, 900).to_dict())
