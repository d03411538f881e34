"""A feed takes its application's topics and no others, by the engines' own preparation, on a real broker
(docs/security.md#where-a-feed-may-write).
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, Final

import pytest
from confluent_kafka.admin import AdminClient

from stack.kafka import KafkaBroker
from tests.feeds import activation
from tests.hand_log import HandTable
from tests.unit.client.topics import create_topic, wait_until_forgotten, write
from tidegate.access.output_namespace import OutputNamespace
from tidegate.changefeed.definition.feed import Engine, FeedDefinition, FeedEpoch, FeedId, FeedState
from tidegate.changefeed.definition.options import ExistingTopics, FeedOptions, InitialScan
from tidegate.changefeed.lifecycle.control import KnownTable
from tidegate.changefeed.lifecycle.job_records import (
    DefinitionRecord,
    DropRecord,
    JobRecord,
    ProgressRecord,
    StateRecord,
)
from tidegate.changefeed.lifecycle.jobs import JobsView
from tidegate.changefeed.lifecycle.output_topic import OutputTopic, TopicOrigin
from tidegate.changefeed.lifecycle.registration import Prepare, waiting
from tidegate.changefeed.lifecycle.takeover import takeover
from tidegate.client.feed_rows import feed_row
from tidegate.client.kafka.connection import KafkaConnection
from tidegate.client.kafka.topic_admin import TopicAdmin, open_admin
from tidegate.client.kafka.topics import Topics
from tidegate.client.own_topics import OwnTopics
from tidegate.hlc import ResolvedTimestamp, Timestamp
from tidegate.spark.changefeed.jobs_topic import JobsTopic
from tidegate.spark.changefeed.preparation import Preparation
from tidegate.spark.changefeed.query_sinks import QuerySinks
from tidegate.verify import TopicRecord
from tidegate.worker.feeds.feed_preparation import prepared

pytestmark = pytest.mark.broker

_TABLE: Final = HandTable.of(104, "rows")


class Preparing(ABC):
    """An engine that prepares feeds of one application, whose jobs topic is ``view``."""

    def __init__(self, broker: KafkaBroker, prefix: str) -> None:
        self.bootstrap, self.prefix = broker.bootstrap, prefix
        self.admin: TopicAdmin = open_admin(KafkaConnection(broker.bootstrap), 10)

    @property
    @abstractmethod
    def view(self) -> JobsView: ...

    @abstractmethod
    def store(self, record: JobRecord) -> None: ...

    @abstractmethod
    def prepare(self, definition: FeedDefinition, step: Prepare) -> StateRecord: ...

    @abstractmethod
    def close(self) -> None: ...

    def define(self, feed_id: str, **options: object) -> FeedDefinition:
        """A feed on one table with its markers aside, which is stored."""
        chosen = FeedOptions(
            resolved_interval_ns=0, topic_prefix=self.prefix, resolved_topic=f"{self.prefix}markers"
        )
        feed = activation([_TABLE.descriptor], replace(chosen, **options), feed_id=feed_id)  # type: ignore[arg-type]
        definition = replace(feed.definition, sink_uri=f"kafka://{self.bootstrap}")
        self.store(DefinitionRecord(definition))
        return definition

    def begin(self, definition: FeedDefinition) -> StateRecord:
        """Have a new feed begin, or fail, and store that."""
        known = tuple(KnownTable(table, _TABLE.descriptor.id) for table in definition.tables)
        state = self.prepare(definition, Prepare(Timestamp(5), known, {}, is_from_now=True))
        self.store(state)
        return state

    def drop(self, definition: FeedDefinition) -> None:
        self.store(DropRecord(definition.id, 0))


class Workers(Preparing):
    """The jobs agent of a worker, with a jobs topic of its own making."""

    def __init__(self, broker: KafkaBroker, prefix: str) -> None:
        super().__init__(broker, prefix)
        self._view = JobsView()
        sink = SimpleNamespace(admin=self.admin, threads=None, servers=broker.bootstrap)
        self._runtime: Any = SimpleNamespace(
            sinks=SimpleNamespace(of=lambda *_: sink),
            schema_ids=None,
            settings=SimpleNamespace(output_partitions=2, max_record_bytes=1_000_000),
        )

    @property
    def view(self) -> JobsView:
        return self._view

    def store(self, record: JobRecord) -> None:
        self._view.apply(record.key, record.to_bytes())

    def prepare(self, definition: FeedDefinition, step: Prepare) -> StateRecord:
        while True:
            own = OwnTopics.of(definition, self._view, lambda _: True)
            feed = self._view[definition.id]
            state = asyncio.run(prepared(definition, step, "", self._runtime, own, feed))
            if state.state is not FeedState.PENDING:
                return state
            self.store(state)

    def close(self) -> None:
        pass


class Spark(Preparing):
    """The preparation of a query's driver, with a jobs topic on the broker."""

    def __init__(self, broker: KafkaBroker, prefix: str) -> None:
        super().__init__(broker, prefix)
        topics, connection = Topics(f"{prefix}app", prefix), KafkaConnection(broker.bootstrap)
        create_topic(broker.bootstrap, topics.jobs)
        self._jobs = JobsTopic(connection, topics, self.admin)
        self._preparation = Preparation(topics, self._jobs, QuerySinks(connection, 10), 2, lambda _: True)

    @property
    def view(self) -> JobsView:
        return self._jobs.view

    def store(self, record: JobRecord) -> None:
        self._jobs.store(record)

    def prepare(self, definition: FeedDefinition, step: Prepare) -> StateRecord:
        return self._preparation.prepared(definition, step)

    def fault(self, definition: FeedDefinition, bound: str) -> str:
        """Return why the feed is refused where an operator has set a bound."""
        namespace, sinks = OutputNamespace.of(bound), QuerySinks(KafkaConnection(self.bootstrap), 10)
        topics = Topics(f"{self.prefix}app", self.prefix)
        with closing(Preparation(topics, self._jobs, sinks, 2, lambda _: True, namespace)) as bounded:
            return bounded.fault(definition)

    def close(self) -> None:
        self._preparation.close()
        self._jobs.close()


@pytest.fixture(params=[Workers, Spark])
def engine(request: pytest.FixtureRequest, broker: KafkaBroker, topic_prefix: str) -> Iterator[Preparing]:
    with closing(request.param(broker, topic_prefix)) as engine:
        yield engine


def test_a_feed_starts_above_the_markers_that_a_former_feed_has_left_on_its_topic(engine: Preparing) -> None:
    """A consumer of the topic may pass over rows that are not above a marker: the rows of a scan, too."""
    first = engine.define("1")
    state = engine.begin(first)
    assert state.start == Timestamp(5)
    engine.store(ProgressRecord(first.id, first.epoch, ResolvedTimestamp(Timestamp(90)), {}))
    engine.drop(first)
    assert engine.begin(engine.define("2", initial_scan=InitialScan.YES)).start == Timestamp(90, 1)


def delete(engine: Preparing, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": engine.bootstrap})
    admin.delete_topics([topic])[topic].result(30)
    wait_until_forgotten(admin, topic)


@pytest.mark.parametrize("existing", ["rows", "markers"])
def test_a_foreign_topic_is_refused_without_the_option_and_taken_with_it(
    engine: Preparing, existing: str
) -> None:
    topic = engine.prefix + existing
    create_topic(engine.bootstrap, topic, 2)
    refused = engine.begin(engine.define("1"))
    assert refused.state is FeedState.FAILED
    assert f"the topic {topic} exists already, and no feed of this application has created" in refused.error
    other = engine.prefix + {"rows": "markers", "markers": "rows"}[existing]
    assert engine.admin.partitions(other) is None, "a feed that is refused creates nothing"

    taken = engine.begin(engine.define("2", existing_topics=ExistingTopics.USE))
    assert taken.state is FeedState.STARTING
    assert feed_row(FeedId("2"), engine.view[FeedId("2")])["existing_topics"] == [topic]
    engine.drop(engine.define("2", existing_topics=ExistingTopics.USE))
    again = engine.begin(engine.define("3"))
    assert f"the topic {topic} exists already" in again.error, "it is still somebody else's"


def test_a_topic_that_the_application_created_is_taken_again_and_not_when_it_was_made_anew(
    engine: Preparing,
) -> None:
    first = engine.define("1")
    topic = f"{engine.prefix}rows"
    state = engine.begin(first)
    ids = engine.admin.ids([topic, f"{engine.prefix}markers"])
    assert state.topics == tuple(
        OutputTopic(each.translate(str.maketrans("+/", "-_")), TopicOrigin.CREATED) for each in ids.values()
    )
    engine.drop(first)
    heir = engine.define("2")
    assert engine.begin(heir).topics == state.topics
    engine.drop(heir)
    delete(engine, topic)
    create_topic(engine.bootstrap, topic, 2)
    refused = engine.begin(engine.define("3"))
    assert f"the topic {topic} exists already, and somebody else has made it anew" in refused.error


def test_who_died_between_a_creation_and_its_record_has_created_the_topic(engine: Preparing) -> None:
    feed = engine.define("1")
    announced = OutputTopic("", TopicOrigin.ANNOUNCED)
    engine.store(waiting(feed, "", (announced, announced)))
    create_topic(engine.bootstrap, f"{engine.prefix}rows", 2)
    state = engine.begin(feed)
    assert state.state is FeedState.STARTING, state.error
    assert [topic.origin for topic in state.topics] == [TopicOrigin.CREATED, TopicOrigin.CREATED]


def test_an_announced_topic_that_has_records_is_somebody_elses(engine: Preparing) -> None:
    feed = engine.define("1")
    announced = OutputTopic("", TopicOrigin.ANNOUNCED)
    engine.store(waiting(feed, "", (announced, announced)))
    topic = f"{engine.prefix}rows"
    create_topic(engine.bootstrap, topic, 2)
    write(engine.bootstrap, [TopicRecord(topic, 1, -1, b"k", b"v", 0)])
    refused = engine.begin(feed)
    assert f"the topic {topic} exists already, and no feed of this application" in refused.error


@pytest.mark.parametrize("of_an_older_version", [False, True])
def test_a_feed_that_is_moved_keeps_its_topics_and_fails_on_one_that_was_made_anew(
    engine: Preparing, *, of_an_older_version: bool
) -> None:
    feed = engine.define("1")
    began = engine.begin(feed)
    topic = f"{engine.prefix}rows"
    if of_an_older_version:
        engine.store(replace(began, topics=()))

    def move(epoch: int, to: Engine) -> StateRecord:
        moved = replace(feed, epoch=FeedEpoch(epoch), engine=to)
        engine.store(DefinitionRecord(moved))
        known = engine.view[feed.id]
        taken = takeover(moved, known.state, known.progress, known.takeover)
        engine.store(taken)
        step = Prepare(Timestamp(5), (), {}, taken.targets, taken.sink_cluster, topics=taken.topics)
        state = engine.prepare(moved, step)
        engine.store(state)
        return state

    assert move(2, Engine.SPARK).topics == began.topics
    assert move(3, Engine.WORKERS).topics == began.topics
    delete(engine, topic)
    create_topic(engine.bootstrap, topic, 2)
    ended = move(4, Engine.SPARK)
    assert ended.state is FeedState.FAILED
    assert f"the topic {topic} was deleted and made anew" in ended.error


def test_a_query_knows_the_operators_bound(broker: KafkaBroker, topic_prefix: str) -> None:
    """``tests/e2e/test_jobs.py`` has the case of a worker."""
    with closing(Spark(broker, topic_prefix)) as spark:
        feed = spark.define("1")
        assert spark.fault(feed, f"{topic_prefix}*") == ""
        refused = spark.fault(feed, "cdc.*")
        assert (
            f"no feed may write to {topic_prefix}rows: the operator allows only topics like cdc.*" in refused
        )


def test_the_topic_of_requests_of_another_source_is_known_by_its_log(engine: Preparing) -> None:
    there = f"{engine.prefix}there."
    create_topic(engine.bootstrap, f"{there}raftlog")
    requests = f"{there}requests"
    use = ExistingTopics.USE
    refused = engine.begin(engine.define("1", resolved_topic=requests, existing_topics=use))
    assert refused.state is FeedState.FAILED
    assert f"no feed may write to {requests}: the log {there}raftlog stands beside it" in refused.error
    assert engine.admin.partitions(requests) is None
