"""The demo's load, live: a store that writes on while workers come, go and die, and its true history."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from examples.demo.board import Board, in_background
from examples.demo.children import Child
from sim.history import History
from tests.e2e.worker_process import FAUST, WorkerProcess
from tidegate.changefeed.definition import define_feed
from tidegate.changefeed.feed import FeedState
from tidegate.client.connection import KafkaConnection
from tidegate.client.expectations import expected_versions, read_catalog
from tidegate.client.feed_ids import new_feed_id
from tidegate.client.feed_topics import FeedTopics
from tidegate.client.jobs import Jobs
from tidegate.client.output import OutputTopics
from tidegate.client.tail import TailFrom, tail_topics
from tidegate.hlc import Timestamp
from tidegate.verify import AuditOptions, AuditReport, audit

PARTITIONS: Final = 3
_ROWS_PER_S: Final = 1_000
_LOOK_AGAIN_S: Final = 0.1


class LiveLoad:
    """A running store with the flights workload, and a feed on it once it is created."""

    def __init__(
        self, bootstrap: str, prefix: str, directory: Path, seed: int, store: Mapping[str, int]
    ) -> None:
        self.prefix = prefix
        self.app_id = f"{prefix}app"
        self._directory = directory
        self._history = directory / "history"
        self._connection = KafkaConnection(bootstrap)
        self._board = Board(prefix)
        self._feed: FeedTopics | None = None
        self._workers: list[WorkerProcess] = []
        arguments = ["examples.demo.store", "--bootstrap", bootstrap, "--topic-prefix", prefix]
        arguments += [
            "--partitions",
            str(PARTITIONS),
            "--rate",
            str(_ROWS_PER_S),
            "--seed",
            str(seed),
            "--answer-on",
        ]
        arguments += [part for name, value in store.items() for part in ("--set", name, str(value))]
        self.store = Child(
            "range store", [*arguments, "--history", str(self._history)], directory / "store.log"
        )
        self._wait_until(lambda: "committed" in (directory / "store.log").read_text(), "the store to write")

    def start_worker(self, name: str, **settings: Any) -> WorkerProcess:
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
        worker = WorkerProcess(self._directory / name / self.app_id, environment, FAUST, name)
        self._workers.append(worker)
        return worker

    def create_feed(self) -> None:
        """Create a feed on both tables, wait until it runs, and follow its topics."""
        now_ns = time.time_ns()
        statement = (
            f"CREATE CHANGEFEED FOR TABLE flights, weather INTO 'kafka://"
            f"{self._connection.bootstrap_servers}?topic_prefix={self.prefix}' "
            "WITH updated, resolved, initial_scan='no'"
        )
        definition = define_feed(statement, new_feed_id(now_ns), now_ns).definition
        jobs = Jobs(self._connection, self.app_id, appear_s=60)
        jobs.create(definition)
        feed = jobs.wait(definition.id, 60)
        assert feed.status is FeedState.RUNNING, feed
        self._feed = FeedTopics.of(definition.id, feed)
        records = tail_topics(self._connection, self._feed.topics, TailFrom.BEGINNING, follow=True)
        in_background(self._board.follow_topics, records, self._feed.decoders())

    def values_of(self, topic: str) -> list[bytes]:
        """The values of all records that a topic has now."""
        records = OutputTopics.now(self._connection, [topic]).records()
        return [record.value for record in records if record.value is not None]

    def finish(self) -> AuditReport:
        """Stop the writes, wait until markers have passed the last of them everywhere, and audit it all."""
        assert self._feed is not None
        self.store.require_running()
        self.store.ask_to_stop()
        self._wait_until(lambda: '"drained": true' in self.store.log.read_text(), "the store to close it all")
        now = Timestamp(time.time_ns())
        self._wait_until(lambda: self._board.resolved >= now, f"a marker at {now}")
        self.store.ask_to_stop()
        self.store.wait()
        history = History.load(self._history)
        last = max(version.timestamp for version in history)
        topics = OutputTopics.now(self._connection, self._feed.topics)
        expected = expected_versions(
            history,
            read_catalog(self._connection, f"{self.prefix}raftlog"),
            self._feed.options,
            {target.table_id: target.topic for target in self._feed.targets},
            start=self._feed.start,
        )
        options = AuditOptions(start=self._feed.start, initial_scan=self._feed.options.initial_scan)
        report = audit(topics.records(), topics.counts, options, self._feed.decoder, expected)
        assert report.covered >= last, str(report)
        return report

    def _wait_until(self, true: Any, what: str, timeout_s: float = 120.0) -> None:
        deadline = time.monotonic() + timeout_s
        while not true():
            assert time.monotonic() < deadline, f"waited in vain for {what}\n{self._logs()}"
            time.sleep(_LOOK_AGAIN_S)

    def _logs(self) -> str:
        return "\n".join(worker.text[-5_000:] for worker in self._workers if worker.running)

    def close(self) -> None:
        """Kill what still runs."""
        for worker in self._workers:
            if worker.running:
                worker.kill()
        self.store.end()


@contextmanager
def live_load(
    bootstrap: str, prefix: str, directory: Path, seed: int, store: Mapping[str, int] | None = None
) -> Iterator[LiveLoad]:
    """A load that ends with the context. ``store`` has fields of ``StoreOptions`` that differ."""
    load = LiveLoad(bootstrap, prefix, directory, seed, store or {})
    try:
        yield load
    finally:
        load.close()
