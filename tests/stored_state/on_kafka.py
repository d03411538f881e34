"""A real broker with the log of `Stored`, and two applications on it: one of workers, one of a Spark query.

The broker has its own address each time, since the feeds that are stored name it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from stack.kafka import KafkaBroker
from tests.contract.comparison import markers
from tests.feeds import WITH_MARKERS, activation
from tests.logs import Record
from tests.stored_state.rounds import tables_of
from tests.stored_state.store_at_rest import StoreAtRest
from tests.stored_state.stored import HOME, PARTITIONS, TOPICS, Place, Stored
from tidegate.changefeed.definition.feed import Engine
from tidegate.changefeed.definition.options import InitialScan
from tidegate.changefeed.lifecycle.control import Activate
from tidegate.changefeed.lifecycle.job_records import DefinitionRecord, JobRecord
from tidegate.changefeed.lifecycle.registration import Prepare, starting_state
from tidegate.client.kafka.connection import KafkaConnection
from tidegate.client.output import OutputTopics
from tidegate.hlc import ZERO, Timestamp
from tidegate.processor.reference import Emitted, OutputPartition
from tidegate.raftlog.request import Push, Scan, decode_request

#: Below the ports that systems give to whoever asks for any.
PORT: Final = 17248
BOOTSTRAP: Final = f"127.0.0.1:{PORT}"
#: Small, and nothing in it comes to be too old: not even the requests that are an hour old.
SETTINGS: Final = {
    "log.retention.check.interval.ms": "86400000",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    "offsets.retention.minutes": "2147483647",
    "transactional.id.expiration.ms": "2147483647",
}
#: The application ids, by the engine of their feeds.
APPS: Final = {Engine.WORKERS: "workers", Engine.SPARK: "query"}


def broker(data: Path) -> KafkaBroker:
    """The broker whose data are in a directory. It is not started yet."""
    return KafkaBroker(port=PORT, data=data, settings=SETTINGS)


def feeds(stored: Stored, engine: Engine) -> list[Activate]:
    """The feeds of an engine: one from the beginning, and one that begins with a scan."""
    tables, uri = tables_of(stored), f"kafka://{BOOTSTRAP}"
    middle = sorted(version.timestamp for version in stored.history)[len(stored.history) // 2]
    found = []
    for name, start, scan in (("home", ZERO, InitialScan.NO), ("scan", middle, InitialScan.YES)):
        options = replace(WITH_MARKERS, topic_prefix=f"{APPS[engine]}-{name}-", initial_scan=scan)
        feed = activation(tables, options, start=start, feed_id=name, sink_uri=uri)
        found.append(replace(feed, definition=replace(feed.definition, engine=engine)))
    return found


def create_topics(all_feeds: Sequence[Activate]) -> None:
    """Create the log, the topics of feeds' definitions, and those of rows."""
    compacted, kept = {"cleanup.policy": "compact"}, {"retention.ms": "-1"}
    topics = [
        NewTopic(TOPICS.log, PARTITIONS, config=kept),
        *(NewTopic(f"{app}-jobs", 1, config=compacted) for app in APPS.values()),
        *(
            NewTopic(target.topic, target.partitions, config=kept)
            for feed in all_feeds
            for target in feed.targets
        ),
    ]
    admin = AdminClient({"bootstrap.servers": BOOTSTRAP})
    for future in admin.create_topics(topics).values():
        future.result(30)


def write_jobs(app: str, app_feeds: Sequence[Activate]) -> None:
    """Define feeds, and give them their starts: they are about to be activated."""
    producer = Producer({"bootstrap.servers": BOOTSTRAP, "enable.idempotence": True})
    positions = dict.fromkeys(range(PARTITIONS), 0)
    for feed in app_feeds:
        starting = starting_state(feed.definition, Prepare(feed.start, (), positions), feed.targets)
        records: list[JobRecord] = [DefinitionRecord(feed.definition), starting]
        for record in records:
            producer.produce(f"{app}-jobs", record.to_bytes(), record.key, 0)
    assert producer.flush(30) == 0


def write_log(parts: Sequence[Sequence[Record]]) -> None:
    """Append records to the log, by partition."""
    producer = Producer({"bootstrap.servers": BOOTSTRAP, "enable.idempotence": True})
    for number, records in enumerate(parts):
        for record in records:
            producer.produce(TOPICS.log, record.value, record.key, number, timestamp=record.timestamp)
    assert producer.flush(60) == 0


def log_is_processed(app: str, ends: Sequence[int]) -> bool:
    """Whether the workers have reported these ends of the log: what they report is durable."""
    consumer = Consumer({"bootstrap.servers": BOOTSTRAP, "group.id": app})
    try:
        places = [TopicPartition(TOPICS.log, number) for number in range(len(ends))]
        return [place.offset for place in consumer.committed(places, timeout=60)] == list(ends)
    finally:
        consumer.close()


def worker_settings(home: Path) -> dict[str, str]:
    """The environment of a worker."""
    settings = {
        "bootstrap_servers": BOOTSTRAP,
        "app_id": APPS[Engine.WORKERS],
        "topic_prefix": TOPICS.prefix,
        "data_dir": str(home / "data"),
        "session_timeout_ms": "600000",  # a machine that stands still throws nobody out
        "batch_records": "50",
    }
    return {f"TIDEGATE_{name.upper()}": value for name, value in settings.items()}


class LiveStore:
    """The store behind the stored log: it continues on the broker, and answers the scans it is asked for."""

    def __init__(self, stored: Stored) -> None:
        self._store = StoreAtRest(stored)
        self._written = [stored.ends[Place(HOME, TOPICS.log, number)] for number in range(PARTITIONS)]
        self._requests = Consumer({"bootstrap.servers": BOOTSTRAP, "group.id": "store"})
        self._requests.assign(
            [TopicPartition(TOPICS.requests, number, OFFSET_BEGINNING) for number in range(PARTITIONS)]
        )

    def write(self) -> None:
        """Append what the log lacks yet."""
        write_log([log[first:] for log, first in zip(self._store.log, self._written, strict=True)])
        self._written = [len(log) for log in self._store.log]

    def go_on(self) -> None:
        """Answer what was asked, and let a second pass."""
        for message in self._requests.consume(1_000, 0.2):
            assert message.error() is None, message.error()
            request = decode_request(message.value() or b"")
            assert isinstance(request, Push | Scan)
            self._store.answer(request)
        self._store.beat()
        self.write()

    def close(self) -> None:
        """Ask for nothing more."""
        self._requests.close()


def output_of(app_feeds: Sequence[Activate]) -> dict[OutputPartition, list[Emitted]]:
    """The output topics of feeds, as they are now."""
    found: dict[OutputPartition, list[Emitted]] = {}
    topics = [target.topic for feed in app_feeds for target in feed.targets]
    for record in OutputTopics.now(KafkaConnection(BOOTSTRAP, timeout_s=60), topics).records():
        time_ms = None if record.key is None else record.timestamp_ms
        headers = tuple((name, value or b"") for name, value in record.headers)
        emitted = Emitted(record.key, record.value, time_ms, headers)
        found.setdefault(OutputPartition(record.topic, record.partition), []).append(emitted)
    return found


def covered(app_feeds: Sequence[Activate], output: Mapping[OutputPartition, Sequence[Emitted]]) -> Timestamp:
    """The highest marker that every partition has."""
    return min(
        max(markers(feed, output.get(OutputPartition(target.topic, number), ())), default=ZERO)
        for feed in app_feeds
        for target in feed.targets
        for number in range(target.partitions)
    )
