"""Prepares a feed before it may start: topics that no other feed writes to, and schemas that its registry
takes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from threading import Lock
from typing import Final

from tidegate.access.output_namespace import EVERYWHERE, OutputNamespace
from tidegate.changefeed.definition.feed import FeedDefinition, FeedId, FeedState
from tidegate.changefeed.encoding.confluent import SubjectSchema
from tidegate.changefeed.encoding.encoder import marker_schemas
from tidegate.changefeed.lifecycle.job_records import StateRecord
from tidegate.changefeed.lifecycle.jobs import FeedView
from tidegate.changefeed.lifecycle.registration import Answers, Prepare, waiting
from tidegate.client.kafka.record_limit import LIMIT_OF_SPARK
from tidegate.client.kafka.topic_admin import TopicAdmin, TopicSpec
from tidegate.client.kafka.topics import Topics
from tidegate.client.own_topics import OwnTopics
from tidegate.client.subject_ownership import new_subjects
from tidegate.client.topic_ownership import feed_fault, former_owner, wanted_topics
from tidegate.client.topic_preparation import announced_specs, prepare_topics, topics_to_announce
from tidegate.delivery.feed_start import UNPREPARED, begins, unprepared
from tidegate.delivery.sink_clusters import OWN
from tidegate.registry.known_registries import SchemaRegistries
from tidegate.spark.changefeed.jobs_topic import JobsTopic
from tidegate.spark.changefeed.query_sinks import QuerySinks

#: The most topics that one request creates. A controller writes them in one batch of bounded size.
_TOPICS_AT_ONCE: Final = 200


class Preparation:
    """Prepares the feeds of ``jobs``. Threads may prepare several feeds at the same time. Close it.

    Topics that it creates have ``output_partitions`` partitions. ``is_gone`` tells whether an ended feed can
    write nothing any more: no log partition has it, and nobody writes its markers. ``namespace`` says which
    topics the operator lets feeds write to, and ``answers`` what log partitions have answered about a feed.
    """

    def __init__(
        self,
        topics: Topics,
        jobs: JobsTopic,
        sinks: QuerySinks,
        output_partitions: int,
        is_gone: Callable[[FeedDefinition], bool],
        namespace: OutputNamespace = EVERYWHERE,
        answers: Callable[[FeedView], Answers] = lambda _: {},
    ) -> None:
        self._topics = topics
        self._jobs = jobs
        self._sinks = sinks
        self._output_partitions = output_partitions
        self._is_gone = is_gone
        self._namespace = namespace
        self._answers = answers
        self._registries = SchemaRegistries(sinks.destinations)
        self._looking = Lock()  # one thread at a time may look for feeds by their names

    def fault(self, definition: FeedDefinition) -> str:
        """Return why the feed cannot run, or an empty text.

        Raises ``RetryError`` if the feed has to wait for its sink.
        """
        return feed_fault(
            definition,
            partial(self._cluster_of, definition),
            self._jobs.view,
            self._topics.internal,
            partial(self._sinks.share, definition),
            self._namespace,
            self._sinks.destinations,
        )

    def former_owner(self, definition: FeedDefinition) -> FeedId | None:
        """Return the ended feed that must be gone before this one may have its topics, or ``None``."""
        self._sinks.cluster_of(definition)  # ``share`` needs the cluster
        topics, shares = wanted_topics(definition), partial(self._sinks.share, definition)
        return former_owner(definition, topics, self._jobs.view, self._is_gone, shares)

    def prepared(self, definition: FeedDefinition, prepare: Prepare) -> StateRecord:
        """Create the feed's topics; return the state in which the feed starts, or in which it has failed.

        Raises as ``announcement`` does.
        """
        announced = self.announcement(definition, prepare)
        if announced is not None:
            if announced.state is FeedState.FAILED:
                return announced
            self._jobs.store(announced)
        return self.begun(definition, prepare)

    def announcement(self, definition: FeedDefinition, prepare: Prepare) -> StateRecord | None:
        """Return the state to store before ``begun`` creates topics; ``None`` if ``begun`` creates none.

        The state says which topics these are, or why the feed has failed. Raises ``RetryError`` when
        something does not answer and no partition is held for the feed, since the feed began in an earlier
        epoch or runs in a backfill. If partitions are held for the feed, it fails instead.
        """
        try:
            self._require_new_subjects(definition)
            self._register_markers(definition)
            admin, cluster = self._place(definition, prepare)
            own = self._own_topics(definition)
            topics = topics_to_announce(definition, prepare, admin, cluster, LIMIT_OF_SPARK, own)
        except UNPREPARED as error:
            return self.unprepared(definition, prepare, error)
        return waiting(definition, "", topics) if topics else None

    def create_early(self, announced: Iterable[StateRecord]) -> None:
        """Create announced topics on the query's own cluster, in few requests, before ``begun`` looks there.

        A broker creates the topics of one request together, and those of several requests one after the
        other.
        """
        specs: list[TopicSpec] = []
        for state in announced:
            definition = self._jobs.view[state.feed_id].definition
            if definition is not None and self._sinks.known_cluster(definition) == OWN:
                specs += announced_specs(definition, state.topics, self._output_partitions)
        for first in range(0, len(specs), _TOPICS_AT_ONCE):
            self._sinks.own_admin().create_early(specs[first : first + _TOPICS_AT_ONCE])

    def begun(self, definition: FeedDefinition, prepare: Prepare) -> StateRecord:
        """Create the announced topics; return the state in which the feed starts, or in which it has failed.

        Raises as ``announcement`` does.
        """
        try:
            admin, cluster = self._place(definition, prepare)
            own, partitions = self._own_topics(definition), self._output_partitions
            targets, topics = prepare_topics(
                definition, prepare, admin, cluster, partitions, LIMIT_OF_SPARK, own
            )
        except UNPREPARED as error:
            return self.unprepared(definition, prepare, error)
        return begins(definition, prepare, targets, cluster, topics, own.written_to)

    def unprepared(self, definition: FeedDefinition, prepare: Prepare, error: Exception) -> StateRecord:
        """Return the failed state of a feed that met ``error``; raise it if the feed waits."""
        cluster = self._sinks.known_cluster(definition) if prepare.cluster is None else prepare.cluster
        servers = self._sinks.servers(definition, cluster)
        topics = self._jobs.view[definition.id].stored_topics
        state = unprepared(definition, prepare, error, servers, topics)
        if state is None:
            raise error
        return state

    def schema_id(self, url: str, schema: SubjectSchema) -> int:
        """Return the id of a schema in the registry at ``url``.

        Raises ``RetryError`` when the registry does not answer.
        """
        return self._registries.of(url).id_of(schema)

    def close_unused(self, live: Iterable[FeedDefinition]) -> None:
        """Close the clients of registries that no live feed names."""
        urls = (definition.options.confluent_schema_registry for definition in live)
        for registry in self._registries.take_unused(filter(None, urls)):
            registry.close()

    def close(self) -> None:
        """Close the clients of the registries."""
        self._registries.close()

    def _cluster_of(self, definition: FeedDefinition) -> str:
        """Return the id of the cluster of a feed's sink. Raises ``SinkHeld`` if the feed began elsewhere."""
        cluster = self._sinks.learn(definition)
        self._sinks.require_begun(definition, self._jobs.view[definition.id])
        return cluster

    def _place(self, definition: FeedDefinition, prepare: Prepare) -> tuple[TopicAdmin, str]:
        """Return a client for the cluster of the feed's topics, and the cluster's id."""
        cluster = prepare.cluster
        if cluster is None:
            cluster = self._sinks.cluster_of(definition)
        return self._sinks.admin(self._sinks.connection(definition, cluster)), cluster

    def _own_topics(self, definition: FeedDefinition) -> OwnTopics:
        shares = partial(self._sinks.share, definition)
        with self._looking:
            return OwnTopics.of(definition, self._jobs.view, shares, self._answers)

    def _require_new_subjects(self, definition: FeedDefinition) -> None:
        with self._looking:
            subjects = new_subjects(definition, self._jobs.view, self._sinks.destinations)
        if subjects.names:
            self._registries.of(definition.options.confluent_schema_registry).require_new(subjects)

    def _register_markers(self, definition: FeedDefinition) -> None:
        """Register the schemas of markers, so that a refusal is known before the feed runs.

        This also checks the registry of a feed that has no markers.
        """
        if url := definition.options.confluent_schema_registry:
            self._registries.of(url).check()
            for schema in marker_schemas(definition):
                self.schema_id(url, schema)
