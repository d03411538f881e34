"""Rows that a topic refuses fail their feed, by name; no other feed is held back, and the worker goes on."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from random import Random
from typing import Any, Final

import pytest
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourceType,
)

from stack.kafka import KafkaBroker
from tests.e2e.scenario import LONG_SESSION_MS, Scenario, bank_log
from tests.e2e.worker_process import WorkerProcess
from tests.feeds import activation
from tests.unit.client.topics import wait_until_forgotten
from tidegate.changefeed.definition.feed import FeedDefinition, FeedId, FeedState
from tidegate.changefeed.definition.options import FeedOptions, OnOversize
from tidegate.changefeed.definition.oversize import read_oversize
from tidegate.changefeed.lifecycle.jobs import FeedView
from tidegate.client.jobs import Jobs
from tidegate.client.output import OutputTopics
from tidegate.processor.batch import OutputRecord
from tidegate.spark.changefeed.row_producer import FeedRefused, RowProducer
from tidegate.worker.output.barrier import Barrier
from tidegate.worker.output.row_producer import SharedRowProducer
from tidegate.worker.process.settings import Settings

pytestmark = [pytest.mark.broker, pytest.mark.slow]

#: Half of the bank's rows have a byte more.
_SOME_ARE_LARGE: Final[Mapping[str, Any]] = {"on_oversize": OnOversize.KEY_ONLY, "max_row_bytes": 86}
#: Below every row of the bank, 84 bytes or more, and above the end of a transaction, which takes 78. A topic
#: that refuses that lets no transaction end: who stops then waits for the feed's, and gives up.
_BELOW_ANY_ROW = 80
_GONE_S = 120.0  # librdkafka looks for a topic for 30 s


class TwoFeeds:
    """The scenario's feed, and one on topics of its own that is going to be refused."""

    def __init__(self, scenario: Scenario, **more: Any) -> None:
        self.scenario = scenario
        self._more = more
        self._admin = AdminClient({"bootstrap.servers": scenario.bootstrap})

    def start(self) -> WorkerProcess:
        """A worker that is not taken for dead amid the wait for a topic."""
        # who lost its partitions amid that would have the rows scanned for, and nobody answers scans here
        return self.scenario.start_worker(instance_id="w0", session_timeout_ms=LONG_SESSION_MS)

    def create(self, worker: WorkerProcess) -> None:
        self.scenario.create_feed(worker)
        self.jobs.create(self._definition)
        feed = self.jobs.wait(FeedId("refused"), 60)
        assert feed.status is FeedState.RUNNING, feed

    @property
    def has_progress(self) -> bool:
        return self._feed.high_water is not None

    @property
    def jobs(self) -> Jobs:
        return Jobs(self.scenario.connection, self.scenario.app_id)

    @property
    def _definition(self) -> FeedDefinition:
        prefix = f"{self.scenario.prefix}r-"
        options = FeedOptions(updated=True, resolved_interval_ns=0, topic_prefix=prefix, **self._more)
        return activation(
            self.scenario.log.tables,
            options,
            feed_id="refused",
            sink_uri=f"kafka://{self.scenario.bootstrap}",
        ).definition

    @property
    def topic(self) -> str:
        return f"{self.scenario.prefix}r-accounts"

    def limit_records(self, max_bytes: int) -> None:
        """Let the broker refuse larger batches on the topic."""
        entry = ConfigEntry("max.message.bytes", str(max_bytes), incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(ResourceType.TOPIC, self.topic, incremental_configs=[entry])
        self._admin.incremental_alter_configs([resource])[resource].result(30)

    def delete_topic(self) -> None:
        self._admin.delete_topics([self.topic])[self.topic].result(30)
        wait_until_forgotten(self._admin, self.topic)  # it takes rows and markers until then

    def lose_topic_between_workers(self, worker: WorkerProcess) -> WorkerProcess:
        """Kill the worker, delete the topic, and start the next worker."""
        worker.kill()
        self.delete_topic()
        return self.start()

    def fails(self, worker: WorkerProcess, why: str) -> FeedView:
        """Wait until the feed has failed for this reason, and the other one is complete."""
        worker.wait_until(lambda: self._feed.status is FeedState.FAILED, "the feed to fail", _GONE_S)
        assert re.search(why, self._feed.current_state.error), self._feed  # type: ignore[union-attr]
        self.scenario.wait_until_covered(worker)
        return self._feed

    @property
    def _feed(self) -> FeedView:
        return self.jobs.feed(FeedId("refused"))


@pytest.fixture
def others(broker: KafkaBroker, topic_prefix: str, tmp_path: Path) -> Iterator[list[Scenario]]:
    """The scenarios of two other applications."""
    log = bank_log(seed=7, transactions=200)
    made = [Scenario(broker.bootstrap, f"{topic_prefix}{name}-", tmp_path / name, log) for name in ("b", "c")]
    yield made
    for each in made:
        each.close()


def test_a_row_that_the_broker_refuses_fails_its_feed_and_no_other(scenario: Scenario) -> None:
    feeds = TwoFeeds(scenario)
    worker = scenario.start_worker(instance_id="w0")
    feeds.create(worker)
    feeds.limit_records(_BELOW_ANY_ROW)
    scenario.append()
    feeds.fails(
        worker, rf"a row of \d+ bytes for {feeds.topic} partition \d, key [0-9a-f]+, .*max.message.bytes"
    )
    assert worker.stop() == 0, worker.text


def test_a_limit_that_is_lowered_later_fails_a_feed_that_leaves_large_rows_out(scenario: Scenario) -> None:
    feeds = TwoFeeds(scenario, **_SOME_ARE_LARGE)
    worker = scenario.start_worker(instance_id="w0")
    feeds.create(worker)
    feeds.limit_records(_BELOW_ANY_ROW)
    scenario.append()
    feeds.fails(worker, r"with on_oversize='key_only' whose max_row_bytes is 1000 below that limit")
    assert worker.stop() == 0, worker.text


def test_rows_that_are_too_large_are_left_out_alike_by_whoever_repeats_them(scenario: Scenario) -> None:
    scenario.more_options = _SOME_ARE_LARGE
    worker = scenario.start_worker(instance_id="w0")
    scenario.create_feed(worker)
    scenario.append(100)
    worker.wait_until(lambda: any(OutputTopics.now(scenario.output, [scenario.topic]).records()), "a row")
    worker.kill()
    successor = scenario.start_worker(instance_id="w0")
    scenario.append()
    report = scenario.wait_until_covered(successor)
    rows = [each for each in OutputTopics.now(scenario.output, [scenario.topic]).records() if each.key]
    left_out = [row for row in rows if read_oversize(row.headers) is not None]
    assert 0 < len(left_out) < len(rows) == report.counts.rows
    assert all(row.value == b"" for row in left_out)
    assert all(row.value for row in rows if row not in left_out)
    assert successor.stop() == 0, successor.text


@pytest.mark.timeout(400)
def test_topics_that_are_deleted_fail_their_feeds_with_the_next_row_or_marker_and_no_other(
    scenario: Scenario, others: list[Scenario]
) -> None:
    """Three applications wait side by side until their producers give the topics up.

    One loses the topic while its worker runs, and two while no worker does: of these one has rows to write,
    and the other nothing but a marker.
    """
    amid, with_rows, without = apart = [TwoFeeds(each) for each in (scenario, *others)]
    workers = [feeds.start() for feeds in apart]
    for feeds, worker in zip(apart, workers, strict=True):
        feeds.create(worker)
    without.scenario.append()
    for feeds in (amid, with_rows):
        feeds.scenario.append(40)
    amid.delete_topic()
    amid.scenario.append()
    without.scenario.wait_until_covered(workers[2])
    workers[2].wait_until(lambda: without.has_progress, "the feed's progress")
    workers[1] = with_rows.lose_topic_between_workers(workers[1])
    workers[2] = without.lose_topic_between_workers(workers[2])  # it repeats the last marker before all else
    with_rows.scenario.append()
    for feeds, worker in zip(apart, workers, strict=True):
        feeds.fails(worker, f"the topic {feeds.topic} has had no partition")
    amid.jobs.drop(FeedId("refused"))
    for worker in workers:
        assert worker.stop() == 0, worker.text


def test_a_row_above_the_limit_is_not_even_sent(broker: KafkaBroker, topic_prefix: str) -> None:
    async def send() -> Barrier:
        barrier = Barrier(1, asyncio.get_running_loop())
        assert sink.send(rows, barrier) == 0
        return barrier

    sink = SharedRowProducer(Settings(bootstrap_servers=broker.bootstrap, max_record_bytes=10_000))
    rows = [OutputRecord(f"{topic_prefix}t", 1, b"\x12\x34", b"v" * 20_000, 0, [])]
    try:
        assert re.search(
            r"of 20002 bytes for .*t partition 1, key 1234, is above", str(asyncio.run(send()).refusal)
        )
    finally:
        sink.close()


def test_a_row_that_the_broker_refuses_is_refused_where_the_address_may_come_to_mean_another_cluster(
    broker: KafkaBroker, topic_prefix: str
) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    topic = f"{topic_prefix}small"
    for made in admin.create_topics([NewTopic(topic, 1, 1, config={"max.message.bytes": "1000"})]).values():
        made.result(30)
    cluster = str(admin.list_topics(topic, timeout=30).cluster_id)

    sink = SharedRowProducer(Settings(bootstrap_servers=broker.bootstrap), watched=True)
    rows = [OutputRecord(topic, 0, b"k", Random(0).randbytes(5_000), 0, [])]  # no compression makes it small
    ends_at = time.monotonic() + 60
    with closing(asyncio.new_event_loop()) as loop, closing(sink):
        barrier = Barrier(1, loop)
        while not sink.is_over and time.monotonic() < ends_at:
            if not sink.pending() and barrier.refusal is None:
                sink.send_to(cluster, rows, barrier)
            time.sleep(0.05)
        assert "above the topic's max.message.bytes" in str(barrier.refusal)


def test_a_task_of_spark_names_the_feed_of_the_row_that_the_broker_refuses(
    broker: KafkaBroker, topic_prefix: str
) -> None:
    topics = [f"{topic_prefix}small", f"{topic_prefix}large"]
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    configs = [{}, {"max.message.bytes": "1000"}]
    new = [NewTopic(topic, 1, 1, config=config) for topic, config in zip(topics, configs, strict=True)]
    for made in admin.create_topics(new).values():
        made.result(30)
    producer = RowProducer({"bootstrap.servers": broker.bootstrap})
    producer.send(FeedId("small"), [OutputRecord(topics[0], 0, b"k", b"v", 0, [])])
    producer.send(FeedId("large"), [OutputRecord(topics[1], 0, b"k", b"v" * 5_000, 0, [])])
    with pytest.raises(FeedRefused, match=rf"a row of 5001 bytes for {topics[1]} .*max.message") as told:
        producer.acknowledge()
    assert told.value.feed_id == "large"
