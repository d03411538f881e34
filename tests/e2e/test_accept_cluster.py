"""A sink's address comes to mean another cluster for good, and its feed goes on there."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from stack.kafka import KafkaBroker
from tests.e2e.live_feed import LiveFeed
from tests.e2e.live_load import LiveLoad, live_load
from tests.e2e.worker_process import WorkerProcess
from tests.shared_broker import PATIENT
from tests.unit.cli.running import run
from tests.unit.client.topics import create_topic, write
from tidegate.changefeed.definition.feed import FeedState
from tidegate.client.kafka.connection import KafkaConnection
from tidegate.client.kafka.topic_admin import open_admin
from tidegate.client.output import OutputTopics
from tidegate.hlc import Timestamp
from tidegate.verify import TopicRecord, Verdict, ViolationKind

pytestmark = [pytest.mark.broker, pytest.mark.slow, pytest.mark.usefixtures("others_allowed")]

_MOVES = {"split_every_ms": 1_500, "merge_every_ms": 1_500}


class FailOver:
    """A feed of ``load`` whose sink's address means the cluster ``there`` now."""

    def __init__(
        self, load: LiveLoad, home: KafkaBroker, feed: LiveFeed, there: KafkaBroker, worker: WorkerProcess
    ) -> None:
        self.load = load
        self.feed = feed
        self.worker = worker
        self.there = there
        connection = KafkaConnection(there.bootstrap, timeout_s=60)
        self.cluster = open_admin(connection, 30).cluster_id()
        self._arguments = (str(feed.id), "-b", home.bootstrap, "--app-id", load.app_id)

    def accept(self, *arguments: str) -> str:
        """Return what the command has to say; it succeeds."""
        done = run("feed", "accept-cluster", *self._arguments, *arguments)
        assert done.exit_code == 0, done.stdout + done.stderr
        return done.stdout + done.stderr

    def refusal(self, *arguments: str) -> str:
        """Return what it is refused with."""
        done = run("feed", "accept-cluster", *self._arguments, *arguments)
        assert done.exit_code == 1, done.stdout + done.stderr
        return done.stderr

    @property
    def begin(self) -> Timestamp:
        """The timestamp above which everything is written there."""
        taken = self.feed.view.takeover
        assert taken is not None
        assert taken.high_water is not None
        return taken.high_water

    def said(self) -> str:
        """Return what the state of the feed says."""
        state = self.feed.view.current_state
        return "" if state is None else state.error


@contextmanager
def fail_over(
    load: LiveLoad, home: KafkaBroker, worker: WorkerProcess, *, mirrors: bool
) -> Iterator[FailOver]:
    """The sink of a feed that runs goes away for good, and another cluster is at its address, which has
    copies of the topics or nothing; the feed is held.

    Where it has copies no row is on its way at that moment: it would stand there before earlier versions.
    """
    former = KafkaBroker(settings=PATIENT)
    former.start()
    try:
        feed = LiveFeed(load, home.bootstrap, former.bootstrap)
        load.wait_until(lambda: has_marked(feed), "a marker on the first cluster that is noted")
        if mirrors:
            worker.kill()
        copied = _copied(former, feed) if mirrors else []
    finally:
        former.close()
    with KafkaBroker(port=int(former.bootstrap.rpartition(":")[2]), settings=PATIENT) as there:
        if mirrors:
            for target in feed.topics.targets:
                create_topic(there.bootstrap, target.topic, target.partitions)
            write(there.bootstrap, copied)
            worker = load.start_worker("w0")
        over = FailOver(load, home, feed, there, worker)
        load.wait_until(lambda: over.cluster in over.said(), "the sentence with both ids")
        yield over


def has_marked(feed: LiveFeed) -> bool:
    """Whether a marker is noted in the feed's progress: with the next high-water after it."""
    progress = feed.view.progress
    return progress is not None and progress.marked is not None


def _copied(cluster: KafkaBroker, feed: LiveFeed) -> list[TopicRecord]:
    """Return the records of a mirror: it has each partition up to some place, not the same in any two."""
    records = list(
        OutputTopics.now(KafkaConnection(cluster.bootstrap, timeout_s=60), feed.topics.topics).records()
    )
    places = sorted({(record.topic, record.partition) for record in records})
    copied = []
    for number, place in enumerate(places):
        here = [record for record in records if (record.topic, record.partition) == place]
        markers = [index for index, record in enumerate(here) if record.key is None]
        assert markers, f"no marker in {place}"
        last = markers[len(markers) // 2 :][number % max(1, len(markers) // 2)]
        copied += here[: last + 1 + number]
    return copied


def test_a_feed_goes_on_above_its_last_marker_on_a_cluster_that_has_nothing(
    broker: KafkaBroker, topic_prefix: str, tmp_path: Path
) -> None:
    with live_load(broker.bootstrap, topic_prefix, tmp_path, seed=41, store=_MOVES, rows_per_s=200) as load:
        worker = load.start_worker("w0")
        with fail_over(load, broker, worker, mirrors=False) as over:
            assert "nothing there tells where feed" in over.refusal("--cluster", over.cluster)
            stored = over.feed.view.current_state
            assert stored is not None
            assert f"{over.cluster} answers" in over.refusal("--cluster", stored.sink_cluster)
            shown = over.accept("--from", "marker")
            assert stored.sink_cluster in shown
            assert over.cluster in shown
            assert over.feed.view.epoch == 1, "nothing was asked for yet"
            over.accept("--cluster", over.cluster, "--from", "marker", "--wait-seconds", "120")
            assert over.feed.view.status is FeedState.RUNNING
            assert "is not held" in over.refusal("--cluster", over.cluster)
            over.feed.wait_for_the_last(worker)
            load.end_store()
            report = over.feed.finish(worker, tmp_path / "history", over.begin)
            assert report.verdict is Verdict.PASSED, str(report)
        assert worker.stop() == 0, worker.text


@pytest.mark.soak  # `make test` has simulated mirrors: profile `fail-overs`
def test_on_a_mirror_it_goes_on_where_that_is_complete_and_no_marker_falls(
    broker: KafkaBroker, topic_prefix: str, tmp_path: Path
) -> None:
    with live_load(broker.bootstrap, topic_prefix, tmp_path, seed=42, store=_MOVES, rows_per_s=200) as load:
        worker = load.start_worker("w0")
        with fail_over(load, broker, worker, mirrors=True) as over:
            over.worker.kill()
            over.accept("--cluster", over.cluster, "--no-wait")
            worker = load.start_worker("w0")
            load.wait_until(lambda: over.feed.view.status is FeedState.RUNNING, "the feed to go on")
            over.feed.wait_for_the_last(worker)
            load.end_store()
            report = over.feed.finish(worker, tmp_path / "history")
            found = report.violation_counts.keys()
            assert found <= {ViolationKind.MARKER_MISSING}, str(report)  # a mirror is no transaction
            assert over.begin < over.feed.high_water
            (shown,) = (
                row
                for row in json.loads(run("feed", "list", "--json", *_home(broker, load)).stdout)
                if row["job_id"] == over.feed.id
            )
            assert shown["error"] == ""
        assert worker.stop() == 0, worker.text


def _home(broker: KafkaBroker, load: LiveLoad) -> tuple[str, ...]:
    return ("-b", broker.bootstrap, "--app-id", load.app_id)
