"""The output topics of a feed: checked, created where missing, and pinned for the feed's epoch."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final, TypeAlias

from tidegate.changefeed.control import KnownTable
from tidegate.changefeed.definition_size import size_fault
from tidegate.changefeed.feed import (
    ENDED,
    FIRST_EPOCH,
    LIVE,
    Engine,
    FeedDefinition,
    FeedId,
    FeedState,
    FeedTarget,
)
from tidegate.changefeed.jobs import FeedView, JobsView
from tidegate.changefeed.options import FeedOptions, OnOversize
from tidegate.changefeed.oversize import RECORD_ROOM
from tidegate.changefeed.resolved_topic import marker_partitions, resolved_topic_fault
from tidegate.changefeed.sink import parse_sink_uri, require_shared_connection
from tidegate.changefeed.table_topics import table_topic
from tidegate.client.row_delivery import BATCH_BYTES
from tidegate.client.topic_admin import TopicAdmin, TopicSpec
from tidegate.delivery.sink_identity import held
from tidegate.errors import FeedError, SinkHeld, StatementError, TopologyError
from tidegate.rows.table_key import table_span

#: Record times are commit timestamps, which may lie far back: time must not delete what is just written.
_CREATED_WITH: Final = {"cleanup.policy": "delete", "retention.ms": "-1"}

#: Whether the topics of another feed are on the same cluster.
Shares: TypeAlias = Callable[[FeedView], bool]


def _on_one_cluster(other: FeedView) -> bool:  # noqa: ARG001 - the same for every feed
    return True


def check_sink(definition: FeedDefinition) -> None:
    """Raises ``FeedError`` for a sink that this version cannot write to, or too large a definition."""
    if fault := size_fault(definition):
        raise FeedError(fault)
    try:
        require_shared_connection(parse_sink_uri(definition.sink_uri))
    except StatementError as error:
        raise FeedError(str(error)) from None


def check_topics(
    definition: FeedDefinition,
    topics: Iterable[str],
    jobs: JobsView,
    internal: set[str],
    shares: Shares = _on_one_cluster,
) -> None:
    """Raises ``FeedError`` when a topic is another feed's, tidegate's own, or asked for twice by this one.

    Of two feeds that both wait for their start the lower id has the topic; ids sort by creation.
    ``internal`` are the topics of tidegate's own on the feed's cluster, ``shares`` tells which other feeds
    write to that.
    """
    _check_resolved_topic(definition)
    seen: set[str] = set()
    taken = _taken(definition.id, jobs, shares)
    for topic in topics:
        if topic in taken and jobs[taken[topic]].status in ENDED:
            raise FeedError(
                f"feed {taken[topic]} wrote to the topic {topic} and was moved between engines or clusters, "
                "or is of a backfill: one that comes back late may still write rows of it; choose another "
                f"{_named_by(definition, topic)}"
            )
        if topic in taken:
            raise FeedError(
                f"feed {taken[topic]} writes to the topic {topic} already or will soon, and an output topic "
                f"belongs to one feed; choose another {_named_by(definition, topic)}, or drop that feed"
            )
        if topic in internal:
            raise FeedError(
                f"{topic} is a topic of tidegate's own; choose another {_named_by(definition, topic)}"
            )
        if topic in seen:
            raise FeedError(f"two tables of the feed would share the topic {topic}; make two feeds of them")
        seen.add(topic)


def _check_resolved_topic(definition: FeedDefinition) -> None:
    topic = definition.options.resolved_topic
    fault = resolved_topic_fault(topic, _row_topics(definition)) if topic else ""
    if fault:
        raise FeedError(fault)


def _named_by(definition: FeedDefinition, topic: str) -> str:
    """The option that the topic's name comes from."""
    return "resolved_topic" if topic == definition.options.resolved_topic else "topic_prefix"


def former_owner(
    definition: FeedDefinition,
    topics: Iterable[str],
    jobs: JobsView,
    forgotten: Callable[[FeedDefinition], bool],
    shares: Shares = _on_one_cluster,
) -> FeedId | None:
    """A feed that has ended and may still write to one of the topics; ``None`` when there is none.

    ``forgotten`` tells whether every log partition has answered that it removed the feed, ``shares`` whether
    it writes to the same cluster.
    """
    wanted = set(topics)
    for other_id, other in jobs.feeds():
        if other_id == definition.id or other.definition is None or other.status not in ENDED:
            continue
        if wanted & _prepared_topics(other) and shares(other) and not forgotten(other.definition):
            return other_id
    return None


def prepare_targets(
    definition: FeedDefinition,
    tables: Sequence[KnownTable],
    admin: TopicAdmin,
    partitions: int,
    max_record_bytes: int,
) -> tuple[FeedTarget, ...]:
    """The targets with their partition counts, topics created by ``admin`` where they are missing. Blocks.

    ``max_record_bytes`` is what the engine's producers of rows take.

    So is the topic of the markers, where the feed has one: its partition count follows from the targets.

    Raises ``FeedError`` for a topic that cannot hold the feed, ``TopologyError`` for one that cannot be
    created or looked at, ``RetryError`` for a cluster that does not answer.
    """
    _check_producer(definition.options, max_record_bytes)
    targets = tuple(_prepare(definition, table, admin, partitions) for table in tables)
    if definition.options.resolved_topic:
        _prepare_resolved_topic(definition.options.resolved_topic, targets, admin)
    return targets


def prepare_elsewhere(
    definition: FeedDefinition, targets: Sequence[FeedTarget], admin: TopicAdmin, cluster: str
) -> None:
    """Create the feed's topics on a cluster that it comes to, with the partitions that they have (step N5 of
    docs/accept-cluster.md). Blocks.

    ``cluster`` is its id; empty for the engine's own, which is not asked. Raises ``RetryError`` for another
    cluster at the address, and for topics that cannot hold the feed as they are: who runs the cluster may
    mend that, and nothing is lost meanwhile.
    """
    require_cluster(definition.id, admin, cluster)
    try:
        for target in targets:
            _prepare_as_it_was(definition, target, admin)
        if definition.options.resolved_topic:
            _prepare_resolved_topic(definition.options.resolved_topic, targets, admin)
    except (FeedError, TopologyError) as error:
        raise SinkHeld(
            f"feed {definition.id} waits for its topics on the cluster {cluster}: {error}"
        ) from None
    require_cluster(definition.id, admin, cluster)


def require_cluster(feed_id: FeedId, admin: TopicAdmin, cluster: str) -> None:
    """Raises ``SinkHeld`` where another cluster answers than the one with this id, if that is not the
    engine's own; ``RetryError`` where none does."""
    if cluster and (found := admin.cluster_id()) != cluster:
        raise SinkHeld(held(feed_id, admin.servers, cluster, found))


def _prepare_as_it_was(definition: FeedDefinition, target: FeedTarget, admin: TopicAdmin) -> None:
    found = admin.create_unless_there(TopicSpec(target.topic, target.partitions, _CREATED_WITH))
    if found is None:
        return
    if found != target.partitions:
        raise FeedError(partitions_differ(target, found))
    if "compact" in admin.config(target.topic).get("cleanup.policy", ""):
        _refuse_compaction(definition, target.topic)


def partitions_differ(target: FeedTarget, found: int) -> str:
    """Why a topic that is there cannot be the feed's."""
    return (
        f"the topic {target.topic} has {found} partitions there, and the feed has {target.partitions}: keys "
        f"would change partitions. Delete it there, and tidegate creates it with {target.partitions}"
    )


def wanted_topics(definition: FeedDefinition) -> list[str]:
    """The topics of all tables of the feed, in the definition's order, and that of its markers."""
    return _row_topics(definition) + _marker_topics(definition)


def _row_topics(definition: FeedDefinition) -> list[str]:
    return [table_topic(table, definition.options) for table in definition.tables]


def _marker_topics(definition: FeedDefinition) -> list[str]:
    topic = definition.options.resolved_topic
    return [topic] if topic else []


def _prepare(definition: FeedDefinition, known: KnownTable, admin: TopicAdmin, partitions: int) -> FeedTarget:
    topic = table_topic(known.table, definition.options)
    spec = TopicSpec(topic, partitions, _CREATED_WITH)
    found = admin.create_unless_there(spec)
    if found is not None and "compact" in admin.config(topic).get("cleanup.policy", ""):
        _refuse_compaction(definition, topic)
    _check_room(definition.options, topic, admin)
    partitions = spec.partitions if found is None else found
    return FeedTarget(known.table, known.table_id, topic, partitions, (table_span(known.table_id),))


def _check_producer(options: FeedOptions, max_record_bytes: int) -> None:
    """A feed that leaves large rows out must not fail by one that is below its limit."""
    if options.max_row_bytes + RECORD_ROOM > max_record_bytes and options.on_oversize is OnOversize.KEY_ONLY:
        raise FeedError(
            f"the feed's rows may have {options.max_row_bytes} bytes, and with {RECORD_ROOM} more for what "
            f"stands around a row that is above max_record_bytes, {max_record_bytes}: create it with a lower "
            "max_row_bytes, or raise max_record_bytes"
        )


def _check_room(options: FeedOptions, topic: str, admin: TopicAdmin) -> None:
    """The same for the topic: its limit is for batches, and a batch may be as large as producers make it."""
    if options.on_oversize is not OnOversize.KEY_ONLY:
        return
    needed = max(options.max_row_bytes, BATCH_BYTES) + RECORD_ROOM
    limit = int(admin.config(topic)["max.message.bytes"])
    if limit < needed:
        raise FeedError(
            f"the topic {topic} has max.message.bytes={limit}, and the feed needs {needed} there: batches "
            f"have up to {BATCH_BYTES} bytes, its rows up to {options.max_row_bytes} (max_row_bytes), and "
            "some bytes stand around them; raise the topic's limit"
        )


def _refuse_compaction(definition: FeedDefinition, topic: str) -> None:
    options = definition.options
    if options.resolved_interval_ns is not None and not options.resolved_topic:
        raise FeedError(
            f"the topic {topic} has cleanup.policy=compact, and Kafka refuses records without a key there, "
            "which resolved markers are; send them to a topic of their own by the option resolved_topic, "
            "create the feed without the option resolved, or let the topic delete"
        )


def _prepare_resolved_topic(topic: str, targets: Sequence[FeedTarget], admin: TopicAdmin) -> None:
    needed = marker_partitions(targets)
    found = admin.create_unless_there(TopicSpec(topic, needed, _CREATED_WITH))
    if found is None:
        return
    if found != needed:
        raise FeedError(
            f"the resolved_topic {topic} has {found} partitions, and the feed needs {needed} there, as many "
            "as the greatest of its topics has: give it that number, or name a topic that does not exist yet"
        )
    if "compact" in admin.config(topic).get("cleanup.policy", ""):
        raise FeedError(
            f"the resolved_topic {topic} has cleanup.policy=compact, and Kafka refuses records without a key "
            "there, which markers are; let the topic delete, or name one that does not exist yet"
        )


def _taken(feed_id: FeedId, jobs: JobsView, shares: Shares) -> dict[str, FeedId]:
    taken: dict[str, FeedId] = {}
    for other_id, other in jobs.feeds():
        if other_id == feed_id or other.definition is None or not shares(other):
            continue
        outlives = other.definition.epoch > FIRST_EPOCH or other.runs_on(Engine.BACKFILL)
        if other.status in LIVE or (outlives and other.targets):
            taken |= dict.fromkeys(_prepared_topics(other), other_id)
        elif other.status is FeedState.PENDING and other_id < feed_id:
            taken |= dict.fromkeys(wanted_topics(other.definition), other_id)
    return taken


def _prepared_topics(feed: FeedView) -> set[str]:
    """The topics that the feed has got; none before its targets are stored."""
    if feed.definition is None or not feed.targets:
        return set()
    return {target.topic for target in feed.targets} | set(_marker_topics(feed.definition))
