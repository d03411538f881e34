"""Tests where the topics of a feed are."""

from __future__ import annotations

from dataclasses import replace

from tests.destinations import DESTINATIONS
from tests.unit.client.feeds import ID, definition, running
from tidegate.access.destinations import ClusterEntry, Destinations
from tidegate.changefeed.lifecycle.job_records import DefinitionRecord
from tidegate.changefeed.lifecycle.jobs import FeedView, JobsView
from tidegate.client.feed_topics import FeedTopics
from tidegate.client.kafka.connection import KafkaConnection

_WORKERS = KafkaConnection(
    "localhost:29092", "SASL_PLAINTEXT", sasl_username="ann", sasl_password="hush", timeout_s=3
)


def _feed(sink: str, cluster: str) -> FeedView:
    view = JobsView()
    for record in (
        DefinitionRecord(replace(definition(), sink_uri=sink)),
        replace(running(), sink_cluster=cluster),
    ):
        view.apply(record.key, record.to_bytes())
    return view[ID]


def test_topics_on_the_workers_cluster_are_read_as_the_jobs_are_whatever_its_name_there() -> None:
    topics = FeedTopics.of(ID, _feed("kafka://kafka:9092", ""))
    assert topics.connection(_WORKERS) is _WORKERS


def test_topics_of_another_cluster_are_read_there_with_the_login_of_its_entry() -> None:
    topics = FeedTopics.of(ID, _feed("kafka://b:1,a", "an-id"))
    found = topics.connection(replace(_WORKERS, destinations=DESTINATIONS))
    assert found == KafkaConnection("a:9092,b:1", timeout_s=3, destinations=DESTINATIONS, sasl_username=None)
    entry = ClusterEntry(("a:9092", "b:1"), own_login=True)
    own = replace(_WORKERS, destinations=Destinations((("own", entry),)))
    assert topics.connection(own) == replace(own, bootstrap_servers="a:9092,b:1")
