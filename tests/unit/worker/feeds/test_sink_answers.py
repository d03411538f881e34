"""Sinks are asked before a new feed is announced, and nobody waits for them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from functools import partial
from typing import Any, Final

import pytest

from tests.destinations import DESTINATIONS_FILE
from tests.feeds import activation
from tests.hand_log import HandTable
from tidegate.changefeed.definition.feed import FeedDefinition, FeedId, FeedState
from tidegate.changefeed.lifecycle.job_records import DefinitionRecord, StateRecord
from tidegate.changefeed.lifecycle.jobs import FeedView, JobsView
from tidegate.errors import RetryError
from tidegate.worker.feeds.admission import Admitted, Verdict, WaitingVerdict
from tidegate.worker.feeds.sink_answers import FeedSinks
from tidegate.worker.kafka.topology import WorkerTopicAdmin
from tidegate.worker.output.worker_sinks import WorkerSinks
from tidegate.worker.process.machine import RealMachine
from tidegate.worker.process.settings import Settings

_OWN: Final = "own:9092"
_STARTED: Final = activation([HandTable.of(104, "plain").descriptor])


def _feed(name: str, servers: str) -> FeedDefinition:
    return replace(_STARTED.definition, id=FeedId(name), sink_uri=f"kafka://{servers}")


def _view(definition: FeedDefinition, cluster: str | None = None) -> FeedView:
    """A feed that waits for its start, or runs on the cluster with this id."""
    view = JobsView()
    records: list[DefinitionRecord | StateRecord] = [DefinitionRecord(definition)]
    if cluster is not None:
        records.append(
            StateRecord(
                definition.id,
                definition.epoch,
                FeedState.RUNNING,
                _STARTED.start,
                _STARTED.targets,
                sink_cluster=cluster,
            )
        )
    for record in records:
        view.apply(record.key, record.to_bytes())
    return view[definition.id]


class _Bench:
    """The jobs agent's part: it looks at a feed when it is told to. Clusters by what they answer."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, threads: ThreadPoolExecutor) -> None:
        self.ids: dict[str, str] = {_OWN: "ours"}
        self.silent = 0
        self.asked: list[str] = []
        self.looks: list[tuple[FeedId, float]] = []
        self.now = 100.0
        settings = Settings(bootstrap_servers=_OWN, destinations_file=DESTINATIONS_FILE)
        monkeypatch.setattr(WorkerTopicAdmin, "cluster_id", lambda admin: self._answer(admin._servers))
        self.clusters = WorkerSinks(settings, WorkerTopicAdmin(settings), threads, RealMachine())
        self.sinks = FeedSinks(
            self.clusters, lambda feed_id, delay: self.looks.append((feed_id, delay)), lambda: self.now
        )

    def _answer(self, servers: str) -> str:
        self.asked.append(servers)
        if servers not in self.ids:
            raise RetryError(f"nobody at {servers}")
        return self.ids[servers]

    def ask(self, definition: FeedDefinition) -> Verdict:
        self.looks.clear()
        return self.sinks.verdict(definition, FeedView(definition))

    async def answered(self, definition: FeedDefinition) -> Verdict:
        """The verdict of the next look that is called for at once."""
        self.ask(definition)
        while (definition.id, 0.0) not in self.looks:  # noqa: ASYNC110 - a task works meanwhile
            await asyncio.sleep(0.001)
        return self.ask(definition)


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[_Bench], Coroutine[Any, Any, None]]], None]:
    def running(scenario: Callable[[_Bench], Coroutine[Any, Any, None]]) -> None:
        with ThreadPoolExecutor(1) as threads:
            bench = _Bench(monkeypatch, threads)
            with closing(bench.clusters):
                asyncio.run(asyncio.wait_for(scenario(bench), 30))

    return running


def test_the_workers_own_cluster_is_not_asked(run: Any) -> None:
    async def scenario(bench: _Bench) -> None:
        assert bench.ask(_feed("a", _OWN)) == Admitted()
        assert (bench.asked, bench.sinks.cluster_of(_feed("a", _OWN))) == ([], "")

    run(scenario)


def test_a_feed_is_admitted_once_its_sink_has_answered(run: Any) -> None:
    async def scenario(bench: _Bench) -> None:
        bench.ids["other:1"] = "theirs"
        assert bench.sinks.cluster_of(_feed("a", "other:1")) is None
        assert await bench.answered(_feed("a", "other:1")) == Admitted()
        assert bench.sinks.cluster_of(_feed("a", "other:1")) == "theirs"

    run(scenario)


def test_an_address_that_meant_the_workers_own_cluster_is_asked_for_each_new_feed(run: Any) -> None:
    async def scenario(bench: _Bench) -> None:
        bench.ids["alias:1"] = "ours"
        assert await bench.answered(_feed("a", "alias:1")) == Admitted()
        assert bench.sinks.cluster_of(_feed("a", "alias:1")) == ""
        bench.ids["alias:1"] = "theirs"
        assert await bench.answered(_feed("b", "alias:1")) == Admitted()
        assert bench.sinks.cluster_of(_feed("b", "alias:1")) == "theirs"

    run(scenario)


def test_a_sink_that_does_not_answer_is_asked_again_and_the_feed_says_so(run: Any) -> None:
    async def scenario(bench: _Bench) -> None:
        feed = _feed("a", "other:1")
        for pause in (1, 2, 4):
            verdict = await bench.answered(feed)
            assert verdict == WaitingVerdict(
                "waiting for its sink, the Kafka cluster at other:1. nobody at other:1. Asked again in "
                f"{pause} s."
            )
            assert bench.looks == [(feed.id, float(pause))], "it is looked at again when it is due"
            bench.now += pause
        bench.ids["other:1"] = "theirs"
        assert await bench.answered(feed) == Admitted()

    run(scenario)


def test_the_workers_own_cluster_by_another_address_is_known_by_its_id(run: Any) -> None:
    async def scenario(bench: _Bench) -> None:
        bench.ids["alias:1"] = "ours"
        assert await bench.answered(_feed("a", "alias:1")) == Admitted()
        assert bench.sinks.cluster_of(_feed("a", "alias:1")) == ""

    run(scenario)


def test_feeds_share_topics_where_their_clusters_are_one(run: Any) -> None:
    async def scenario(bench: _Bench) -> None:
        bench.ids |= {"x:1": "theirs", "x:2": "theirs", "y:1": "third"}
        for servers in ("x:1", "y:1"):
            await bench.sinks.learn(_feed("a", servers))
        shares = partial(bench.sinks.share, _feed("a", "x:1"))
        assert shares(_view(_feed("b", "x:2"), "theirs")), "by the id that is stored"
        assert not shares(_view(_feed("b", "y:1"), "third"))
        assert not shares(_view(_feed("b", _OWN), ""))
        assert shares(_view(_feed("b", "x:1"))), "of those that wait, by servers"
        assert not shares(_view(_feed("b", "x:2"))), "not known yet; decided when it is prepared"
        await bench.sinks.learn(_feed("b", "x:2"))
        assert shares(_view(_feed("b", "x:2"))), "by the id that was learned"
        assert not shares(_view(_feed("b", _OWN)))
        assert bench.sinks.share(_feed("a", _OWN), _view(_feed("b", _OWN), ""))

    run(scenario)


def test_a_sink_of_another_feed_that_cannot_be_read_is_no_cluster(run: Any) -> None:
    async def scenario(bench: _Bench) -> None:
        assert not bench.sinks.share(_feed("a", _OWN), _view(_feed("b", "user:x@own:9092")))

    run(scenario)
