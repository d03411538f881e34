"""Markers on another cluster: batches do not wait for it, and its failures cost a producer."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

import pipeline.marker_writers
from pipeline.marker_writers import OtherMarkers
from tidegate.client.transaction import GivenUpError, Record
from tidegate.errors import BrokerUnavailable, DeliveryError, RecordRefused

_WAIT_S = 20.0


class Cluster:
    """What has been committed there, and whether it answers."""

    def __init__(self) -> None:
        self.answers = threading.Event()
        self.answers.set()
        self.committed: list[Sequence[Record]] = []
        self.refusals: list[DeliveryError] = []
        self.opened = self.closed = 0


class Producer:
    """As ``TransactionalProducer``."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._given_up = threading.Event()

    def open(self) -> None:
        self._wait()
        self._cluster.opened += 1

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
    monkeypatch.setattr(pipeline.marker_writers, "_PATIENCE_S", 0.2)
    monkeypatch.setattr(pipeline.marker_writers, "_AGAIN_S", 0.0)
    return Cluster()


@pytest.fixture
def writer(cluster: Cluster) -> Iterator[OtherMarkers]:
    made: Any = lambda: Producer(cluster)  # noqa: E731
    written = OtherMarkers("away", made)
    yield written
    written.close()


def _marking(number: int) -> Callable[[], Sequence[Record]]:
    return lambda: [Record("rows", 0, None, b"%d" % number)]


def _until_ready(writer: OtherMarkers) -> None:
    deadline = time.monotonic() + _WAIT_S
    while not writer.get_ready():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_cluster_that_answers_has_the_marker_when_it_is_written(
    writer: OtherMarkers, cluster: Cluster
) -> None:
    done: list[bool] = []
    assert writer.get_ready()
    writer.write(_marking(1), lambda: done.append(True))
    assert [records[0].value for records in cluster.committed] == [b"1"]
    assert done == [True]


def test_a_cluster_that_is_away_is_waited_for_once_and_not_by_the_next_batch(
    writer: OtherMarkers, cluster: Cluster
) -> None:
    assert writer.get_ready()
    cluster.answers.clear()
    done: list[bool] = []
    writer.write(_marking(1), lambda: done.append(True))
    began = time.monotonic()
    assert not any(writer.get_ready() for _ in range(10))
    assert time.monotonic() - began < 0.15, "nobody waits"
    assert not done
    cluster.answers.set()
    _until_ready(writer)
    assert done == [True]
    assert len(cluster.committed) == 1


def test_who_opens_a_cluster_has_to_prove_itself_each_time(writer: OtherMarkers, cluster: Cluster) -> None:
    assert writer.get_ready()
    assert not writer.is_proved
    writer.prove()
    cluster.refusals = [DeliveryError("fenced")]
    done: list[bool] = []
    writer.write(_marking(1), lambda: done.append(True))
    _until_ready(writer)
    assert not done
    assert not writer.is_proved
    assert cluster.opened == 2


def test_a_marker_that_its_topic_refuses_for_good_is_told_and_not_written_again(
    writer: OtherMarkers, cluster: Cluster
) -> None:
    assert writer.get_ready()
    cluster.refusals = [RecordRefused("the topic rows was deleted")]
    with pytest.raises(RecordRefused):
        writer.write(_marking(1), lambda: None)
    assert cluster.opened == 1


def test_what_cannot_be_asked_for_now_is_written_later(writer: OtherMarkers, cluster: Cluster) -> None:
    def away() -> Sequence[Record]:
        raise BrokerUnavailable("Kafka is away.")

    assert writer.get_ready()
    done: list[bool] = []
    writer.write(away, lambda: done.append(True))
    _until_ready(writer)
    assert not done
    writer.write(_marking(1), lambda: done.append(True))
    assert done == [True]
    assert cluster.opened == 1


def test_who_lets_go_does_not_wait_for_a_cluster_that_is_away(cluster: Cluster) -> None:
    made: Any = lambda: Producer(cluster)  # noqa: E731
    writer = OtherMarkers("away", made)
    assert writer.get_ready()
    cluster.answers.clear()
    writer.write(_marking(1), lambda: None)
    writer.close()
    deadline = time.monotonic() + _WAIT_S
    while not cluster.closed and time.monotonic() < deadline:
        time.sleep(0.01)
    assert cluster.closed == 1
    assert not cluster.committed
