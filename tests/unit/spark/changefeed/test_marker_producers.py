"""Markers on another cluster: batches do not wait for it, and its failures cost a producer."""

from __future__ import annotations

import gc
import logging
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from functools import partial
from typing import Any

import pytest

import tidegate.spark.changefeed.marker_producers
from tidegate.client.kafka.transaction import GivenUpError, Record, TransactionalProducer
from tidegate.delivery.producer_ids import MarkerIds
from tidegate.errors import BrokerUnavailable, DeliveryError, RecordRefused, SettingsError, SinkHeld
from tidegate.spark.changefeed.marker_producers import OtherMarkerProducer

_WAIT_S = 60.0
_IDS = MarkerIds("before", "now")


class Cluster:
    """A cluster: what has been committed there, and whether it answers."""

    def __init__(self) -> None:
        self.answers = threading.Event()
        self.answers.set()
        self.committed: list[Sequence[Record]] = []
        self.refusals: list[DeliveryError] = []
        self.opened: list[str] = []
        self.closed = 0


class Producer:
    """A producer like ``TransactionalProducer``."""

    def __init__(self, cluster: Cluster, transactional_id: str) -> None:
        self._cluster, self._id = cluster, transactional_id
        self._given_up = threading.Event()

    def open(self) -> None:
        self._wait()
        self._cluster.opened.append(self._id)

    def commit_once(self, records: Sequence[Record]) -> None:
        self._wait()
        if self._cluster.refusals:
            raise self._cluster.refusals.pop()
        self._cluster.committed.append(records)

    def give_up(self) -> None:
        self._given_up.set()

    def close(self) -> None:
        self._cluster.closed += 1

    def _wait(self) -> None:
        while not self._cluster.answers.wait(0.01):
            if self._given_up.is_set():
                raise GivenUpError


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Cluster:
    monkeypatch.setattr(tidegate.spark.changefeed.marker_producers, "_PATIENCE_S", _WAIT_S)
    monkeypatch.setattr(tidegate.spark.changefeed.marker_producers, "_AGAIN_S", 0.0)
    return Cluster()


def _write_in_vain(writer: OtherMarkerProducer, done: Callable[[], None]) -> None:
    """The cluster is away: it is waited for, a moment."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(tidegate.spark.changefeed.marker_producers, "_PATIENCE_S", 0.2)
        writer.write(_marking(1), done)


@pytest.fixture
def writer(cluster: Cluster) -> Iterator[OtherMarkerProducer]:
    written = _writer(cluster)
    yield written
    written.close()


def _writer(
    cluster: Cluster, check: Callable[[TransactionalProducer], None] = lambda _: None
) -> OtherMarkerProducer:
    made: Any = partial(Producer, cluster)
    return OtherMarkerProducer("away", made, _IDS, check)


def _marking(number: int) -> Callable[[], Sequence[Record]]:
    return lambda: [Record("rows", 0, None, b"%d" % number)]


def _until_ready(writer: OtherMarkerProducer) -> None:
    deadline = time.monotonic() + _WAIT_S
    while not writer.get_ready():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_cluster_that_answers_has_the_marker_when_it_is_written(
    writer: OtherMarkerProducer, cluster: Cluster
) -> None:
    done: list[bool] = []
    assert writer.get_ready()
    writer.write(_marking(1), lambda: done.append(True))
    assert [records[0].value for records in cluster.committed] == [b"1"]
    assert done == [True]


def test_a_cluster_that_is_away_is_waited_for_once_and_not_by_the_next_batch(
    writer: OtherMarkerProducer, cluster: Cluster
) -> None:
    assert writer.get_ready()
    cluster.answers.clear()
    done: list[bool] = []
    _write_in_vain(writer, lambda: done.append(True))
    began = time.monotonic()
    assert not any(writer.get_ready() for _ in range(10))
    assert time.monotonic() - began < _WAIT_S, "a batch waited"
    assert not done
    cluster.answers.set()
    _until_ready(writer)
    assert done == [True]
    assert len(cluster.committed) == 1


def test_a_cluster_that_gives_no_answer_is_waited_for_once_until_it_gives_one(cluster: Cluster) -> None:
    """The question itself ends before a batch's patience does: nothing is under way at the next batch."""
    asked = threading.Event()

    def check(producer: Any) -> None:
        if not asked.is_set():
            asked.set()
            raise BrokerUnavailable("no answer within 5 s")
        producer._wait()

    with closing(_writer(cluster, check)) as writer:
        assert not writer.get_ready()
        assert writer.held == "its markers wait: no answer within 5 s"
        cluster.answers.clear()
        began = time.monotonic()
        assert not any(writer.get_ready() for _ in range(10))
        assert time.monotonic() - began < _WAIT_S / 2, "a batch waited"
        cluster.answers.set()
        _until_ready(writer)
        done: list[bool] = []
        writer.write(_marking(1), lambda: done.append(True))
        assert done == [True], "once it has answered, its markers are there with their batches"
        assert writer.held == ""


def test_who_opens_a_cluster_has_to_prove_itself_each_time(
    writer: OtherMarkerProducer, cluster: Cluster
) -> None:
    assert writer.get_ready()
    assert not writer.is_proved
    writer.prove()
    cluster.refusals = [DeliveryError("fenced")]
    done: list[bool] = []
    writer.write(_marking(1), lambda: done.append(True))
    _until_ready(writer)
    assert not done
    assert not writer.is_proved
    assert cluster.opened == ["before", "now", "now"]


def test_a_marker_that_its_topic_refuses_for_good_is_told_and_not_written_again(
    writer: OtherMarkerProducer, cluster: Cluster
) -> None:
    assert writer.get_ready()
    cluster.refusals = [RecordRefused("the topic rows was deleted")]
    with pytest.raises(RecordRefused):
        writer.write(_marking(1), lambda: None)
    assert cluster.opened == ["before", "now"]


def test_what_cannot_be_asked_for_now_is_written_later(writer: OtherMarkerProducer, cluster: Cluster) -> None:
    def away() -> Sequence[Record]:
        raise BrokerUnavailable("Kafka is away.")

    assert writer.get_ready()
    done: list[bool] = []
    writer.write(away, lambda: done.append(True))
    _until_ready(writer)
    assert (done, writer.held) == ([], "its markers wait: Kafka is away.")
    writer.write(_marking(1), lambda: done.append(True))
    _until_ready(writer)
    assert (done, writer.held) == ([True], "")
    assert cluster.opened == ["before", "now"]


def test_a_marker_that_was_not_taken_is_told_of_until_one_is(
    writer: OtherMarkerProducer, cluster: Cluster
) -> None:
    """Also by the next producer, whose opening says nothing of the marker."""
    assert writer.get_ready()
    cluster.refusals = [DeliveryError("fenced")]
    writer.write(_marking(1), lambda: None)
    _until_ready(writer)
    assert writer.held == "its markers wait: fenced"
    writer.write(_marking(1), lambda: None)
    _until_ready(writer)
    assert writer.held == ""


def test_a_cluster_that_is_waited_for_in_vain_is_told_of(
    writer: OtherMarkerProducer, cluster: Cluster
) -> None:
    assert writer.get_ready()
    cluster.answers.clear()
    _write_in_vain(writer, lambda: None)
    assert writer.held == "its markers wait: its cluster has not answered for 0 s"
    cluster.answers.set()
    _until_ready(writer)
    assert writer.held == ""


def test_who_lets_go_does_not_wait_for_a_cluster_that_is_away(cluster: Cluster) -> None:
    writer = _writer(cluster)
    assert writer.get_ready()
    cluster.answers.clear()
    _write_in_vain(writer, lambda: None)
    writer.close()
    deadline = time.monotonic() + _WAIT_S
    while cluster.closed < 2 and time.monotonic() < deadline:
        time.sleep(0.01)
    assert cluster.closed == 2, "the one that shut out writers of before, and the writer's own"
    assert not cluster.committed


def test_writers_with_the_id_of_before_are_shut_out_before_the_first_marker_and_once(
    writer: OtherMarkerProducer, cluster: Cluster
) -> None:
    assert writer.get_ready()
    assert (cluster.opened, cluster.committed) == (["before", "now"], [])
    cluster.refusals = [DeliveryError("fenced")]
    writer.write(_marking(1), lambda: None)
    _until_ready(writer)
    assert cluster.opened == ["before", "now", "now"]


def test_a_producer_that_is_replaced_is_gone_at_once(
    cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    """It has threads and connections, and a long process seldom collects what is in cycles."""
    caplog.set_level(logging.ERROR)  # a kept line of the log would keep its exception
    made: list[weakref.ref[Any]] = []

    def make(transactional_id: str) -> Any:
        producer = Producer(cluster, transactional_id)
        made.append(weakref.ref(producer))
        return producer

    def check(_: TransactionalProducer) -> None:
        raise BrokerUnavailable("no answer within 5 s")

    with closing(OtherMarkerProducer("away", make, _IDS, check)) as writer:
        gc.disable()
        try:
            assert not writer.get_ready()
            deadline = time.monotonic() + _WAIT_S
            while any(left() is not None for left in made) and time.monotonic() < deadline:
                time.sleep(0.01)  # a thread closes them
            assert [left() for left in made] == [None, None]
        finally:
            gc.enable()


def test_a_fence_that_another_cluster_may_have_taken_comes_again(cluster: Cluster) -> None:
    asked: list[int] = []

    def check(_: TransactionalProducer) -> None:
        asked.append(len(cluster.opened))
        if len(asked) == 2:
            raise SinkHeld("another cluster is there")

    with closing(_writer(cluster, check)) as writer:
        assert not writer.get_ready()
        assert (writer.held, cluster.opened) == ("another cluster is there", ["before"])
        _until_ready(writer)
        assert (writer.held, cluster.opened) == ("", ["before", "before", "now"])
        assert asked == [0, 1, 1, 2, 2], "before each is opened, and behind the id of before"


def test_a_login_that_no_client_can_be_opened_with_holds_the_markers_until_it_can(cluster: Cluster) -> None:
    """At first the producer meets that, and then the client that is asked which cluster it is."""
    unusable = [SettingsError("no certificate for the producer"), SettingsError("nor for the other client")]

    def make(transactional_id: str) -> Any:
        if len(unusable) == 2:
            raise unusable.pop(0)
        return Producer(cluster, transactional_id)

    def check(_: TransactionalProducer) -> None:
        if unusable:
            raise unusable.pop()

    with closing(OtherMarkerProducer("away", make, _IDS, check)) as writer:
        assert not writer.get_ready()
        assert writer.held == "no certificate for the producer"
        assert not writer.get_ready()
        assert writer.held == "nor for the other client"
        _until_ready(writer)
        assert not writer.held
