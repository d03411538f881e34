"""The real worker as a measured process, with a feed of its own on a log of its own."""

from __future__ import annotations

import time
import urllib.request
import uuid
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final

from bench.process import MeasuredProcess
from bench.topics import BenchTopics
from bench.workload import BENCH_OPTIONS, OUTPUT_PARTITIONS, bench_feed
from sim.log.sink import WrittenRecord
from tidegate.changefeed.definition.feed import FeedState
from tidegate.changefeed.definition.options import FeedOptions
from tidegate.client.jobs import Jobs
from tidegate.client.kafka.connection import KafkaConnection
from tidegate.client.why.worker_status import worker_url
from tidegate.errors import RetryError
from tidegate.processor.batch import StateTable
from tidegate.rows import TableDescriptor

_WORKER: Final = ("-m", "faust", "-A", "app.main", "worker")
_RUNNING_S: Final = 60.0
_REQUEST_S: Final = 10.0


class BenchApplication:
    """An application with topics that no other run has; its files stand below ``directory``."""

    def __init__(
        self,
        topics: BenchTopics,
        directory: Path,
        partitions: int,
        tables: Sequence[TableDescriptor],
        options: FeedOptions = BENCH_OPTIONS,
    ) -> None:
        self.prefix = f"bench-{uuid.uuid4().hex[:8]}-"
        self.log_topic = f"{self.prefix}raftlog"
        self.outputs = [f"{self.prefix}{table.name}" for table in tables]
        self.bootstrap = topics.bootstrap
        self._topics = topics
        self._directory = directory
        self._partitions = partitions
        self._tables = tables
        self._options = options
        self._starts = 0
        topics.create(self.log_topic, partitions)
        for output in self.outputs:
            topics.create(output, OUTPUT_PARTITIONS, stamped=True)

    def changelog(self, table: StateTable) -> str:
        """Return the topic that a table of state is kept in."""
        return f"{self.prefix}app-{table.value}-changelog"

    def write(self, records: Iterable[WrittenRecord]) -> None:
        """Append to the log."""
        self._topics.fill(self.log_topic, records)

    def start_worker(self, **settings: Any) -> MeasuredProcess:
        """Start the worker; it goes on where the last one ended."""
        self._starts += 1
        values = {
            "bootstrap_servers": self._topics.bootstrap,
            "app_id": f"{self.prefix}app",
            "topic_prefix": self.prefix,
            "data_dir": self._directory / "data",
            **self._allowed_registry(),
            **settings,
        }
        environment = {f"TIDEGATE_{name.upper()}": str(value) for name, value in values.items()}
        return MeasuredProcess(_WORKER, environment, self._directory / f"worker-{self._starts}.log")

    def _allowed_registry(self) -> dict[str, Path]:
        if not self._options.confluent_schema_registry:
            return {}
        file = self._directory / "destinations.toml"
        file.write_text(f'[registries.bench]\nurls = ["{self._options.confluent_schema_registry}"]\n')
        return {"destinations_file": file}

    def metrics(self) -> str:
        """Return the running worker's text at /metrics."""
        url = worker_url(self._directory / "data", f"{self.prefix}app")
        with urllib.request.urlopen(f"{url}/metrics", timeout=_REQUEST_S) as answer:  # noqa: S310 - our own
            return str(answer.read().decode())

    def create_feed(self, worker: MeasuredProcess) -> None:
        """Create the feed once the worker has read the log's head, and wait until the feed runs.

        Raises ``RetryError`` when it does not.
        """
        self._wait_for_descriptors(worker)
        jobs = Jobs(KafkaConnection(self._topics.bootstrap), f"{self.prefix}app")
        feed = bench_feed(
            self._tables,
            topic_prefix=self.prefix,
            bootstrap=self._topics.bootstrap,
            options=self._options,
        )
        jobs.create(feed.definition)
        view = jobs.wait(feed.feed_id, _RUNNING_S)
        if view.status is not FeedState.RUNNING:
            raise RetryError(f"the feed does not run: {view.status.value} {view.current_state}")

    def _wait_for_descriptors(self, worker: MeasuredProcess) -> None:
        """Wait until all partitions have stored the table. A feed fails if a partition has not heard of its
        table."""
        worker.wait_for("partitions assigned")
        stored = self.changelog(StateTable.DESCRIPTORS)
        deadline = time.monotonic() + _RUNNING_S
        while {m.partition() for m in self._topics.messages([stored])} != set(range(self._partitions)):
            worker.require_running()
            if time.monotonic() > deadline:
                raise RetryError(f"the head of the log was not taken within {_RUNNING_S:.0f} s: {worker.log}")
