"""Feeds that begin in one batch: what takes long is done for all at once, and each goes its own way."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from threading import Barrier

import pytest

from stack.kafka import KafkaBroker
from tests.destinations import DESTINATIONS
from tests.feeds import WITH_MARKERS, activation
from tests.hand_log import HandTable
from tests.unit.client.topics import create_topic
from tidegate.changefeed.definition.feed import FIRST_EPOCH, Engine, FeedDefinition, FeedId, FeedState
from tidegate.changefeed.definition.options import OnOversize
from tidegate.changefeed.lifecycle.control import (
    Activate,
    Active,
    ControlMessage,
    KnownTable,
    Register,
    Registered,
    Remove,
    Removed,
)
from tidegate.changefeed.lifecycle.job_records import DefinitionRecord, DropRecord, JobRecord, StateRecord
from tidegate.changefeed.lifecycle.output_topic import TopicOrigin
from tidegate.changefeed.lifecycle.registration import Prepare
from tidegate.client.jobs import Jobs
from tidegate.client.kafka.connection import KafkaConnection
from tidegate.client.kafka.topic_admin import TopicAdmin, TopicSpec, open_admin
from tidegate.client.kafka.topics import Topics
from tidegate.client.kafka.transaction import Record
from tidegate.hlc import Timestamp
from tidegate.processor.config import ProcessorConfig
from tidegate.spark.changefeed.jobs_topic import JobsTopic, open_producer
from tidegate.spark.changefeed.preparation import Preparation
from tidegate.spark.changefeed.query import Query
from tidegate.spark.changefeed.query_feeds import QueryFeeds
from tidegate.spark.changefeed.task.answers import Answer

pytestmark = pytest.mark.broker

_TABLE = HandTable.of(104, "plain").descriptor
_NAMES = ("first", "second", "third")
_MEET_S = 60


class DriverDied(Exception):
    """Whatever it had in memory is gone."""


@pytest.fixture
def topics(broker: KafkaBroker, topic_prefix: str) -> Topics:
    topics = Topics(f"{topic_prefix}app", topic_prefix)
    for topic in (topics.log, topics.jobs, topics.control_acks):
        create_topic(broker.bootstrap, topic)
    return topics


@pytest.fixture
def new(broker: KafkaBroker, topics: Topics, topic_prefix: str) -> Sequence[FeedDefinition]:
    """Feeds that nobody has told partitions of yet."""
    definitions = [
        replace(
            activation(
                [_TABLE],
                replace(WITH_MARKERS, topic_prefix=f"{topic_prefix}{name}-"),
                feed_id=name,
                sink_uri=f"kafka://{broker.bootstrap}",
            ).definition,
            engine=Engine.SPARK,
        )
        for name in _NAMES
    ]
    _write(broker, topics, [DefinitionRecord(each) for each in definitions])
    return definitions


def _write(broker: KafkaBroker, topics: Topics, records: Sequence[JobRecord]) -> None:
    with closing(open_producer(KafkaConnection(broker.bootstrap), f"{topics.app_id}-spark-jobs")) as writer:
        writer.commit([Record(topics.jobs, 0, record.key, record.to_bytes()) for record in records])


def _query_feeds(broker: KafkaBroker, topics: Topics, clients: int = 900) -> QueryFeeds:
    query = Query("query", KafkaConnection(broker.bootstrap), topics.log, 1, "", ProcessorConfig())
    feeds = QueryFeeds(query, topics, 1, clients=clients)
    feeds._jobs.read_to_end()
    return feeds


def _told(feeds: QueryFeeds) -> dict[FeedId, type[ControlMessage]]:
    return {message.feed_id: type(message) for message, _ in feeds.announcements()}


def _register(feeds: QueryFeeds, definitions: Sequence[FeedDefinition]) -> None:
    """The round that tells partitions of the feeds."""
    assert _told(feeds) == dict.fromkeys([each.id for each in definitions], Register)
    (table,) = {each.tables[0] for each in definitions}
    known = (KnownTable(table, _TABLE.id),)
    acks = [Registered(each.id, FIRST_EPOCH, 0, 0, Timestamp(7), known) for each in definitions]
    feeds.note_answers([Answer(0, "ack", ack.to_bytes()) for ack in acks])


def _states(broker: KafkaBroker, topics: Topics) -> dict[FeedId, FeedState]:
    """Return the states as they stand on the jobs topic."""
    return {
        each: feed.status
        for each, feed in Jobs(KafkaConnection(broker.bootstrap), topics.app_id).view().feeds()
    }


def test_topics_of_feeds_that_begin_together_are_created_at_once(
    broker: KafkaBroker, topics: Topics, new: Sequence[FeedDefinition], monkeypatch: pytest.MonkeyPatch
) -> None:
    met, begun = Barrier(len(new)), Preparation.begun

    def meet(self: Preparation, definition: FeedDefinition, prepare: Prepare) -> StateRecord:
        met.wait(_MEET_S)  # nobody begins before all are there
        return begun(self, definition, prepare)

    monkeypatch.setattr(Preparation, "begun", meet)
    with closing(_query_feeds(broker, topics)) as feeds:
        _register(feeds, new)
        told = feeds.announcements()
        activations = [message for message, _ in told if isinstance(message, Activate)]
        assert [each.feed_id for each in activations] == [each.id for each in new]
        assert {each.start for each in activations} == {Timestamp(7)}
        assert _states(broker, topics) == dict.fromkeys([each.id for each in new], FeedState.STARTING)
        assert feeds.high_waters().keys() == {each.id for each in new}, "M0 is done before a checkpoint comes"
        feeds.note_answers([Answer(0, "ack", Active(each.id, FIRST_EPOCH, 0).to_bytes()) for each in new])
        assert _told(feeds) == {}
        assert _states(broker, topics) == dict.fromkeys([each.id for each in new], FeedState.RUNNING)


def test_one_request_creates_the_topics_of_all_feeds_once_they_are_announced(
    broker: KafkaBroker, topics: Topics, new: Sequence[FeedDefinition], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[list[str]] = []
    announced: list[set[str]] = []
    create_early = TopicAdmin.create_early

    def create(self: TopicAdmin, specs: Sequence[TopicSpec]) -> None:
        view = Jobs(KafkaConnection(broker.bootstrap), topics.app_id).view()
        announced.append({each for each, feed in view.feeds() if feed.stored_topics})
        asked.append([spec.name for spec in specs])
        create_early(self, specs)

    monkeypatch.setattr(TopicAdmin, "create_early", create)
    with closing(_query_feeds(broker, topics)) as feeds:
        _register(feeds, new)
        assert set(_told(feeds).values()) == {Activate}
        assert asked == [[f"{each.options.topic_prefix}plain" for each in new]]
        assert announced == [{each.id for each in new}]
        stored = [topic for each in new for topic in feeds._jobs.view[each.id].stored_topics]
        assert {topic.origin for topic in stored} == {TopicOrigin.CREATED}


def test_topics_that_no_request_created_early_are_created_one_by_one(
    broker: KafkaBroker, topics: Topics, new: Sequence[FeedDefinition], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(TopicAdmin, "create_early", lambda *_: None)
    with closing(_query_feeds(broker, topics)) as feeds:
        _register(feeds, new)
        assert set(_told(feeds).values()) == {Activate}


def test_a_feed_that_cannot_begin_fails_alone(
    broker: KafkaBroker, topics: Topics, new: Sequence[FeedDefinition]
) -> None:
    create_topic(broker.bootstrap, f"{new[1].options.topic_prefix}plain")  # somebody else's
    with closing(_query_feeds(broker, topics)) as feeds:
        _register(feeds, new)
        assert _told(feeds) == {new[0].id: Activate, new[1].id: Remove, new[2].id: Activate}
        states = _states(broker, topics)
        assert states.pop(new[1].id) is FeedState.FAILED
        assert set(states.values()) == {FeedState.STARTING}


def test_a_feed_whose_preparation_meets_an_exception_that_nobody_foresaw_fails_before_records_are_stepped(
    broker: KafkaBroker, topics: Topics, new: Sequence[FeedDefinition], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Partitions are held for it: what they would say of its end is not why it ended."""
    begun = Preparation.begun

    def breaks(self: Preparation, definition: FeedDefinition, prepare: Prepare) -> StateRecord:
        if definition.id == new[1].id:
            raise ArithmeticError("an odd topic")
        return begun(self, definition, prepare)

    monkeypatch.setattr(Preparation, "begun", breaks)
    with closing(_query_feeds(broker, topics)) as feeds:
        _register(feeds, new)
        assert _told(feeds) == {new[0].id: Activate, new[1].id: Remove, new[2].id: Activate}
        state = feeds._jobs.view[new[1].id].current_state
        assert state is not None
        assert state.state is FeedState.FAILED
        assert "ArithmeticError" in state.error


def test_a_feed_whose_rows_are_too_large_fails_before_its_topics_are_created(
    broker: KafkaBroker, topics: Topics, new: Sequence[FeedDefinition]
) -> None:
    options = replace(new[1].options, on_oversize=OnOversize.KEY_ONLY, max_row_bytes=5_000_000)
    _write(broker, topics, [DefinitionRecord(replace(new[1], options=options))])
    with closing(_query_feeds(broker, topics)) as feeds:
        _register(feeds, new)
        assert _told(feeds) == {new[0].id: Activate, new[1].id: Remove, new[2].id: Activate}
    admin = open_admin(KafkaConnection(broker.bootstrap), _MEET_S)
    assert admin.partitions(f"{new[1].options.topic_prefix}plain") is None


def test_a_driver_that_dies_when_topics_exist_and_no_start_is_stored_leaves_them_to_the_next(
    broker: KafkaBroker, topics: Topics, new: Sequence[FeedDefinition], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The starts of all feeds are in one transaction: either all are stored, or nobody was told one."""
    store = JobsTopic.store

    def die(self: JobsTopic, *records: JobRecord) -> None:
        if any(isinstance(each, StateRecord) and each.state is FeedState.STARTING for each in records):
            raise DriverDied
        store(self, *records)

    with monkeypatch.context() as patch, closing(_query_feeds(broker, topics)) as feeds:
        patch.setattr(JobsTopic, "store", die)
        _register(feeds, new)
        with pytest.raises(DriverDied):
            feeds.announcements()
    assert _states(broker, topics) == dict.fromkeys([each.id for each in new], FeedState.PENDING)
    with closing(_query_feeds(broker, topics)) as feeds:
        _register(feeds, new)
        assert _told(feeds) == dict.fromkeys([each.id for each in new], Activate)


def test_a_driver_that_dies_behind_the_stored_starts_leaves_them_to_the_next(
    broker: KafkaBroker, topics: Topics, new: Sequence[FeedDefinition]
) -> None:
    with closing(_query_feeds(broker, topics)) as feeds:
        _register(feeds, new)
        before = feeds.announcements()
    with closing(_query_feeds(broker, topics)) as feeds:
        assert feeds.announcements() == before, "the stored starts, whatever partitions have applied since"


def test_topics_that_an_ended_feed_frees_in_the_same_pass_go_to_the_next_one(
    broker: KafkaBroker, topics: Topics, new: Sequence[FeedDefinition]
) -> None:
    """A feed that fails before it has topics holds none: a later one that wants them begins."""
    refused = replace(new[0], id=FeedId("a"), sink_uri=f"kafka://{broker.bootstrap}?tls_enabled=true")
    heir = replace(new[0], id=FeedId("b"))
    _write(broker, topics, [DefinitionRecord(each) for each in (refused, heir)])
    with closing(_query_feeds(broker, topics)) as feeds:
        told = _told(feeds)
        assert told[heir.id] is Register
        assert feeds._jobs.view[refused.id].status is FeedState.FAILED


def test_a_feed_waits_for_the_topics_of_one_that_has_ended_and_begins_above_its_rows(
    broker: KafkaBroker, topics: Topics, new: Sequence[FeedDefinition]
) -> None:
    heir = replace(new[0], id=FeedId("heir"))
    with closing(_query_feeds(broker, topics)) as feeds:
        _register(feeds, new)
        _told(feeds)
        jobs = Jobs(KafkaConnection(broker.bootstrap), topics.app_id)
        jobs.drop(new[0].id)
        jobs.create(heir)
        feeds._jobs.read_to_end()
        for _ in range(2):
            assert heir.id not in _told(feeds)
            state = feeds._jobs.view[heir.id].current_state
            assert state is not None
            assert "the feed first had its topics and has ended" in state.error
        removed = Removed(new[0].id, FIRST_EPOCH, 0, highest=Timestamp(90))
        feeds.note_answers([Answer(0, "ack", removed.to_bytes())])
        assert _told(feeds)[heir.id] is Register
        known = (KnownTable(heir.tables[0], _TABLE.id),)
        feeds.note_answers(
            [Answer(0, "ack", Registered(heir.id, FIRST_EPOCH, 0, 0, Timestamp(7), known).to_bytes())]
        )
        assert _told(feeds)[heir.id] is Activate
        begun = feeds._jobs.view[heir.id].beginning
        assert begun is not None
        assert begun.start == Timestamp(90, 1), "above all rows that the former feed may have written"


def test_a_cluster_that_gives_no_answer_is_asked_once_for_all_of_its_feeds(
    broker: KafkaBroker, topics: Topics, topic_prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Batches wait while it is asked, with the rows of all other feeds."""
    asked: list[TopicAdmin] = []
    ask = TopicAdmin.cluster_id

    def count(admin: TopicAdmin) -> str:
        asked.append(admin)
        return ask(admin)

    monkeypatch.setattr(TopicAdmin, "cluster_id", count)
    waiting = [
        activation(
            [_TABLE],
            replace(WITH_MARKERS, topic_prefix=f"{topic_prefix}{name}-"),
            feed_id=name,
            sink_uri="kafka://127.0.0.1:9",
        ).definition
        for name in _NAMES
    ]
    _write(broker, topics, [DefinitionRecord(replace(each, engine=Engine.SPARK)) for each in waiting])
    connection = KafkaConnection(broker.bootstrap, destinations=DESTINATIONS)
    query = Query("query", connection, topics.log, 1, "", ProcessorConfig())
    with closing(QueryFeeds(query, topics, 1)) as feeds:
        feeds._jobs.read_to_end()
        assert _told(feeds) == {}
        assert len(asked) == 1
        states = [feeds._jobs.view[each.id].current_state for each in waiting]
        assert all(state is not None and "gives no answer" in (state.error or "") for state in states), states


def test_a_new_feed_whose_sink_goes_away_while_partitions_are_held_for_it_fails_alone(
    broker: KafkaBroker,
    topics: Topics,
    topic_prefix: str,
    new: Sequence[FeedDefinition],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The question comes before its topics are prepared, and the batch waited for an answer to it."""
    there, is_there = "127.0.0.1:9", [True]
    ask = TopicAdmin.cluster_id

    def answer(admin: TopicAdmin) -> str:
        return "theirs" if admin._servers == there and is_there else ask(admin)

    monkeypatch.setattr(TopicAdmin, "cluster_id", answer)
    options = replace(WITH_MARKERS, topic_prefix=f"{topic_prefix}away-")
    feed = activation([_TABLE], options, feed_id="away", sink_uri=f"kafka://{there}").definition
    away = replace(feed, engine=Engine.SPARK)
    _write(broker, topics, [DefinitionRecord(away)])
    connection = KafkaConnection(broker.bootstrap, destinations=DESTINATIONS)
    query = Query("query", connection, topics.log, 1, "", ProcessorConfig())
    with closing(QueryFeeds(query, topics, 1)) as feeds:
        feeds._jobs.read_to_end()
        _register(feeds, [away, *new])
        is_there.clear()
        assert _told(feeds) == {**{each.id: Activate for each in new}, away.id: Remove}
        state = feeds._jobs.view[away.id].current_state
        assert state is not None
        assert state.state is FeedState.FAILED
        assert f"its sink, the Kafka cluster at {there}, went away while the feed began" in state.error


def test_a_feed_without_a_place_waits_and_holds_no_partition_until_another_one_has_ended(
    broker: KafkaBroker, topics: Topics, new: Sequence[FeedDefinition]
) -> None:
    first, second, third = new
    with closing(_query_feeds(broker, topics, clients=2)) as feeds:
        _register(feeds, [first, second])
        feeds.announcements()
        feeds.note_answers([Answer(0, "ack", Active(each.id, FIRST_EPOCH, 0).to_bytes()) for each in new[:2]])
        assert _told(feeds) == {}
        state = feeds._jobs.view[third.id].current_state
        assert state is not None
        assert state.state is FeedState.PENDING
        assert state.error.startswith("it waits for a place: ")
        _write(broker, topics, [DropRecord(first.id, 1)])
    with closing(_query_feeds(broker, topics, clients=2)) as feeds:
        told = _told(feeds)
        assert (told[first.id], told[third.id]) == (Remove, Register)
