"""An answer about a cluster counts only if the address has meant that cluster all the time."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from types import SimpleNamespace
from typing import Any, Final

import confluent_kafka
import pytest
from confluent_kafka import KafkaError, KafkaException

from tests.destinations import DESTINATIONS
from tidegate.changefeed.definition.options import FeedOptions
from tidegate.changefeed.encoding.marker import marker_value
from tidegate.client.feed_topics import row_decoder
from tidegate.client.kafka.connection import KafkaConnection
from tidegate.client.kafka.watched_cluster import WatchedCluster
from tidegate.client.last_markers import last_markers
from tidegate.errors import BrokerUnavailable, RetryError
from tidegate.hlc import ResolvedTimestamp, Timestamp
from tidegate.verify import TopicPartition

_TOPIC: Final = "accounts"
_OPTIONS: Final = FeedOptions(updated=True, resolved_interval_ns=0)
_PLACES: Final = [TopicPartition(_TOPIC, 0), TopicPartition(_TOPIC, 1)]
_AT_ONCE: Final = 2  # records of a fetch
_WARNING: Final = 30


class Message:
    """A record, or the end of its partition."""

    def __init__(self, place: TopicPartition, offset: int, value: bytes | None) -> None:
        self._place, self._offset, self._value = place, offset, value

    def topic(self) -> str:
        return self._place.topic

    def partition(self) -> int:
        return self._place.partition

    def offset(self) -> int:
        return self._offset

    def key(self) -> bytes | None:
        return None if self._value != b"{}" else b"[1]"

    def value(self) -> bytes | None:
        return self._value

    def timestamp(self) -> tuple[int, int]:
        return 1, 0

    def headers(self) -> None:
        return None

    def error(self) -> KafkaError | None:
        return KafkaError(KafkaError._PARTITION_EOF) if self._value is None else None


def _marker(seconds: int) -> bytes:
    return marker_value(ResolvedTimestamp(Timestamp(seconds * 10**9)), _OPTIONS.envelope)


class FakeCluster:
    """A cluster by its ``id``, with a marker at each of these seconds in a partition, and a row after it."""

    def __init__(self, id_: str, *seconds: Sequence[int]) -> None:
        self.id = id_
        self.partitions = {
            place: [value for at in here for value in (_marker(at), b"{}")]
            for place, here in zip(_PLACES, seconds, strict=False)
        }


class Network:
    """One address. It means the next of ``clusters`` from each of the requests in ``moves`` on.

    Whoever was connected before has to connect anew then.
    """

    def __init__(self, clusters: Sequence[FakeCluster], moves: Sequence[int]) -> None:
        self._clusters = clusters
        self._moves = moves
        self.requests = 0

    @property
    def now(self) -> FakeCluster:
        """The cluster at the address."""
        return self._clusters[sum(self.requests > move for move in self._moves)]

    def request(self) -> FakeCluster:
        """The cluster that answers the next request."""
        self.requests += 1
        return self.now


class FakeConsumer:
    """As librdkafka's does, it takes whatever cluster answers for the one that it knew, and logs a line.

    The line waits until the client is polled, behind whatever the cluster has answered.
    """

    def __init__(self, network: Network, config: Mapping[str, Any]) -> None:
        self._network = network
        self._logger = config["logger"]
        self._lines: deque[str] = deque()
        self._positions: dict[TopicPartition, int] = {}
        self._id = ""

    def list_topics(self, topic: str | None = None, timeout: float = -1) -> Any:
        cluster = self._connected()
        counts = {place.topic: len(cluster.partitions) for place in cluster.partitions}
        topics = {name: SimpleNamespace(partitions=range(count)) for name, count in counts.items()}
        return SimpleNamespace(cluster_id=cluster.id, topics=topics)

    def get_watermark_offsets(self, place: confluent_kafka.TopicPartition, timeout: float) -> tuple[int, int]:
        records = self._connected().partitions.get(TopicPartition(place.topic, place.partition))
        if records is None:
            raise KafkaException(KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART))
        return 0, len(records)

    def assign(self, places: Sequence[confluent_kafka.TopicPartition]) -> None:
        self._positions = {TopicPartition(each.topic, each.partition): each.offset for each in places}

    def incremental_unassign(self, places: Sequence[confluent_kafka.TopicPartition]) -> None:
        for each in places:
            del self._positions[TopicPartition(each.topic, each.partition)]

    def consume(self, _: int, timeout: float) -> list[Message]:
        return list(self._fetched(self._connected()))

    def poll(self, _: float) -> None:
        while self._lines:
            self._logger.log(_WARNING, "%s %s", "CLUSTERID", self._lines.popleft())

    def close(self) -> None: ...

    def _connected(self) -> FakeCluster:
        cluster = self._network.request()
        if self._id and cluster.id != self._id:
            self._lines.append(cluster.id)
        self._id = cluster.id
        return cluster

    def _fetched(self, cluster: FakeCluster) -> Iterator[Message]:
        for place, position in self._positions.items():
            records = cluster.partitions.get(place, [])[position:][:_AT_ONCE]
            for offset, record in enumerate(records, position):
                yield Message(place, offset, record)
            self._positions[place] = position + len(records)
            if not records:
                yield Message(place, position, None)


_HERE: Final = FakeCluster("here", [2_100, 2_300], [2_100, 2_400, 2_450])
_ELSEWHERE: Final = FakeCluster("elsewhere", [2_100, 2_900], [2_100, 2_800, 2_900])
_NOTHING: Final = FakeCluster("nothing")
_TRUTH: Final = dict(zip(_PLACES, (Timestamp(2_300 * 10**9), Timestamp(2_450 * 10**9)), strict=True))


def _found(
    monkeypatch: pytest.MonkeyPatch, network: Network
) -> tuple[str, Mapping[TopicPartition, Timestamp | None]]:
    """Return which cluster is found at the address, and its last markers."""
    monkeypatch.setattr("tidegate.client.kafka.reader.Consumer", lambda config: FakeConsumer(network, config))
    monkeypatch.setattr("tidegate.client.last_markers._FIRST_LOOK", 1)
    with closing(WatchedCluster(KafkaConnection(timeout_s=1), _TOPIC)) as cluster:
        with cluster.the_same():
            markers = last_markers(cluster, [_TOPIC], row_decoder(_OPTIONS, DESTINATIONS))
        cluster.require_same()
        return cluster.id, markers


def test_an_address_that_means_one_cluster_tells_its_markers(monkeypatch: pytest.MonkeyPatch) -> None:
    network = Network([_HERE], [])
    assert _found(monkeypatch, network) == ("here", _TRUTH)
    assert network.requests > len(_PLACES)


@pytest.mark.parametrize("stranger", [_ELSEWHERE, _NOTHING], ids=lambda cluster: cluster.id)
def test_whenever_the_address_moves_and_whether_it_comes_back_no_marker_of_another_cluster_counts(
    monkeypatch: pytest.MonkeyPatch, stranger: FakeCluster
) -> None:
    quiet = Network([_HERE], [])
    _found(monkeypatch, quiet)
    for there in range(1, quiet.requests):
        for back in range(there + 1, quiet.requests + 1):
            network = Network([_HERE, stranger, _HERE], [there, back])
            with pytest.raises(RetryError, match=r"cluster here, and for another one meanwhile|no answer"):
                _found(monkeypatch, network)


def test_a_cluster_that_does_not_tell_its_id_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    def away(*_: object, **__: object) -> None:
        raise KafkaException(KafkaError(KafkaError._TRANSPORT))

    monkeypatch.setattr(FakeConsumer, "list_topics", away)
    with pytest.raises(BrokerUnavailable, match="asking for the id of the cluster"):
        _found(monkeypatch, Network([_HERE], []))
