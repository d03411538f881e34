"""One application on a real broker: its log, its feed, its workers, and the audit of what came out."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from sim.workloads.bank import Bank, BankOptions
from tests.e2e.worker_process import FAUST, WorkerProcess
from tests.feeds import activation
from tests.logs import EVENTFUL_MIX, Record, SimulatedLog, eventful_store, simulate
from tidegate.changefeed.definition.feed import FeedState, TableName
from tidegate.changefeed.definition.options import Envelope, FeedOptions
from tidegate.changefeed.encoding.json_decoder import JsonDecoder
from tidegate.changefeed.encoding.record import MarkerRecord
from tidegate.changefeed.lifecycle.control import Activate
from tidegate.changefeed.lifecycle.jobs import FeedView
from tidegate.client.jobs import Jobs
from tidegate.client.kafka.connection import KafkaConnection
from tidegate.client.output import OutputTopics
from tidegate.errors import TidegateError
from tidegate.hlc import Timestamp
from tidegate.processor.batch import SOURCE_HEADER
from tidegate.processor.reference import ReferenceEngine
from tidegate.verify import AuditReport, ExpectedVersion, Verdict, audit

PARTITIONS: Final = 3
OUTPUT_PARTITIONS: Final = 3
#: The time after which a session expires: long after every time limit of the tests. Some tests count what a
#: worker opens; the group must not throw that worker out because the machine stood still.
LONG_SESSION_MS: Final = 600_000
HEAD_RECORDS: Final = 5
_LOOK_AGAIN_S: Final = 0.2
_DECODER: Final = JsonDecoder(Envelope.WRAPPED)


def bank_log(seed: int, transactions: int, accounts: int = 40) -> SimulatedLog:
    """The finished log of a bank with all that can happen to a transaction."""
    bank = Bank(BankOptions(accounts=accounts, ranges=5, outcomes=EVENTFUL_MIX), seed)
    return simulate(bank, eventful_store(PARTITIONS), seed=seed, transactions=transactions)


def _head_is_read(worker: WorkerProcess, records: int) -> bool:
    if not (worker.home / "worker.json").exists():
        return False
    partitions = worker.ask("/status")["partitions"]
    read = [partition for partition in partitions if (partition["next_offset"] or 0) >= records]
    return len(read) == PARTITIONS


class Scenario:
    """An application on a broker. Its topics are named by ``prefix``; its files stand below ``directory``."""

    def __init__(
        self, bootstrap: str, prefix: str, directory: Path, log: SimulatedLog, *, create_log: bool = True
    ) -> None:
        self.bootstrap = bootstrap
        self.prefix = prefix
        self.app_id = f"{prefix}app"
        self.directory = directory
        self.log = log
        self.workers: list[WorkerProcess] = []
        self.connection = KafkaConnection(bootstrap, timeout_s=60)
        self.output = self.connection
        self.topic = f"{prefix}accounts"
        self.feed: Activate | None = None
        #: The options of the feed that differ from the usual ones.
        self.more_options: Mapping[str, Any] = {}
        self._written = 0
        self._producer = Producer(
            {"bootstrap.servers": bootstrap, "enable.idempotence": True, "message.timeout.ms": 0}
        )
        if create_log:
            self.create_log()

    # ---- workers

    def settings(self, name: str = "w0", **more: Any) -> dict[str, str]:
        """The environment of a worker."""
        values = {
            "bootstrap_servers": self.bootstrap,
            "app_id": self.app_id,
            "topic_prefix": self.prefix,
            "data_dir": self.directory / name,
            "output_partitions": OUTPUT_PARTITIONS,
            "session_timeout_ms": 6000,
            "batch_records": 50,
            "log_level": "INFO",
            **more,
        }
        return {f"TIDEGATE_{field.upper()}": str(value) for field, value in values.items()}

    def start_worker(
        self, name: str = "w0", arguments: Sequence[str] = FAUST, *, fresh: bool = False, **settings: Any
    ) -> WorkerProcess:
        """Start a worker with a data directory of its own, by ``name``; see `WorkerProcess` for ``fresh``."""
        home = self.directory / name / self.app_id
        worker = WorkerProcess(home, self.settings(name, **settings), arguments, name, fresh=fresh)
        self.workers.append(worker)
        return worker

    def close(self) -> None:
        """Kill what still runs."""
        for worker in self.workers:
            if worker.running:
                worker.resume()
                worker.kill()

    # ---- input

    def create_log(self) -> None:
        """Create the topic of the log, as the range store does."""
        log = f"{self.prefix}raftlog"
        admin = AdminClient({"bootstrap.servers": self.bootstrap})
        admin.create_topics([NewTopic(log, PARTITIONS, 1)])[log].result(30)

    def create_feed(self, worker: WorkerProcess, feed_id: str = "bank") -> FeedView:
        """Create a feed on all tables, and wait until it runs.

        Before that, the first records of the log are written, which describe the tables and the ranges.
        """
        self.write_head(worker)
        options = FeedOptions(
            updated=True, resolved_interval_ns=0, topic_prefix=self.prefix, **self.more_options
        )
        definition = activation(
            self.log.tables, options, feed_id=feed_id, sink_uri=f"kafka://{self.bootstrap}"
        ).definition
        jobs = Jobs(self.connection, self.app_id)
        jobs.create(definition)
        feed = jobs.wait(definition.id, 60)
        assert feed.status is FeedState.RUNNING, (feed, worker.text)
        self.follow(feed, self.topic)
        return feed

    def write_head(self, worker: WorkerProcess, records: int = HEAD_RECORDS) -> None:
        """Write the records that describe the tables and the ranges, and wait until the worker has read
        them."""
        self.append(records)
        worker.wait_until(lambda: _head_is_read(worker, records), "the head of the log to be read")

    def follow(self, feed: FeedView, topic: str, output: KafkaConnection | None = None) -> None:
        """Expect and audit this feed's rows from now on. ``output`` is its sink's cluster, if that is not the
        scenario's own."""
        self.output = output or self.connection
        state = feed.current_state
        assert feed.definition is not None
        assert state is not None
        assert state.start is not None
        self.feed = Activate(feed.definition, state.start, state.targets)
        self.topic = topic

    def log_table(self, name: str) -> TableName:
        """The name of a table that the log's database might have."""
        return TableName.of(self.log.tables[0])._replace(name=name)

    def append(self, count: int | None = None) -> None:
        """Write the next ``count`` records of each log partition, or all that are left."""
        end = None if count is None else self._written + count
        for partition, records in enumerate(self.log.partitions):
            for record in records[self._written : end]:
                self._append(partition, record)
        assert self._producer.flush(60) == 0
        self._written = max(map(len, self.log.partitions)) if end is None else end

    @property
    def written(self) -> int:
        """The number of records that `append` has written of each log partition. A shorter partition has
        written all of its records."""
        return self._written

    def rewind(self) -> None:
        """Let `append` begin with the log's first record again."""
        self._written = 0

    def _append(self, partition: int, record: Record) -> None:
        self._producer.produce(
            f"{self.prefix}raftlog", record.value, record.key, partition, timestamp=record.timestamp
        )
        self._producer.poll(0)

    # ---- output

    def reference(self) -> ReferenceEngine:
        """Return the in-memory engine after it has processed the whole log."""
        assert self.feed is not None
        engine = ReferenceEngine(PARTITIONS, [self.feed])
        for number, records in enumerate(self.log.partitions):
            engine.step(number, records)
        return engine

    def expected(self) -> Iterator[ExpectedVersion]:
        """Every row that the reference engine writes."""
        for place, records in self.reference().output.items():
            for record in records:
                if record.key is None:  # a marker
                    continue
                decoded = _DECODER.decode(record.key, record.value, record.headers)
                if not isinstance(decoded, MarkerRecord):
                    assert decoded.updated is not None
                    headers = tuple(each for each in record.headers if each[0] != SOURCE_HEADER)
                    yield ExpectedVersion(place.topic, record.key, decoded.updated, record.value, headers)

    def audit(self) -> AuditReport:
        """The output as it is now, against the reference engine's."""
        topics = OutputTopics.now(self.output, [self.topic])
        return audit(topics.records(), topics.counts, expected=self.expected())

    def wait_until_marked(self, worker: WorkerProcess, before: Timestamp, timeout_s: float = 60.0) -> None:
        """Wait for a marker above ``before``, or for the worker's death."""
        deadline = time.monotonic() + timeout_s
        while worker.running and self.covered() <= before:
            assert time.monotonic() < deadline, f"covered {before}\n{worker.text[-20_000:]}"
            time.sleep(_LOOK_AGAIN_S)

    def wait_until_covered(self, worker: WorkerProcess, timeout_s: float = 120.0) -> AuditReport:
        """Wait for the last marker of the log on every partition; then audit everything."""
        last = self.end()
        deadline = time.monotonic() + timeout_s
        begun = time.monotonic()
        while (covered := self.covered()) < last:
            assert worker.running, f"the worker ended\n{worker.text[-20_000:]}"
            assert time.monotonic() < deadline, f"covered {covered} of {last}\n{worker.text[-20_000:]}"
            time.sleep(max(_LOOK_AGAIN_S, time.monotonic() - begun))  # half of the time is for the worker
            begun = time.monotonic()
        report = self.audit()
        assert report.verdict is not Verdict.VIOLATED, str(report)
        assert report.covered >= last, str(report)
        return report

    def end(self) -> Timestamp:
        """The last marker that the whole log allows."""
        assert self.feed is not None
        return Timestamp(*self.reference().high_water(self.feed.feed_id))

    def covered(self) -> Timestamp:
        """The highest marker that every output partition has."""
        try:
            topics = OutputTopics.now(self.output, [self.topic])
            markers: dict[int, Timestamp] = dict.fromkeys(range(OUTPUT_PARTITIONS), Timestamp(0))
            for record in topics.records():
                if record.key is not None:
                    continue  # a row: most records are rows, and they are read again at the next look
                decoded = _DECODER.decode(record.key, record.value)
                assert isinstance(decoded, MarkerRecord)
                markers[record.partition] = max(markers[record.partition], decoded.resolved)
        except TidegateError:
            return Timestamp(0)
        return min(markers.values())
