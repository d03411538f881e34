"""A query's feed continues on another Kafka cluster: the driver's steps N2 to N6 of
docs/protocols/accept-cluster.md."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from typing import Any

import pytest

from stack.kafka import KafkaBroker
from tests.destinations import DESTINATIONS
from tests.feeds import activation
from tests.hand_log import HandTable
from tests.unit.client.topics import create_topic
from tidegate.changefeed.definition.feed import FIRST_EPOCH, AcceptedCluster, Engine, FeedEpoch, FeedState
from tidegate.changefeed.definition.options import OnOversize
from tidegate.changefeed.lifecycle.control import Ack, Activate, Register, Registered, Remove, Removed
from tidegate.changefeed.lifecycle.job_records import DefinitionRecord, JobRecord, ProgressRecord, StateRecord
from tidegate.client.kafka.connection import KafkaConnection
from tidegate.client.kafka.topic_admin import open_admin
from tidegate.client.kafka.topics import Topics
from tidegate.client.kafka.transaction import Record
from tidegate.hlc import ResolvedTimestamp, Timestamp
from tidegate.processor.config import ProcessorConfig
from tidegate.spark.changefeed.jobs_topic import open_producer
from tidegate.spark.changefeed.query import Query
from tidegate.spark.changefeed.query_feeds import QueryFeeds
from tidegate.spark.changefeed.task.answers import Answer

pytestmark = pytest.mark.broker

_SECOND = FeedEpoch(2)


class _Accepted:
    """A feed of the query that was on another cluster, and an operator who has accepted the query's own."""

    def __init__(self, broker: KafkaBroker, prefix: str, cluster: str, **more: Any) -> None:
        """``more`` are options of the feed."""
        self.connection = KafkaConnection(broker.bootstrap, destinations=DESTINATIONS)
        self.topics = topics = Topics(f"{prefix}app", prefix)
        for topic in (topics.log, topics.jobs, topics.control_acks):
            create_topic(broker.bootstrap, topic)
        options = replace(activation([]).definition.options, topic_prefix=prefix, **more)
        tables = [HandTable.of(104, "plain").descriptor]
        self.feed = activation(tables, options, sink_uri=f"kafka://{broker.bootstrap}")
        begun = Timestamp(1)
        accepted = AcceptedCluster(_SECOND, cluster, Timestamp(5))
        definition = replace(self.feed.definition, engine=Engine.SPARK)
        running = StateRecord(
            self.feed.feed_id,
            FIRST_EPOCH,
            FeedState.RUNNING,
            begun,
            self.feed.targets,
            sink_cluster="former",
        )
        progress = ProgressRecord(self.feed.feed_id, FIRST_EPOCH, ResolvedTimestamp(Timestamp(9)), {})
        self._tell(
            DefinitionRecord(definition),
            running,
            progress,
            DefinitionRecord(replace(definition, epoch=_SECOND, accepted=accepted)),
        )

    def _tell(self, *records: JobRecord) -> None:
        with closing(open_producer(self.connection, f"{self.topics.app_id}-test")) as writer:
            writer.commit([Record(self.topics.jobs, 0, each.key, each.to_bytes()) for each in records])

    def open(self) -> QueryFeeds:
        query = Query("query", self.connection, self.topics.log, 1, "", ProcessorConfig())
        return QueryFeeds(query, self.topics, 1)

    def answers(self, *acks: Ack) -> Sequence[Answer]:
        return [Answer(0, "ack", ack.to_bytes()) for ack in acks]


def test_it_begins_on_that_cluster_above_the_accepted_place_once_the_former_epoch_is_forgotten(
    broker: KafkaBroker, topic_prefix: str
) -> None:
    world = _Accepted(broker, topic_prefix, "")
    feed, (target,) = world.feed, world.feed.targets
    admin = open_admin(world.connection, 10)
    with closing(world.open()) as feeds:
        ((message, _),) = feeds.announcements()
        assert message == Remove(feed.feed_id, FIRST_EPOCH)
        assert admin.partitions(target.topic) is None
        assert feeds.clusters() == {f"{feed.feed_id}/2": ""}
        feeds.note_answers(world.answers(Removed(feed.feed_id, FIRST_EPOCH, 0)))
        ((message, _),) = feeds.announcements()
        assert isinstance(message, Register)
        assert message.definition.options.cursor == Timestamp(5)
        feeds.note_answers(world.answers(Registered(feed.feed_id, _SECOND, 0, 7, Timestamp(99), ())))
        ((message, _),) = feeds.announcements()
        assert isinstance(message, Activate)
        assert (message.start, message.targets) == (Timestamp(5), feed.targets)
        assert admin.partitions(target.topic) == target.partitions
        state = feeds._jobs.view[feed.feed_id].current_state
        assert state is not None
        assert (state.state, state.sink_cluster) == (FeedState.STARTING, "")


def test_a_feed_whose_rows_the_query_does_not_take_is_pending_and_its_state_says_what_to_do(
    broker: KafkaBroker, topic_prefix: str
) -> None:
    """Its first row above the limit would end it for good."""
    world = _Accepted(broker, topic_prefix, "", on_oversize=OnOversize.KEY_ONLY, max_row_bytes=5_000_000)
    feed = world.feed
    with closing(world.open()) as feeds:
        assert feeds.announcements()
        feeds.note_answers(world.answers(Removed(feed.feed_id, FIRST_EPOCH, 0)))
        assert feeds.announcements()
        feeds.note_answers(world.answers(Registered(feed.feed_id, _SECOND, 0, 7, Timestamp(99), ())))
        assert not feeds.announcements()
        state = feeds._jobs.view[feed.feed_id].current_state
        assert state is not None
        assert state.state is FeedState.PENDING
        assert "Spark query take, 1000000: run the feed on workers with a higher" in state.error


def test_while_another_cluster_answers_it_is_pending_and_its_state_says_for_which_it_waits(
    broker: KafkaBroker, topic_prefix: str
) -> None:
    world = _Accepted(broker, topic_prefix, "accepted")
    feed = world.feed
    with closing(world.open()) as feeds:
        assert feeds.announcements()
        feeds.note_answers(world.answers(Removed(feed.feed_id, FIRST_EPOCH, 0)))
        assert not feeds.announcements()
        state = feeds._jobs.view[feed.feed_id].current_state
        assert state is not None
        assert state.state is FeedState.PENDING
        assert "its topics are on the Kafka cluster accepted" in state.error
        (target,) = feed.targets
        assert open_admin(world.connection, 10).partitions(target.topic) is None
