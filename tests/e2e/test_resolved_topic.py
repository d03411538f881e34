"""A feed whose markers have a topic of their own, beside a topic of rows that is compacted."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import TopicPartition

from stack.kafka import KafkaBroker
from tests.e2e.scenario import OUTPUT_PARTITIONS, Scenario, bank_log
from tests.e2e.worker_process import WorkerProcess
from tests.feeds import activation
from tests.unit.client.topics import create_topic, wait_until_ended
from tidegate.changefeed.definition.feed import FeedState
from tidegate.changefeed.definition.options import Envelope, ExistingTopics, FeedOptions
from tidegate.changefeed.encoding.record import MarkerRecord
from tidegate.changefeed.encoding.resolved_topic import OffsetMarkerDecoder
from tidegate.changefeed.lifecycle.jobs import FeedView
from tidegate.client.jobs import Jobs
from tidegate.client.output import OutputTopics
from tidegate.errors import TidegateError
from tidegate.hlc import Timestamp
from tidegate.verify import AuditOptions, AuditReport, TopicRecord, Verdict, audit

pytestmark = [pytest.mark.broker, pytest.mark.slow]


class Aside(Scenario):
    """A bank's feed with markers aside. Nothing is compacted yet while a test runs, but Kafka refuses keyless
    records on the topic of rows from the beginning."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.markers_topic = f"{self.prefix}markers"
        self.options = FeedOptions(
            updated=True,
            resolved_interval_ns=0,
            topic_prefix=self.prefix,
            resolved_topic=self.markers_topic,
        )

    def create_feed(self, worker: WorkerProcess, feed_id: str = "bank") -> FeedView:
        """Create a feed on a topic that is there already, and compacted."""
        create_topic(self.bootstrap, self.topic, OUTPUT_PARTITIONS, cleanup_policy="compact")
        self.write_head(worker)
        options = replace(self.options, existing_topics=ExistingTopics.USE)
        definition = activation(
            self.log.tables, options, feed_id=feed_id, sink_uri=f"kafka://{self.bootstrap}"
        ).definition
        jobs = Jobs(self.connection, self.app_id)
        jobs.create(definition)
        feed = jobs.wait(definition.id, 60)
        assert feed.status is FeedState.RUNNING, (feed, worker.text)
        self.follow(feed, self.topic)
        return feed

    def audit(self) -> AuditReport:
        """Rows against the reference engine's, and markers by the offsets that they name."""
        output = OutputTopics.now(self.connection, [self.topic], self.markers_topic)
        assert output.compacted == {self.topic}
        options = AuditOptions(resolved_topic=self.markers_topic, ends=output.ends)
        return audit(output.records(), output.counts, options, expected=self.expected())

    def covered(self) -> Timestamp:
        """The highest marker that every partition has."""
        try:
            found = self.markers()
        except TidegateError:
            return Timestamp(0)
        last = [found[number][-1].resolved for number in range(OUTPUT_PARTITIONS) if number in found]
        return min(last) if len(last) == OUTPUT_PARTITIONS else Timestamp(0)

    def markers(self) -> dict[int, list[MarkerRecord]]:
        """The markers of each partition, in their order."""
        found: dict[int, list[MarkerRecord]] = {}
        for record in OutputTopics.now(self.connection, [self.markers_topic]).records():
            marker = OffsetMarkerDecoder().decode(record.key, record.value)
            found.setdefault(record.partition, []).append(marker)
        return found

    def rows(self) -> list[TopicRecord]:
        """Everything on the topic of rows."""
        return list(OutputTopics.now(self.connection, [self.topic]).records())


def _has_more(now: dict[int, list[MarkerRecord]], before: dict[int, list[MarkerRecord]]) -> bool:
    """Whether every partition has got a marker: readers see those of one transaction one after the other."""
    return all(len(now[number]) > len(markers) for number, markers in before.items())


@pytest.fixture
def aside(broker: KafkaBroker, topic_prefix: str, tmp_path: Path) -> Iterator[Aside]:
    made = Aside(broker.bootstrap, topic_prefix, tmp_path, bank_log(seed=7, transactions=200))
    yield made
    made.close()


def test_markers_are_true_by_their_offsets_and_stand_nowhere_else(aside: Aside) -> None:
    worker = aside.start_worker()
    aside.create_feed(worker)
    aside.append()
    report = aside.wait_until_covered(worker)
    assert report.verdict is Verdict.PASSED, str(report)
    assert all(record.key is not None for record in aside.rows())
    for number, markers in aside.markers().items():
        ends = [marker.offsets[aside.topic] for marker in markers]
        assert ends == sorted(ends)
        assert ends[-1] == len([record for record in aside.rows() if record.partition == number])


def test_crash_between_progress_and_marker(aside: Aside) -> None:
    with aside.start_worker(instance_id="w0") as first:
        aside.create_feed(first)
        assert first.stop() == 0, first.text
    doomed = aside.start_worker(
        "w0", ("-m", "tests.e2e.crashing_worker", "before-the-marker", "3"), instance_id="w0"
    )
    doomed.wait_for("frontier begins")  # it writes one marker for all that was reported before
    for _ in range(3):  # and, if it is held up, for all that is written meanwhile
        before = aside.covered()
        aside.append(100)
        aside.wait_until_marked(doomed, before)
    aside.append()
    assert doomed.wait() == -signal.SIGKILL, doomed.text
    successor = aside.start_worker(instance_id="w0")
    report = aside.wait_until_covered(successor)
    assert report.verdict is Verdict.PASSED, str(report)


def test_a_repeated_marker_names_offsets_that_are_not_lower(aside: Aside) -> None:
    worker = aside.start_worker(instance_id="w0")
    aside.create_feed(worker)
    aside.append(100)
    worker.wait_until(lambda: aside.covered() > Timestamp(0), "a marker")
    assert worker.stop() == 0, worker.text
    places = {TopicPartition(aside.markers_topic, number) for number in range(OUTPUT_PARTITIONS)}
    wait_until_ended(aside.bootstrap, places)
    before = aside.markers()
    successor = aside.start_worker(instance_id="w0")
    successor.wait_until(lambda: _has_more(aside.markers(), before), "the marker again")
    for partition, markers in aside.markers().items():
        last, repeated = markers[len(before[partition]) - 1 :][:2]
        assert repeated.resolved == last.resolved
        assert repeated.offsets[aside.topic] >= last.offsets[aside.topic]
    aside.append()
    assert aside.wait_until_covered(successor).verdict is Verdict.PASSED


def test_a_compacted_topic_of_upserts_holds_the_table(aside: Aside) -> None:
    aside.options = FeedOptions(
        envelope=Envelope.UPSERT,
        resolved_interval_ns=0,
        topic_prefix=aside.prefix,
        resolved_topic=aside.markers_topic,
    )
    worker = aside.start_worker()
    aside.create_feed(worker)
    aside.append()
    worker.wait_until(lambda: aside.covered() >= aside.end(), "the last marker", 120)
    last = {partition: markers[-1] for partition, markers in aside.markers().items()}
    table = {
        record.key: record.value
        for record in aside.rows()
        if record.offset < last[record.partition].offsets[aside.topic]
    }
    expected: dict[bytes | None, bytes | None] = {}
    for place, records in aside.reference().output.items():
        if place.topic == aside.topic:
            expected |= {record.key: record.value for record in records}
    assert table == expected
    assert all(json.loads(value)["balance"] is not None for value in table.values() if value is not None)
