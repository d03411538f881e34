"""A sink's address answers for two clusters in turn while a feed is to go on at one of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from stack.kafka import KafkaBroker
from tests.destinations import DESTINATIONS
from tests.e2e.two_clusters import TwoClusters
from tests.unit.client.feeds import ID, SECOND, TARGET, definition, progress, running, tell
from tests.unit.client.topics import create_topic, write
from tidegate.changefeed.definition.feed import FIRST_EPOCH, FeedEpoch
from tidegate.changefeed.encoding.marker import marker_value
from tidegate.changefeed.lifecycle.jobs import FeedView
from tidegate.client.cluster_acceptance import Begin, begin_there, find_cluster, go_on_there
from tidegate.client.jobs import Jobs, jobs_topic
from tidegate.client.kafka.connection import KafkaConnection
from tidegate.client.kafka.topic_admin import open_admin
from tidegate.errors import RetryError
from tidegate.hlc import ResolvedTimestamp, Timestamp
from tidegate.verify import TopicRecord

pytestmark = [
    pytest.mark.broker,
    pytest.mark.slow,
    pytest.mark.together("two clusters"),
    pytest.mark.usefixtures("others_allowed"),
]


def put(sites: TwoClusters, cluster: KafkaBroker, topic: str, *last: Sequence[int]) -> None:
    """Create the topic there, with a row after each of the markers of each partition, in seconds."""
    sites.turn_to(cluster)
    create_topic(sites.servers, topic, len(last))
    records = []
    for partition, seconds in enumerate(last):
        for at in seconds:
            marker = marker_value(ResolvedTimestamp(Timestamp(at * SECOND)), definition().options.envelope)
            records += [
                TopicRecord(topic, partition, -1, None, marker, 0),
                TopicRecord(topic, partition, -1, b"[1]", b'{"after": null}', 0),
            ]
    write(sites.servers, records)


def id_of(sites: TwoClusters, cluster: KafkaBroker) -> str:
    sites.turn_to(cluster)
    return open_admin(KafkaConnection(sites.servers, timeout_s=60), 30).cluster_id()


class Held:
    """A feed that began at home, whose mirror, away, lacks what is above 2400 seconds."""

    def __init__(self, sites: TwoClusters, home: KafkaBroker, prefix: str) -> None:
        create_topic(home.bootstrap, jobs_topic(prefix), cleanup_policy="compact")
        self.app_id = prefix
        self.connection = KafkaConnection(home.bootstrap, destinations=DESTINATIONS, timeout_s=60)
        self.jobs = Jobs(self.connection, prefix)
        topic = f"{prefix}accounts"
        put(sites, sites.home, topic, [2_100, 2_900], [2_100, 2_900])
        put(sites, sites.away, topic, [2_100, 2_500], [2_100, 2_400])
        self.jobs.create(
            replace(
                definition(),
                sink_uri=f"kafka://{sites.servers}",
                options=replace(definition().options, topic_prefix=prefix),
            )
        )
        target = replace(TARGET, topic=topic)
        state = replace(running(), targets=(target,), sink_cluster=id_of(sites, sites.home))
        tell(home.bootstrap, prefix, state, progress())

    @property
    def feed(self) -> FeedView:
        return self.jobs.feed(ID)


@pytest.fixture
def held(sites: TwoClusters, broker: KafkaBroker, topic_prefix: str) -> Held:
    return Held(sites, broker, topic_prefix)


def test_markers_of_the_former_cluster_are_not_taken_for_those_of_its_mirror(
    sites: TwoClusters, held: Held
) -> None:
    """The mirror lacks what is above its own markers, and nobody would write it there."""
    sites.turn_to(sites.away)
    with find_cluster(held.connection, held.app_id, ID, held.jobs.view()) as found:
        sites.turn_to(sites.home)
        with pytest.raises(RetryError, match=f"cluster {found.found}, and for another one meanwhile"):
            begin_there(found, Begin.THERE)


def test_a_feed_does_not_go_on_where_another_cluster_answers_by_then(sites: TwoClusters, held: Held) -> None:
    sites.turn_to(sites.away)
    with find_cluster(held.connection, held.app_id, ID, held.jobs.view()) as found:
        begin = begin_there(found, Begin.THERE)
        assert begin == Timestamp(2_400 * SECOND)
        sites.turn_to(sites.home)
        with pytest.raises(RetryError, match=f"cluster {found.found}, and for another one meanwhile"):
            go_on_there(held.jobs, found, begin)
    assert held.feed.epoch == FIRST_EPOCH


def test_a_feed_goes_on_where_the_address_has_meant_one_cluster_all_the_time(
    sites: TwoClusters, held: Held
) -> None:
    cluster = id_of(sites, sites.away)
    with find_cluster(held.connection, held.app_id, ID, held.jobs.view()) as found:
        go_on_there(held.jobs, found, begin_there(found, Begin.THERE), copied=True)
    defined = held.feed.defined
    assert defined is not None
    assert defined.accepted is not None
    assert (defined.accepted.epoch, defined.accepted.cluster) == (FeedEpoch(2), cluster)
    assert defined.accepted.begin == Timestamp(2_400 * SECOND)
