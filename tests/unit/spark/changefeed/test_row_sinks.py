"""Tests which clusters a task waits for, and for how long."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import tidegate.spark.changefeed.row_sinks
from tests.destinations import DESTINATIONS
from tidegate.access.destinations_file import read_destinations
from tidegate.changefeed.definition.feed import FeedId
from tidegate.changefeed.definition.sink import parse_sink_uri
from tidegate.client.kafka.connection import KafkaConnection
from tidegate.delivery.sink_clusters import OWN
from tidegate.errors import BrokerUnavailable, RetryError, SettingsError, SinkHeld
from tidegate.processor.batch import OutputRecord
from tidegate.spark.changefeed.row_producer import SinkStalled
from tidegate.spark.changefeed.row_sinks import RowSinks

_CONNECTION = KafkaConnection("127.0.0.1:9", destinations=DESTINATIONS)
_HOME, _AWAY = parse_sink_uri("kafka://127.0.0.1:9"), parse_sink_uri("kafka://127.0.0.1:8")
_ONE, _TWO, _AT_HOME = FeedId("one"), FeedId("two"), FeedId("home")
_STORED: Mapping[str, str] = {_ONE: "an-id", _TWO: "an-id", _AT_HOME: ""}
_ROWS = [OutputRecord("rows", 0, b"key", b"value", 1, [])]


class Producers:
    """Stands where producers do; ``standing`` are the clusters that acknowledge nothing."""

    def __init__(self) -> None:
        self.standing: set[str] = set()
        self.ids: dict[str, str] = {}
        self.patience: dict[str, float | None] = {}
        self.watched_standing = False
        self.ending: set[str] = set()
        self.waits = 0
        self.made: list[OneProducer] = []

    def __call__(
        self, config: Mapping[str, Any], stall_s: float | None, *, watched: bool = False
    ) -> OneProducer:
        servers = config["bootstrap.servers"]
        self.patience[servers] = stall_s
        self.made.append(OneProducer(self, servers, watched=watched))
        return self.made[-1]


class OneProducer:
    def __init__(self, all_: Producers, servers: str, *, watched: bool) -> None:
        self._all, self._servers, self._watched = all_, servers, watched
        self.abandoned = False

    def cluster_id(self, topic: str) -> str:
        return self._all.ids.get(self._servers, "an-id")

    def send(self, feed_id: FeedId, rows: Iterable[OutputRecord]) -> None:
        assert not self.abandoned

    def acknowledge(self) -> None:
        assert not self.abandoned
        self._all.waits += 1
        if self._servers in self._all.standing or (self._watched and self._all.watched_standing):
            raise SinkStalled
        if self._servers in self._all.ending:
            raise BrokerUnavailable("The producer came to its end")

    def abandon(self) -> None:
        self.abandoned = True


@pytest.fixture
def producers(monkeypatch: pytest.MonkeyPatch) -> Producers:
    made = Producers()
    monkeypatch.setattr(tidegate.spark.changefeed.row_sinks, "RowProducer", made)
    monkeypatch.setattr(tidegate.spark.changefeed.row_sinks, "_idle", {})
    monkeypatch.setattr(tidegate.spark.changefeed.row_sinks, "_stalled_at", {})
    return made


def _sinks(stall_s: float | None = 60.0) -> RowSinks:
    return RowSinks(_CONNECTION, stall_s, _STORED)


def test_the_querys_own_cluster_is_waited_for_without_limit(producers: Producers) -> None:
    sinks, may_stall = _sinks(), []
    for feed_id, sink in ((_AT_HOME, _HOME), (_ONE, _AWAY)):
        sinks.send(feed_id, sink, _ROWS)
        may_stall.append(sinks.may_stall)
    assert may_stall == [False, True]
    assert producers.patience == {"127.0.0.1:9": None, "127.0.0.1:8": 60.0}


def test_a_feed_that_is_stored_on_the_querys_own_cluster_is_there_whatever_its_address(
    producers: Producers,
) -> None:
    sinks = RowSinks(_CONNECTION, 60.0, {_ONE: "", _TWO: "an-id"})
    for feed_id in (_ONE, _TWO):
        sinks.send(feed_id, parse_sink_uri("kafka://localhost:8"), _ROWS)
    assert producers.patience == {"127.0.0.1:9": None, "127.0.0.1:8": 60.0}


def test_a_feed_of_which_no_cluster_is_stored_is_left_behind_whatever_its_address(
    producers: Producers, caplog: pytest.LogCaptureFixture
) -> None:
    sinks = RowSinks(_CONNECTION, 60.0, {_AT_HOME: ""})
    for sink in (_HOME, _AWAY):
        assert sinks.send(_ONE, sink, _ROWS) == [_ONE]
    assert not list(sinks.acknowledge())
    assert not producers.patience, "a cluster was asked, or given rows"
    assert "feed one is given no row: the jobs topic does not say on which Kafka cluster" in caplog.text


def test_rows_of_a_feed_from_before_it_came_to_another_cluster_go_to_neither(
    producers: Producers,
) -> None:
    """Partitions may have its epoch before for a while; on the other cluster they would come too early."""
    sinks = RowSinks(_CONNECTION, 60.0, {f"{_ONE}/2": "an-id"})
    assert sinks.send(_ONE, _AWAY, _ROWS, _ONE) == [_ONE]
    assert not producers.patience
    assert not sinks.send(_ONE, _AWAY, _ROWS, f"{_ONE}/2")


def test_queries_with_other_logins_at_the_same_brokers_share_no_producer(producers: Producers) -> None:
    """Rows of one query written with the login of the other would pass by the brokers' rules."""
    made: list[Any] = []
    for user in ("alice", "bob", "alice"):
        login = replace(
            _CONNECTION, security_protocol="SASL_PLAINTEXT", sasl_username=user, sasl_password=user
        )
        sinks = RowSinks(login, 60.0, _STORED)
        assert not sinks.send(_AT_HOME, _HOME, _ROWS)
        made.append(sinks._producers[OWN])
        assert not list(sinks.acknowledge())
    assert made[0] is not made[1]
    assert made[0] is made[2]


def test_another_cluster_at_the_querys_own_address_is_not_mixed_with_its_own(producers: Producers) -> None:
    """Its own cluster is waited for; the other one has stalled, and takes no other feed along."""
    sinks = _sinks()
    for feed_id in (_ONE, _AT_HOME):
        assert not sinks.send(feed_id, _HOME, _ROWS)
    producers.watched_standing = True
    assert list(sinks.acknowledge()) == [_ONE]


def test_who_waits_without_limit_leaves_no_feed_behind_but_ends_the_task(producers: Producers) -> None:
    connection = _CONNECTION
    with pytest.raises(RetryError, match="does not say on which Kafka cluster"):
        RowSinks(connection, None, {}).send(_ONE, _AWAY, _ROWS)
    with pytest.raises(
        SinkHeld, match=r"are on the Kafka cluster stored, and at .* the cluster an-id now"
    ) as held:
        RowSinks(connection, None, {_ONE: "stored"}).send(_ONE, _AWAY, _ROWS)
    assert "A backfill cannot change clusters" in str(held.value)
    sinks = _sinks(stall_s=None)
    sinks.send(_ONE, _AWAY, _ROWS)
    producers.standing = {"127.0.0.1:8"}
    with pytest.raises(BrokerUnavailable, match=r"was another cluster than an-id .* feed one it"):
        list(sinks.acknowledge())


def test_all_feeds_with_rows_at_a_cluster_that_stalls_are_left_behind(producers: Producers) -> None:
    producers.standing = {"127.0.0.1:8"}
    sinks = _sinks()
    for feed_id, sink in ((_ONE, _AWAY), (_AT_HOME, _HOME), (_TWO, _AWAY)):
        assert not sinks.send(feed_id, sink, _ROWS)
    assert list(sinks.acknowledge()) == [_ONE, _TWO]


def test_the_next_tasks_of_a_python_worker_do_not_wait_for_it_as_well(producers: Producers) -> None:
    producers.standing = {"127.0.0.1:8"}
    sinks = _sinks()
    sinks.send(_ONE, _AWAY, _ROWS)
    assert list(sinks.acknowledge()) == [_ONE]
    sinks = _sinks()
    assert sinks.send(_TWO, _AWAY, _ROWS) == [_TWO]
    assert not list(sinks.acknowledge())
    assert producers.waits == 1


def test_a_feed_is_given_nothing_while_its_address_means_another_cluster(producers: Producers) -> None:
    stored: dict[str, str] = {_ONE: "an-id", _TWO: "another-id"}
    sinks = RowSinks(_CONNECTION, 60.0, stored)
    assert [list(sinks.send(feed_id, _AWAY, _ROWS)) for feed_id in (_ONE, _TWO)] == [[], [_TWO]]
    assert not list(sinks.acknowledge())
    producers.ids["127.0.0.1:8"] = "another-id"
    sinks = RowSinks(_CONNECTION, 60.0, stored)
    assert [list(sinks.send(feed_id, _AWAY, _ROWS)) for feed_id in (_ONE, _TWO)] == [[_ONE], []]
    assert not list(sinks.acknowledge())


def test_a_cluster_that_ends_each_producer_holds_back_its_own_feeds_alone(
    producers: Producers, caplog: pytest.LogCaptureFixture
) -> None:
    producers.ending = {"127.0.0.1:8"}
    sinks = _sinks()
    for feed_id, sink in ((_ONE, _AWAY), (_AT_HOME, _HOME)):
        assert not sinks.send(feed_id, sink, _ROWS)
    assert list(sinks.acknowledge()) == [_ONE]
    assert "The producer came to its end" in caplog.messages


def test_the_querys_own_is_waited_for_by_the_batch(producers: Producers) -> None:
    producers.ending = {"127.0.0.1:9"}
    sinks = _sinks()
    sinks.send(_AT_HOME, _HOME, _ROWS)
    with pytest.raises(BrokerUnavailable):
        list(sinks.acknowledge())


def _with_entry(tmp_path: Path) -> KafkaConnection:
    """Return a connection whose entry for another cluster names a certificate that is not on this machine."""
    entries = tmp_path / "destinations.toml"
    entries.write_text(
        f"""
        [clusters.away]
        servers = ["127.0.0.1:8"]
        security_protocol = "SSL"
        ssl_ca_location = "{tmp_path / "rotated.pem"}"
        """
    )
    return KafkaConnection("127.0.0.1:9", destinations=read_destinations(entries))


def test_a_feed_whose_login_names_a_certificate_that_is_missing_is_left_behind_alone(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    sinks = RowSinks(_with_entry(tmp_path), 60.0, _STORED)
    assert sinks.send(_ONE, _AWAY, _ROWS) == [_ONE]
    assert not list(sinks.acknowledge())
    assert re.search(
        r"feed one is given no row: The settings for Kafka at 127\.0\.0\.1:8 .*ssl\.ca\.location", caplog.text
    )


def test_a_backfill_waits_for_that_certificate(tmp_path: Path) -> None:
    with pytest.raises(RetryError, match=r"feed one is given no row: .*ssl\.ca\.location"):
        RowSinks(_with_entry(tmp_path), None, _STORED).send(_ONE, _AWAY, _ROWS)


def test_settings_of_the_querys_own_cluster_that_cannot_be_used_are_raised() -> None:
    unusable = replace(_CONNECTION, security_protocol="SSL", ssl_ca_location="/missing/ca.pem")
    with pytest.raises(SettingsError, match=r"Kafka at 127\.0\.0\.1:9 cannot be used: .*ssl\.ca\.location"):
        RowSinks(unusable, 60.0, _STORED).send(_AT_HOME, _HOME, _ROWS)


def test_after_a_while_it_is_tried_again(producers: Producers) -> None:
    producers.standing = {"127.0.0.1:8"}
    sinks = _sinks(stall_s=0.0)
    sinks.send(_ONE, _AWAY, _ROWS)
    assert list(sinks.acknowledge()) == [_ONE]
    producers.standing = set()
    sinks = _sinks(stall_s=0.0)
    assert not sinks.send(_ONE, _AWAY, _ROWS)
    assert not list(sinks.acknowledge())


def test_what_a_task_that_failed_has_given_to_any_cluster_is_thrown_away(producers: Producers) -> None:
    """Its producers would go on with old rows after those that the next attempt writes."""
    sinks = _sinks()
    sinks.send(_AT_HOME, _HOME, _ROWS)
    sinks.send(_ONE, _AWAY, _ROWS)
    producers.ending = {"127.0.0.1:9"}
    with pytest.raises(BrokerUnavailable):
        list(sinks.acknowledge())
    sinks.close()
    assert [producer.abandoned for producer in producers.made] == [True, True]
    producers.ending.clear()
    again = _sinks()
    again.send(_ONE, _AWAY, _ROWS)
    list(again.acknowledge())
    again.close()
    assert [producer.abandoned for producer in producers.made] == [True, True, False]


def test_of_the_producers_of_former_tasks_those_stay_that_were_used_last(producers: Producers) -> None:
    for number in (*range(30), 14):
        sinks = RowSinks(_CONNECTION, 60.0, {_ONE: "an-id"})
        sinks.send(_ONE, parse_sink_uri(f"kafka://127.0.0.1:{9_000 + number}"), _ROWS)
        assert not list(sinks.acknowledge())
    idle = tidegate.spark.changefeed.row_sinks._idle
    assert len(idle) == 16
    servers = [dict(settings)["bootstrap.servers"] for settings, _, _ in idle]
    assert servers[-2:] == ["127.0.0.1:9029", "127.0.0.1:9014"]
    assert len(producers.patience) == 30, "one that is idle is used again"
