"""Workers of this tree that find the topics and the disks that workers of an earlier version have left.

They are those of the simulation (docs/simulation.md): real agents, on a simulated cluster.
"""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NoReturn

import structlog

from tests.destinations import DESTINATIONS_FILE
from tests.simulation.clients import Network, NetworkOptions, SimMachine
from tests.simulation.disk import Disk
from tests.simulation.group import Group, Member
from tests.simulation.judge import covered, read_jobs
from tests.simulation.kafka import Broker, Entry, Partition, SentRecord, Topic
from tests.simulation.registry import Registry, RegistryPlan
from tests.simulation.scheduler import Ended, Process, Scheduler
from tests.simulation.sinks import OWN, sink_name
from tests.simulation.worker import start_worker
from tests.stored_state.store_at_rest import StoreAtRest
from tests.stored_state.stored import HOME, TOPICS, Place, Stored
from tidegate.changefeed.definition.feed import FeedState
from tidegate.changefeed.lifecycle.jobs import FeedView
from tidegate.hlc import Timestamp
from tidegate.raftlog.request import Push, Scan, decode_request
from tidegate.worker.kafka.assignment import Assignment
from tidegate.worker.process.ending import leaving_by
from tidegate.worker.process.settings import Settings
from tidegate.worker.state.store import OpenStore

_SEED: Final = 17
_BASE_MS: Final = 1_700_000_000 * 1000
#: Virtual seconds: for everything, and between two looks.
_MOST_S: Final = 300.0
_LOOK_S: Final = 0.5
_BATCH: Final = 10
#: Records of a log partition that are written between two looks.
_AT_ONCE: Final = 20


class TakenUp:
    """One worker, from its start to the end of the log.

    ``open_copy`` opens the local copies of its disk, if that is not empty. ``requests`` are what it has asked
    of the store, ``lines`` what it has logged.
    """

    def __init__(self, stored: Stored, home: Path, open_copy: OpenStore | None = None) -> None:
        self.stored = stored
        self.has_copies = open_copy is not None
        self._open_copy = open_copy
        self.scheduler = Scheduler(_SEED)
        self.requests: list[Push | Scan] = []
        self.lines: list[MutableMapping[str, Any]] = []
        base_ms = _BASE_MS + int(stored.seconds * 1000)
        clusters = {topic.cluster for topic in stored.topics}
        self._brokers = {name: Broker(self.scheduler, _SEED, base_ms) for name in sorted(clusters)}
        for topic in stored.topics:
            self._brokers[topic.cluster].topics[topic.name] = _topic(topic.name, topic.cluster, stored)
        self.broker = self._brokers[HOME]
        self.broker.group = stored.group
        self.registry = Registry(RegistryPlan(), _SEED, self.scheduler)
        for schema, number in stored.schemas.items():
            assert self.registry.id_of(schema) == number
        self.settings = Settings(
            bootstrap_servers=OWN,
            app_id=TOPICS.app_id,
            topic_prefix=TOPICS.prefix,
            data_dir=home,
            batch_records=_BATCH,
            output_partitions=2,
            checkpoint_partitions=2,
            session_timeout_ms=1_000,
            drain_timeout_ms=2_000,
            sink_stall_ms=1_000,
            destinations_file=DESTINATIONS_FILE,
        )
        self._network = Network(NetworkOptions(slow=0.0), _SEED)
        self._group = Group(self.scheduler, self.broker, _SEED, 1.0, 3.0)
        self._store = StoreAtRest(stored)
        self._written = [
            self.broker.partition(TOPICS.log, number).end for number in range(len(self._store.log))
        ]
        self._read = [
            self.broker.partition(TOPICS.requests, number).end for number in range(len(self._written))
        ]
        self._waiting: list[Push | Scan] = []
        self._due = _LOOK_S
        self._process = Process(self.scheduler, "taken up", 0.0)

    def run(self) -> None:
        """Let the worker go on with what it finds, to the end. Raises what it ends with."""
        with leaving_by(self._leave), self._log():
            self._start()
            try:
                done = self.scheduler.run(_MOST_S, self._at_rest)
            finally:
                self._process.kill()
                self.scheduler.run(self.scheduler.now + 0.001)
                self.scheduler.close()
        assert done, [self._covered(feed) for feed in self.feeds()]

    def feeds(self) -> list[FeedView]:
        """The feeds as the jobs topic tells of them now."""
        return [feed for _, feed in read_jobs(self.broker, TOPICS.jobs).feeds()]

    def broker_of(self, feed: FeedView) -> Broker:
        """The cluster that a feed writes to."""
        assert feed.definition is not None
        return self._brokers.get(feed.definition.sink_uri.removeprefix("kafka://"), self.broker)

    # ---- the worker

    def _start(self) -> None:
        others = {
            servers: (sink_name(int(servers.partition(":")[0].rpartition(".")[2])), broker)
            for servers, broker in self._brokers.items()
            if servers != HOME
        }
        machine = SimMachine(self._process, self.broker, self._network, others)

        def member(assignment: Assignment) -> Member:
            return Member(self._process, self.broker, self._network, assignment, "taken up", _BATCH, 0.0)

        start_worker(
            self._process,
            machine,
            Disk(),
            self.settings,
            self._group,
            self.registry,
            member,
            self._open_copy,
        )

    def _leave(self, error: Ended, status: int) -> NoReturn:
        raise AssertionError(f"the worker has ended with {status}, for {error}") from error

    @contextmanager
    def _log(self) -> Iterator[None]:
        def keep(_: Any, level: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
            self.lines.append({"level": level, **event})
            raise structlog.DropEvent

        structlog.configure(processors=[keep], cache_logger_on_first_use=False)
        try:
            yield
        finally:
            structlog.reset_defaults()

    # ---- the store

    def _at_rest(self) -> bool:
        """At times: let the store write on, and see whether all feeds are complete."""
        if self.scheduler.now < self._due:
            return False
        self._due += _LOOK_S
        self._ask()
        self._write()
        if self._written == [len(records) for records in self._store.log]:
            for request in self._waiting:
                self._store.answer(request)
            self._waiting.clear()
            self._store.beat()
        last = max(version.timestamp for version in self.stored.history)
        return all(
            feed.status is FeedState.SUCCEEDED
            or (feed.status is FeedState.RUNNING and self._covered(feed) >= last)
            for feed in self.feeds()
        )

    def _ask(self) -> None:
        """Hear what the worker asks for."""
        for number, first in enumerate(self._read):
            entries, self._read[number] = self.broker.partition(TOPICS.requests, number).read(first, 1_000)
            for entry in entries:
                request = decode_request(entry.value or b"")
                assert isinstance(request, Push | Scan)
                self.requests.append(request)
                self._waiting.append(request)

    def _write(self) -> None:
        """Append the next records of the log."""
        for number, records in enumerate(self._store.log):
            first, self._written[number] = (
                self._written[number],
                min(len(records), self._written[number] + _AT_ONCE),
            )
            place = self.broker.partition(TOPICS.log, number)
            new = [SentRecord(key, value, at) for _, key, value, at in records[first : self._written[number]]]
            self.broker.append(place, new)

    def _covered(self, feed: FeedView) -> Timestamp:
        return covered(self.broker_of(feed), self.registry, feed)


def _topic(name: str, cluster: str, stored: Stored) -> Topic:
    """A topic with the records that are stored, at their offsets."""
    (told,) = (topic for topic in stored.topics if (topic.cluster, topic.name) == (cluster, name))
    partitions = [Partition(name, number) for number in range(told.partitions)]
    for partition in partitions:
        place = Place(cluster, name, partition.number)
        records = {record.offset: record for record in stored.records.get(place, ())}
        for offset in range(stored.ends[place]):
            record = records.get(offset)
            if record is None:  # the end of a transaction
                partition.entries.append(Entry(offset, None, 0))
            else:
                sent = SentRecord(record.key, record.value, record.timestamp_ms, record.headers)
                partition.entries.append(Entry(offset, sent, record.timestamp_ms))
    return Topic(name, told.id, partitions, dict(told.config))
