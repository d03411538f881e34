"""A login is given to no cluster but that of its addresses: a fake broker at another one hears of none."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Final

import pytest
from pydantic import SecretStr

import tidegate.spark.changefeed.query_sinks
from tests.fake_broker import FakeBroker
from tests.feeds import activation
from tests.hand_log import HandTable
from tidegate.access.destinations import NOWHERE_ELSE, Destinations
from tidegate.access.destinations_file import read_destinations
from tidegate.changefeed.definition.feed import FeedState
from tidegate.changefeed.lifecycle.control import Activate
from tidegate.changefeed.lifecycle.job_records import DefinitionRecord, StateRecord
from tidegate.changefeed.lifecycle.jobs import FeedView, JobsView
from tidegate.client.cluster_acceptance import find_cluster
from tidegate.client.feed_topics import FeedTopics
from tidegate.client.kafka.connection import KafkaConnection
from tidegate.client.kafka.topic_admin import open_admin
from tidegate.delivery.producer_ids import MarkerIds
from tidegate.errors import RetryError, SinkNotAllowed
from tidegate.processor.batch import OutputRecord
from tidegate.spark.changefeed.query_markers import QueryMarkers
from tidegate.spark.changefeed.row_sinks import RowSinks
from tidegate.worker.feeds.admission import WaitingVerdict
from tidegate.worker.feeds.sink_answers import FeedSinks
from tidegate.worker.kafka.topology import WorkerTopicAdmin
from tidegate.worker.markers.marker_writer import OtherMarkers
from tidegate.worker.output.barrier import Barrier
from tidegate.worker.output.worker_sinks import WorkerSinks
from tidegate.worker.process.machine import RealMachine
from tidegate.worker.process.settings import SecurityProtocol, Settings

_OWN: Final = "127.0.0.1:9"
_PASSWORD: Final = "the-own-password"
_THEIRS: Final = "the-password-of-the-entry"
_STORED: Final = "a-cluster-id"
_LONG_S: Final = 10.0  # a client connects in milliseconds
_ROWS: Final = [OutputRecord("topic", 0, b"key", b"value", 1, [])]


@pytest.fixture
def stranger() -> Iterator[FakeBroker]:
    with FakeBroker() as broker:
        yield broker


def _feed(stranger: FakeBroker) -> Activate:
    return activation([HandTable.of(104, "plain").descriptor], sink_uri=f"kafka://{stranger.address}")


def _state(feed: Activate) -> StateRecord:
    """A feed that an earlier version has begun there."""
    definition = feed.definition
    return StateRecord(
        definition.id, definition.epoch, FeedState.RUNNING, feed.start, feed.targets, sink_cluster=_STORED
    )


def _jobs(feed: Activate) -> JobsView:
    view = JobsView()
    for record in (DefinitionRecord(feed.definition), _state(feed)):
        view.apply(record.key, record.to_bytes())
    return view


def _view(feed: Activate) -> FeedView:
    return _jobs(feed)[feed.definition.id]


def _logging_in(servers: str, destinations: Destinations = NOWHERE_ELSE) -> KafkaConnection:
    return KafkaConnection(
        servers,
        security_protocol="SASL_PLAINTEXT",
        sasl_mechanism="PLAIN",
        sasl_username="tidegate",
        sasl_password=_PASSWORD,
        timeout_s=0.5,
        destinations=destinations,
    )


def _connection(file: Path | None = None) -> KafkaConnection:
    return _logging_in(_OWN, read_destinations(file))


@contextmanager
def _workers(file: Path | None = None) -> Iterator[WorkerSinks]:
    settings = Settings(
        bootstrap_servers=_OWN,
        security_protocol=SecurityProtocol.SASL_PLAINTEXT,
        sasl_mechanism="PLAIN",
        sasl_username="tidegate",
        sasl_password=SecretStr(_PASSWORD),
        destinations_file=file,
    )
    with ThreadPoolExecutor(1) as threads:
        sinks = WorkerSinks(settings, WorkerTopicAdmin(settings), threads, RealMachine())
        with closing(sinks):
            yield sinks


def _entry(tmp_path: Path, *lines: str) -> Path:
    file = tmp_path / "destinations.toml"
    file.write_text("\n".join(("[clusters.there]", *lines)))
    return file


def test_a_fake_broker_hears_the_login_of_a_client_that_is_sent_to_it(stranger: FakeBroker) -> None:
    """Else it would prove nothing that it hears none."""
    with pytest.raises(RetryError):
        open_admin(_logging_in(stranger.address), 1.0).cluster_id()
    assert stranger.told.wait(_LONG_S)
    assert _PASSWORD.encode() in stranger.received


def _worker_asks_for_the_cluster(feed: Activate) -> None:
    with _workers() as sinks:
        asyncio.run(FeedSinks(sinks, lambda *_: None).learn(feed.definition))


def _worker_writes_rows(feed: Activate) -> None:
    with _workers() as sinks:
        loop = asyncio.new_event_loop()
        with closing(loop):
            sinks.of(feed.definition, _STORED).rows.send_to(_STORED, _ROWS, Barrier(1, loop))


def _worker_writes_markers(feed: Activate) -> None:
    with _workers() as sinks:
        ids = MarkerIds.of("app", feed.feed_id, _STORED)
        writer = OtherMarkers(sinks.of(feed.definition, _STORED), ids, RealMachine(), _state(feed))
        asyncio.run(writer.open())


def _query_asks_for_the_cluster(feed: Activate) -> None:
    tidegate.spark.changefeed.query_sinks.QuerySinks(_connection(), 1.0).learn(feed.definition)


def _query_writes_rows(feed: Activate) -> None:
    sinks = RowSinks(_connection(), None, {feed.definition.id: _STORED})
    sinks.send(feed.definition.id, feed.definition.sink, _ROWS)


def _query_asks_for_ends(feed: Activate) -> None:
    connection, nobody = _connection(), None
    unused: Any = nobody
    markers = QueryMarkers(
        connection, "app", unused, tidegate.spark.changefeed.query_sinks.QuerySinks(connection, 1.0), unused
    )
    markers._ends(feed.definition, _state(feed))([])


def _commands_read_topics(feed: Activate) -> None:
    FeedTopics.of(feed.definition.id, _view(feed)).connection(_connection())


def _accept_cluster_looks(feed: Activate) -> None:
    with find_cluster(_connection(), "app", feed.definition.id, _jobs(feed)):
        pass


@pytest.mark.parametrize(
    "use",
    [
        _worker_asks_for_the_cluster,
        _worker_writes_rows,
        _worker_writes_markers,
        _query_asks_for_the_cluster,
        _query_writes_rows,
        _query_asks_for_ends,
        _commands_read_topics,
        _accept_cluster_looks,
    ],
)
def test_a_cluster_that_no_entry_allows_is_not_connected_to(
    stranger: FakeBroker, use: Callable[[Activate], None]
) -> None:
    with pytest.raises(SinkNotAllowed, match=f"servers = .'{stranger.address}'.") as raised:
        use(_feed(stranger))
    assert "TIDEGATE_DESTINATIONS_FILE" in str(raised.value)
    assert (stranger.connections, bytes(stranger.received)) == (0, b"")


def test_an_allowed_cluster_is_given_the_login_of_its_entry_and_no_other(
    stranger: FakeBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TIDEGATE_SECRET_THERE", _THEIRS)
    file = _entry(
        tmp_path,
        'servers = ["localhost:*"]',
        'security_protocol = "SASL_PLAINTEXT"',
        'sasl_mechanism = "PLAIN"',
        'sasl_username = "guest"',
        'sasl_password = "secret://there"',
    )
    feed = _feed(stranger)
    with _workers(file) as sinks:
        assert sinks.of(feed.definition).rows is not None  # its producer connects by itself
        assert stranger.told.wait(_LONG_S)
        stranger.told.clear()
    with pytest.raises(RetryError):
        open_admin(_connection(file).to([stranger.address], feed.definition.id), 1.0).cluster_id()
    assert stranger.told.wait(_LONG_S)
    assert _THEIRS.encode() in stranger.received
    assert _PASSWORD.encode() not in stranger.received


def test_an_entry_may_admit_some_feeds_alone(stranger: FakeBroker, tmp_path: Path) -> None:
    file = _entry(tmp_path, f'servers = ["{stranger.address}"]', 'feeds = ["billing-*"]')
    feed = _feed(stranger)
    with _workers(file) as sinks, pytest.raises(SinkNotAllowed, match=r"clusters\.there .* feeds"):
        assert sinks.of(feed.definition).admin
    with pytest.raises(SinkNotAllowed, match=f"add '{feed.definition.id}'"):
        _connection(file).to([stranger.address], feed.definition.id)
    assert _connection(file).to([stranger.address], "billing-1").sasl_password is None


def test_a_feed_whose_sink_is_not_allowed_waits_and_says_how_to_allow_it(stranger: FakeBroker) -> None:
    feed = _feed(stranger)

    async def verdict() -> object:
        looked = asyncio.Event()
        with _workers() as sinks:
            asking = FeedSinks(sinks, lambda _, delay_s: None if delay_s else looked.set())
            with closing(asking):
                asking.verdict(feed.definition, FeedView(feed.definition))
                await asyncio.wait_for(looked.wait(), _LONG_S)
                return asking.verdict(feed.definition, FeedView(feed.definition))

    found = asyncio.run(verdict())
    assert isinstance(found, WaitingVerdict)
    assert "TIDEGATE_DESTINATIONS_FILE" in found.reason
    assert stranger.connections == 0
