"""Feeds of one worker on two Kafka clusters: its own, and another that may be away."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace

import pytest
from confluent_kafka.admin import AdminClient

from stack.kafka import KafkaBroker
from tests.e2e.scenario import OUTPUT_PARTITIONS, Scenario
from tests.e2e.worker_process import WorkerProcess
from tests.feeds import activation
from tests.hand_log import HandTable
from tests.shared_broker import PATIENT
from tests.unit.cli.running import run
from tests.unit.client.topics import create_topic
from tidegate.changefeed.definition.feed import FeedDefinition, FeedId, FeedState
from tidegate.changefeed.definition.options import FeedOptions
from tidegate.changefeed.lifecycle.job_records import StateRecord
from tidegate.changefeed.lifecycle.jobs import FeedView
from tidegate.client.jobs import Jobs
from tidegate.client.kafka.cluster import Cluster
from tidegate.client.kafka.connection import KafkaConnection
from tidegate.client.kafka.topic_admin import TopicAdmin, TopicSpec
from tidegate.client.kafka.transaction import Record
from tidegate.client.output import OutputTopics
from tidegate.delivery.producer_ids import MarkerIds
from tidegate.errors import DeliveryError, RetryError
from tidegate.verify import TopicRecord, Verdict
from tidegate.worker.kafka.topology import WorkerTopicAdmin as WorkersAdmin
from tidegate.worker.kafka.transaction import WorkerTransactionalProducer
from tidegate.worker.markers.marker_writer import OtherMarkers
from tidegate.worker.output.worker_sinks import WorkerSinks
from tidegate.worker.process.machine import REAL
from tidegate.worker.process.settings import Settings

pytestmark = [pytest.mark.broker, pytest.mark.slow, pytest.mark.usefixtures("others_allowed")]


@pytest.fixture
def other() -> Iterator[KafkaBroker]:
    """The other cluster. It is not started yet, and its address is known."""
    broker = KafkaBroker(settings=PATIENT)
    yield broker
    broker.close()


class TwoClusters:
    """The scenario's feed at home, and one on the other cluster; their topics have the same name."""

    def __init__(self, scenario: Scenario, other: KafkaBroker) -> None:
        self.scenario = scenario
        self.other = other
        self.there = KafkaConnection(other.bootstrap, timeout_s=60)
        self.jobs = Jobs(scenario.connection, scenario.app_id)

    def define(self, feed_id: str = "away", resolved_topic: str = "") -> FeedDefinition:
        chosen = FeedOptions(updated=True, resolved_interval_ns=0, topic_prefix=self.scenario.prefix)
        return activation(
            self.scenario.log.tables,
            replace(chosen, resolved_topic=resolved_topic),
            feed_id=feed_id,
            sink_uri=f"kafka://{self.other.bootstrap}",
        ).definition

    def create(self, resolved_topic: str = "") -> FeedView:
        self.jobs.create(self.define(resolved_topic=resolved_topic))
        feed = self.jobs.wait(FeedId("away"), 60)
        assert feed.status is FeedState.RUNNING, feed
        return feed

    @property
    def kafka(self) -> tuple[str, ...]:
        """The options that commands are given."""
        return ("-b", self.scenario.bootstrap, "--app-id", self.scenario.app_id)

    def said(self) -> str:
        """Return what the state of the feed says."""
        state = self.jobs.feed(FeedId("away")).current_state
        return "" if state is None else state.error

    def audit_both(self, worker: WorkerProcess) -> None:
        """Wait until all of the log is covered in each cluster, and audit what is there."""
        for name, connection in (("bank", self.scenario.connection), ("away", self.there)):
            feed = self.jobs.feed(FeedId(name))
            self.scenario.follow(feed, self.scenario.topic, connection)
            self.scenario.wait_until_covered(worker)


def half(scenario: Scenario) -> int:
    return max(map(len, scenario.log.partitions)) // 2


def test_two_feeds_on_two_clusters_have_their_rows_and_markers_there(
    scenario: Scenario, other: KafkaBroker
) -> None:
    other.start()
    worker = scenario.start_worker()
    home = scenario.create_feed(worker)
    clusters = TwoClusters(scenario, other)
    away = clusters.create()
    assert home.current_state is not None
    assert away.current_state is not None
    assert (home.current_state.sink_cluster, bool(away.current_state.sink_cluster)) == ("", True)
    second = clusters.define("second")
    clusters.jobs.create(second)
    refused = clusters.jobs.wait(second.id, 60)
    assert "feed away writes to the topic" in (refused.state.error if refused.state else "")
    scenario.append()
    clusters.audit_both(worker)
    kafka = ("-b", scenario.bootstrap, "--app-id", scenario.app_id)
    for name in ("bank", "away"):
        verified = run("verify", "--feed", name, *kafka)
        assert verified.exit_code == 0, verified.stdout + verified.stderr
    shown = run("tail", "--feed", "away", *kafka).stdout.splitlines()
    assert len(shown) == len(list(OutputTopics.now(clusters.there, [scenario.topic]).records()))
    sinks = {sink["sink"]: sink["pending_rows"] for sink in worker.ask("/status")["sinks"]}
    assert sinks == {scenario.bootstrap: 0, other.bootstrap: 0}
    assert worker.stop() == 0, worker.text


def test_a_worker_that_is_given_another_address_of_its_cluster_goes_on_with_its_feeds(
    scenario: Scenario,
) -> None:
    first = scenario.start_worker()
    scenario.create_feed(first)
    scenario.append(half(scenario))
    assert first.stop() == 0, first.text
    renamed = f"127.1:{scenario.bootstrap.rpartition(':')[2]}"
    worker = scenario.start_worker(bootstrap_servers=renamed)
    scenario.append()
    scenario.wait_until_covered(worker)
    (sink,) = worker.ask("/status")["sinks"]
    assert sink == {"sink": renamed, "pending_rows": 0}
    third = replace(scenario_feed(scenario), id=FeedId("third"))
    jobs = Jobs(scenario.connection, scenario.app_id)
    jobs.create(third)
    feed = jobs.wait(third.id, 60)
    assert feed.current_state is not None
    assert (feed.status, feed.current_state.sink_cluster) == (FeedState.RUNNING, ""), feed
    assert worker.stop() == 0, worker.text


@pytest.mark.soak
def test_markers_on_a_topic_of_their_own_name_the_ends_of_the_sinks_topics(
    scenario: Scenario, other: KafkaBroker
) -> None:
    other.start()
    worker = scenario.start_worker()
    scenario.create_feed(worker)
    clusters = TwoClusters(scenario, other)
    markers = f"{scenario.prefix}markers"
    feed = clusters.create(resolved_topic=markers)
    assert Cluster(clusters.there).partition_counts([markers]) == {markers: OUTPUT_PARTITIONS}
    scenario.append()
    scenario.wait_until_covered(worker)
    last = scenario.end().decimal()
    kafka = ("-b", scenario.bootstrap, "--app-id", scenario.app_id)
    worker.wait_until(
        lambda: f"complete up to {last}" in run("verify", "--feed", "away", *kafka).stdout,
        "the markers of the other cluster",
    )
    assert run("verify", "--feed", "away", *kafka).exit_code == 0, feed


def test_a_feed_whose_sink_comes_to_mean_another_cluster_is_held_until_its_own_is_back(
    scenario: Scenario, other: KafkaBroker
) -> None:
    """That it catches up then needs a store that answers scans: the simulation has one."""
    other.start()
    worker = scenario.start_worker()
    home = scenario.create_feed(worker)
    clusters = TwoClusters(scenario, other)
    away = clusters.create()
    assert away.current_state is not None
    stored = away.current_state.sink_cluster
    scenario.append(half(scenario))
    other.stop()
    with KafkaBroker(port=int(other.bootstrap.rpartition(":")[2]), settings=PATIENT) as stranger:
        admin = TopicAdmin(AdminClient({"bootstrap.servers": stranger.bootstrap}), stranger.bootstrap, 1)
        found = admin.cluster_id()
        admin.create_unless_there(TopicSpec(scenario.topic, OUTPUT_PARTITIONS, {}))
        scenario.append()
        worker.wait_until(
            lambda: all(each in clusters.said() for each in (stored, found)), "the sentence with both ids"
        )
        assert f"the cluster {found} now" in run("why", "away", *clusters.kafka).stdout
        assert worker.stop() == 0, worker.text
        worker = scenario.start_worker()  # which finds the stranger there
        scenario.follow(home, scenario.topic)
        scenario.wait_until_covered(worker)
        worker.wait_until(lambda: "is held" in worker.text, "its markers to be held")
        keys = [record.key for record in OutputTopics.now(clusters.there, [scenario.topic]).records()]
        assert None not in keys, "a marker is there"
    other.start()
    worker.wait_until(lambda: not clusters.said(), "the sentence to be taken back")
    scenario.follow(away, scenario.topic, clusters.there)
    assert scenario.audit().verdict is not Verdict.VIOLATED
    assert worker.stop() == 0, worker.text


def test_a_marker_that_waits_for_its_cluster_is_not_written_on_another(
    other: KafkaBroker, topic_prefix: str
) -> None:
    """It is refused there; what is refused has to be aborted, and a repetition would succeed."""
    topic = f"{topic_prefix}rows"
    other.start()
    create_topic(other.bootstrap, topic)
    worker = Settings(bootstrap_servers=other.bootstrap)
    producer = WorkerTransactionalProducer(worker, f"{topic_prefix}feed")
    producer.open()
    producer.commit_once([Record(topic, 0, None, b"at home")])
    other.stop()
    with ThreadPoolExecutor(1) as thread:
        marker = thread.submit(producer.commit_once, [Record(topic, 0, None, b"elsewhere")])
        with KafkaBroker(port=int(other.bootstrap.rpartition(":")[2]), settings=PATIENT) as stranger:
            create_topic(stranger.bootstrap, topic)
            with pytest.raises(DeliveryError, match="was not committed"):
                marker.result(60)
            assert not list(
                OutputTopics.now(KafkaConnection(stranger.bootstrap, timeout_s=60), [topic]).records()
            )


class MarkersThere:
    """The markers of a worker's feed on the cluster that is at the sink's address now."""

    def __init__(self, sink: str, topic: str, app_id: str, threads: ThreadPoolExecutor) -> None:
        self.topic = topic
        settings = Settings(app_id=app_id)
        feed = activation([HandTable.of(104, "plain").descriptor], sink_uri=f"kafka://{sink}")
        cluster = WorkerSinks(settings, WorkersAdmin(settings), threads).of(feed.definition)
        target = replace(feed.targets[0], topic=topic)
        state = StateRecord(
            feed.feed_id,
            feed.definition.epoch,
            FeedState.RUNNING,
            feed.start,
            (target,),
            sink_cluster=cluster.admin.cluster_id(),
        )
        self._writer = OtherMarkers(
            cluster, MarkerIds.of(app_id, feed.feed_id, state.sink_cluster), REAL, state
        )

    async def open(self) -> None:
        await self._writer.open()

    async def write(self, marker: bytes) -> None:
        await self._writer.write([Record(self.topic, 0, None, marker)])

    async def close(self) -> None:
        self._writer.give_up()
        await self._writer.close()


def test_a_cluster_that_the_feed_was_on_before_takes_no_marker_that_waits_for_another(
    other: KafkaBroker, topic_prefix: str
) -> None:
    """Both are young, and have given the same producer id and epoch."""
    topic = f"{topic_prefix}rows"

    async def scenario(threads: ThreadPoolExecutor, former: KafkaBroker) -> None:
        for cluster in (former, other):
            cluster.start()
            create_topic(cluster.bootstrap, topic)
            markers = MarkersThere(cluster.bootstrap, topic, f"{topic_prefix}app", threads)
            await markers.open()
            await markers.write(b"told")
            cluster.stop()
            if cluster is former:
                await markers.close()
        waits = asyncio.create_task(markers.write(b"waits"))
        await asyncio.sleep(0)  # it is handed to its thread
        former.start()
        with pytest.raises(RetryError):
            await asyncio.wait_for(waits, 60)
        await markers.close()
        # A coordinator that begins again completes the transaction of the first marker a moment later.
        records = list[TopicRecord]()
        while not records:
            records = [*OutputTopics.now(KafkaConnection(former.bootstrap, timeout_s=60), [topic]).records()]
        assert [record.value for record in records] == [b"told"]

    port = int(other.bootstrap.rpartition(":")[2])
    with ThreadPoolExecutor(4) as threads, closing(KafkaBroker(port=port, settings=PATIENT)) as former:
        asyncio.run(scenario(threads, former))


@pytest.mark.soak
def test_a_sink_that_goes_away_loses_nothing_and_the_worker_lives(
    scenario: Scenario, other: KafkaBroker
) -> None:
    other.start()
    worker = scenario.start_worker()
    scenario.create_feed(worker)
    clusters = TwoClusters(scenario, other)
    clusters.create()
    scenario.append(half(scenario))
    other.stop()
    scenario.append()
    worker.wait_until(
        lambda: any(sink["pending_rows"] for sink in worker.ask("/status")["sinks"]), "rows that wait"
    )
    assert worker.running, worker.text
    worker.kill()
    successor = scenario.start_worker()
    successor.wait_for("partitions assigned")
    successor.wait_until(
        lambda: any(sink["pending_rows"] for sink in successor.ask("/status")["sinks"]), "the rows again"
    )
    other.start()
    clusters.audit_both(successor)
    assert successor.stop() == 0, successor.text


def test_a_feed_without_its_sink_is_pending_with_a_sentence_and_holds_nobody(
    scenario: Scenario, other: KafkaBroker
) -> None:
    worker = scenario.start_worker()
    scenario.create_feed(worker)
    clusters = TwoClusters(scenario, other)
    clusters.jobs.create(clusters.define())

    def said() -> str:
        state = clusters.jobs.feed(FeedId("away")).state
        return "" if state is None else state.error

    sentence = f"waiting for its sink, the Kafka cluster at {other.bootstrap}."
    worker.wait_until(lambda: sentence in said() and "Asked again" in said(), "the feed's sentence")
    scenario.append(half(scenario))
    third = replace(scenario_feed(scenario), id=FeedId("third"))
    clusters.jobs.create(third)
    assert clusters.jobs.wait(third.id, 60).status is FeedState.RUNNING, "nobody is held"
    other.start()
    assert clusters.jobs.wait(FeedId("away"), 60).status is FeedState.RUNNING
    scenario.append()
    clusters.audit_both(worker)


def scenario_feed(scenario: Scenario) -> FeedDefinition:
    """One more feed at home, on topics of its own."""
    options = FeedOptions(updated=True, resolved_interval_ns=0, topic_prefix=f"{scenario.prefix}third-")
    return activation(scenario.log.tables, options, sink_uri=f"kafka://{scenario.bootstrap}").definition


@pytest.mark.soak
@pytest.mark.parametrize("point", ["before-the-marker", "in-an-open-marker"])
def test_crash_between_progress_and_a_marker_on_the_other_cluster(
    scenario: Scenario, other: KafkaBroker, point: str
) -> None:
    other.start()
    with scenario.start_worker() as first:
        scenario.create_feed(first)
        clusters = TwoClusters(scenario, other)
        clusters.create()
        first.stop()
    scenario.append()
    crashing = scenario.start_worker(arguments=("-m", "tests.e2e.crashing_worker", point, "2"))
    crashing.wait(120)
    clusters.audit_both(scenario.start_worker())
