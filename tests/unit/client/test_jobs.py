"""Feeds on the jobs topic of a real broker; the test plays the worker."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from stack.kafka import KafkaBroker
from tests.unit.client.feeds import ID, definition, failed, progress, running, succeeded, tell
from tests.unit.client.topics import create_topic
from tidegate.changefeed.definition.feed import FIRST_EPOCH, Engine, FeedEpoch, FeedId, FeedState
from tidegate.changefeed.definition.options import OnOversize
from tidegate.changefeed.lifecycle.job_records import StateRecord
from tidegate.changefeed.lifecycle.jobs import FeedView
from tidegate.client.jobs import FeedWatch, Jobs, JobsReading, jobs_topic
from tidegate.client.kafka.connection import KafkaConnection
from tidegate.client.kafka.reader import PartitionReader
from tidegate.errors import InputError, RetryError
from tidegate.verify import TopicPartition

pytestmark = pytest.mark.broker


@pytest.fixture
def app_id(broker: KafkaBroker, topic_prefix: str) -> str:
    create_topic(broker.bootstrap, jobs_topic(topic_prefix), cleanup_policy="compact")
    return topic_prefix


@pytest.fixture
def jobs(broker: KafkaBroker, app_id: str) -> Jobs:
    return Jobs(KafkaConnection(broker.bootstrap), app_id)


def test_a_created_feed_is_pending_until_a_worker_takes_it_up(jobs: Jobs) -> None:
    jobs.create(definition())
    feed = jobs.feed(ID)
    assert (feed.definition, feed.status) == (definition(), FeedState.PENDING)


def test_the_view_folds_what_workers_wrote(broker: KafkaBroker, app_id: str, jobs: Jobs) -> None:
    jobs.create(definition())
    tell(broker.bootstrap, app_id, running(), progress())
    feed = jobs.feed(ID)
    assert (feed.status, feed.high_water) == (FeedState.RUNNING, progress().high_water)


def test_an_application_without_feeds_has_none(jobs: Jobs) -> None:
    assert list(jobs.view().feeds()) == []


def test_waiting_ends_when_the_feed_runs(broker: KafkaBroker, app_id: str, jobs: Jobs) -> None:
    jobs.create(definition())
    worker = threading.Timer(0.5, tell, [broker.bootstrap, app_id, running()])
    worker.start()
    assert jobs.wait(ID, 60).status is FeedState.RUNNING
    worker.join()


def test_waiting_ends_when_the_feed_fails(broker: KafkaBroker, app_id: str, jobs: Jobs) -> None:
    jobs.create(definition())
    tell(broker.bootstrap, app_id, running(), failed("log partition 3: no such table"))
    state = jobs.wait(ID, 60).current_state
    assert state is not None
    assert state.error == "log partition 3: no such table"


def test_waiting_ends_when_the_feed_has_succeeded(broker: KafkaBroker, app_id: str, jobs: Jobs) -> None:
    jobs.create(definition(initial_scan="only"))
    tell(broker.bootstrap, app_id, succeeded())
    assert jobs.wait(ID, 60).status is FeedState.SUCCEEDED


def test_waiting_for_no_worker_ends_in_a_sentence(jobs: Jobs) -> None:
    jobs.create(definition())
    with pytest.raises(RetryError, match=f"Feed {ID} is still pending after 0.5 s"):
        jobs.wait(ID, 0.5)


def test_waiting_tells_what_the_feed_waits_for(broker: KafkaBroker, app_id: str, jobs: Jobs) -> None:
    jobs.create(definition())
    cause = "waiting for its schema registry: connection refused. Asked again in 4 s."
    tell(broker.bootstrap, app_id, StateRecord(ID, FIRST_EPOCH, FeedState.PENDING, error=cause))
    with pytest.raises(RetryError, match=f"still pending after 0.5 s; {cause}"):
        jobs.wait(ID, 0.5)


def test_a_dropped_feed_is_shown_as_dropped_at_once(broker: KafkaBroker, app_id: str, jobs: Jobs) -> None:
    jobs.create(definition())
    tell(broker.bootstrap, app_id, running())
    jobs.drop(ID)
    assert jobs.feed(ID).status is FeedState.DROPPED


def test_a_feed_is_moved_by_a_new_epoch(broker: KafkaBroker, app_id: str, jobs: Jobs) -> None:
    jobs.create(definition())
    tell(broker.bootstrap, app_id, running(), progress())
    jobs.move(ID, Engine.SPARK)
    moved = jobs.feed(ID)
    assert moved.defined == replace(definition(), epoch=FeedEpoch(2), engine=Engine.SPARK)
    assert moved.status is FeedState.PENDING
    jobs.move(ID, Engine.WORKERS)  # nobody has taken it over yet
    assert jobs.feed(ID).defined == replace(definition(), epoch=FeedEpoch(3))


@pytest.mark.parametrize(
    ("state", "sentence"),
    [
        (None, "has not begun yet, so nothing of it can be moved"),
        (failed("no such table"), "has failed: there is nothing to move"),
        (succeeded(), "has succeeded: there is nothing to move"),
        (running(), "runs on workers already"),
        (replace(running(), state=FeedState.STARTING), "is starting, and log partitions are held"),
    ],
)
def test_what_cannot_be_moved_is_refused(
    broker: KafkaBroker, app_id: str, jobs: Jobs, state: StateRecord | None, sentence: str
) -> None:
    jobs.create(definition())
    if state is not None:
        tell(broker.bootstrap, app_id, state)
    engine = Engine.WORKERS if state == running() else Engine.SPARK
    with pytest.raises(InputError, match=sentence):
        jobs.move(ID, engine)
    assert jobs.feed(ID).epoch == FIRST_EPOCH


def test_a_feed_that_is_starting_on_spark_is_not_moved_either(
    broker: KafkaBroker, app_id: str, jobs: Jobs
) -> None:
    """Its partitions would be held for a start that nobody tells them."""
    jobs.create(replace(definition(), engine=Engine.SPARK))
    tell(broker.bootstrap, app_id, replace(running(), state=FeedState.STARTING))
    with pytest.raises(InputError, match="is starting, and log partitions are held"):
        jobs.move(ID, Engine.WORKERS)


def test_an_engine_that_cannot_take_its_rows_is_asked_for_no_feed(
    broker: KafkaBroker, app_id: str, jobs: Jobs
) -> None:
    """Its first row above the limit would end the feed for good."""
    made = definition()
    large = replace(made.options, on_oversize=OnOversize.KEY_ONLY, max_row_bytes=5_000_000)
    made = replace(made, options=large)
    sentence = "above what the producers of a Spark query take, 1000000: run the feed on workers"
    for engine in (Engine.SPARK, Engine.BACKFILL):
        with pytest.raises(InputError, match=f"Nothing was created: .*{sentence}"):
            jobs.create(replace(made, engine=engine))
    jobs.create(made)
    tell(broker.bootstrap, app_id, running(), progress())
    with pytest.raises(InputError, match=f"Feed {ID} cannot continue on spark: .*{sentence}"):
        jobs.move(ID, Engine.SPARK)
    assert jobs.feed(ID).epoch == FIRST_EPOCH


def test_of_two_who_move_a_feed_at_a_time_one_is_too_late(
    broker: KafkaBroker, app_id: str, jobs: Jobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other one comes between the reading of the feed and the writing of its next epoch."""
    jobs.create(definition())
    tell(broker.bootstrap, app_id, running(), progress())
    read = Jobs.feed
    other = Jobs(KafkaConnection(broker.bootstrap), app_id)
    faster: Iterator[Callable[[], object]] = iter([int, lambda: other.move(ID, Engine.SPARK)])

    def read_and_dawdle(self: Jobs, feed_id: FeedId) -> FeedView:
        feed = read(self, feed_id)
        next(faster, int)()
        return feed

    monkeypatch.setattr(Jobs, "feed", read_and_dawdle)
    with pytest.raises(InputError, match="Somebody else moves feed"):
        jobs.move(ID, Engine.SPARK)
    assert read(jobs, ID).epoch == FeedEpoch(2)


def test_a_watch_says_nothing_amid_the_history(broker: KafkaBroker, app_id: str, jobs: Jobs) -> None:
    """Long ago the feed was dropped; since then others were at work, and it was created anew."""
    jobs.create(definition())
    tell(broker.bootstrap, app_id, replace(running(), state=FeedState.DROPPED))
    tell(broker.bootstrap, app_id, *[progress(FeedId("0other"))] * 2_500)
    again = FeedEpoch(FIRST_EPOCH + 1)
    jobs.create(replace(definition(), epoch=again))
    tell(broker.bootstrap, app_id, replace(running(), epoch=again))
    with jobs.watch(ID) as feed:
        while (seen := feed.look()) is None:
            pass
    assert seen.status is FeedState.RUNNING


class Busy(PartitionReader):
    """Reads a topic on which records come so fast that it is never seen at its end."""

    @property
    def at_end(self) -> bool:
        return False


def test_a_watch_need_not_see_the_end_of_a_busy_topic(broker: KafkaBroker, app_id: str, jobs: Jobs) -> None:
    jobs.create(definition())
    tell(broker.bootstrap, app_id, running())
    with Busy(KafkaConnection(broker.bootstrap), {TopicPartition(jobs_topic(app_id), 0): 0}) as reader:
        feed = FeedWatch(JobsReading(reader, end=2), ID)
        while (seen := feed.look()) is None:
            pass
    assert seen.status is FeedState.RUNNING


def test_a_watch_sees_what_comes(broker: KafkaBroker, app_id: str, jobs: Jobs) -> None:
    with jobs.watch(ID) as feed:
        while (seen := feed.look()) is None:
            pass
        assert seen == FeedView()
        jobs.create(definition())
        tell(broker.bootstrap, app_id, running())
        while (seen := feed.look()) is None or seen.status is not FeedState.RUNNING:
            pass


def test_an_unknown_feed_cannot_be_dropped(jobs: Jobs) -> None:
    with pytest.raises(InputError, match="There is no feed 0other"):
        jobs.drop(FeedId("0other"))


def test_a_first_worker_is_waited_for_when_that_is_asked(broker: KafkaBroker, topic_prefix: str) -> None:
    waits: list[str] = []
    worker = threading.Thread(
        target=create_topic,
        args=[broker.bootstrap, jobs_topic(topic_prefix)],
        kwargs={"cleanup_policy": "compact"},
    )

    def begin_worker() -> None:
        waits.append("once")
        worker.start()

    connection = KafkaConnection(broker.bootstrap)
    jobs = Jobs(connection, topic_prefix, appear_s=120, waits=begin_worker)
    worker.join()
    jobs.create(definition())
    assert jobs.feed(ID).status is FeedState.PENDING
    assert waits == ["once"]


def test_nothing_is_said_where_a_worker_has_been(broker: KafkaBroker, app_id: str) -> None:
    waits: list[str] = []
    Jobs(KafkaConnection(broker.bootstrap), app_id, appear_s=20, waits=lambda: waits.append("once"))
    assert waits == []


def test_an_application_that_never_ran_is_named(broker: KafkaBroker, topic_prefix: str) -> None:
    with pytest.raises(InputError, match=f"has no topic {topic_prefix}-jobs. The first worker"):
        Jobs(KafkaConnection(broker.bootstrap), topic_prefix)
