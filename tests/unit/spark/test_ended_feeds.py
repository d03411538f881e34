"""A feed that has ended is fenced by the driver before partitions are told to forget it (steps E2, E3)."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace

import pytest

from stack.kafka import KafkaBroker
from tests.feeds import activation
from tests.hand_log import HandTable
from tests.unit.client.topics import create_topic
from tidegate.changefeed.definition.feed import Engine, FeedState
from tidegate.changefeed.lifecycle.control import Remove
from tidegate.changefeed.lifecycle.job_records import DefinitionRecord, StateRecord
from tidegate.client.kafka.connection import KafkaConnection
from tidegate.client.kafka.topics import Topics
from tidegate.client.kafka.transaction import Record
from tidegate.errors import DeliveryError
from tidegate.hlc import Timestamp
from tidegate.processor.config import ProcessorConfig
from tidegate.spark.changefeed.jobs_topic import open_producer
from tidegate.spark.changefeed.partition_round import Query
from tidegate.spark.changefeed.query_feeds import QueryFeeds

pytestmark = pytest.mark.broker


def test_whoever_wrote_markers_is_fenced_when_partitions_are_told_to_forget_a_feed(
    broker: KafkaBroker, topic_prefix: str
) -> None:
    connection, topics = KafkaConnection(broker.bootstrap), Topics(f"{topic_prefix}app", topic_prefix)
    for topic in (topics.log, topics.jobs, topics.control_acks):
        create_topic(broker.bootstrap, topic)
    feed = activation([HandTable.of(104, "plain").descriptor], sink_uri=f"kafka://{broker.bootstrap}")
    definition = replace(feed.definition, engine=Engine.SPARK)
    ended = StateRecord(feed.feed_id, definition.epoch, FeedState.FAILED, Timestamp(1), feed.targets)
    owner = open_producer(connection, f"{topics.app_id}-feed-{feed.feed_id}")
    owner.commit(
        [
            Record(topics.jobs, 0, record.key, record.to_bytes())
            for record in (DefinitionRecord(definition), ended)
        ]
    )
    query = Query("query", connection, topics.log, 1, "", ProcessorConfig())
    with closing(owner), closing(QueryFeeds(query, topics, 1)) as feeds:
        ((message, partitions),) = feeds.announcements()
        assert (message, partitions) == (Remove(feed.feed_id, definition.epoch), (0,))
        with pytest.raises(DeliveryError):
            owner.commit([Record(topics.jobs, 0, b"feed", b"")])
