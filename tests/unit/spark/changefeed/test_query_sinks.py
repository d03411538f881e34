"""A query asks the cluster at a sink's address for its id, unless the address is its own."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from tests.destinations import DESTINATIONS
from tests.feeds import activation
from tests.hand_log import HandTable
from tidegate.client.kafka.connection import KafkaConnection
from tidegate.spark.changefeed.query_sinks import QuerySinks

_HOME = "own:9092"
_FEED = activation([HandTable.of(104, "plain").descriptor]).definition


@pytest.fixture
def ids(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """The clusters by what they answer at their addresses."""
    found = {_HOME: "ours"}

    def open_admin(connection: KafkaConnection, patience_s: float) -> Any:
        return SimpleNamespace(cluster_id=lambda: found[connection.bootstrap_servers], is_over=False)

    monkeypatch.setattr("tidegate.spark.changefeed.query_sinks.open_admin", open_admin)
    return found


def test_an_address_that_meant_the_querys_own_cluster_is_asked_for_each_new_feed(ids: dict[str, str]) -> None:
    sinks, feed = (
        QuerySinks(KafkaConnection(_HOME, destinations=DESTINATIONS), 1.0),
        replace(_FEED, sink_uri="kafka://alias:1"),
    )
    ids["alias:1"] = "ours"
    assert (sinks.learn(feed), sinks.cluster_of(feed)) == ("", "")
    ids["alias:1"] = "theirs"
    assert (sinks.learn(feed), sinks.cluster_of(feed)) == ("theirs", "theirs")


def test_the_querys_own_address_is_not_asked(ids: dict[str, str]) -> None:
    ids.clear()
    assert QuerySinks(KafkaConnection(_HOME), 1.0).learn(replace(_FEED, sink_uri=f"kafka://{_HOME}")) == ""


def test_clients_of_clusters_that_no_live_feed_writes_to_are_let_go(ids: dict[str, str]) -> None:
    sinks = QuerySinks(KafkaConnection(_HOME, destinations=DESTINATIONS), 1.0)
    feeds = [replace(_FEED, sink_uri=f"kafka://host-{number}.test:1") for number in range(40)]
    ids.update({f"host-{number}.test:1": f"cluster {number}" for number in range(40)})
    for feed in feeds:
        sinks.learn(feed)
    kept = sinks.admin(sinks.connection(feeds[7])), sinks.own_admin()
    sinks.close_unused([feeds[7], replace(_FEED, sink_uri="ftp://odd")])
    assert sinks._admins.keys() == {"host-7.test:1", _HOME}
    assert (sinks.admin(sinks.connection(feeds[7])), sinks.own_admin()) == kept
    sinks.learn(feeds[8])  # one that comes back is opened anew
    assert sinks._admins.keys() == {"host-7.test:1", "host-8.test:1", _HOME}
