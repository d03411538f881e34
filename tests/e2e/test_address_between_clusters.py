"""A sink's address answers for two clusters in turn while a feed is to go on at one of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import pytest

from stack.kafka import KafkaBroker
from tests.moving_address import MovingAddress
from tests.unit.client.feeds import ID, SECOND, TARGET, definition, progress, running, tell
from tests.unit.client.topics import create_topic, write
from tidegate.changefeed.feed import FIRST_EPOCH, FeedEpoch
from tidegate.changefeed.jobs import FeedView
from tidegate.changefeed.marker import marker_value
from tidegate.client.cluster_acceptance import Begin, begin_there, find_cluster, go_on_there
from tidegate.client.connection import KafkaConnection
from tidegate.client.jobs import Jobs, jobs_topic
from tidegate.client.topic_admin import open_admin
from tidegate.errors import RetryError
from tidegate.hlc import ResolvedTimestamp, Timestamp
from tidegate.verify import TopicRecord

pytestmark = [pytest.mark.broker, pytest.mark.slow]


@dataclass(frozen=True, slots=True)
class TwoSites:
    """Two clusters whose brokers are reached by one ``address``, whichever it means."""

    address: MovingAddress
    former: KafkaBroker
    mirror: KafkaBroker

    def turn_to(self, cluster: KafkaBroker) -> None:
        """Have the address mean the cluster: whoever is connected has to connect anew."""
        self.address.means = cluster.bootstrap
        self.address.cut()

    def put(self, cluster: KafkaBroker, topic: str, *last: Sequence[int]) -> None:
        """Create the topic there, with a row behind each of the markers of each partition, in seconds."""
        self.turn_to(cluster)
        create_topic(self.address.address, topic, len(last))
        records = []
        for partition, seconds in enumerate(last):
            for at in seconds:
                marker = marker_value(
                    ResolvedTimestamp(Timestamp(at * SECOND)), definition().options.envelope
                )
                records += [
                    TopicRecord(topic, partition, -1, None, marker, 0),
                    TopicRecord(topic, partition, -1, b"[1]", b'{"after": null}', 0),
                ]
        write(self.address.address, records)

    def id_of(self, cluster: KafkaBroker) -> str:
        self.turn_to(cluster)
        return open_admin(KafkaConnection(self.address.address), 30).cluster_id()


@pytest.fixture(scope="module")
def sites() -> Iterator[TwoSites]:
    with MovingAddress() as address:
        settings = {"advertised.listeners": f"PLAINTEXT://{address.address}"}
        with KafkaBroker(settings=settings) as former, KafkaBroker(settings=settings) as mirror:
            yield TwoSites(address, former, mirror)


class Held:
    """A feed that began on the former site, whose mirror lacks what is above 2400 seconds."""

    def __init__(self, sites: TwoSites, home: KafkaBroker, prefix: str) -> None:
        create_topic(home.bootstrap, jobs_topic(prefix), cleanup_policy="compact")
        self.app_id = prefix
        self.connection = KafkaConnection(home.bootstrap)
        self.jobs = Jobs(self.connection, prefix)
        topic = f"{prefix}accounts"
        sites.put(sites.former, topic, [2_100, 2_900], [2_100, 2_900])
        sites.put(sites.mirror, topic, [2_100, 2_500], [2_100, 2_400])
        self.jobs.create(
            replace(
                definition(),
                sink_uri=f"kafka://{sites.address.address}",
                options=replace(definition().options, topic_prefix=prefix),
            )
        )
        target = replace(TARGET, topic=topic)
        state = replace(running(), targets=(target,), sink_cluster=sites.id_of(sites.former))
        tell(home.bootstrap, prefix, state, progress())

    @property
    def feed(self) -> FeedView:
        return self.jobs.feed(ID)


@pytest.fixture
def held(sites: TwoSites, broker: KafkaBroker, topic_prefix: str) -> Held:
    return Held(sites, broker, topic_prefix)


def test_markers_of_the_former_cluster_are_not_taken_for_those_of_its_mirror(
    sites: TwoSites, held: Held
) -> None:
    """The mirror lacks what is above its own markers, and nobody would write it there."""
    sites.turn_to(sites.mirror)
    with find_cluster(held.connection, held.app_id, ID, held.jobs.view()) as found:
        sites.turn_to(sites.former)
        with pytest.raises(RetryError, match=f"cluster {found.found}, and for another one meanwhile"):
            begin_there(found, Begin.THERE)


def test_a_feed_does_not_go_on_where_another_cluster_answers_by_then(sites: TwoSites, held: Held) -> None:
    sites.turn_to(sites.mirror)
    with find_cluster(held.connection, held.app_id, ID, held.jobs.view()) as found:
        begin = begin_there(found, Begin.THERE)
        assert begin == Timestamp(2_400 * SECOND)
        sites.turn_to(sites.former)
        with pytest.raises(RetryError, match=f"cluster {found.found}, and for another one meanwhile"):
            go_on_there(held.jobs, found, begin)
    assert held.feed.epoch == FIRST_EPOCH


def test_a_feed_goes_on_where_the_address_has_meant_one_cluster_all_the_time(
    sites: TwoSites, held: Held
) -> None:
    cluster = sites.id_of(sites.mirror)
    with find_cluster(held.connection, held.app_id, ID, held.jobs.view()) as found:
        go_on_there(held.jobs, found, begin_there(found, Begin.THERE))
    defined = held.feed.defined
    assert defined is not None
    assert defined.accepted is not None
    assert (defined.accepted.epoch, defined.accepted.cluster) == (FeedEpoch(2), cluster)
    assert defined.accepted.begin == Timestamp(2_400 * SECOND)
