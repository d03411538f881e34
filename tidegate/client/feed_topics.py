"""The topics of a feed, as its definition and state describe them, for readers of these topics."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tidegate.access.destinations import Destinations
from tidegate.changefeed.definition.feed import ENDED, FeedDefinition, FeedId, FeedState, FeedTarget
from tidegate.changefeed.definition.options import FeedOptions, Format
from tidegate.changefeed.definition.registry_uri import parse_registry_uri
from tidegate.changefeed.definition.sink_servers import other_cluster, sink_servers
from tidegate.changefeed.encoding.confluent import SubjectSchema
from tidegate.changefeed.encoding.decoder import decoder_for
from tidegate.changefeed.encoding.record import RecordDecoder
from tidegate.changefeed.lifecycle.jobs import FeedView
from tidegate.client.kafka.connection import KafkaConnection
from tidegate.errors import InputError
from tidegate.hlc import Timestamp
from tidegate.verify.auditor import OFFSET_MARKERS

if TYPE_CHECKING:
    from tidegate.registry.registry import SchemaReader


@dataclass(frozen=True, slots=True)
class FeedTopics:
    """A feed that has started: its topics, its options, and the start above which it writes.

    ``succeeded`` says that the feed has ended because it has written everything.
    """

    options: FeedOptions
    start: Timestamp
    targets: tuple[FeedTarget, ...]
    succeeded: bool = False
    sink: tuple[str, ...] = ()
    """The servers of the cluster that its topics are on; empty for the cluster of the workers."""
    feed_id: str = ""
    complete_above: Timestamp | None = None
    """The timestamp above which its topics have all rows, if the feed goes on there without the rows before
    it. It is ``None`` if the topics have all rows since the feed's start.
    """

    @classmethod
    def of(cls, feed_id: FeedId, feed: FeedView) -> FeedTopics:
        """Return the feed's topics with the options that it was created with, even if it was moved since.

        Raises ``InputError`` for a feed that has not started.
        """
        began = feed.beginning
        if feed.defined is None or began is None or began.start is None:
            raise InputError(f"Feed {feed_id} is {feed.status.value} and {_why_no_topics(feed)}")
        succeeded = feed.status is FeedState.SUCCEEDED
        sink = sink_servers(feed.defined.sink) if began.sink_cluster else ()
        accepted = feed.defined.accepted
        complete_above = None if accepted is None else accepted.complete_above
        return cls(feed.defined.options, began.start, began.targets, succeeded, sink, feed_id, complete_above)

    def connection(self, workers: KafkaConnection) -> KafkaConnection:
        """Return the connection to its topics.

        If they are on the workers' cluster, that is ``workers``. Otherwise it has the login of the operator's
        entry for the sink's cluster. Raises ``SinkNotAllowed`` and ``SecretMissing``.
        """
        return workers.to(self.sink, self.feed_id) if self.sink else workers

    @property
    def changes_from(self) -> Timestamp:
        """The timestamp above which its topics were given all changes."""
        return max(self.start, self.complete_above or self.start)

    @property
    def topics(self) -> tuple[str, ...]:
        """The topics of its rows. Its markers are there too, unless they have a topic of their own."""
        return tuple(target.topic for target in self.targets)

    @property
    def resolved_topic(self) -> str:
        """The topic of the feed's markers; empty if markers stand among the rows."""
        return self.options.resolved_topic

    def decoder(self, allowed: Destinations) -> RecordDecoder:
        """Return a decoder of its rows, and of markers among them, with the registry that its definition
        names.

        A registry that is not ``allowed`` is not asked: reading with the decoder raises
        ``RegistryNotAllowed``. Raises ``StatementError`` for a registry's URL that cannot be used.
        """
        return row_decoder(self.options, allowed)

    def decoders(self, allowed: Destinations) -> Callable[[str], RecordDecoder]:
        """Return a function that gives the decoder for each of its topics, also for the topic of its markers.

        Raises as ``decoder`` does.
        """
        rows = self.decoder(allowed)
        return lambda topic: OFFSET_MARKERS if topic == self.resolved_topic else rows

    @property
    def all_topics(self) -> tuple[str, ...]:
        """The topics of its rows, and the topic of its markers if it has one."""
        return (*self.topics, self.resolved_topic) if self.resolved_topic else self.topics

    def schema_ids(self, allowed: Destinations) -> Callable[[SubjectSchema], int]:
        """Return a function that gives the ids that its schemas were registered with.

        Raises as ``decoder`` does.
        """
        return _registry(self.options, allowed).id_of if self.options.format is Format.AVRO else _no_schemas


def _why_no_topics(feed: FeedView) -> str:
    if feed.status not in ENDED:
        return "has no topics yet; try again once it runs."
    reason = "" if feed.current_state is None else feed.current_state.error
    return f"never had any topics: {(reason or 'it ended before it had started').rstrip('.')}."


def row_decoder(options: FeedOptions, allowed: Destinations, *, whole: bool = True) -> RecordDecoder:
    """Return a decoder for the records of a feed with these options.

    ``whole`` says that these are all options of the feed. If they are not, records may have any member of
    their envelope. Raises as ``FeedTopics.decoder`` does.
    """
    if options.format is Format.AVRO:
        return decoder_for(options, _registry(options, allowed).schema_text, whole=whole)
    return decoder_for(options, whole=whole)


def _no_schemas(schema: SubjectSchema) -> int:
    raise InputError(f"The feed's format has no schemas, so there is none for {schema.subject}.")


def check_destination(connection: KafkaConnection, definition: FeedDefinition) -> None:
    """Check that an entry of this process names the feed's sink, if this process has entries of clusters.

    The engine checks this again with its own entries. The check here ignores which feeds the entry admits,
    since the operator may still add this feed to it. Raises ``SinkNotAllowed``, and ``StatementError`` for an
    address that no sink can have.
    """
    servers = other_cluster(definition.sink, connection.bootstrap_servers)
    if servers and connection.destinations.clusters:
        connection.destinations.require_named(servers, definition.id)


def check_registry(options: FeedOptions, allowed: Destinations) -> None:
    """Check that a feed's registry can be used, as far as this process can tell without a call to the
    registry.

    It reads the certificates. If this process has entries of registries, one of them has to name this
    registry. The engine checks this again with its own entries. Raises ``RegistryNotAllowed`` and
    ``StatementError``.
    """
    if options.registry is not None:
        from tidegate.registry.registry_connection import require_certificates  # slow, as in `_registry`

        require_certificates(options.registry)
        if allowed.registries:
            allowed.require_registry(options.registry)


def _registry(options: FeedOptions, allowed: Destinations) -> SchemaReader:
    # this import takes longer than most commands, and most need no registry
    from tidegate.registry.registry import SchemaReader

    return SchemaReader(parse_registry_uri(options.confluent_schema_registry), allowed)
