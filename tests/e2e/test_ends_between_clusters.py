"""A sink's address answers for two clusters in turn while a marker asks where the feed's topics end (M3a)."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence

import pytest

from app.settings import Settings
from app.topology import TopicAdmin as WorkersAdmin
from stack.kafka import KafkaBroker
from tests.moving_address import MovingAddress
from tests.unit.client.topics import create_topic, write
from tidegate.client.connection import KafkaConnection
from tidegate.client.topic_admin import TopicAdmin, open_admin
from tidegate.delivery.marker_records import Place
from tidegate.delivery.sink_ends import ends_on
from tidegate.errors import RetryError, SinkHeld
from tidegate.verify import TopicRecord

pytestmark = [pytest.mark.broker, pytest.mark.slow]

_PATIENCE_S = 60.0


class TwoSites:
    """Two clusters that are reached by one ``address``; the topic ends at another offset in each."""

    def __init__(self, address: MovingAddress, stored: KafkaBroker, other: KafkaBroker) -> None:
        self.address = address
        self.stored, self.other = stored, other
        self.servers = address.address

    def turn_to(self, cluster: KafkaBroker) -> None:
        self.address.means = cluster.bootstrap
        self.address.cut()

    def put(self, topic: str, stored: int, other: int) -> None:
        """Create the topic in both, with so many records."""
        for cluster, records in ((self.other, other), (self.stored, stored)):
            self.turn_to(cluster)
            create_topic(self.servers, topic)
            write(self.servers, [TopicRecord(topic, 0, -1, b"[1]", b"{}", 0)] * records)


@pytest.fixture(scope="module")
def sites() -> Iterator[TwoSites]:
    with MovingAddress() as address:
        settings = {"advertised.listeners": f"PLAINTEXT://{address.address}"}
        with KafkaBroker(settings=settings) as stored, KafkaBroker(settings=settings) as other:
            yield TwoSites(address, stored, other)


class Wandering:
    """A client whose address means the other cluster while it asks for ends, and only then."""

    def __init__(self, sites: TwoSites, client: TopicAdmin) -> None:
        self._sites, self._client = sites, client
        self.only_cluster = client.only_cluster
        self.told: Mapping[Place, int] = {}

    def ends(self, places: Sequence[Place]) -> Mapping[Place, int]:
        self._sites.turn_to(self._sites.other)
        try:
            self.told = _told(lambda: self._client.ends(places))
        finally:
            self._sites.turn_to(self._sites.stored)
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
    return open_admin(KafkaConnection(servers), _PATIENCE_S)


@pytest.mark.parametrize("open_client", [_of_workers, _of_spark], ids=["workers", "spark"])
def test_ends_of_another_cluster_do_not_count_though_the_stored_one_is_back(
    sites: TwoSites, topic_prefix: str, open_client: Callable[[str], TopicAdmin]
) -> None:
    topic = f"{topic_prefix}rows"
    places = [(topic, 0)]
    sites.put(topic, stored=3, other=1)
    client = open_client(sites.servers)
    stored = client.only_cluster(topic)
    assert ends_on(stored, client, places, str) == {(topic, 0): 3}
    wandering = Wandering(sites, client)
    with pytest.raises(SinkHeld, match="another Kafka cluster while a client"):
        _told(lambda: ends_on(stored, wandering, places, str))
    assert wandering.told == {(topic, 0): 1}, "the other cluster has told where it ends"
    assert client.is_over
    assert _told(lambda: ends_on(stored, open_client(sites.servers), places, str)) == {(topic, 0): 3}
