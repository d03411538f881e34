"""One more feed on a live load, in a cluster of its own."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

from confluent_kafka import TopicPartition

from sim.log.history import History
from tests.destinations import DESTINATIONS
from tests.e2e.live_load import LiveLoad
from tests.e2e.worker_process import WorkerProcess
from tests.unit.client.topics import wait_until_ended
from tidegate.changefeed.definition.feed import Engine, FeedState
from tidegate.changefeed.lifecycle.jobs import FeedView
from tidegate.changefeed.statement.definition import define_feed
from tidegate.client.expectations import expected_versions
from tidegate.client.feed_ids import new_feed_id
from tidegate.client.feed_topics import FeedTopics
from tidegate.client.jobs import Jobs
from tidegate.client.kafka.connection import KafkaConnection
from tidegate.client.output import OutputTopics
from tidegate.client.table_descriptors import read_catalog
from tidegate.hlc import ZERO, Timestamp, parse_decimal
from tidegate.verify import AuditOptions, AuditReport, audit


class LiveFeed:
    """A feed on both tables of ``load`` that goes to the cluster at ``sink``; the load is at ``home``."""

    def __init__(
        self, load: LiveLoad, home: str, sink: str, engine: Engine = Engine.WORKERS, begins_s: float = 240
    ) -> None:
        self._load = load
        self._home, self._sink = KafkaConnection(home, timeout_s=60), KafkaConnection(sink, timeout_s=60)
        now_ns = time.time_ns()
        statement = (
            f"CREATE CHANGEFEED FOR TABLE flights, weather INTO 'kafka://{sink}?topic_prefix={load.prefix}' "
            "WITH updated, resolved, initial_scan='no'"
        )
        definition = define_feed(statement, new_feed_id(now_ns), now_ns).definition
        self._jobs = Jobs(self._home, load.app_id, appear_s=60)
        self._jobs.create(replace(definition, engine=engine))
        feed = self._jobs.wait(definition.id, begins_s)
        assert feed.status is FeedState.RUNNING, feed
        self.id = definition.id
        self._topics = FeedTopics.of(definition.id, feed)

    @property
    def topics(self) -> FeedTopics:
        """The topics of the feed, with its options and its start."""
        return self._topics

    @property
    def view(self) -> FeedView:
        """The feed, as its records in the jobs topic tell it now."""
        return self._jobs.feed(self.id)

    @property
    def high_water(self) -> Timestamp:
        """The high-water, as it is persisted."""
        return self._jobs.feed(self.id).high_water or ZERO

    def marker(self, worker: WorkerProcess) -> Timestamp:
        """The last marker, as the worker tells it. A reader of the topics would fail while the cluster stands
        still.

        Zero while the worker has no frontier of the feed, as between two epochs.
        """
        told = [row["marker"] for row in worker.ask("/status")["feeds"] if row["feed"] == self.id]
        return parse_decimal(told[0]) if told and told[0] else ZERO

    def wait_for_the_last(self, worker: WorkerProcess) -> None:
        """Stop the writes, and wait for a marker above all of them; the store answers requests meanwhile."""
        self._load.drain()
        now = Timestamp(time.time_ns())
        worker.wait_until(lambda: self.marker(worker) >= now, f"a marker at {now}", 120)

    def finish(self, worker: WorkerProcess, history: Path, start: Timestamp | None = None) -> AuditReport:
        """Wait until markers are above everything that the ended load has written, and audit the whole
        output.

        Rows at or below ``start``, or by default at or below the feed's own start, are not expected.
        """
        versions = History.load(history)
        last = max(version.timestamp for version in versions)
        worker.wait_until(lambda: self.marker(worker) >= last, f"a marker at {last}", 120)
        targets = self._topics.targets
        places = {TopicPartition(each.topic, n) for each in targets for n in range(each.partitions)}
        wait_until_ended(self._sink.bootstrap_servers, places)  # readers see it a moment later
        report = self.audit(versions, start)
        assert report.covered >= last, str(report)
        return report

    def audit(self, versions: History, start: Timestamp | None = None) -> AuditReport:
        """Return what is there now, against the history of a store that has ended."""
        start = start or self._topics.start
        feed, topics = self._topics, OutputTopics.now(self._sink, self._topics.topics)
        expected = expected_versions(
            versions,
            read_catalog(self._home, f"{self._load.prefix}raftlog"),
            feed.options,
            {target.table_id: target.topic for target in feed.targets},
            start=start,
        )
        options = AuditOptions(start=start, initial_scan=feed.options.initial_scan)
        return audit(topics.records(), topics.counts, options, feed.decoder(DESTINATIONS), expected)
