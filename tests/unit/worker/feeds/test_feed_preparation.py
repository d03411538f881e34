"""Tests what a feed needs before it starts."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from threading import Event
from types import SimpleNamespace
from typing import Any, Final

import pytest

from tests.feeds import activation
from tests.hand_log import HandTable
from tests.unit.processor.schemed import schemed_options
from tidegate.changefeed.definition.feed import FeedEpoch, FeedState
from tidegate.changefeed.definition.options import FeedOptions, OnOversize
from tidegate.changefeed.encoding.encoder import marker_schemas
from tidegate.changefeed.lifecycle.job_records import StateRecord
from tidegate.changefeed.lifecycle.jobs import FeedView
from tidegate.changefeed.lifecycle.registration import Prepare
from tidegate.client.kafka.topic_admin import TopicSpec
from tidegate.client.own_topics import OwnTopics
from tidegate.hlc import Timestamp
from tidegate.worker.feeds import feed_preparation
from tidegate.worker.feeds.feed_preparation import prepared

_TABLE: Final = HandTable.of(104, "plain")
_FEED: Final = activation([_TABLE.descriptor], schemed_options("feed-"), feed_id="feed").definition
_JSON: Final = activation([_TABLE.descriptor], feed_id="json").definition


def test_only_a_feed_with_markers_among_schemed_rows_has_schemas_of_markers() -> None:
    without = replace(_FEED.options, resolved_interval_ns=None)
    assert marker_schemas(replace(_FEED, options=without)) == []
    assert marker_schemas(_JSON) == []
    aside = replace(_FEED.options, resolved_topic="aside")
    assert marker_schemas(replace(_FEED, options=aside)) == []


def test_the_schema_of_each_tables_markers_is_its_values_subject() -> None:
    assert [schema.subject for schema in marker_schemas(_FEED)] == ["feed-plain-value"]


class _Cluster:
    """A Kafka cluster with topics, as a client for topics sees it; ``ids`` are what it tells in turn."""

    servers = "there:9092"

    def __init__(self, *ids: str, **topics: int) -> None:
        self._ids = list(ids)
        self.topics = topics

    def cluster_id(self) -> str:
        return self._ids.pop(0) if len(self._ids) > 1 else self._ids[0]

    def create_unless_there(self, spec: TopicSpec) -> int | None:
        found = self.topics.get(spec.name)
        self.topics.setdefault(spec.name, spec.partitions)
        return found

    def partitions(self, topic: str) -> int | None:
        return self.topics.get(topic)

    def ids(self, names: list[str]) -> dict[str, str]:
        return {name: f"id-of-{name}" for name in names}

    def config(self, topic: str) -> dict[str, str]:
        return {
            "cleanup.policy": "compact" if topic == "compacted" else "delete",
            "max.message.bytes": "20000" if topic == "small" else "9000000",
        }


def _prepared(
    cluster: _Cluster,
    topic: str = "t",
    max_row_bytes: int = 0,
    *,
    moved: bool = False,
    threads: ThreadPoolExecutor | None = None,
) -> StateRecord:
    """Return what comes of a feed with that topic, of three partitions, that was accepted on the cluster
    ``c2``; or that was on it before, and is ``moved``. It leaves out rows above ``max_row_bytes``."""
    options = FeedOptions(updated=True, resolved_interval_ns=0)
    if max_row_bytes:
        options = replace(options, on_oversize=OnOversize.KEY_ONLY, max_row_bytes=max_row_bytes)
    feed = activation([_TABLE.descriptor], options, feed_id="json")
    targets = tuple(replace(target, topic=topic) for target in feed.targets)
    step = Prepare(Timestamp(5), (), {0: 7}, targets, "c2", topics_anew=not moved)
    definition = replace(feed.definition, epoch=FeedEpoch(2))
    sink = SimpleNamespace(admin=cluster, threads=threads, servers=cluster.servers)
    runtime: Any = SimpleNamespace(
        sinks=SimpleNamespace(of=lambda *_: sink),
        schema_ids=None,
        settings=SimpleNamespace(output_partitions=9, max_record_bytes=1_000_000),
    )
    return asyncio.run(prepared(definition, step, "c2", runtime, OwnTopics(), FeedView()))


def test_a_feed_that_comes_to_another_cluster_has_its_topics_there_with_the_same_partitions() -> None:
    cluster = _Cluster("c2")
    state = _prepared(cluster)
    assert (state.state, state.start, state.sink_cluster) == (FeedState.STARTING, Timestamp(5), "c2")
    assert cluster.topics == {"t": 3}
    assert _prepared(cluster).state is FeedState.STARTING, "whoever prepared it died before it was stored"


@pytest.mark.parametrize("ids", [("c3",), ("c2", "c3")])
def test_a_feed_that_was_accepted_on_another_cluster_waits_for_exactly_that_one(ids: Sequence[str]) -> None:
    cluster = _Cluster(*ids)
    state = _prepared(cluster)
    assert (state.state, state.start) == (FeedState.PENDING, None)
    assert "its topics are on the Kafka cluster c2" in state.error
    assert "there is the cluster c3 now" in state.error
    assert len(ids) > 1 or not cluster.topics


@pytest.mark.parametrize("moved", [True, False], ids=["moved", "accepted"])
@pytest.mark.parametrize(
    ("topic", "max_row_bytes", "sentence"),
    [
        ("t", 1_000_000, "above max_record_bytes, 1000000: raise max_record_bytes of the workers"),
        ("small", 500_000, "the topic small has max.message.bytes=20000, and the feed needs 1001000 there"),
    ],
)
def test_a_feed_that_goes_on_waits_for_room_for_the_rows_that_it_does_not_leave_out(
    topic: str, max_row_bytes: int, sentence: str, *, moved: bool
) -> None:
    """Its first row above a limit would end it for good."""
    cluster = _Cluster("c2", **{topic: 3})
    state = _prepared(cluster, topic, max_row_bytes, moved=moved)
    assert state.state is FeedState.PENDING
    assert sentence in state.error
    assert _prepared(cluster, topic, moved=moved).state is FeedState.STARTING


@pytest.mark.parametrize(
    ("topic", "partitions", "sentence"),
    [("t", 4, "has 4 partitions there, and the feed has 3"), ("compacted", 3, "cleanup.policy=compact")],
)
def test_topics_that_cannot_be_the_feeds_are_waited_for(topic: str, partitions: int, sentence: str) -> None:
    """Who runs the cluster may mend that, and nothing is lost meanwhile."""
    state = _prepared(_Cluster("c2", **{topic: partitions}), topic)
    assert state.state is FeedState.PENDING
    assert "waits for its topics on the cluster c2" in state.error
    assert sentence in state.error


def test_who_finds_no_thread_of_the_cluster_is_told_so_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Markers of other feeds, which wait for the cluster, may have them all, maybe for days."""
    monkeypatch.setattr(feed_preparation, "_THREAD_S", 0.05)
    answered, cluster = Event(), _Cluster("c2")
    with ThreadPoolExecutor(1) as threads:
        threads.submit(answered.wait)
        try:
            state = _prepared(cluster, threads=threads)
        finally:
            answered.set()
        assert state.state is FeedState.PENDING
        assert "no thread was free for" in state.error
        assert not cluster.topics
        assert _prepared(cluster, threads=threads).state is FeedState.STARTING
