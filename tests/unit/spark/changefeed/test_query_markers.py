"""The markers of a query's feeds: they are written at once, and no feed keeps another from its own."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from threading import Barrier
from typing import Any

import pytest
from confluent_kafka import Producer

from stack.kafka import KafkaBroker
from tests.feeds import WITH_MARKERS, activation
from tests.hand_log import HandTable
from tests.unit.client.topics import create_topic
from tidegate.changefeed.definition.feed import (
    FIRST_EPOCH,
    Engine,
    FeedDefinition,
    FeedEpoch,
    FeedId,
    FeedState,
)
from tidegate.changefeed.lifecycle.control import Activate
from tidegate.changefeed.lifecycle.job_records import (
    DefinitionRecord,
    DropRecord,
    ProgressRecord,
    StateRecord,
)
from tidegate.changefeed.lifecycle.jobs import FeedView
from tidegate.client.jobs import Jobs
from tidegate.client.kafka.connection import KafkaConnection
from tidegate.client.kafka.topics import Topics
from tidegate.client.kafka.transaction import GivenUpError
from tidegate.delivery.producer_ids import progress_id
from tidegate.errors import DeliveryError, RetryError
from tidegate.hlc import ResolvedTimestamp, Timestamp
from tidegate.processor.batch import ActiveFeed
from tidegate.processor.checkpoint import PartitionProgress
from tidegate.raftlog.entry import Offset
from tidegate.spark.changefeed.feed_markers import FeedMarkers
from tidegate.spark.changefeed.jobs_topic import JobsTopic, open_producer
from tidegate.spark.changefeed.query_markers import QueryMarkers
from tidegate.spark.changefeed.query_sinks import QuerySinks

pytestmark = pytest.mark.broker

_NAMES = ("first", "second", "third")
_MEET_S = 60
_LOOK_AGAIN_S = 0.05
_H = ResolvedTimestamp(Timestamp(1_000))


@pytest.fixture
def topics(broker: KafkaBroker, topic_prefix: str) -> Topics:
    topics = Topics(f"{topic_prefix}app", topic_prefix)
    create_topic(broker.bootstrap, topics.jobs)
    return topics


@pytest.fixture
def running(broker: KafkaBroker, topic_prefix: str) -> Sequence[Activate]:
    """Feeds whose topics exist."""
    feeds = [
        activation(
            [HandTable.of(104, "plain").descriptor],
            replace(WITH_MARKERS, topic_prefix=f"{topic_prefix}{name}-"),
            feed_id=name,
            output_partitions=1,
            sink_uri=f"kafka://{broker.bootstrap}",
        )
        for name in _NAMES
    ]
    for feed in feeds:
        create_topic(broker.bootstrap, feed.targets[0].topic)
    return feeds


@pytest.fixture
def markers(broker: KafkaBroker, topics: Topics, running: Sequence[Activate]) -> Iterator[QueryMarkers]:
    """Give the feeds' markers, which the query has begun; all of their spans have come to a timestamp."""
    connection = KafkaConnection(broker.bootstrap)
    sinks = QuerySinks(connection, 15.0)
    with closing(JobsTopic(connection, topics, sinks.admin(connection))) as jobs:
        _store(jobs, running)
        with closing(QueryMarkers(connection, topics.app_id, jobs, sinks, lambda *_: 7)) as markers:
            markers.begin([feed.feed_id for feed in running])
            markers.apply(_report(running))
            yield markers


def _store(jobs: JobsTopic, running: Sequence[Activate]) -> None:
    for feed in running:
        jobs.store(
            DefinitionRecord(replace(feed.definition, engine=Engine.SPARK)),
            StateRecord(feed.feed_id, FIRST_EPOCH, FeedState.RUNNING, Timestamp(1), feed.targets),
        )


def _report(running: Sequence[Activate]) -> PartitionProgress:
    (span,) = running[0].targets[0].spans
    active = tuple(ActiveFeed(feed.feed_id, FIRST_EPOCH) for feed in running)
    return PartitionProgress(0, Offset(1), active, [span.start], [span.end], [_H])


def _persisted(broker: KafkaBroker, topics: Topics) -> dict[FeedId, ResolvedTimestamp | None]:
    view = Jobs(KafkaConnection(broker.bootstrap), topics.app_id).view()
    return {feed_id: feed.high_water for feed_id, feed in view.feeds()}


def _names(*names: str) -> dict[FeedId, ResolvedTimestamp]:
    return dict.fromkeys(map(FeedId, names), _H)


def test_progress_and_markers_of_feeds_are_written_at_once(
    broker: KafkaBroker, topics: Topics, markers: QueryMarkers, monkeypatch: pytest.MonkeyPatch
) -> None:
    met, publish = Barrier(len(_NAMES)), FeedMarkers.publish

    def meet(self: FeedMarkers) -> ProgressRecord | None:
        met.wait(_MEET_S)  # nobody begins before all are there
        return publish(self)

    monkeypatch.setattr(FeedMarkers, "publish", meet)
    markers.publish()
    assert _persisted(broker, topics) == _names(*_NAMES)
    assert markers.written() == dict.fromkeys(map(FeedId, _NAMES), 1)


def test_a_feed_that_another_query_has_taken_keeps_no_other_from_its_markers(
    broker: KafkaBroker, topics: Topics, markers: QueryMarkers
) -> None:
    connection = KafkaConnection(broker.bootstrap)
    with closing(open_producer(connection, progress_id(topics.app_id, FeedId("first")))):
        with pytest.raises(DeliveryError):
            markers.publish()
        persisted = _persisted(broker, topics)
    assert persisted.pop(FeedId("first")) is None
    assert persisted == _names("second", "third")
    assert markers.written() == dict.fromkeys(map(FeedId, ("second", "third")), 1)


def test_a_query_that_is_fenced_ends_whatever_else_it_waits_for(
    broker: KafkaBroker, topics: Topics, markers: QueryMarkers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The feed that waits comes first. If that were raised, the batch would try again for ever."""
    publish = FeedMarkers.publish

    def away(self: FeedMarkers) -> ProgressRecord | None:
        if self._definition.id == FeedId("first"):
            raise RetryError("a broker is away")
        return publish(self)

    monkeypatch.setattr(FeedMarkers, "publish", away)
    connection = KafkaConnection(broker.bootstrap)
    with (
        closing(open_producer(connection, progress_id(topics.app_id, FeedId("second")))),
        pytest.raises(DeliveryError),
    ):
        markers.publish()


def _state(broker: KafkaBroker, topics: Topics, name: str) -> StateRecord:
    view = Jobs(KafkaConnection(broker.bootstrap), topics.app_id).view()
    state = view[FeedId(name)].current_state
    assert state is not None
    return state


def test_an_exception_that_nobody_foresaw_fails_its_feed_and_no_other(
    broker: KafkaBroker, topics: Topics, markers: QueryMarkers, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish = FeedMarkers.publish

    def odd(self: FeedMarkers) -> ProgressRecord | None:
        if self._definition.id == FeedId("first"):
            raise ArithmeticError("an odd target")
        return publish(self)

    monkeypatch.setattr(FeedMarkers, "publish", odd)
    markers.publish()
    failed = _state(broker, topics, "first")
    assert failed.state is FeedState.FAILED
    assert "ArithmeticError (test_query_markers.py" in failed.error
    assert markers.written() == dict.fromkeys(map(FeedId, ("second", "third")), 1)
    markers.begin([])
    assert set(markers.feeds()) == {FeedId("second"), FeedId("third")}


def test_a_query_that_ends_amid_its_markers_fails_no_feed(
    broker: KafkaBroker, topics: Topics, markers: QueryMarkers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever ends it waits for a broker no longer, and gives up its producers."""

    def give_up(*_: object) -> None:
        raise GivenUpError

    with monkeypatch.context() as patched:
        patched.setattr(FeedMarkers, "publish", give_up)
        with pytest.raises(GivenUpError):
            markers.publish()
    for feed_id in markers.feeds():
        markers._close(feed_id)
    monkeypatch.setattr(QueryMarkers, "_open", give_up)
    with pytest.raises(GivenUpError):
        markers.begin(list(map(FeedId, _NAMES)))
    assert {_state(broker, topics, name).state for name in _NAMES} == {FeedState.RUNNING}


class _Unacknowledged:
    """A client whose records no broker acknowledges, as if their topic had too few replicas."""

    def __init__(self, client: Producer) -> None:
        self._client = client

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    def flush(self, _: float) -> int:
        time.sleep(_LOOK_AGAIN_S)
        return 1


def test_markers_that_wait_for_a_broker_are_given_up(
    topics: Topics,
    markers: QueryMarkers,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Whoever ends the query waits for them otherwise, as long as a topic has too few replicas."""
    others = dict.fromkeys(map(FeedId, ("second", "third")), 1)
    waits = f"{progress_id(topics.app_id, FeedId('first'))} wait for the broker"
    home = markers._markers[FeedId("first")]._producers.home
    monkeypatch.setattr(home, "_producer", _Unacknowledged(home._producer))
    with ThreadPoolExecutor(1) as thread:
        publishing = thread.submit(markers.publish)
        while markers.written() != others or waits not in caplog.text:
            assert not publishing.done()
            time.sleep(_LOOK_AGAIN_S)
        markers.give_up()
        with pytest.raises(GivenUpError):
            publishing.result()
    with pytest.raises(GivenUpError):
        markers.fence(markers._markers[FeedId("second")]._definition)


@pytest.mark.parametrize("step", ["_open", "_ends"])
def test_markers_that_cannot_begin_fail_their_feed_and_no_other(
    broker: KafkaBroker,
    topics: Topics,
    markers: QueryMarkers,
    running: Sequence[Activate],
    monkeypatch: pytest.MonkeyPatch,
    step: str,
) -> None:
    for feed in running:
        markers._close(feed.feed_id)
    original = getattr(QueryMarkers, step)

    def odd(self: QueryMarkers, subject: Any, *others: Any) -> Any:
        definition = subject.definition if isinstance(subject, FeedView) else subject
        assert isinstance(definition, FeedDefinition)
        if definition.id == FeedId("first"):
            raise ArithmeticError("an odd state")
        return original(self, subject, *others)

    monkeypatch.setattr(QueryMarkers, step, odd)
    markers.begin([feed.feed_id for feed in running])
    assert set(markers.feeds()) == {FeedId("second"), FeedId("third")}
    assert _state(broker, topics, "first").state is FeedState.FAILED


def test_an_exception_fails_no_feed_that_another_engine_has_taken_over(
    broker: KafkaBroker, topics: Topics, markers: QueryMarkers, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = FeedId("first")

    def odd(self: FeedMarkers) -> ProgressRecord | None:
        if self._definition.id != first:
            return None
        moved = replace(self._definition, epoch=FeedEpoch(2), engine=Engine.WORKERS)
        started = replace(self._state, epoch=FeedEpoch(2), state=FeedState.STARTING)
        markers._jobs.store(DefinitionRecord(moved), started)
        raise ArithmeticError("an odd target")

    monkeypatch.setattr(FeedMarkers, "publish", odd)
    markers.publish()
    assert _state(broker, topics, "first").state is FeedState.STARTING


def test_feeds_for_which_the_process_has_no_room_wait_with_their_markers_and_keep_no_other_from_its_own(
    broker: KafkaBroker, topics: Topics, running: Sequence[Activate]
) -> None:
    connection = KafkaConnection(broker.bootstrap)
    sinks = QuerySinks(connection, 15.0)
    feed_ids = [feed.feed_id for feed in running]
    with closing(JobsTopic(connection, topics, sinks.admin(connection))) as jobs:
        _store(jobs, running)
        with closing(QueryMarkers(connection, topics.app_id, jobs, sinks, lambda *_: 7, most=1)) as markers:
            markers.begin(feed_ids)
            markers.apply(_report(running))
            markers.publish()
            assert _persisted(broker, topics) == _names("first") | dict.fromkeys(map(FeedId, _NAMES[1:]))
            state = jobs.view[FeedId("second")].current_state
            assert state is not None
            assert state.error.startswith(
                "its markers wait: This process has no room for another Kafka client"
            )
            jobs.store(DropRecord(FeedId("first"), 1))
            markers.begin(feed_ids)
            markers.apply(_report(running))
            markers.publish()
            assert _persisted(broker, topics)[FeedId("second")] == _H
            state = jobs.view[FeedId("second")].current_state
            assert state is not None
            assert not state.error
