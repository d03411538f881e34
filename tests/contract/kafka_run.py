"""A run of the contract on a real broker: the topics, the feeds and the log of a task, and what came out.

The feeds are given to an engine as if an earlier engine had died after it stored their start, and before the
log partitions answered: the jobs topic holds each feed's definition and its state ``starting`` with the start
and the targets. The engine goes on from there, and activates them before the first record, as the reference
engine does. A feed that is created while an engine runs gets its start from what was applied; a test cannot
choose it.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from concurrent.futures import wait
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Final

from confluent_kafka import KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.contract.case import topics_of
from tests.contract.comparison import markers, records_at
from tests.contract.engine import Output, Task
from tests.destinations import DESTINATIONS
from tests.unit.client.topics import wait_until_ended
from tidegate.changefeed.definition.feed import Engine
from tidegate.changefeed.encoding.resolved_topic import (
    OffsetMarkerDecoder,
    marker_partitions,
    offset_marker_value,
)
from tidegate.changefeed.lifecycle.control import Activate
from tidegate.changefeed.lifecycle.job_records import DefinitionRecord, JobRecord
from tidegate.changefeed.lifecycle.registration import Prepare, starting_state
from tidegate.client.kafka.connection import KafkaConnection
from tidegate.client.output import OutputTopics
from tidegate.processor.reference import Emitted, OutputPartition
from tidegate.verify import TopicRecord

#: The largest request that a broker takes by default. A producer takes less.
_RECORD_BYTES_MAX: Final = 1_048_588

#: How long a busy broker may take for an answer: a run may have hundreds of topics.
_TOPICS_S: Final = 120.0

#: A setting by which the broker takes records of any time. By default it refuses those of the future.
_OF_LOG: Final = {"retention.ms": "-1", "message.timestamp.after.max.ms": str(2**63 - 1)}


class KafkaRun:
    """One task on the broker at ``bootstrap``, with topics and an application id of its own."""

    def __init__(
        self, bootstrap: str, task: Task, registry_url: str, engine: Engine, *, timeout_s: float
    ) -> None:
        self.bootstrap = bootstrap
        self.task = task
        self.prefix = f"contract-{uuid.uuid4().hex[:8]}-"
        self.app_id = f"{self.prefix}app"
        self.connection = KafkaConnection(bootstrap, timeout_s=timeout_s, destinations=DESTINATIONS)
        self._registry_url = registry_url
        self._engine = engine
        #: The task's feeds, with topics of this run.
        self.feeds = tuple(self._placed(feed) for feed in task.feeds)

    # ---- before

    def _placed(self, feed: Activate) -> Activate:
        """Return the feed with the topics of this run, on this broker, and with the run's registry if there
        is one."""
        options = feed.definition.options
        if options.confluent_schema_registry:
            options = replace(options, confluent_schema_registry=self._registry_url)
        if options.resolved_topic:
            options = replace(options, resolved_topic=self.prefix + options.resolved_topic)
        return replace(
            feed,
            definition=replace(
                feed.definition, sink_uri=f"kafka://{self.bootstrap}", options=options, engine=self._engine
            ),
            targets=tuple(replace(target, topic=self.prefix + target.topic) for target in feed.targets),
        )

    @contextmanager
    def topics(self) -> Iterator[None]:
        """Create the topics of the run for a ``with``. They are deleted at its end, also if it fails."""
        try:
            self.create_topics()
            yield
        finally:
            self.delete_topics()

    def create_topics(self) -> None:
        """Create the topics: of the log, of the jobs, and those that the feeds write to."""
        topics = [
            NewTopic(f"{self.prefix}raftlog", len(self.task.log), config=_OF_LOG),
            NewTopic(f"{self.app_id}-jobs", 1, config={"cleanup.policy": "compact"}),
            *(NewTopic(topic, count, config={"retention.ms": "-1"}) for topic, count in self._counts.items()),
        ]
        admin = AdminClient({"bootstrap.servers": self.bootstrap})
        for future in admin.create_topics(topics, request_timeout=_TOPICS_S).values():
            future.result()

    @property
    def _counts(self) -> dict[str, int]:
        """Return the partition counts of the topics that the feeds write to."""
        counts = {target.topic: target.partitions for feed in self.feeds for target in feed.targets}
        for feed in self.feeds:
            if feed.definition.options.resolved_topic:
                counts[feed.definition.options.resolved_topic] = marker_partitions(feed.targets)
        return counts

    def write_jobs(self) -> None:
        """Write the feeds to the jobs topic, about to be activated."""
        records: list[JobRecord] = []
        positions = dict.fromkeys(range(len(self.task.log)), 0)
        for feed in self.feeds:
            prepared = Prepare(feed.start, (), positions)
            records.append(DefinitionRecord(feed.definition))
            records.append(starting_state(feed.definition, prepared, feed.targets))
        producer = self._producer()
        for record in records:
            producer.produce(f"{self.app_id}-jobs", record.to_bytes(), record.key, 0)
        assert producer.flush(30) == 0

    def write_log(self) -> None:
        """Write the whole log of the task."""
        producer = self._producer()
        for partition, records in enumerate(self.task.log):
            for record in records:
                producer.produce(
                    f"{self.prefix}raftlog", record.value, record.key, partition, timestamp=record.timestamp
                )
                producer.poll(0)
        assert producer.flush(60) == 0

    def _producer(self) -> Producer:
        config = {"bootstrap.servers": self.bootstrap, "enable.idempotence": True}
        return Producer({**config, "message.max.bytes": _RECORD_BYTES_MAX})

    # ---- after

    def wait_until_ended(self) -> None:
        """Return once readers see the last transaction of the feeds. This is a moment after the broker has
        confirmed it."""
        counts = self._counts.items()
        places = {TopicPartition(topic, number) for topic, count in counts for number in range(count)}
        wait_until_ended(self.bootstrap, places)

    def is_covered(self) -> bool:
        """Whether every partition has the last marker of its feed. Only feeds with a marker at every advance
        count."""
        output = self.read()
        for feed in self.task.feeds:
            final = self.task.finals[feed.feed_id]
            if feed.definition.options.resolved_interval_ns != 0 or final <= feed.start:
                continue
            for target in feed.targets:
                for number in range(target.partitions):
                    place = OutputPartition(target.topic, number)
                    if final not in markers(feed, records_at(feed, output, place)):
                        return False
        return True

    def delete_topics(self) -> None:
        """Delete all topics of the run, because clients of later tests ask for all topics of the broker.

        Topics that cannot be deleted fail no test: no test claims that they are gone.
        """
        admin = AdminClient({"bootstrap.servers": self.bootstrap})
        with suppress(KafkaException):
            found = admin.list_topics(timeout=_TOPICS_S).topics
            names = [name for name in found if name.startswith(self.prefix)]
            wait(admin.delete_topics(names, request_timeout=_TOPICS_S).values())

    def read(self) -> Output:
        """The output topics as they are now, by the names that the task gives them."""
        topics = [topic for feed in self.feeds for topic in topics_of(feed)]
        asides = {feed.definition.options.resolved_topic for feed in self.feeds} - {""}
        output: dict[OutputPartition, list[Emitted]] = {}
        for record in OutputTopics.now(self.connection, topics).records():
            place = OutputPartition(record.topic.removeprefix(self.prefix), record.partition)
            emitted = _emitted(record)
            if record.topic in asides:
                emitted = emitted._replace(value=self._unprefixed(emitted.value))
            output.setdefault(place, []).append(emitted)
        return output

    def _unprefixed(self, value: bytes | None) -> bytes:
        """Return a marker with the names that the task gives to the topics."""
        marker = OffsetMarkerDecoder().decode(None, value)
        offsets = {topic.removeprefix(self.prefix): end for topic, end in marker.offsets.items()}
        return offset_marker_value(marker.resolved, offsets)


def _emitted(record: TopicRecord) -> Emitted:
    headers = tuple((name, value or b"") for name, value in record.headers)
    return Emitted(record.key, record.value, record.timestamp_ms, headers)
