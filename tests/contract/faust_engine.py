"""The Faust worker as an engine: a real worker process on a real broker.

The feeds are given to it as an earlier worker would have left them that died between storing their start and
hearing from the log partitions: the jobs topic holds each feed's definition and its state ``starting`` with
the start and the targets. The jobs agent goes on from there, and announces the activation. The log is still
empty then, so every partition takes the feeds up before its first record, as the reference engine does. A
feed that is created while the worker runs gets its start from what was applied, never from a test.

Feeds with schemas get a registry of this process, whose ids are the reference engine's.
"""

from __future__ import annotations

import uuid
from dataclasses import replace
from pathlib import Path
from typing import Final

from confluent_kafka import Consumer, Producer
from confluent_kafka import TopicPartition as Place
from confluent_kafka.admin import AdminClient, NewTopic

from tests.contract.case import topics_of
from tests.contract.comparison import markers, records_at
from tests.contract.engine import Log, Output, Task
from tests.e2e.worker_process import WorkerProcess
from tests.registry_server import RegistryServer
from tidegate.changefeed.control import Activate
from tidegate.changefeed.feed import FeedState
from tidegate.changefeed.job_records import DefinitionRecord, JobRecord, StateRecord
from tidegate.changefeed.resolved_topic import OffsetMarkerDecoder, marker_partitions, offset_marker_value
from tidegate.client.connection import KafkaConnection
from tidegate.client.jobs import Jobs
from tidegate.client.output import OutputTopics
from tidegate.processor.reference import Emitted, TopicPartition
from tidegate.verify import TopicRecord

_START_S: Final = 150.0
_FINISH_S: Final = 120.0
_BATCH: Final = 50  # small, so that batches are cut within every case
_LOOK_AGAIN_S: Final = 0.25


class FaustWorker:
    """Runs a task on one worker process, with topics of its own on the broker."""

    def __init__(self, bootstrap: str, directory: Path) -> None:
        self._bootstrap = bootstrap
        self._directory = directory

    def run(self, task: Task) -> Output:
        """See ``Engine``. ``AssertionError`` with the worker's log when it ends or does not get on."""
        with RegistryServer() as registry:
            return _Run(self._bootstrap, self._directory, task, registry.url).output()


class _Run:
    def __init__(self, bootstrap: str, directory: Path, task: Task, registry_url: str) -> None:
        self._bootstrap = bootstrap
        self._registry_url = registry_url
        self._task = task
        self._prefix = f"contract-{uuid.uuid4().hex[:8]}-"
        self._app_id = f"{self._prefix}app"
        self._feeds = tuple(self._placed(feed) for feed in task.feeds)
        self._connection = KafkaConnection(bootstrap, timeout_s=_START_S)
        self._home = directory / self._app_id

    def output(self) -> Output:
        """Start the worker, give it the log, and read what it wrote."""
        self._create_topics()
        self._write_jobs()
        with WorkerProcess(self._home, self._settings()) as worker:
            self._wait_until_running(worker)
            self._write_log(self._task.log)
            worker.wait_until(self._log_is_processed, "the end of the log", _FINISH_S)
            worker.wait_until(self._is_covered, "the last marker of every feed", _FINISH_S)
            # An orderly stop finishes what is in flight: what is read afterwards is all there is.
            assert worker.stop() == 0, worker.text[-20_000:]
        return self._read()

    # ---- before

    def _placed(self, feed: Activate) -> Activate:
        """The feed with topics of this run, on this broker, and with its registry if it has one."""
        options = feed.definition.options
        if options.confluent_schema_registry:
            options = replace(options, confluent_schema_registry=self._registry_url)
        if options.resolved_topic:
            options = replace(options, resolved_topic=self._prefix + options.resolved_topic)
        return replace(
            feed,
            definition=replace(feed.definition, sink_uri=f"kafka://{self._bootstrap}", options=options),
            targets=tuple(replace(target, topic=self._prefix + target.topic) for target in feed.targets),
        )

    def _settings(self) -> dict[str, str]:
        settings = {
            "bootstrap_servers": self._bootstrap,
            "app_id": self._app_id,
            "topic_prefix": self._prefix,
            "data_dir": str(self._home / "data"),
            "session_timeout_ms": "6000",
            "batch_records": str(_BATCH),
        }
        return {f"TIDEGATE_{name.upper()}": value for name, value in settings.items()}

    def _create_topics(self) -> None:
        counts = {target.topic: target.partitions for feed in self._feeds for target in feed.targets}
        for feed in self._feeds:
            if feed.definition.options.resolved_topic:
                counts[feed.definition.options.resolved_topic] = marker_partitions(feed.targets)
        topics = [
            NewTopic(f"{self._prefix}raftlog", len(self._task.log), config={"retention.ms": "-1"}),
            NewTopic(f"{self._app_id}-jobs", 1, config={"cleanup.policy": "compact"}),
            *(NewTopic(topic, count, config={"retention.ms": "-1"}) for topic, count in counts.items()),
        ]
        admin = AdminClient({"bootstrap.servers": self._bootstrap})
        for future in admin.create_topics(topics).values():
            future.result(30)

    def _write_jobs(self) -> None:
        records: list[JobRecord] = []
        for feed in self._feeds:
            definition = feed.definition
            records.append(DefinitionRecord(definition))
            records.append(
                StateRecord(
                    definition.id,
                    definition.epoch,
                    FeedState.STARTING,
                    start=feed.start,
                    targets=feed.targets,
                    positions=dict.fromkeys(range(len(self._task.log)), 0),
                )
            )
        producer = self._producer()
        for record in records:
            producer.produce(f"{self._app_id}-jobs", record.to_bytes(), record.key, 0)
        assert producer.flush(30) == 0

    def _wait_until_running(self, worker: WorkerProcess) -> None:
        jobs = Jobs(self._connection, self._app_id)

        def all_run() -> bool:
            view = jobs.view()
            states = {feed.feed_id: view[feed.feed_id] for feed in self._feeds}
            failed = [view for view in states.values() if view.status is FeedState.FAILED]
            assert not failed, failed
            return all(view.status is FeedState.RUNNING for view in states.values())

        worker.wait_until(all_run, "all feeds to run", _START_S)

    def _write_log(self, log: Log) -> None:
        producer = self._producer()
        for partition, records in enumerate(log):
            for record in records:
                producer.produce(
                    f"{self._prefix}raftlog", record.value, record.key, partition, timestamp=record.timestamp
                )
                producer.poll(0)
        assert producer.flush(60) == 0

    def _producer(self) -> Producer:
        return Producer({"bootstrap.servers": self._bootstrap, "enable.idempotence": True})

    # ---- after

    def _log_is_processed(self) -> bool:
        """Whether the worker's group has reported the end of the log: what it reports is durable."""
        consumer = Consumer({"bootstrap.servers": self._bootstrap, "group.id": self._app_id})
        try:
            ends = [len(records) for records in self._task.log]
            places = [Place(f"{self._prefix}raftlog", number) for number in range(len(ends))]
            return [place.offset for place in consumer.committed(places, timeout=10)] == ends
        finally:
            consumer.close()

    def _is_covered(self) -> bool:
        """Whether the feeds with a marker at every advance have their last one on every partition."""
        output = self._read()
        for feed in self._task.feeds:
            final = self._task.finals[feed.feed_id]
            if feed.definition.options.resolved_interval_ns != 0 or final <= feed.start:
                continue
            for target in feed.targets:
                for number in range(target.partitions):
                    place = TopicPartition(target.topic, number)
                    if final not in markers(feed, records_at(feed, output, place)):
                        return False
        return True

    def _read(self) -> Output:
        """The output topics as they are now, by the names that the task gives them."""
        topics = [topic for feed in self._feeds for topic in topics_of(feed)]
        asides = {feed.definition.options.resolved_topic for feed in self._feeds} - {""}
        output: dict[TopicPartition, list[Emitted]] = {}
        for record in OutputTopics.now(self._connection, topics).records():
            place = TopicPartition(record.topic.removeprefix(self._prefix), record.partition)
            emitted = _emitted(record)
            if record.topic in asides:
                emitted = emitted._replace(value=self._unprefixed(emitted.value))
            output.setdefault(place, []).append(emitted)
        return output

    def _unprefixed(self, value: bytes | None) -> bytes:
        """A marker with the topics' names that the task gives them."""
        marker = OffsetMarkerDecoder().decode(None, value)
        offsets = {topic.removeprefix(self._prefix): end for topic, end in marker.offsets.items()}
        return offset_marker_value(marker.resolved, offsets)


def _emitted(record: TopicRecord) -> Emitted:
    headers = tuple((name, value or b"") for name, value in record.headers)
    return Emitted(record.key, record.value, record.timestamp_ms, headers)
