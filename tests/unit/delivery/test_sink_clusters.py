"""Tests which cluster a sink is: ids decide it, and addresses only before there is one."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.feeds import activation
from tests.hand_log import HandTable
from tidegate.changefeed.definition.feed import FIRST_EPOCH, Engine, FeedEpoch, FeedId, FeedState
from tidegate.changefeed.definition.sink import parse_sink_uri
from tidegate.changefeed.lifecycle.job_records import StateRecord, TakeoverRecord
from tidegate.changefeed.lifecycle.jobs import FeedView
from tidegate.delivery.sink_clusters import OWN, SinkClusters, begun_on, sink_address, stored_cluster
from tidegate.errors import StatementError

_BOOTSTRAP = "127.0.0.1:9092"
_FEED = activation([HandTable.of(104, "plain").descriptor])


def _on(uri: str, cluster: str | None = None) -> FeedView:
    definition = replace(_FEED.definition, sink_uri=uri)
    state = StateRecord(
        FeedId("b"), FIRST_EPOCH, FeedState.RUNNING, _FEED.start, _FEED.targets, sink_cluster=cluster or ""
    )
    return FeedView(definition, state=None if cluster is None else state)


def test_a_feed_that_is_stored_on_the_engines_own_cluster_is_there_whatever_the_addresses_are() -> None:
    assert sink_address(parse_sink_uri("kafka://old-name:9092"), OWN, "new-name:9092") == ()


def test_a_feed_that_is_stored_on_another_cluster_is_there_whatever_the_addresses_are() -> None:
    assert sink_address(parse_sink_uri(f"kafka://{_BOOTSTRAP}"), "an-id", _BOOTSTRAP) == (_BOOTSTRAP,)


@pytest.mark.parametrize(
    "uri", ["kafka://127.0.0.1:9092", "kafka://localhost", "kafka://elsewhere,LOCALHOST"]
)
def test_without_an_id_an_address_of_the_engines_own_cluster_tells_it(uri: str) -> None:
    assert sink_address(parse_sink_uri(uri), None, _BOOTSTRAP) == ()
    assert SinkClusters(_BOOTSTRAP).cluster_of(parse_sink_uri(uri)) == OWN


def test_the_engines_own_cluster_is_known_by_its_id_at_any_address() -> None:
    clusters = SinkClusters(_BOOTSTRAP)
    assert clusters.cluster_of(parse_sink_uri("kafka://alias")) is None
    assert clusters.learn(parse_sink_uri("kafka://alias"), "ours", "ours") == OWN
    assert clusters.cluster_of(parse_sink_uri("kafka://alias:9092")) == OWN


def test_only_an_address_that_the_engine_uses_itself_means_its_own_cluster_for_good() -> None:
    clusters = SinkClusters(_BOOTSTRAP)
    clusters.learn(parse_sink_uri("kafka://alias"), "ours", "ours")
    assert [clusters.is_home(parse_sink_uri(uri)) for uri in (f"kafka://{_BOOTSTRAP}", "kafka://alias")] == [
        True,
        False,
    ]
    clusters.learn(parse_sink_uri("kafka://alias"), "theirs", "ours")
    assert clusters.cluster_of(parse_sink_uri("kafka://alias")) == "theirs"


def test_another_cluster_is_known_by_its_id() -> None:
    clusters = SinkClusters(_BOOTSTRAP)
    clusters.learn(parse_sink_uri("kafka://a,b"), "theirs", "ours")
    assert [clusters.cluster_of(parse_sink_uri(uri)) for uri in ("kafka://b,a", "kafka://a")] == [
        "theirs",
        None,
    ]


def test_feeds_share_topics_where_their_clusters_have_one_id() -> None:
    clusters = SinkClusters(_BOOTSTRAP)
    clusters.learn(parse_sink_uri("kafka://x"), "theirs", "ours")
    clusters.learn(parse_sink_uri("kafka://alias"), "ours", "ours")
    there = replace(_FEED.definition, sink_uri="kafka://x")
    here = replace(_FEED.definition, sink_uri="kafka://alias")
    assert clusters.share(there, _on("kafka://y", "theirs")), "by the id that is stored"
    assert not clusters.share(there, _on("kafka://x", "third")), "the address had another id then"
    assert clusters.share(here, _on(f"kafka://{_BOOTSTRAP}")), "both are the engine's own"
    assert not clusters.share(there, _on(f"kafka://{_BOOTSTRAP}", OWN))
    assert not clusters.share(there, _on("kafka://y")), "nobody knows"
    assert not clusters.share(there, _on("ftp://x")), "it is no sink"
    assert not clusters.share(there, FeedView())


def test_the_stored_cluster_is_of_one_epoch_and_of_a_feed_that_has_begun() -> None:
    feed = _on("kafka://x", "theirs")
    assert stored_cluster(feed, FIRST_EPOCH) == "theirs"
    assert stored_cluster(feed, FeedEpoch(2)) is None
    assert stored_cluster(_on("kafka://x"), FIRST_EPOCH) is None
    waits = StateRecord(FeedId("b"), FIRST_EPOCH, FeedState.PENDING, error="waiting for its sink")
    assert stored_cluster(replace(feed, state=waits), FIRST_EPOCH) is None


def test_a_feed_stays_on_the_cluster_that_it_began_on_however_often_it_is_moved() -> None:
    feed = _on("kafka://x", "theirs")
    assert begun_on(feed) == "theirs"
    moved = replace(feed, defined=replace(_FEED.definition, epoch=FeedEpoch(2), engine=Engine.SPARK))
    assert begun_on(moved) == "theirs", "nothing of the new epoch is stored yet"
    taken = TakeoverRecord(FeedId("b"), FeedEpoch(2), _FEED.start, None, _FEED.targets, "theirs")
    waits = StateRecord(FeedId("b"), FeedEpoch(2), FeedState.PENDING, error="waiting for its sink")
    assert begun_on(replace(moved, takeover=taken, state=waits)) == "theirs"
    back = replace(moved, defined=_FEED.definition, takeover=replace(taken, epoch=FeedEpoch(3)), state=None)
    assert begun_on(back) == "theirs"
    assert begun_on(_on("kafka://x", OWN)) == OWN
    assert begun_on(_on("kafka://x")) is None
    assert begun_on(FeedView(_FEED.definition, state=waits)) is None


def test_what_is_no_sink_has_no_address() -> None:
    with pytest.raises(StatementError):
        sink_address(parse_sink_uri("ftp://x"), "an-id", _BOOTSTRAP)
