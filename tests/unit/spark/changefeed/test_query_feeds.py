"""Tests what a query knows of the feeds of the jobs topic."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace

import pytest
from confluent_kafka import Producer, TopicPartition

from stack.kafka import KafkaBroker
from tests.destinations import DESTINATIONS
from tests.feeds import WITH_MARKERS, activation
from tests.hand_log import HandTable
from tests.unit.client.topics import create_topic, wait_until_ended
from tidegate.changefeed.definition.feed import (
    FIRST_EPOCH,
    AcceptedCluster,
    Engine,
    FeedDefinition,
    FeedEpoch,
    FeedId,
    FeedState,
)
from tidegate.changefeed.lifecycle.control import (
    Ack,
    Activate,
    Active,
    Failed,
    Register,
    Remove,
    Removed,
    ack_key,
)
from tidegate.changefeed.lifecycle.frontier import FeedFrontier
from tidegate.changefeed.lifecycle.job_records import (
    DefinitionRecord,
    DropRecord,
    JobRecord,
    StateRecord,
    TakeoverRecord,
)
from tidegate.changefeed.lifecycle.jobs import FeedView
from tidegate.changefeed.lifecycle.registration import Step, StoreState
from tidegate.client.control_acks import read_acks
from tidegate.client.foreign_records import passed_over
from tidegate.client.kafka.connection import KafkaConnection
from tidegate.client.kafka.topics import Topics
from tidegate.client.kafka.transaction import Record
from tidegate.errors import DeliveryError, StateError
from tidegate.hlc import NANOS_PER_SECOND, ResolvedTimestamp, Timestamp
from tidegate.processor.batch import ActiveFeed, PartitionCheckpoint, RangeCheckpoint
from tidegate.processor.checkpoint import PartitionProgress, encode_checkpoint
from tidegate.processor.config import ProcessorConfig
from tidegate.raftlog.entry import Generation, Offset, RangeId
from tidegate.spans import Span
from tidegate.spark.changefeed.jobs_topic import open_producer
from tidegate.spark.changefeed.query import Query
from tidegate.spark.changefeed.query_feeds import QueryFeeds
from tidegate.spark.changefeed.task.answers import Answer

pytestmark = pytest.mark.broker

OTHER_TOPICS = replace(WITH_MARKERS, topic_prefix="other-")


@pytest.fixture
def topics(broker: KafkaBroker, topic_prefix: str) -> Topics:
    topics = Topics(f"{topic_prefix}app", topic_prefix)
    for topic in (topics.log, topics.jobs, topics.control_acks):
        create_topic(broker.bootstrap, topic)
    return topics


def _feed(feed_id: str) -> Activate:
    return activation([HandTable.of(104, "plain").descriptor], feed_id=feed_id, sink_uri="kafka://there:9")


def _at(feed: Activate, epoch: int, engine: Engine) -> FeedDefinition:
    return replace(feed.definition, epoch=FeedEpoch(epoch), engine=engine)


def _began(feed: Activate, epoch: int) -> StateRecord:
    running, start = FeedState.RUNNING, Timestamp(1)
    return StateRecord(feed.feed_id, FeedEpoch(epoch), running, start, feed.targets, sink_cluster="theirs")


def _taken_over(feed: Activate, epoch: int) -> TakeoverRecord:
    return TakeoverRecord(feed.feed_id, FeedEpoch(epoch), Timestamp(1), None, feed.targets, "theirs")


def test_the_cluster_of_a_feed_that_was_moved_is_the_one_that_it_began_on(
    broker: KafkaBroker, topics: Topics
) -> None:
    away, back, new = _feed("away"), _feed("back"), _feed("new")
    records: list[JobRecord] = [
        _began(away, 1),
        DefinitionRecord(_at(away, 2, Engine.WORKERS)),
        _began(back, 1),
        _taken_over(back, 2),
        DefinitionRecord(_at(back, 3, Engine.SPARK)),
        DefinitionRecord(_at(new, 1, Engine.SPARK)),
    ]
    assert _clusters(broker, topics, records) == {away.feed_id: "theirs", back.feed_id: "theirs"}


def test_what_partitions_have_of_a_feed_from_before_it_came_to_another_cluster_has_none(
    broker: KafkaBroker, topics: Topics
) -> None:
    """Its rows would come there before earlier versions of their keys."""
    asked, there = _feed("asked"), _feed("there")
    accepted = AcceptedCluster(FeedEpoch(2), "theirs", Timestamp(5))
    records: list[JobRecord] = [
        replace(_began(asked, 1), sink_cluster="former"),
        DefinitionRecord(replace(_at(asked, 2, Engine.SPARK), accepted=accepted)),
        replace(_began(there, 1), sink_cluster="former"),
        DefinitionRecord(replace(_at(there, 2, Engine.SPARK), accepted=accepted)),
        _taken_over(there, 2),
    ]
    assert _clusters(broker, topics, records) == {f"{there.feed_id}/2": "theirs"}


def _clusters(broker: KafkaBroker, topics: Topics, records: Sequence[JobRecord]) -> dict[str, str]:
    connection = KafkaConnection(broker.bootstrap, destinations=DESTINATIONS)
    with closing(open_producer(connection, f"{topics.app_id}-jobs")) as writer:
        writer.commit([Record(topics.jobs, 0, record.key, record.to_bytes()) for record in records])
    query = Query("query", connection, topics.log, 1, "", ProcessorConfig())
    with closing(QueryFeeds(query, topics, 1)) as feeds:
        feeds._jobs.read_to_end()
        return feeds.clusters()


def _write(broker: KafkaBroker, topics: Topics, jobs: Sequence[JobRecord], acks: Sequence[Ack] = ()) -> None:
    with closing(open_producer(KafkaConnection(broker.bootstrap), f"{topics.app_id}-jobs")) as writer:
        writer.commit(
            [
                *(Record(topics.jobs, 0, record.key, record.to_bytes()) for record in jobs),
                *(Record(topics.control_acks, 0, ack_key(ack), ack.to_bytes()) for ack in acks),
            ]
        )
    wait_until_ended(
        broker.bootstrap, {TopicPartition(name, 0) for name in (topics.jobs, topics.control_acks)}
    )


def _write_jobs(broker: KafkaBroker, topics: Topics, jobs: Sequence[JobRecord]) -> None:
    """Write these records, whatever transaction is open on other topics."""
    with closing(open_producer(KafkaConnection(broker.bootstrap), f"{topics.app_id}-wishes")) as writer:
        writer.commit([Record(topics.jobs, 0, record.key, record.to_bytes()) for record in jobs])


def _query_feeds(broker: KafkaBroker, topics: Topics) -> QueryFeeds:
    query = Query("query", KafkaConnection(broker.bootstrap), topics.log, 1, "", ProcessorConfig())
    return QueryFeeds(query, topics, 1)


@pytest.mark.parametrize("forgotten", [False, True])
def test_a_feed_that_workers_have_failed_while_it_was_moved_fails_where_it_comes_to(
    broker: KafkaBroker, topics: Topics, *, forgotten: bool
) -> None:
    """Also where a driver died behind the takeover: the next one asks again."""
    feed = _feed("moved")
    reason = "range 1 changed rows outside its op log"
    ack: Ack = Failed(feed.feed_id, FIRST_EPOCH, 0, reason)
    if forgotten:
        ack = Removed(feed.feed_id, FIRST_EPOCH, 0, reason)
    jobs: list[JobRecord] = [
        _began(feed, 1),
        DefinitionRecord(_at(feed, 2, Engine.SPARK)),
        _taken_over(feed, 2),
    ]
    _write(broker, topics, jobs, [ack])
    with closing(_query_feeds(broker, topics)) as feeds:
        feeds._jobs.read_to_end()
        view = feeds._jobs.view[feed.feed_id]
        assert view.definition is not None
        step = feeds._step(view, view.definition)
        assert isinstance(step, StoreState)
        assert step.record.state is FeedState.FAILED
        assert reason in step.record.error


def _steps_of_answering_worker(
    broker: KafkaBroker, topics: Topics, query: QueryFeeds, ack: Ack, moved: Activate, new: Activate
) -> Producer:
    """A worker that has written ``ack`` in a transaction and not committed it, while ``moved`` is taken over
    and ``new`` begins; what the query announces meanwhile is about ``new`` alone."""
    worker = Producer(
        {"bootstrap.servers": broker.bootstrap, "transactional.id": f"{topics.app_id}-0", "acks": "all"}
    )
    worker.init_transactions(30)
    worker.begin_transaction()
    worker.produce(topics.control_acks, ack.to_bytes(), ack_key(ack), 0)
    assert worker.flush(30) == 0  # the broker has it
    for _ in range(3):  # batch after batch
        announced = query.announcements()
        assert [(type(message), message.feed_id) for message, _ in announced] == [(Register, new.feed_id)]
    return worker


@pytest.fixture
def moved_and_new(broker: KafkaBroker, topics: Topics) -> tuple[Activate, Activate]:
    """A feed that workers had, and that a query has taken over, and one that is new there."""
    feeds = _feed("moved"), _feed("new")
    moved, new = (
        replace(feed, definition=replace(feed.definition, sink_uri=f"kafka://{broker.bootstrap}"))
        for feed in feeds
    )
    _write(
        broker,
        topics,
        [
            replace(_began(moved, 1), sink_cluster=""),
            DefinitionRecord(_at(moved, 2, Engine.SPARK)),
            replace(_taken_over(moved, 2), sink_cluster=""),
            DefinitionRecord(replace(_at(new, 1, Engine.SPARK), options=OTHER_TOPICS)),
        ],
    )
    return moved, new


def test_an_answer_that_readers_do_not_see_yet_is_waited_for_by_its_feed_alone(
    broker: KafkaBroker, topics: Topics, moved_and_new: tuple[Activate, Activate]
) -> None:
    """Kafka answers a commit before readers see it: an open transaction is the same to them, and lasts."""
    moved, new = moved_and_new
    reason = "range 1 changed rows outside its op log"
    failed = Failed(moved.feed_id, FIRST_EPOCH, 0, reason)
    with closing(_query_feeds(broker, topics)) as feeds:
        worker = _steps_of_answering_worker(broker, topics, feeds, failed, moved, new)
        worker.commit_transaction(30)
        wait_until_ended(broker.bootstrap, {TopicPartition(topics.control_acks, 0)})
        feeds.announcements()
        state = feeds._jobs.view[moved.feed_id].current_state
        assert state is not None
        assert state.state is FeedState.FAILED
        assert reason in state.error


def test_a_worker_that_died_amid_its_answer_delays_the_feed_that_is_taken_over_alone(
    broker: KafkaBroker, topics: Topics, moved_and_new: tuple[Activate, Activate]
) -> None:
    """The answer is of yet another feed. The next owner of the log partition ends the transaction."""
    moved, new = moved_and_new
    other = Removed(_feed("other").feed_id, FIRST_EPOCH, 0)
    with closing(_query_feeds(broker, topics)) as feeds:
        died = _steps_of_answering_worker(broker, topics, feeds, other, moved, new)
        with closing(open_producer(KafkaConnection(broker.bootstrap), f"{topics.app_id}-0")):
            wait_until_ended(broker.bootstrap, {TopicPartition(topics.control_acks, 0)})
            announced = {message.feed_id: message for message, _ in feeds.announcements()}
        assert announced[moved.feed_id] == Remove(moved.feed_id, FIRST_EPOCH)
        assert isinstance(announced[new.feed_id], Register)
        del died


def test_nothing_is_kept_of_a_feed_that_is_dropped_while_it_waits_for_such_an_answer(
    broker: KafkaBroker, topics: Topics, moved_and_new: tuple[Activate, Activate]
) -> None:
    moved, new = moved_and_new
    other = Removed(_feed("other").feed_id, FIRST_EPOCH, 0)
    with closing(_query_feeds(broker, topics)) as feeds:
        worker = _steps_of_answering_worker(broker, topics, feeds, other, moved, new)
        assert [feed_id for feed_id, _ in feeds._unseen] == [moved.feed_id]
        _write_jobs(broker, topics, [DropRecord(moved.feed_id, requested_ns=0)])
        feeds._jobs.read_to_end()
        feeds.announcements()
        assert not feeds._unseen
        worker.abort_transaction(30)


def test_a_failure_of_a_feed_that_workers_take_over_is_written_for_them(
    broker: KafkaBroker, topics: Topics
) -> None:
    feed = _feed("moved")
    _write(broker, topics, [_began(feed, 1), DefinitionRecord(_at(feed, 2, Engine.WORKERS))])
    failed = Failed(feed.feed_id, FIRST_EPOCH, 0, "range 1 changed rows outside its op log")
    with closing(_query_feeds(broker, topics)) as feeds:
        feeds._jobs.read_to_end()
        feeds.note_answers([Answer(0, "ack", failed.to_bytes())])
        feeds.publish()
    wait_until_ended(broker.bootstrap, {TopicPartition(topics.control_acks, 0)})
    assert list(read_acks(KafkaConnection(broker.bootstrap), topics.control_acks, 2)) == [failed]


def test_foreign_records_are_passed_over_and_counted(
    broker: KafkaBroker, topics: Topics, caplog: pytest.LogCaptureFixture
) -> None:
    feed = _feed("healthy")
    began = _began(feed, 1)
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    _write(broker, topics, [began], [Active(feed.feed_id, FIRST_EPOCH, 0)])
    for topic in (topics.jobs, topics.control_acks):
        for value in (b"hello", b"[" * 100_000, b'{"v":5,"kind":7}', began.to_bytes()):
            producer.produce(topic, value, b"foreign")
    assert producer.flush(30) == 0
    with closing(_query_feeds(broker, topics)) as feeds:
        feeds._jobs.read_to_end()
        assert [feed_id for feed_id, _ in feeds._jobs.view.feeds()] == [feed.feed_id]
    acks = list(read_acks(KafkaConnection(broker.bootstrap), topics.control_acks, 2))
    assert acks == [Active(feed.feed_id, FIRST_EPOCH, 0)]
    for topic in (topics.jobs, topics.control_acks):
        assert f"{topic}[0] at offset" in caplog.text
        assert passed_over()[topic] >= 4


def test_a_feed_that_is_to_be_taken_over_keeps_the_state_that_says_where_it_began(
    broker: KafkaBroker, topics: Topics
) -> None:
    """What it waits for is no state of its own before: targets and cluster would be lost with the former."""
    feed = _feed("moved")
    _write(broker, topics, [_began(feed, 1), DefinitionRecord(_at(feed, 2, Engine.SPARK))])
    with closing(_query_feeds(broker, topics)) as feeds:
        feeds._jobs.read_to_end()
        for taken in (False, True):
            if taken:
                feeds._jobs.store(_taken_over(feed, 2))
            view = feeds._jobs.view[feed.feed_id]
            assert view.definition is not None
            feeds._tell_waiting(view, view.definition, "somebody does not go on")
            state = feeds._jobs.view[feed.feed_id].state
            assert state is not None
            assert state.epoch == FeedEpoch(2 if taken else 1)
            assert feeds._jobs.view[feed.feed_id].targets == feed.targets


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


def _home(broker: KafkaBroker, name: str) -> FeedDefinition:
    """A new feed whose sink is the query's own cluster."""
    feed = activation(
        [HandTable.of(104, "plain").descriptor],
        replace(WITH_MARKERS, topic_prefix=f"{name}-"),
        feed_id=name,
        sink_uri=f"kafka://{broker.bootstrap}",
    )
    return _at(feed, 1, Engine.SPARK)


@pytest.mark.parametrize("often", [1, 99])
def test_a_feed_whose_step_meets_an_exception_that_nobody_foresaw_fails_and_no_other(
    broker: KafkaBroker, topics: Topics, monkeypatch: pytest.MonkeyPatch, often: int
) -> None:
    """If its failure meets one too, it is left alone for a while."""
    odd, healthy = _home(broker, "odd"), _home(broker, "healthy")
    _write(broker, topics, [DefinitionRecord(odd), DefinitionRecord(healthy)])
    step = QueryFeeds._step
    calls: list[FeedDefinition] = []

    def breaks(self: QueryFeeds, feed: FeedView, definition: FeedDefinition) -> Step:
        if definition.id == odd.id and len(calls) < often:
            calls.append(definition)
            raise ArithmeticError("an odd definition")
        return step(self, feed, definition)

    monkeypatch.setattr(QueryFeeds, "_step", breaks)
    with closing(_query_feeds(broker, topics)) as feeds:
        for _ in range(5):
            announced = {message.feed_id for message, _ in feeds.announcements()}
            assert healthy.id in announced
        state = feeds._jobs.view[odd.id].current_state
    if often > 1:
        assert len(calls) == 2
        return
    assert state is not None
    assert state.state is FeedState.FAILED
    assert "ArithmeticError (test_query_feeds.py" in state.error


def test_a_feed_in_a_state_that_no_step_leaves_is_stuck_alone(
    broker: KafkaBroker, topics: Topics, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    odd, healthy = _home(broker, "odd"), _home(broker, "healthy")
    _write(broker, topics, [DefinitionRecord(odd), DefinitionRecord(healthy)])
    step = QueryFeeds._step

    def stuck(self: QueryFeeds, feed: FeedView, definition: FeedDefinition) -> Step:
        if definition.id == odd.id:
            raise StateError("its state has no start")
        return step(self, feed, definition)

    monkeypatch.setattr(QueryFeeds, "_step", stuck)
    with closing(_query_feeds(broker, topics)) as feeds:
        assert {message.feed_id for message, _ in feeds.announcements()} == {healthy.id}
    assert "the next step of feed odd cannot be taken: its state has no start" in caplog.text


def test_a_new_feed_is_told_once_partitions_have_come_to_the_end_of_the_log_as_it_was(
    broker: KafkaBroker, topics: Topics
) -> None:
    """Also where the log ends in the marker of a transaction, which a partition does not step."""
    new = _home(broker, "new")
    _write(broker, topics, [DefinitionRecord(new)])
    with closing(open_producer(KafkaConnection(broker.bootstrap), f"{topics.app_id}-source")) as source:
        source.commit([Record(topics.log, 0, b"key", b"value")])  # offset 0; its marker has offset 1
    figures = Answer(0, "figures", json.dumps({"next_offset": 1}).encode())
    with closing(_query_feeds(broker, topics)) as feeds:
        assert not feeds.announcements()
        feeds.note_answers([figures])
        assert not feeds.reached(lambda: {0: 1})
        assert not feeds.announcements()
        assert feeds.reached(lambda: {0: 2})
        assert [type(message) for message, _ in feeds.announcements()] == [Register]
        assert not feeds.reached(lambda: {0: 3}), "nobody has waited"


def _checkpoint(partition: int, at_s: int, *ranges: tuple[int, int, bytes, bytes, int]) -> Answer:
    moved = tuple(
        RangeCheckpoint(
            RangeId(range_id),
            Generation(generation),
            Span(start, end),
            ResolvedTimestamp(Timestamp(resolved_s * NANOS_PER_SECOND)),
        )
        for range_id, generation, start, end, resolved_s in ranges
    )
    feeds, now_ms = (ActiveFeed(FeedId("f"), FIRST_EPOCH),), at_s * 1_000
    said = PartitionCheckpoint(partition, Offset(at_s), feeds, moved, now_ms, (), now_ms)
    return Answer(partition, "checkpoint", encode_checkpoint(said))


_FIRST = _checkpoint(0, 100, (5, 2, b"a", b"m", 100), (7, 1, b"m", b"z", 95))
_TAKEN = _checkpoint(0, 101, (9, 2, b"m", b"z", 100))
_AHEAD = _checkpoint(0, 201, (5, 2, b"a", b"m", 200), (9, 2, b"m", b"z", 200))


@pytest.mark.parametrize(
    "answers",
    [
        [_FIRST, _TAKEN, _AHEAD, _checkpoint(0, 202, (7, 1, b"m", b"z", 110))],
        [_TAKEN, _AHEAD, _checkpoint(1, 200, (7, 1, b"m", b"z", 110))],
    ],
    ids=["told last by one partition", "told by another partition"],
)
def test_a_range_that_goes_on_beside_another_one_holds_the_frontier_wherever_a_round_tells_it(
    broker: KafkaBroker, topics: Topics, monkeypatch: pytest.MonkeyPatch, answers: list[Answer]
) -> None:
    """Range 7 has keys that range 9 has as well, and its rows are complete to second 110 alone."""
    frontier = FeedFrontier([Span(b"a", b"z")], Timestamp(NANOS_PER_SECOND), 0)

    def apply(report: PartitionProgress) -> None:
        frontier.apply_columns(report.partition, report.offset, report.starts, report.ends, report.resolved)

    with closing(_query_feeds(broker, topics)) as feeds:
        monkeypatch.setattr(feeds._markers, "apply", apply)
        feeds.note_answers(answers)
    assert frontier.high_water <= Timestamp(110 * NANOS_PER_SECOND)


def test_clients_of_feeds_that_have_ended_are_closed_at_the_second_look(
    broker: KafkaBroker, topics: Topics, monkeypatch: pytest.MonkeyPatch
) -> None:
    lives, ends = (replace(_home(broker, name), engine=Engine.SPARK) for name in ("lives", "ends"))
    workers = replace(_home(broker, "workers"), engine=Engine.WORKERS)
    _write(broker, topics, [DefinitionRecord(each) for each in (lives, ends, workers)])
    looks: list[set[FeedId]] = []
    with closing(_query_feeds(broker, topics)) as feeds:
        monkeypatch.setattr("tidegate.spark.changefeed.query_feeds._UNUSED_LOOK_S", 0.0)
        monkeypatch.setattr(
            feeds._preparation, "close_unused", lambda live: looks.append({each.id for each in live})
        )
        feeds._jobs.read()
        feeds._close_unused()
        _write(broker, topics, [DropRecord(ends.id, requested_ns=0)])
        feeds._jobs.read()
        feeds._close_unused()
        feeds._close_unused()
    assert looks == [{lives.id, ends.id}, {lives.id, ends.id}, {lives.id}]
