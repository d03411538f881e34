"""Feeds on the shop's items, with and without schemas, and what the reference engine writes for them."""

from __future__ import annotations

import json
import time
import urllib.request
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from sim.workloads.shop import ADDED_COLUMN
from tests.contract.comparison import KeyOnPartition, rows_by_key
from tests.contract.engine import Output
from tests.e2e.scenario import HEAD_RECORDS, PARTITIONS, Scenario
from tests.e2e.worker_process import WorkerProcess
from tests.unit.cli.running import run
from tidegate.changefeed.definition.feed import FeedId, FeedState
from tidegate.changefeed.lifecycle.control import Activate
from tidegate.changefeed.statement.definition import define_feed
from tidegate.client.jobs import Jobs
from tidegate.client.output import OutputTopics
from tidegate.processor.reference import Emitted, OutputPartition, ReferenceEngine
from tidegate.raftlog.decode import decode_batch
from tidegate.raftlog.entry import DescriptorUpdate

_SETTLED_S: Final = 60.0
_COVERED_S: Final = 90.0
_LOOK_AGAIN_S: Final = 0.2


def avro(registry_url: str) -> str:
    """The options of a feed with schemas."""
    return f"updated, format='avro', confluent_schema_registry='{registry_url}'"


JSON: Final = "updated"


@dataclass(frozen=True, slots=True)
class ShopFeeds:
    """The feeds of a scenario whose log is the shop's; each has a prefix of its own."""

    scenario: Scenario

    @property
    def jobs(self) -> Jobs:
        """Return the feeds as the jobs topic has them."""
        return Jobs(self.scenario.connection, self.scenario.app_id)

    def ask_for(self, name: str, options: str) -> FeedId:
        """Ask for a feed, and do not wait for it."""
        statement = (
            f"CREATE CHANGEFEED FOR TABLE items INTO 'kafka://{self.scenario.bootstrap}"
            f"?topic_prefix={self.scenario.prefix}{name}-' WITH initial_scan='no', resolved, {options}"
        )
        definition = define_feed(statement, FeedId(name), time.time_ns()).definition
        self.jobs.create(definition)
        return definition.id

    def created(self, name: str, options: str) -> Activate:
        """Create a feed, and wait until it runs."""
        return self.running(self.ask_for(name, options))

    def running(self, feed_id: FeedId) -> Activate:
        """A feed, once it runs."""
        view = self.jobs.wait(feed_id, _SETTLED_S)
        assert view.status is FeedState.RUNNING, (
            view,
            [each.text[-10_000:] for each in self.scenario.workers],
        )
        assert view.definition is not None
        assert view.current_state is not None
        assert view.current_state.start is not None
        assert view.current_state.error == ""
        return Activate(view.definition, view.current_state.start, view.current_state.targets)

    def listed(self, feed_id: FeedId) -> dict[str, Any]:
        """Return what `tidegate feed list` shows of a feed."""
        kafka = ("-b", self.scenario.bootstrap, "--app-id", self.scenario.app_id)
        rows = json.loads(run("feed", "list", "--json", *kafka).stdout)
        (row,) = (row for row in rows if row["job_id"] == feed_id)
        return dict(row)

    # ---- output

    def expected(self, feed: Activate) -> Output:
        """Return what the reference engine writes for the whole log, without the markers except the last
        one."""
        engine = ReferenceEngine(PARTITIONS, [feed])
        for number, records in enumerate(self.scenario.log.partitions):
            engine.step(number, records)
        return engine.output

    def written(self, feed: Activate) -> Output:
        """The feed's topics as they are now."""
        output: dict[OutputPartition, list[Emitted]] = {}
        topics = [target.topic for target in feed.targets]
        for record in OutputTopics.now(self.scenario.connection, topics).records():
            headers = tuple((name, value or b"") for name, value in record.headers)
            emitted = Emitted(record.key, record.value, record.timestamp_ms, headers)
            output.setdefault(OutputPartition(record.topic, record.partition), []).append(emitted)
        return output

    def wait_until_covered(self, worker: WorkerProcess, *feeds: Activate) -> None:
        """Wait for the last marker of the log on every partition of the feeds' topics. Then their rows must
        be the reference engine's, byte by byte, in order for each key, exact duplicates removed."""
        for feed in feeds:
            expected = self.expected(feed)
            last = {place: last_marker(records) for place, records in expected.items()}
            worker.wait_until(lambda: self._has(feed, last), f"{feed.feed_id} to be covered", _COVERED_S)  # noqa: B023
            assert rows_by_key(self.written(feed)) == rows_by_key(expected)

    def _has(self, feed: Activate, last: dict[OutputPartition, bytes | None]) -> bool:
        time.sleep(_LOOK_AGAIN_S)
        found = self.written(feed)
        return all(last_marker(found.get(place, ())) == marker for place, marker in last.items())

    def rows(self, output: Output) -> set[tuple[KeyOnPartition, Emitted]]:
        """Rows without their order."""
        return {(key, row) for key, rows in rows_by_key(output).items() for row in rows}

    # ---- the column that is added

    def append_up_to_the_new_column(self, more: int = 0) -> None:
        """Write the log after its head, up to the first record that tells of the table's new version, and
        then ``more`` records."""
        end = min(map(_first_of_version_two, self.scenario.log.partitions))
        self.scenario.append(end - HEAD_RECORDS + more)


def last_marker(records: Sequence[Emitted]) -> bytes | None:
    """The value of the last marker; ``None`` where there is none."""
    return next((record.value for record in reversed(records) if record.key is None), None)


def _first_of_version_two(records: Sequence[Any]) -> int:
    entries = decode_batch((record.key, record.value) for record in records)
    return next(
        number
        for number, entry in enumerate(entries)
        if isinstance(entry, DescriptorUpdate) and entry.version == 2
    )


def has_new_column(schema_text: str) -> bool:
    """Whether a schema is of the version with the new column."""
    return f'"{ADDED_COLUMN}"' in schema_text


def metric(worker: WorkerProcess, name: str) -> float:
    """The sum of a metric's samples."""
    address = json.loads((worker.home / "worker.json").read_text())["url"]
    with urllib.request.urlopen(f"{address}/metrics", timeout=60) as answer:
        lines = answer.read().decode().splitlines()
    return sum(float(line.rsplit(" ", 1)[1]) for line in lines if line.startswith(name))


def wait_for(true: Callable[[], bool], what: str, timeout_s: float = _SETTLED_S) -> None:
    """Return once ``true``; ``AssertionError`` when it takes too long."""
    deadline = time.monotonic() + timeout_s
    while not true():
        assert time.monotonic() < deadline, f"waited in vain for {what}"
        time.sleep(_LOOK_AGAIN_S)
