"""Prepares a feed before it may start: topics that no other feed writes to, and schemas that its registry
takes.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from tidegate.access.output_namespace import EVERYWHERE, OutputNamespace
from tidegate.changefeed.definition.feed import FeedDefinition, FeedId
from tidegate.changefeed.encoding.confluent import SubjectSchema
from tidegate.changefeed.encoding.encoder import marker_schemas
from tidegate.changefeed.lifecycle.job_records import StateRecord
from tidegate.changefeed.lifecycle.registration import Prepare, starting_state, waiting
from tidegate.client.kafka.record_limit import LIMIT_OF_SPARK
from tidegate.client.kafka.topic_admin import TopicAdmin
from tidegate.client.kafka.topics import Topics
from tidegate.client.own_topics import OwnTopics
from tidegate.client.topic_ownership import feed_fault, former_owner, wanted_topics
from tidegate.client.topic_preparation import prepare_topics, topics_to_announce
from tidegate.delivery.feed_start import UNPREPARED, unprepared
from tidegate.registry.known_registries import SchemaRegistries
from tidegate.spark.changefeed.jobs_topic import JobsTopic
from tidegate.spark.changefeed.query_sinks import QuerySinks


class Preparation:
    """Prepares the feeds of ``jobs``. Close it.

    Topics that it creates have ``output_partitions`` partitions. ``is_gone`` tells whether an ended feed can
    write nothing any more: no log partition has it, and nobody writes its markers. ``namespace`` says which
    topics the operator lets feeds write to.
    """

    def __init__(
        self,
        topics: Topics,
        jobs: JobsTopic,
        sinks: QuerySinks,
        output_partitions: int,
        is_gone: Callable[[FeedDefinition], bool],
        namespace: OutputNamespace = EVERYWHERE,
    ) -> None:
        self._topics = topics
        self._jobs = jobs
        self._sinks = sinks
        self._output_partitions = output_partitions
        self._is_gone = is_gone
        self._namespace = namespace
        self._registries = SchemaRegistries(sinks.destinations)

    def fault(self, definition: FeedDefinition) -> str:
        """Return why the feed cannot run, or an empty text. Raises ``RetryError`` for a sink to wait for."""
        return feed_fault(
            definition,
            partial(self._cluster_of, definition),
            self._jobs.view,
            self._topics.internal,
            partial(self._sinks.share, definition),
            self._namespace,
        )

    def former_owner(self, definition: FeedDefinition) -> FeedId | None:
        """Return the ended feed that must be gone before this one may have its topics, or ``None``."""
        self._sinks.cluster_of(definition)  # ``share`` needs the cluster
        topics, shares = wanted_topics(definition), partial(self._sinks.share, definition)
        return former_owner(definition, topics, self._jobs.view, self._is_gone, shares)

    def prepared(self, definition: FeedDefinition, prepare: Prepare) -> StateRecord:
        """Create the feed's topics; return the state in which the feed starts, or in which it has failed.

        Raises ``RetryError`` when something does not answer and no partition is held for the feed: it began
        in an earlier epoch, or is a backfill's. A feed that holds partitions fails then.
        """
        cluster = prepare.cluster
        try:
            self._register_markers(definition)
            if cluster is None:
                cluster = self._sinks.cluster_of(definition)
            admin = self._sinks.admin(self._sinks.connection(definition, cluster))
            self._announce(definition, prepare, admin, cluster)
            targets, topics = prepare_topics(
                definition,
                prepare,
                admin,
                cluster,
                self._output_partitions,
                LIMIT_OF_SPARK,
                self._own_topics(definition),
            )
            return starting_state(definition, prepare, targets, cluster, topics)
        except UNPREPARED as error:
            servers = self._sinks.servers(definition, cluster)
            topics = self._jobs.view[definition.id].stored_topics
            state = unprepared(definition, prepare, error, servers, topics)
            if state is None:
                raise
            return state

    def schema_id(self, url: str, schema: SubjectSchema) -> int:
        """Return the id of a schema in the registry at ``url``, which is asked once."""
        return self._registries.of(url).id_of(schema)

    def close(self) -> None:
        """Close the clients of the registries."""
        self._registries.close()

    def _cluster_of(self, definition: FeedDefinition) -> str:
        """Return the id of the cluster of a feed's sink. Raises ``SinkHeld`` unless the feed began there."""
        cluster = self._sinks.learn(definition)
        self._sinks.require_begun(definition, self._jobs.view[definition.id])
        return cluster

    def _announce(
        self, definition: FeedDefinition, prepare: Prepare, admin: TopicAdmin, cluster: str
    ) -> None:
        """Store which topics are about to be created."""
        own = self._own_topics(definition)
        if announced := topics_to_announce(definition, prepare, admin, cluster, own):
            self._jobs.store(waiting(definition, "", announced))

    def _own_topics(self, definition: FeedDefinition) -> OwnTopics:
        return OwnTopics.of(definition, self._jobs.view, partial(self._sinks.share, definition))

    def _register_markers(self, definition: FeedDefinition) -> None:
        """Register the schemas of markers, so that a refusal is known before the feed runs.

        This also checks the registry of a feed that has no markers.
        """
        if url := definition.options.confluent_schema_registry:
            self._registries.of(url).check()
            for schema in marker_schemas(definition):
                self.schema_id(url, schema)
