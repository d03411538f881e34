"""A feed that began on another cluster than its sink's address means now: the same cases for every engine.

Both ids have to stand in its sentence, since ``tidegate feed accept-cluster`` takes one of them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from typing import Final, TypeAlias

import pytest

from tests.destinations import DESTINATIONS, DESTINATIONS_FILE
from tests.feeds import activation
from tests.hand_log import HandTable
from tidegate.changefeed.definition.feed import FeedEpoch, FeedState
from tidegate.changefeed.lifecycle.job_records import StateRecord
from tidegate.changefeed.lifecycle.jobs import FeedView
from tidegate.client.kafka.connection import KafkaConnection
from tidegate.client.kafka.topic_admin import TopicAdmin
from tidegate.delivery.sink_identity import held
from tidegate.errors import SinkHeld
from tidegate.spark.changefeed.query_sinks import QuerySinks
from tidegate.worker.feeds.admission import Admitted, WaitingVerdict
from tidegate.worker.feeds.sink_answers import FeedSinks
from tidegate.worker.kafka.topology import WorkerTopicAdmin
from tidegate.worker.output.worker_sinks import WorkerSinks
from tidegate.worker.process.machine import RealMachine
from tidegate.worker.process.settings import Settings

_OWN: Final = "own:9092"
_FEED: Final = activation([HandTable.of(104, "a").descriptor])
_IDS: Final = {_OWN: "ours", "alias:1": "ours", "other:1": "theirs"}

#: Why the engine holds the feed; empty if it does not.
HeldEngine: TypeAlias = Callable[[FeedView], str]


def _workers(feed: FeedView) -> str:
    """The jobs agent asks in the background, before it announces the feed."""
    settings = Settings(bootstrap_servers=_OWN, destinations_file=DESTINATIONS_FILE)
    definition = feed.definition
    assert definition is not None

    async def answered(clusters: WorkerSinks) -> str:
        news = asyncio.Event()
        sinks = FeedSinks(clusters, lambda _, delay_s: None if delay_s else news.set())
        verdict = sinks.verdict(definition, feed)
        if not isinstance(verdict, Admitted):
            await asyncio.wait_for(news.wait(), 30)
            verdict = sinks.verdict(definition, feed)
        if isinstance(verdict, Admitted):
            return ""
        assert isinstance(verdict, WaitingVerdict)
        return verdict.reason.removesuffix(" Asked again in 1 s.").removesuffix(".")

    with ThreadPoolExecutor(1) as threads:
        admin = WorkerTopicAdmin(settings)
        with closing(WorkerSinks(settings, admin, threads, RealMachine())) as clusters:
            return asyncio.run(answered(clusters))


def _spark(feed: FeedView) -> str:
    sinks = QuerySinks(KafkaConnection(_OWN, destinations=DESTINATIONS), 1.0)
    assert feed.definition is not None
    try:
        sinks.learn(feed.definition)
        sinks.require_begun(feed.definition, feed)
    except SinkHeld as error:
        return str(error)
    return ""


@pytest.fixture(params=[_workers, _spark], ids=["workers", "spark"])
def engine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> HeldEngine:
    monkeypatch.setattr(TopicAdmin, "cluster_id", lambda admin: _IDS[admin.servers])
    chosen: HeldEngine = request.param
    return chosen


def _moved(stored: str, servers: str) -> FeedView:
    """A feed that began on the cluster ``stored``, and was moved since; its sink is at ``servers``."""
    definition = replace(_FEED.definition, sink_uri=f"kafka://{servers}")
    began = StateRecord(
        definition.id, definition.epoch, FeedState.RUNNING, _FEED.start, _FEED.targets, sink_cluster=stored
    )
    return FeedView(replace(definition, epoch=FeedEpoch(definition.epoch + 1)), state=began)


@pytest.mark.parametrize(
    ("stored", "servers", "there", "found"),
    [
        ("theirs", _OWN, "theirs", "ours"),  # an address that the engine uses itself
        ("theirs", "alias:1", "theirs", "ours"),
        ("", "other:1", "ours", "theirs"),
        ("third", "other:1", "third", "theirs"),
    ],
)
def test_a_held_feed_names_both_clusters(
    engine: HeldEngine, stored: str, servers: str, there: str, found: str
) -> None:
    assert engine(_moved(stored, servers)) == held(_FEED.feed_id, servers, there, found)


@pytest.mark.parametrize(("stored", "servers"), [("", _OWN), ("", "alias:1"), ("theirs", "other:1")])
def test_a_feed_whose_address_means_its_cluster_is_not_held(
    engine: HeldEngine, stored: str, servers: str
) -> None:
    assert engine(_moved(stored, servers)) == ""
