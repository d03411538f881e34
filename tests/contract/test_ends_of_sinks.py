"""The ends that a marker names are of the feed's own cluster: the same cases for every engine (step M3a)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from random import Random, SystemRandom
from types import SimpleNamespace
from typing import Any, Final, TypeAlias

import pytest
from confluent_kafka import KafkaError, KafkaException

import tidegate.client.kafka.topic_admin
import tidegate.delivery.marker_records
import tidegate.delivery.sink_ends
from tests.destinations import DESTINATIONS, DESTINATIONS_FILE
from tests.feeds import activation
from tests.hand_log import HandTable
from tidegate.changefeed.definition.feed import FeedState
from tidegate.changefeed.encoding.resolved_topic import OffsetMarkerDecoder
from tidegate.changefeed.lifecycle.job_records import StateRecord
from tidegate.client.kafka.connection import KafkaConnection
from tidegate.delivery.marker_records import MarkersAside, Place
from tidegate.errors import RecordRefused, RetryError
from tidegate.hlc import ResolvedTimestamp, Timestamp
from tidegate.spark.changefeed.query_markers import QueryMarkers
from tidegate.spark.changefeed.query_sinks import QuerySinks as QuerySinks
from tidegate.worker.kafka.topology import WorkerTopicAdmin
from tidegate.worker.markers.marker_records import ends_of
from tidegate.worker.output.worker_sinks import WorkerSinks
from tidegate.worker.process.settings import Settings

_FEED: Final = activation([HandTable.of(104, "a").descriptor], sink_uri="kafka://sink:9092")
_STATE: Final = StateRecord(
    _FEED.feed_id,
    _FEED.definition.epoch,
    FeedState.RUNNING,
    _FEED.start,
    tuple(replace(target, topic="a", partitions=1) for target in _FEED.targets),
    sink_cluster="home",
)
_FRESH: Final = SystemRandom()
_WARNING: Final = 30

#: How an engine asks where the feed's topics end.
Ends: TypeAlias = Callable[[Sequence[Place]], Mapping[Place, int]]


class World:
    """An address that means the cluster ``home`` or another one; ``restless`` is how often it changes."""

    def __init__(self, seed: int) -> None:
        self._rng = Random(seed)
        self.now = "home"
        self.restless = 0.3
        self.ends = {"home": 10, "away": 10}
        #: The clusters that do not have the topic.
        self.lack = set[str]()

    def go_on(self) -> None:
        """Both clusters grow."""
        for cluster in self.ends:
            self.ends[cluster] += self._rng.randint(0, 5)

    def answer(self) -> str:
        """Return who answers the next request."""
        if self._rng.random() < self.restless:
            self.now = "away" if self.now == "home" else "home"
        return self.now

    def admin(self, config: Mapping[str, Any]) -> Client:
        """Open a client, as ``tidegate.worker.process.machine`` and ``confluent_kafka.admin.AdminClient``
        do."""
        return Client(self, config["logger"])


class Client:
    """librdkafka's, which notices another cluster with its answer, and tells of it when it is polled."""

    def __init__(self, world: World, logger: Any) -> None:
        self._world, self._logger = world, logger
        self._known = ""
        self._lines = 0

    def list_topics(self, topic: str, timeout: float) -> Any:
        cluster = self._answer()
        found = SimpleNamespace(error=None, partitions={0: "led"})
        if cluster in self._world.lack:
            found = SimpleNamespace(error=KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART), partitions={})
        return SimpleNamespace(cluster_id=cluster, topics={topic: found})

    def list_offsets(self, asked: Mapping[Any, Any], **_: Any) -> Mapping[Any, Future[Any]]:
        found: Future[Any] = Future()
        cluster = self._answer()
        if cluster in self._world.lack:
            found.set_exception(KafkaException(KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART)))
        else:
            found.set_result(SimpleNamespace(offset=self._world.ends[cluster]))
        return dict.fromkeys(asked, found)

    def poll(self, timeout: float) -> int:
        for _ in range(self._lines):
            self._logger.log(_WARNING, "%s [%s] %s", "CLUSTERID", "client", "another ClusterId")
        self._lines = 0
        return 0

    def _answer(self) -> str:
        found = self._world.answer()
        self._lines += self._known not in ("", found)
        self._known = found
        return found


@contextmanager
def _workers(world: World, _: pytest.MonkeyPatch) -> Iterator[Ends]:
    settings, machine = Settings(destinations_file=DESTINATIONS_FILE), _as_machine(world)
    with ThreadPoolExecutor(1) as threads:
        sinks = WorkerSinks(settings, WorkerTopicAdmin(settings, machine), threads, machine)
        yield ends_of(sinks.of(_FEED.definition, _STATE.sink_cluster), _STATE)


def _as_machine(world: World) -> Any:
    return world


@contextmanager
def _spark(world: World, monkeypatch: pytest.MonkeyPatch) -> Iterator[Ends]:
    monkeypatch.setattr(tidegate.client.kafka.topic_admin, "AdminClient", world.admin)
    connection, nobody = KafkaConnection(destinations=DESTINATIONS), SimpleNamespace()
    jobs: Any = nobody
    registry: Any = nobody
    markers = QueryMarkers(connection, "app", jobs, QuerySinks(connection, 1.0), registry)
    yield markers._ends(_FEED.definition, _STATE)


@pytest.fixture(params=[_workers, _spark], ids=["workers", "spark"])
def engine(request: pytest.FixtureRequest) -> Any:
    return request.param


def _broken(engine: Any, seed: int, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return what is wrong with the markers of a feed whose sink's address wanders."""
    world, aside = World(seed), MarkersAside("m", _STATE.targets)
    with engine(world, monkeypatch) as ends:
        for number in range(20):
            world.go_on()
            named = _named(aside, ends, number)
            if named not in (None, world.ends["home"]):
                return f"a marker names {named}, and the topic ends at {world.ends['home']}: seed {seed}"
            if aside.fault:
                return f"nothing has fallen: seed {seed}: {aside.fault}"
        world.now, world.restless = "home", 0.0
        tries = [_named(aside, ends, 20 + number) for number in range(2)]
    return "" if world.ends["home"] in tries else f"no marker though the cluster is back: seed {seed}"


def _named(aside: MarkersAside, ends: Ends, number: int) -> int | None:
    """The end that a marker names; ``None`` when none can be made."""
    at = ResolvedTimestamp(Timestamp(1_000 + number))
    try:
        (record,) = aside.records(at, aside.ask(ends, lambda: 0.0))
    except RetryError:
        return None
    return OffsetMarkerDecoder().decode(None, record.value).offsets["a"]


def test_a_marker_names_ends_of_its_own_cluster_and_no_other_makes_them_fall(
    engine: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    for seed in (*range(100), _FRESH.getrandbits(32)):
        assert not _broken(engine, seed, monkeypatch)


def _gone(engine: Any, seed: int, lack: str, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Whether the topic of a feed counts as gone that one of the clusters does not have."""
    monkeypatch.setattr(tidegate.delivery.marker_records, "UNKNOWN_FOR_S", 0.0)
    world, aside = World(seed), MarkersAside("m", _STATE.targets)
    world.lack = {lack}
    with engine(world, monkeypatch) as ends:
        for number in range(20):
            try:
                _named(aside, ends, number)
            except RecordRefused:
                return True
    return False


def test_a_topic_that_another_cluster_does_not_know_is_not_gone(
    engine: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not any(_gone(engine, seed, "away", monkeypatch) for seed in range(50))
    assert any(_gone(engine, seed, "home", monkeypatch) for seed in range(50))


def test_an_engine_that_believes_every_cluster_that_a_topic_is_gone_is_found(
    engine: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tidegate.delivery.sink_ends, "require_cluster", lambda *_: None)
    assert any(_gone(engine, seed, "away", monkeypatch) for seed in range(20))


def test_an_engine_that_asks_nobody_behind_the_ends_is_found(
    engine: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tidegate.delivery.sink_ends, "require_cluster", lambda *_: None)
    assert any(_broken(engine, seed, monkeypatch) for seed in range(20))


def test_an_engine_that_asks_without_a_look_at_what_was_there_between_is_found(
    engine: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Client, "poll", lambda *_: 0)
    assert any(_broken(engine, seed, monkeypatch) for seed in range(100))
