"""The demo's load, live: a store that writes on while workers come, go and die, and its true history."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any, Final

from examples.demo.board import Board, in_background
from examples.demo.children import Child
from sim.log.history import History
from tests.destinations import DESTINATIONS
from tests.e2e.worker_process import FAUST, WorkerProcess
from tidegate.changefeed.definition.feed import Engine, FeedId, FeedState
from tidegate.changefeed.lifecycle.jobs import FeedView
from tidegate.changefeed.statement.definition import define_feed
from tidegate.client.expectations import expected_versions
from tidegate.client.feed_ids import new_feed_id
from tidegate.client.feed_topics import FeedTopics
from tidegate.client.jobs import Jobs
from tidegate.client.kafka.connection import KafkaConnection
from tidegate.client.output import OutputTopics
from tidegate.client.table_descriptors import read_catalog
from tidegate.client.tail import TailFrom, tail_topics
from tidegate.errors import RetryError
from tidegate.hlc import ZERO, Timestamp
from tidegate.raftlog.decode import decode_entry
from tidegate.raftlog.entry import Entry
from tidegate.verify import AuditOptions, AuditReport, ExpectedVersion, TopicRecord, audit

PARTITIONS: Final = 3
ROWS_PER_S: Final = 300
MANY_ROWS_PER_S: Final = 1_000  # where a test needs many rows in flight, or belongs to `make soak`
_LOOK_AGAIN_S: Final = 0.1
_COMES_S: Final = 120.0
_PASSES_S: Final = 300.0  # as for `create_feed`, and Spark has to catch up
_BEGINS_S: Final = 400.0  # Spark takes two minutes to start on a slow machine that has much else to do


class LiveLoad:
    """A running store with the flights workload, and a feed on it once it is created."""

    def __init__(
        self,
        bootstrap: str,
        prefix: str,
        directory: Path,
        seed: int,
        store: Mapping[str, int],
        rows_per_s: int = ROWS_PER_S,
    ) -> None:
        self.prefix = prefix
        self.app_id = f"{prefix}app"
        self._directory = directory
        self._history = directory / "history"
        # A reader of committed records waits for open transactions, and these wait for a processor that other
        # processes use too.
        self._connection = KafkaConnection(bootstrap, timeout_s=60)
        self._board = Board(prefix)
        self._jobs: Jobs | None = None
        self._feed_id: FeedId | None = None
        self._workers: list[WorkerProcess] = []
        arguments = ["examples.demo.store", "--bootstrap", bootstrap, "--topic-prefix", prefix]
        arguments += [
            "--partitions",
            str(PARTITIONS),
            "--rate",
            str(rows_per_s),
            "--seed",
            str(seed),
            "--answer-on",
        ]
        arguments += [part for name, value in store.items() for part in ("--set", name, str(value))]
        self.store = Child(
            "range store", [*arguments, "--history", str(self._history)], directory / "store.log"
        )
        self._wait_until(self._store_writes, "the store to write")

    def _store_writes(self) -> bool:
        self.store.require_running()
        return "committed" in self.store.log.read_text()

    def start_worker(self, name: str, arguments: Sequence[str] = FAUST, **settings: Any) -> WorkerProcess:
        """Start a worker with a data directory of its own, by ``name``."""
        values = {
            "bootstrap_servers": self._connection.bootstrap_servers,
            "app_id": self.app_id,
            "topic_prefix": self.prefix,
            "data_dir": self._directory / name,
            "output_partitions": 3,
            "session_timeout_ms": 6000,
            "push_age_ms": 1000,
            "push_repeat_ms": 1000,
            **settings,
        }
        environment = {f"TIDEGATE_{field.upper()}": str(value) for field, value in values.items()}
        worker = WorkerProcess(self._directory / name / self.app_id, environment, arguments, name)
        self._workers.append(worker)
        return worker

    @property
    def environment(self) -> dict[str, str]:
        """The environment by which a command of tidegate finds the load's application."""
        return {
            "TIDEGATE_BOOTSTRAP_SERVERS": self._connection.bootstrap_servers,
            "TIDEGATE_APP_ID": self.app_id,
            "TIDEGATE_TOPIC_PREFIX": self.prefix,
        }

    def create_feed(
        self, options: str = "updated, resolved, initial_scan='no'", engine: Engine = Engine.WORKERS
    ) -> None:
        """Create a feed on both tables, wait until it runs, and follow its topics."""
        self.define_feed(options, engine)
        self.follow_feed()

    def define_feed(self, options: str, engine: Engine = Engine.WORKERS) -> None:
        """Ask for a feed on both tables."""
        now_ns = time.time_ns()
        definition = define_feed(self.statement(options), new_feed_id(now_ns), now_ns).definition
        self.jobs.create(replace(definition, engine=engine))
        self._feed_id = definition.id

    def statement(self, options: str) -> str:
        """Return the statement of a feed on both tables."""
        return (
            f"CREATE CHANGEFEED FOR TABLE flights, weather INTO 'kafka://"
            f"{self._connection.bootstrap_servers}?topic_prefix={self.prefix}' WITH {options}"
        )

    def find_feed(self) -> None:
        """Use the only feed of the application as the load's own. Somebody else has asked for it."""
        ((self._feed_id, _),) = self.jobs.view().feeds()

    def follow_feed(self) -> None:
        """Wait until the feed runs, and follow its topics."""
        feed = FeedTopics.of(self._known_id, self._begun())
        records = tail_topics(self._connection, feed.topics, TailFrom.BEGINNING, follow=True)
        in_background(self._board.follow_topics, records, feed.decoders(DESTINATIONS))

    @property
    def jobs(self) -> Jobs:
        """The application's feeds, once a worker has been there."""
        if self._jobs is None:
            self._jobs = Jobs(self._connection, self.app_id, appear_s=60)
        return self._jobs

    def ask_for_move(self, engine: Engine) -> None:
        """Have the engine go on with the feed as soon as it is there."""
        self.jobs.move(self._known_id, engine)

    def move_feed(self, engine: Engine) -> None:
        """Have the engine go on with the feed, and wait until it does."""
        self.ask_for_move(engine)
        self._begun()

    def _begun(self) -> FeedView:
        """The feed once it runs; ``AssertionError`` with what workers said when that takes too long."""
        try:
            view = self.jobs.wait(self._known_id, _BEGINS_S)
        except RetryError as error:
            raise AssertionError(f"{error}\n{self._logs()}") from error
        assert view.status is FeedState.RUNNING, view
        return view

    @property
    def feed(self) -> FeedView:
        """The feed as it is now."""
        return self.jobs.feed(self._known_id)

    @property
    def feed_id(self) -> FeedId:
        """The feed's id."""
        return self._known_id

    def values_of(self, topic: str) -> list[bytes]:
        """The values of all records that a topic has now."""
        return [record.value for record in self._records_of(topic) if record.value is not None]

    @property
    def log(self) -> list[Entry]:
        """The entries of the log now; those of one range are in order."""
        return [
            decode_entry(record.key, record.value) for record in self._records_of(f"{self.prefix}raftlog")
        ]

    def _records_of(self, topic: str) -> Iterator[TopicRecord]:
        return OutputTopics.now(self._connection, [topic]).records()

    def finish(self) -> AuditReport:
        """Stop the writes, wait until the markers of every partition are above the last of them, and audit
        the whole output."""
        self.store.require_running()
        self.drain()
        now = Timestamp(time.time_ns())
        self._wait_until(lambda: self._board.resolved >= now, f"a marker at {now}")
        self.end_store()
        report = self.audit()
        assert report.covered >= max(version.timestamp for version in self.history), str(report)
        return report

    def end_store(self) -> None:
        """Let the store write what it has begun, and its history, and then end."""
        self.drain()
        self.store.ask_to_stop()
        self.store.wait()

    def drain(self) -> None:
        """Stop the writes, and wait until all of them are in the log and closed."""
        if not self._drained:
            self.store.ask_to_stop()
            self._wait_until(lambda: self._drained, "the store to close it all")

    @property
    def _drained(self) -> bool:
        return '"drained": true' in self.store.log.read_text()

    @cached_property
    def history(self) -> History:
        """All that was committed, once the store has ended."""
        return History.load(self._history)

    def expected(self) -> Iterator[ExpectedVersion]:
        """Return the rows that the feed has to have written, once the store has ended."""
        feed = FeedTopics.of(self._known_id, self.feed)
        return expected_versions(
            self.history,
            read_catalog(self._connection, f"{self.prefix}raftlog"),
            feed.options,
            {target.table_id: target.topic for target in feed.targets},
            start=feed.start,
        )

    def audit(self) -> AuditReport:
        """The feed's output as it is now, against the history of a store that has ended."""
        feed = FeedTopics.of(self._known_id, self.feed)
        options = AuditOptions(
            start=feed.start, initial_scan=feed.options.initial_scan, succeeded=feed.succeeded
        )
        topics = OutputTopics.now(self._connection, feed.topics)
        return audit(topics.records(), topics.counts, options, feed.decoder(DESTINATIONS), self.expected())

    def output(self) -> list[TopicRecord]:
        """All records of the feed's topics."""
        feed = FeedTopics.of(self._known_id, self.feed)
        return list(OutputTopics.now(self._connection, feed.topics).records())

    @property
    def _known_id(self) -> FeedId:
        assert self._feed_id is not None
        return self._feed_id

    def wait_until(self, true: Callable[[], bool], what: str, timeout_s: float = _COMES_S) -> None:
        """Return once ``true``; ``AssertionError`` with what workers said when that takes too long."""
        self._wait_until(true, what, timeout_s)

    def wait_past_now(self, what: str) -> None:
        """Wait until a marker is above the present."""
        now = Timestamp(time.time_ns())
        self._wait_until(lambda: (self.feed.high_water or ZERO) > now, what, _PASSES_S)

    def _wait_until(self, true: Any, what: str, timeout_s: float = _COMES_S) -> None:
        begun = time.monotonic()
        deadline = begun + timeout_s
        while not true():
            assert time.monotonic() < deadline, f"waited in vain for {what}\n{self._logs()}"
            time.sleep(max(_LOOK_AGAIN_S, time.monotonic() - begun))  # half of the time is for the workers
            begun = time.monotonic()

    def _logs(self) -> str:
        return "\n".join(worker.told() for worker in self._workers)

    def close(self) -> None:
        """Kill what still runs."""
        for worker in self._workers:
            if worker.running:
                worker.kill()
        self.store.kill()


@contextmanager
def live_load(
    bootstrap: str,
    prefix: str,
    directory: Path,
    seed: int,
    store: Mapping[str, int] | None = None,
    rows_per_s: int = ROWS_PER_S,
) -> Iterator[LiveLoad]:
    """Yield a load that ends with the context. ``store`` has those fields of ``StoreOptions`` that differ
    from the usual."""
    load = LiveLoad(bootstrap, prefix, directory, seed, store or {}, rows_per_s)
    try:
        yield load
    finally:
        load.close()
