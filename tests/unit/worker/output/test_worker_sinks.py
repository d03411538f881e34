"""The clusters that feeds write to: one producer each, opened when it is needed. Nobody listens there."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from types import SimpleNamespace
from typing import Any

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from pydantic import SecretStr

import tidegate.worker.output.row_producer
from tests.destinations import DESTINATIONS_FILE
from tests.feeds import activation
from tests.hand_log import HandTable
from tidegate.changefeed.definition.feed import FeedDefinition
from tidegate.errors import StatementError
from tidegate.processor.batch import OutputRecord
from tidegate.worker.kafka.topology import WorkerTopicAdmin
from tidegate.worker.operations.metrics import ReportCollector
from tidegate.worker.operations.report import SinkReport, WorkerReport
from tidegate.worker.output.barrier import Barrier
from tidegate.worker.output.worker_sinks import WorkerSinks
from tidegate.worker.process.machine import RealMachine
from tidegate.worker.process.settings import SecurityProtocol, Settings

_OWN = "127.0.0.1:9"
_SETTINGS = Settings(
    bootstrap_servers=f"localhost:8, {_OWN}",
    security_protocol=SecurityProtocol.SASL_PLAINTEXT,
    sasl_username="ann",
    sasl_password=SecretStr("hush"),
    destinations_file=DESTINATIONS_FILE,
)


def _feed(uri: str) -> FeedDefinition:
    return activation([HandTable.of(104, "plain").descriptor], sink_uri=uri).definition


class Machine(RealMachine):
    """The real one, which notes what it is asked for."""

    def __init__(self) -> None:
        self.configs: list[dict[str, object]] = []

    def producer(self, config):  # type: ignore[no-untyped-def]
        self.configs.append(dict(config))
        return super().producer(config)


class Unpolled(RealMachine):
    """The real one, whose producers nobody polls: what librdkafka has to tell waits in them."""

    def __init__(self) -> None:
        self.producers: list[Any] = []

    def producer(self, config):  # type: ignore[no-untyped-def]
        self.producers.append(super().producer(config))
        return self.producers[-1]

    def background(self, work: Callable[[], None], name: str) -> Any:
        return SimpleNamespace(join=lambda: None)


@contextmanager
def opened(machine: RealMachine) -> Iterator[WorkerSinks]:
    with ThreadPoolExecutor(1) as threads:
        sinks = WorkerSinks(_SETTINGS, WorkerTopicAdmin(_SETTINGS, machine), threads, machine)
        with closing(sinks):
            yield sinks


def test_feeds_of_one_cluster_share_a_producer_and_those_of_others_do_not() -> None:
    with opened(Machine()) as sinks:
        own = [sinks.of(_feed(uri)).rows for uri in (f"kafka://{_OWN}", "kafka://localhost:8?topic_prefix=x")]
        other = [
            sinks.of(_feed(uri)).rows
            for uri in ("kafka://127.0.0.2:9,127.0.0.2:8", "kafka://127.0.0.2:8,127.0.0.2:9")
        ]
        third = sinks.of(_feed("kafka://127.0.0.3:9")).rows
        assert own == [sinks.own.rows] * 2
        assert other[0] is other[1]
        assert len({id(sink) for sink in (own[0], other[0], third)}) == 3


def test_a_feed_that_is_stored_on_the_workers_own_cluster_is_there_whatever_its_address() -> None:
    with opened(Machine()) as sinks:
        assert sinks.of(_feed("kafka://127.0.0.2:9"), "") is sinks.own
        assert sinks.of(_feed("kafka://127.0.0.2:9"), "an-id") is sinks.of(_feed("kafka://127.0.0.2:9"))
        assert not sinks.of(_feed(f"kafka://{_OWN}"), "an-id").own


def test_a_producer_is_opened_when_its_rows_are_first_asked_for() -> None:
    machine = Machine()
    with opened(machine) as sinks:
        cluster = sinks.of(_feed("kafka://127.0.0.2:9"))
        assert machine.configs == []
        assert cluster.rows is cluster.rows
        assert [config["bootstrap.servers"] for config in machine.configs] == ["127.0.0.2:9"]


def test_another_cluster_is_given_the_login_of_its_entry_and_not_the_workers() -> None:
    machine = Machine()
    with opened(machine) as sinks:
        assert sinks.of(_feed("kafka://127.0.0.2:9")).rows is not None
    (config,) = machine.configs
    assert config["security.protocol"] == "PLAINTEXT"
    assert "hush" not in str(config)


def test_what_waits_for_another_cluster_has_threads_of_its_own() -> None:
    with opened(Machine()) as sinks:
        assert sinks.of(_feed("kafka://127.0.0.2:9")).threads is not sinks.own.threads


def test_rows_that_a_closed_sink_gives_up_neither_end_the_process_nor_count(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ended: list[BaseException] = []
    monkeypatch.setattr(tidegate.worker.output.row_producer, "end_process", ended.append)
    loop = asyncio.new_event_loop()
    with closing(loop), opened(Machine()) as sinks:
        barrier = Barrier(1, loop)
        row = OutputRecord("topic", 0, b"key", b"value", 1, [])
        assert sinks.of(_feed("kafka://127.0.0.3:9")).rows.send([row], barrier) == 1
        sinks.close()
        assert (ended, barrier.acknowledged.done()) == ([], False)


def test_each_sink_has_its_metrics() -> None:
    with opened(Machine()) as sinks:
        sinks.of(_feed("kafka://127.0.0.2:9"))
        reports = sinks.report()
    assert reports == (SinkReport("127.0.0.1:8,127.0.0.1:9", 0), SinkReport("127.0.0.2:9", 0))
    report = WorkerReport("app", None, "raftlog", 1, stall_alarm_ms=1, sinks=reports)
    registry = CollectorRegistry()
    registry.register(ReportCollector(lambda: report))
    assert 'tidegate_sink_pending_rows{sink="127.0.0.2:9"} 0.0' in generate_latest(registry).decode()
    assert report.as_json()["sinks"][1] == {"sink": "127.0.0.2:9", "pending_rows": 0}


def test_what_is_no_sink_is_refused() -> None:
    with opened(Machine()) as sinks, pytest.raises(StatementError, match="unsupported sink"):
        sinks.of(_feed("ftp://127.0.0.2:9"))


def _look(sinks: WorkerSinks, *live: FeedDefinition, times: int = 1) -> list[str]:
    """Look for unused clusters; return those that are open, without the worker's own."""
    for _ in range(times):
        sinks.close_unused({(each.id, each.sink) for each in live})
    return [report.sink for report in sinks.report()[1:]]


async def _comes(true: Callable[[], bool]) -> None:
    """Wait for what must come; pytest's time limit ends a test where it does not."""
    while not true():  # noqa: ASYNC110 - threads work meanwhile, and tell nobody
        await asyncio.sleep(0.01)


def test_a_cluster_is_closed_when_the_last_feed_has_ended_and_opened_anew_when_one_comes_back() -> None:
    one, other = _feed("kafka://127.0.0.2:9"), _feed("kafka://127.0.0.3:9")
    before = threading.active_count()
    with opened(Machine()) as sinks:
        cluster, rows = sinks.of(one), sinks.of(one).rows
        assert sinks.of(other).admin is not None
        assert cluster.threads.submit(int).result() == 0
        assert _look(sinks, one, other, times=5) == ["127.0.0.2:9", "127.0.0.3:9"]
        assert _look(sinks, other) == ["127.0.0.2:9", "127.0.0.3:9"], "a feed may have ended a moment ago"
        assert _look(sinks, other) == ["127.0.0.3:9"]
        asyncio.run(_comes(lambda: rows.is_over))
        asyncio.run(_comes(lambda: threading.active_count() <= before))
        assert sinks.of(one) is not cluster
        assert not sinks.of(one).rows.is_over


def test_errors_of_an_unreachable_cluster_are_not_rows_that_wait_for_it() -> None:
    machine = Unpolled()
    with opened(machine) as sinks:
        cluster = sinks.of(_feed("kafka://127.0.0.2:9"))
        assert cluster.rows.pending() == 0
        (producer,) = machine.producers
        asyncio.run(_comes(lambda: len(producer) > 0))
        assert (cluster.rows.pending(), cluster.report().pending_rows) == (0, 0)


def test_a_cluster_with_a_publisher_of_markers_stays_open() -> None:
    feed = _feed("kafka://127.0.0.2:9")
    with opened(Machine()) as sinks:
        cluster = sinks.of(feed)
        cluster.publishers += 1
        assert _look(sinks, times=50) == ["127.0.0.2:9"]
        cluster.publishers -= 1
        assert _look(sinks) == ["127.0.0.2:9"]
        assert _look(sinks) == []


def test_a_cluster_with_rows_of_ended_feeds_stays_open_for_ten_minutes() -> None:
    feed, loop = _feed("kafka://127.0.0.2:9"), asyncio.new_event_loop()
    with closing(loop), opened(Machine()) as sinks:
        rows = sinks.of(feed).rows
        assert rows.send([OutputRecord("topic", 0, b"key", b"value", 1, [])], Barrier(1, loop)) == 1
        assert _look(sinks, times=19) == ["127.0.0.2:9"]
        assert _look(sinks) == []
        asyncio.run(_comes(lambda: rows.is_over))  # whoever still has rows gives them to another producer


def test_a_cluster_of_a_former_epoch_is_closed_though_the_feed_lives() -> None:
    former, now = _feed("kafka://127.0.0.2:9"), _feed("kafka://127.0.0.3:9")
    assert former.id == now.id
    with opened(Machine()) as sinks:
        sinks.of(former)
        sinks.of(now)
        assert _look(sinks, now, times=2) == ["127.0.0.3:9"]
