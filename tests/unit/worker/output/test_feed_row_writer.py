"""Rows of a feed wait until it is known which cluster they belong on."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from tests.destinations import DESTINATIONS_FILE
from tests.feeds import activation
from tests.hand_log import HandTable
from tidegate.changefeed.definition.feed import FIRST_EPOCH, FeedEpoch, FeedState
from tidegate.changefeed.lifecycle.job_records import StateRecord
from tidegate.changefeed.lifecycle.jobs import FeedView
from tidegate.processor.batch import OutputRecord
from tidegate.worker.kafka.topology import WorkerTopicAdmin
from tidegate.worker.output.barrier import Barrier
from tidegate.worker.output.feed_row_writer import FeedRowWriter
from tidegate.worker.output.row_producer import SharedRowProducer
from tidegate.worker.output.worker_sinks import WorkerSinks
from tidegate.worker.process.machine import RealMachine
from tidegate.worker.process.settings import Settings

_FEED = activation([HandTable.of(104, "plain").descriptor], sink_uri="kafka://10.0.0.1:9")
_ROWS = [OutputRecord("topic", 0, b"key", b"value", 1, [])]


class Taken:
    """The rows that the producers of clusters were given, by their servers."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.by: list[str] = []
        taken = self

        class Noting(SharedRowProducer):
            def __init__(
                self, settings: Settings, machine: object, *, watched: bool, topic: str = ""
            ) -> None:
                self._servers = settings.bootstrap_servers
                self.is_over = False
                self.topic = topic

            def send(self, rows: Sequence[OutputRecord], barrier: Barrier, first: int = 0) -> int:
                assert not self.is_over
                taken.by.append(self._servers)
                return len(rows)

            def send_to(
                self, cluster: str, rows: Sequence[OutputRecord], barrier: Barrier, first: int = 0
            ) -> int:
                return self.send(rows, barrier, first)

            def close(self) -> None:
                """Nothing is open."""

        patch.setattr("tidegate.worker.output.worker_sinks.SharedRowProducer", Noting)


@pytest.fixture
def taken(monkeypatch: pytest.MonkeyPatch) -> Taken:
    return Taken(monkeypatch)


@pytest.fixture
def sinks() -> Iterator[WorkerSinks]:
    settings = Settings(bootstrap_servers="127.0.0.1:9", destinations_file=DESTINATIONS_FILE)
    with ThreadPoolExecutor(1) as threads:
        found = WorkerSinks(settings, WorkerTopicAdmin(settings), threads, RealMachine())
        with closing(found):
            yield found


@pytest.fixture
def barrier() -> Iterator[Barrier]:
    loop = asyncio.new_event_loop()
    with closing(loop):
        yield Barrier(1, loop)


def _stored(cluster: str, epoch: FeedEpoch = FIRST_EPOCH) -> FeedView:
    state = StateRecord(
        _FEED.feed_id, epoch, FeedState.RUNNING, _FEED.start, _FEED.targets, sink_cluster=cluster
    )
    return FeedView(replace(_FEED.definition, epoch=epoch), state=state)


@pytest.mark.parametrize(("cluster", "servers"), [("", "127.0.0.1:9"), ("an-id", "10.0.0.1:9")])
def test_rows_go_to_the_cluster_that_is_stored_with_the_feed(
    taken: Taken, sinks: WorkerSinks, barrier: Barrier, cluster: str, servers: str
) -> None:
    assert FeedRowWriter(sinks, _FEED.definition, lambda: _stored(cluster)).send(_ROWS, barrier) == 1
    assert taken.by == [servers]


def test_rows_wait_while_a_file_of_their_sinks_entry_cannot_be_used(tmp_path: Path, barrier: Barrier) -> None:
    entries = tmp_path / "destinations.toml"
    entries.write_text(
        '[clusters.other]\nservers = ["10.0.0.1:9"]\nsecurity_protocol = "SSL"\n'
        f'ssl_ca_location = "{tmp_path / "gone.pem"}"\n'
    )
    entries.chmod(0o600)
    settings = Settings(bootstrap_servers="127.0.0.1:9", destinations_file=entries)
    with (
        ThreadPoolExecutor(1) as threads,
        closing(WorkerSinks(settings, WorkerTopicAdmin(settings), threads, RealMachine())) as sinks,
    ):
        writer = FeedRowWriter(sinks, _FEED.definition, lambda: _stored("an-id"))
        assert not writer.is_held
        assert writer.send(_ROWS, barrier) == 0


class Full(RealMachine):
    """A machine that has no room for another producer."""

    def producer(self, config: Mapping[str, Any]) -> Producer:
        raise RuntimeError("Failed to initialize thread local storage")  # confluent-kafka's own


def test_rows_wait_while_the_process_has_no_room_for_another_client(barrier: Barrier) -> None:
    settings = Settings(bootstrap_servers="127.0.0.1:9", destinations_file=DESTINATIONS_FILE)
    with (
        ThreadPoolExecutor(1) as threads,
        closing(WorkerSinks(settings, WorkerTopicAdmin(settings), threads, Full())) as sinks,
    ):
        writer = FeedRowWriter(sinks, _FEED.definition, lambda: _stored("an-id"))
        assert writer.send(_ROWS, barrier) == 0
        assert not writer.is_held


def test_rows_wait_while_nothing_is_known_of_the_feed(
    taken: Taken, sinks: WorkerSinks, barrier: Barrier
) -> None:
    views = [FeedView(), _stored("", FeedEpoch(2)), _stored("")]
    writer = FeedRowWriter(sinks, _FEED.definition, lambda: views.pop(0))
    assert [writer.send(_ROWS, barrier) for _ in range(4)] == [0, 0, 1, 1]
    assert taken.by == ["127.0.0.1:9"] * 2


def test_rows_of_an_epoch_that_is_over_are_not_waited_for_once_its_cluster_is_forgotten(
    taken: Taken, sinks: WorkerSinks, barrier: Barrier
) -> None:
    later = replace(_FEED.definition, epoch=FeedEpoch(2))
    views = [FeedView(), FeedView(later)]
    writer = FeedRowWriter(sinks, _FEED.definition, lambda: views[0])
    held = [writer.is_held]
    views.pop(0)
    held.append(writer.is_held)
    assert (writer.send(_ROWS, barrier), taken.by) == (0, [])
    assert held == [False, True]


def test_no_row_goes_to_the_next_producer_before_those_that_the_last_one_has_given_up(
    taken: Taken, sinks: WorkerSinks, barrier: Barrier
) -> None:
    writer = FeedRowWriter(sinks, _FEED.definition, lambda: _stored(""))
    writer.send(_ROWS, barrier)
    first = sinks.own.rows
    assert isinstance(first, SharedRowProducer)
    first.is_over = True
    assert sinks.own.rows is not first
    assert writer.is_over
    again = FeedRowWriter(sinks, _FEED.definition, lambda: _stored(""))
    assert (again.send(_ROWS, barrier), again.is_over) == (1, False)
