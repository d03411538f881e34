"""A feed whose preparation meets trouble waits or fails: the same cases for every engine.

A new feed holds log partitions, so it fails. One that began in an earlier epoch holds none, so it waits.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any, Final, NoReturn, TypeAlias

import pytest

from tests.destinations import DESTINATIONS
from tests.feeds import activation
from tests.hand_log import HandTable
from tests.unit.processor.schemed import schemed_options
from tidegate.changefeed.definition.feed import FeedEpoch, FeedState
from tidegate.changefeed.lifecycle.control import KnownTable
from tidegate.changefeed.lifecycle.jobs import FeedView, JobsView
from tidegate.changefeed.lifecycle.registration import Prepare
from tidegate.client.kafka.topics import Topics
from tidegate.client.own_topics import OwnTopics
from tidegate.errors import RegistryDenied, RetryError, SecretMissing, SinkNotAllowed
from tidegate.hlc import Timestamp
from tidegate.spark.changefeed.preparation import Preparation
from tidegate.worker.feeds.feed_preparation import prepared

_TABLE: Final = HandTable.of(104, "plain")
_FEED: Final = activation([_TABLE.descriptor], schemed_options("feed-"), feed_id="feed")
_SERVERS: Final = "there:9092"


@dataclass(frozen=True, slots=True)
class Trouble:
    """A trouble that keeps a feed from being prepared: its sink's client cannot be opened, or gives no
    answer; or its registry refuses our login."""

    opening: RetryError | None = None
    asking: RetryError | None = None
    registry: RetryError | None = None


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome for the feed: whether it waits for another try, and the sentence."""

    waits: bool
    sentence: str


Engine: TypeAlias = Callable[[int, Prepare, Trouble], Outcome]


def _raise(error: RetryError | None) -> None:
    if error is not None:
        raise error


class _Silent:
    """A client for topics that gives no answer."""

    servers = _SERVERS

    def __init__(self, error: RetryError | None) -> None:
        self._error = error

    def __getattr__(self, name: str) -> Callable[..., NoReturn]:
        def ask(*_: object) -> NoReturn:
            assert self._error is not None
            raise self._error

        return ask


def _workers(epoch: int, step: Prepare, trouble: Trouble) -> Outcome:
    class Sink:
        servers, threads = _SERVERS, None

        @property
        def admin(self) -> _Silent:
            _raise(trouble.opening)
            return _Silent(trouble.asking)

    class Ids:
        async def try_ids(self, *_: object) -> Mapping[object, int]:
            _raise(trouble.registry)
            return {}

    runtime: Any = SimpleNamespace(
        sinks=SimpleNamespace(of=lambda *_: Sink()),
        schema_ids=Ids(),
        settings=SimpleNamespace(output_partitions=2, max_record_bytes=1_000_000),
    )
    definition = replace(_FEED.definition, epoch=FeedEpoch(epoch))
    state = asyncio.run(prepared(definition, step, "an-id", runtime, OwnTopics(), FeedView(definition)))
    assert state.state in (FeedState.PENDING, FeedState.FAILED)
    return Outcome(state.state is FeedState.PENDING, state.error)


def _spark(epoch: int, step: Prepare, trouble: Trouble) -> Outcome:
    class Sinks:
        destinations = DESTINATIONS

        def connection(self, *_: object) -> None:
            _raise(trouble.opening)

        def admin(self, _: object) -> _Silent:
            return _Silent(trouble.asking)

        def servers(self, *_: object) -> str:
            return _SERVERS

        def cluster_of(self, _: object) -> str:
            return "an-id"

        def share(self, *_: object) -> bool:
            return True

    class Registries:
        def of(self, _: str) -> Any:
            return SimpleNamespace(check=lambda: _raise(trouble.registry), id_of=lambda _: 1)

        def close(self) -> None:
            """Nothing is open."""

    jobs: Any = SimpleNamespace(view=JobsView())
    sinks: Any = Sinks()
    registries: Any = Registries()
    preparation = Preparation(Topics("app", ""), jobs, sinks, 2, lambda _: True)
    preparation.close()
    preparation._registries = registries
    try:
        state = preparation.prepared(replace(_FEED.definition, epoch=FeedEpoch(epoch)), step)
    except RetryError as error:
        return Outcome(True, str(error))
    assert state.state is FeedState.FAILED
    return Outcome(False, state.error)


@pytest.fixture(params=[_workers, _spark], ids=["workers", "spark"])
def engine(request: pytest.FixtureRequest) -> Engine:
    chosen: Engine = request.param
    return chosen


_NEW: Final = Prepare(
    Timestamp(5),
    tuple(KnownTable(table, _TABLE.descriptor.id) for table in _FEED.definition.tables),
    {},
    cluster="an-id",
)
_BEGAN: Final = replace(_NEW, tables=(), targets=_FEED.targets)
_TROUBLES: Final = [
    Trouble(asking=RetryError("no broker answers")),
    Trouble(opening=SinkNotAllowed("no entry allows it")),
    Trouble(opening=SecretMissing("a secret is missing")),
    Trouble(registry=RegistryDenied("the registry refuses our login")),
]
_NAMES: Final = ["away", "not allowed", "no secret", "registry"]


def _words(trouble: Trouble) -> str:
    return str(trouble.opening or trouble.asking or trouble.registry)


@pytest.mark.parametrize("epoch", [1, 2], ids=["first epoch", "moved before it began"])
@pytest.mark.parametrize("trouble", _TROUBLES, ids=_NAMES)
def test_a_new_feed_fails_since_partitions_wait_for_it(engine: Engine, trouble: Trouble, epoch: int) -> None:
    outcome = engine(epoch, _NEW, trouble)
    assert not outcome.waits
    assert outcome.sentence.endswith(_words(trouble))
    went_away = f"its sink, the Kafka cluster at {_SERVERS}, went away"
    assert outcome.sentence.startswith(went_away) is (trouble.asking is not None)


@pytest.mark.parametrize("trouble", _TROUBLES, ids=_NAMES)
def test_a_feed_that_began_in_an_earlier_epoch_waits(engine: Engine, trouble: Trouble) -> None:
    assert engine(2, _BEGAN, trouble) == Outcome(True, _words(trouble))
