"""A sink's address answers for two clusters in turn while a marker asks where the feed's topics end (M3a)."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence

import pytest

from tests.e2e.two_clusters import TwoClusters
from tests.unit.client.topics import create_topic, write
from tidegate.client.kafka.connection import KafkaConnection
from tidegate.client.kafka.topic_admin import TopicAdmin, open_admin
from tidegate.delivery.marker_records import Place
from tidegate.delivery.sink_ends import ends_on
from tidegate.errors import RetryError, SinkHeld
from tidegate.verify import TopicRecord
from tidegate.worker.kafka.topology import WorkerTopicAdmin as WorkersAdmin
from tidegate.worker.process.settings import Settings

pytestmark = [
    pytest.mark.broker,
    pytest.mark.slow,
    pytest.mark.together("two clusters"),
    pytest.mark.usefixtures("others_allowed"),
]

_PATIENCE_S = 60.0


def put(sites: TwoClusters, topic: str, home: int, away: int) -> None:
    """Create the topic in both clusters, with so many records. The address means ``home`` then."""
    for cluster, records in ((sites.away, away), (sites.home, home)):
        sites.turn_to(cluster)
        create_topic(sites.servers, topic)
        write(sites.servers, [TopicRecord(topic, 0, -1, b"[1]", b"{}", 0)] * records)


class Wandering:
    """A client whose address means the other cluster while it asks for ends, and only then."""

    def __init__(self, sites: TwoClusters, client: TopicAdmin) -> None:
        self._sites, self._client = sites, client
        self.only_cluster = client.only_cluster
        self.told: Mapping[Place, int] = {}

    def ends(self, places: Sequence[Place]) -> Mapping[Place, int]:
        self._sites.turn_to(self._sites.away)
        try:
            self.told = _told(lambda: self._client.ends(places))
        finally:
            self._sites.turn_to(self._sites.home)
        return self.told


def _told(ask: Callable[[], Mapping[Place, int]]) -> Mapping[Place, int]:
    deadline = time.monotonic() + _PATIENCE_S
    while True:
        try:
            return ask()
        except SinkHeld:
            raise
        except RetryError:
            assert time.monotonic() < deadline


def _of_workers(servers: str) -> TopicAdmin:
    return WorkersAdmin(Settings(bootstrap_servers=servers), patience_s=_PATIENCE_S)


def _of_spark(servers: str) -> TopicAdmin:
    return open_admin(KafkaConnection(servers, timeout_s=60), _PATIENCE_S)


@pytest.mark.parametrize("open_client", [_of_workers, _of_spark], ids=["workers", "spark"])
def test_ends_of_another_cluster_do_not_count_though_the_stored_one_is_back(
    sites: TwoClusters, topic_prefix: str, open_client: Callable[[str], TopicAdmin]
) -> None:
    topic = f"{topic_prefix}rows"
    places = [(topic, 0)]
    put(sites, topic, home=3, away=1)
    client = open_client(sites.servers)
    stored = client.only_cluster(topic)
    assert ends_on(stored, client, places, str) == {(topic, 0): 3}
    wandering = Wandering(sites, client)
    with pytest.raises(SinkHeld, match="another Kafka cluster while a client"):
        _told(lambda: ends_on(stored, wandering, places, str))
    assert wandering.told == {(topic, 0): 1}, "the other cluster has told where it ends"
    assert client.is_over
    assert _told(lambda: ends_on(stored, open_client(sites.servers), places, str)) == {(topic, 0): 3}
