"""The feeds that a query runs, as the jobs topic tells of them: how they begin, get on and end."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Sequence
from typing import Final

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient

from pipeline.feed_markers import FeedMarkers
from pipeline.partition_round import Answer, Query
from schemas.registries import SchemaRegistries
from tidegate.changefeed.confluent import Schema
from tidegate.changefeed.control import ControlMessage, Register, read_ack
from tidegate.changefeed.encoder import marker_schemas
from tidegate.changefeed.feed import FeedDefinition, FeedEpoch, FeedId, FeedState
from tidegate.changefeed.job_records import JobRecord, StateRecord
from tidegate.changefeed.jobs import FeedView
from tidegate.changefeed.registration import (
    Acknowledgements,
    Announce,
    Prepare,
    Store,
    failed,
    next_step,
    starting_state,
)
from tidegate.changefeed.sink import parse_sink_uri
from tidegate.client.cluster import Cluster
from tidegate.client.jobs import JobsReading
from tidegate.client.output_topics import check_sink, check_topics, prepare_targets, wanted_topics
from tidegate.client.reader import PartitionReader
from tidegate.client.topic_admin import TopicAdmin
from tidegate.client.topics import Topics
from tidegate.client.transaction import Record, TransactionalProducer, transactional
from tidegate.errors import FeedError, RetryError, StatementError, TopologyError
from tidegate.hlc import ResolvedTimestamp
from tidegate.processor.checkpoint import decode_report
from tidegate.processor.range_claims import RangeClaims
from tidegate.raftlog.decode import decode_key
from tidegate.raftlog.encode import partition_of
from tidegate.verify import TopicPartition

_LIMIT_BYTES: Final = 1_000_000
_REPLICATION: Final = -1  # as the broker has it
_PATIENCE_S: Final = 15.0
_KEY_BYTES: Final = 8

_MARKED: Final = (FeedState.STARTING, FeedState.RUNNING)

_log = logging.getLogger("tidegate.spark")


class QueryFeeds:
    """All feeds of an application. Topics that are created for them have ``output_partitions``.

    A new feed is registered once every partition is where the log ended when the query began: it starts at
    the present then, with the tables' descriptors known.

    Close it. It is used by the thread that runs the query's batches.
    """

    def __init__(self, query: Query, topics: Topics, output_partitions: int) -> None:
        self._query = query
        self._topics = topics
        self._output_partitions = output_partitions
        place = TopicPartition(topics.jobs, 0)
        cluster = Cluster(query.connection)
        bounds = cluster.bounds([place])[place]
        self._reader = PartitionReader(query.connection, {place: bounds.low})
        self._jobs = JobsReading(self._reader, bounds.end)
        self._registries = SchemaRegistries()
        self._acks: dict[tuple[FeedId, FeedEpoch], Acknowledgements] = {}
        self._claims = RangeClaims()
        self._markers: dict[FeedId, FeedMarkers] = {}
        self._requests: list[bytes] = []
        #: Where the log ended when the query began, for partitions that have not come there.
        self._present = _ends(cluster, query)
        self._writer = self._producer(f"{topics.app_id}-spark-jobs")
        self._writer.open()

    def announcements(self) -> Sequence[tuple[ControlMessage, Sequence[int]]]:
        """What partitions are to be told of feeds that begin or end; stores what is due meanwhile.

        Raises ``StateError`` for a stored state that no step can have left, ``BrokerUnavailable``.
        """
        self._read()
        found = []
        for feed_id, _ in list(self._jobs.view.feeds()):
            step = self._advance(feed_id)
            if step is not None:
                found.append((step.message, step.partitions))
        return found

    def take(self, answers: Iterable[Answer]) -> None:
        """Note what a round that is done has to say: its rows are acknowledged."""
        for answer in answers:
            match answer.kind:
                case "ack":
                    ack = read_ack(answer.body)
                    self._acknowledgements(ack.feed_id, ack.epoch).add(ack)
                case "checkpoint":
                    self._apply(answer.body)
                case "request":
                    self._requests.append(answer.body)
                case "figures":
                    self._note_position(answer.partition, json.loads(answer.body)["next_offset"])
                case "incident":
                    incident = json.loads(answer.body)
                    _log.error(
                        "log partition %d, offset %d: %s",
                        incident["partition"],
                        incident["offset"],
                        incident["cause"],
                    )

    def publish(self) -> None:
        """Write the requests to the source; persist each feed's high-water, and write its marker."""
        if self._requests:
            self._writer.commit([self._request(body) for body in self._requests])
            self._requests = []
        for feed_id, markers in list(self._markers.items()):
            try:
                progress = markers.publish()
            except FeedError as error:
                definition = self._jobs.view[feed_id].definition
                if definition is not None:
                    self._store(failed(definition, str(error)))
                continue
            if progress is not None:
                self._jobs.view.apply(progress.key, progress.to_bytes())

    def high_waters(self) -> dict[FeedId, ResolvedTimestamp | None]:
        """Of the feeds that run, as they are persisted."""
        return {feed_id: self._jobs.view[feed_id].high_water for feed_id in self._markers}

    def close(self) -> None:
        """Let go of the brokers and registries."""
        for markers in self._markers.values():
            markers.close()
        self._writer.close()
        self._reader.close()
        self._registries.close()

    def _read(self) -> None:
        self._jobs.poll(0)
        while not self._jobs.complete:
            self._jobs.poll()

    def _advance(self, feed_id: FeedId) -> Announce | None:
        """Go on with one feed until somebody has to be told, or there is nothing to do."""
        while True:
            feed = self._jobs.view[feed_id]
            if feed.definition is None:
                return None
            self._follow(feed_id, feed)
            acks = self._acknowledgements(feed_id, feed.definition.epoch).by_partition()
            match next_step(feed, acks, self._query.partitions):
                case Store(record):
                    self._store(record)
                case Announce(message=Register()) | Prepare() if fault := self._fault(feed.definition):
                    self._store(failed(feed.definition, fault))
                case Prepare() as prepare:
                    self._store(self._prepared(feed.definition, prepare))
                case Announce(message=Register()) if self._present:
                    return None
                case Announce() as announce:
                    return announce
                case _:
                    return None

    def _fault(self, definition: FeedDefinition) -> str:
        """Why the feed cannot be, or nothing."""
        topics = self._topics
        internal = {spec.name for spec in topics.specs(1, 1)} | {topics.log}
        try:
            check_sink(definition)
            check_topics(definition, wanted_topics(definition), self._jobs.view, internal)
        except FeedError as error:
            return str(error)
        return ""

    def _prepared(self, definition: FeedDefinition, prepare: Prepare) -> StateRecord:
        """The state in which the feed starts, its topics created; or in which it has failed."""
        connection = self._query.connection.to(parse_sink_uri(definition.sink_uri).hosts)
        client = connection.open(AdminClient)
        admin = TopicAdmin(client, connection.bootstrap_servers, _REPLICATION, patience_s=_PATIENCE_S)
        try:
            self._register_markers(definition)
            targets = prepare_targets(definition, prepare.tables, admin, self._output_partitions)
            return starting_state(definition, prepare, targets)
        except (FeedError, TopologyError, RetryError, StatementError) as error:
            return failed(definition, str(error))

    def _register_markers(self, definition: FeedDefinition) -> None:
        """What the registry refuses is known before the feed runs."""
        for schema in marker_schemas(definition):
            self._schema_id(definition.options.confluent_schema_registry, schema)

    def _follow(self, feed_id: FeedId, feed: FeedView) -> None:
        """Have markers of a feed that has a start: before the first checkpoint that names it comes."""
        known, definition = self._markers.get(feed_id), feed.definition
        assert definition is not None
        if known is not None and (known.epoch != definition.epoch or feed.status not in _MARKED):
            self._markers.pop(feed_id).close()
            known = None
        if known is None and feed.status in _MARKED:
            producer = self._producer(f"{self._topics.app_id}-feed-{feed_id}")
            producer.open()
            cluster = Cluster(self._query.connection.to(parse_sink_uri(definition.sink_uri).hosts))
            jobs = self._topics.jobs
            self._markers[feed_id] = FeedMarkers(feed, jobs, producer, cluster, self._schema_id)

    def _note_position(self, partition: int, next_offset: int) -> None:
        if next_offset >= self._present.get(partition, next_offset + 1):
            del self._present[partition]

    def _apply(self, checkpoint: bytes) -> None:
        (report,) = self._claims.count([decode_report(checkpoint)])
        for active in report.feeds:
            markers = self._markers.get(active.feed_id)
            if markers is not None and markers.epoch == active.epoch:
                markers.apply(report)

    def _acknowledgements(self, feed_id: FeedId, epoch: FeedEpoch) -> Acknowledgements:
        return self._acks.setdefault((feed_id, epoch), Acknowledgements(epoch))

    def _request(self, body: bytes) -> Record:
        key, value = body[:_KEY_BYTES], body[_KEY_BYTES:]
        range_id = decode_key(key)
        assert range_id is not None
        return Record(self._topics.requests, partition_of(range_id, self._query.partitions), key, value)

    def _schema_id(self, url: str, schema: Schema) -> int:
        return self._registries.of(url).id_of(schema)

    def _store(self, record: JobRecord) -> None:
        value = record.to_bytes()
        self._writer.commit([Record(self._topics.jobs, 0, record.key, value)])
        self._jobs.view.apply(record.key, value)

    def _producer(self, transactional_id: str) -> TransactionalProducer:
        config = transactional(transactional_id, _LIMIT_BYTES)
        producer = self._query.connection.open(Producer, config)
        return TransactionalProducer(producer, transactional_id, _LIMIT_BYTES)


def _ends(cluster: Cluster, query: Query) -> dict[int, int]:
    bounds = cluster.bounds(TopicPartition(query.log, number) for number in range(query.partitions))
    return {place.partition: bound.end for place, bound in bounds.items() if bound.end > bound.low}
