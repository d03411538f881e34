"""The output of an Avro feed, with a registry that wants a login."""

from __future__ import annotations

from typing import NamedTuple

from tests.destinations import DESTINATIONS
from tests.registry_server import RegistryServer
from tests.unit.client.history_log import feed, log
from tidegate.changefeed.definition.feed import FIRST_EPOCH, FeedState
from tidegate.changefeed.definition.options import Envelope, FeedOptions, Format
from tidegate.changefeed.definition.registry_uri import parse_registry_uri
from tidegate.changefeed.lifecycle.control import Activate
from tidegate.changefeed.lifecycle.job_records import DefinitionRecord, StateRecord
from tidegate.changefeed.lifecycle.jobs import JobsView
from tidegate.client.feed_topics import FeedTopics
from tidegate.processor.reference import ReferenceEngine
from tidegate.registry.schema_registration import SchemaRegistrar
from tidegate.verify import TopicRecord

LOGIN = ("me", "hush")


class Written(NamedTuple):
    """A feed, what its definition says, and what it wrote."""

    activation: Activate
    topics: FeedTopics
    records: list[TopicRecord]


def written(server: RegistryServer, envelope: Envelope = Envelope.WRAPPED, topic_prefix: str = "") -> Written:
    """An Avro feed over the log, as the reference engine writes it with this registry."""
    wrapped = envelope is Envelope.WRAPPED
    url = server.url.replace("://", "://me:hush@")
    options = FeedOptions(
        format=Format.AVRO,
        envelope=envelope,
        diff=wrapped,
        updated=wrapped,
        mvcc_timestamp=wrapped,
        resolved_interval_ns=0,
        topic_prefix=topic_prefix,
        confluent_schema_registry=url,
    )
    wanted = feed(options)
    registry = SchemaRegistrar(parse_registry_uri(url), DESTINATIONS)
    engine = ReferenceEngine(len(log().partitions), [wanted], schema_id=registry.id_of)
    for number, records in enumerate(log().partitions):
        engine.step(number, records)
    registry.close()
    output = [
        TopicRecord(*place, offset, record.key, record.value, record.timestamp_ms or 0, record.headers)
        for place, records in engine.output.items()
        for offset, record in enumerate(records)
    ]
    return Written(wanted, _topics(wanted), output)


def _topics(wanted: Activate) -> FeedTopics:
    """Return the topics as a client finds them, in the records of the jobs topic."""
    view = JobsView()
    state = StateRecord(wanted.definition.id, FIRST_EPOCH, FeedState.RUNNING, wanted.start, wanted.targets)
    for record in (DefinitionRecord(wanted.definition), state):
        view.apply(record.key, record.to_bytes())
    return FeedTopics.of(wanted.definition.id, view[wanted.definition.id])
