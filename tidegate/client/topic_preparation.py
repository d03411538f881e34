"""Prepares the output topics of a feed before an epoch of it begins: creates those that are missing, and pins
their partition counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from tidegate.changefeed.control import KnownTable
from tidegate.changefeed.feed import FeedDefinition, FeedTarget
from tidegate.changefeed.internal_topics import internal_topic_fault, log_beside
from tidegate.changefeed.options import OnOversize
from tidegate.changefeed.registration import Prepare
from tidegate.changefeed.resolved_topic import marker_partitions
from tidegate.changefeed.table_topics import named_by, table_topic
from tidegate.client.fitting_topics import (
    require_as_it_was,
    require_marker_topic,
    require_place_for_markers,
    require_room,
)
from tidegate.client.output_topics import wanted_topics
from tidegate.client.record_limit import RecordLimit
from tidegate.client.topic_admin import TopicAdmin, TopicSpec
from tidegate.delivery.sink_identity import held
from tidegate.errors import FeedError, SinkHeld, TopologyError
from tidegate.rows.table_key import table_span

#: Record times are commit timestamps, which may lie far back: time must not delete what is just written.
_CREATED_WITH: Final = {"cleanup.policy": "delete", "retention.ms": "-1"}


def prepare_topics(
    definition: FeedDefinition,
    step: Prepare,
    admin: TopicAdmin,
    cluster: str,
    partitions: int,
    limit: RecordLimit,
) -> tuple[FeedTarget, ...]:
    """The targets with which an epoch of the feed begins, on topics that take all that it writes. Blocks.

    ``cluster`` is the id of the cluster that ``admin`` is for; empty for the engine's own, which is not
    asked. Topics that are missing are created there: those of a new feed with ``partitions``. ``limit`` is
    that of the engine's producers.

    Raises ``RetryError`` for a cluster that does not answer. For a new feed: ``FeedError`` where a topic
    cannot hold it or is not for feeds, and for another cluster at the address, ``TopologyError`` for a topic
    that cannot be created or looked at. A feed that has begun before waits instead, by ``SinkHeld``: somebody
    may mend that, or have it go on elsewhere, and nothing is lost meanwhile.
    """
    if step.targets:
        _prepare_again(definition, step, admin, cluster, limit)
        return step.targets
    if fault := limit.fault(definition.options):
        raise FeedError(fault)
    place = _Place(admin, cluster)
    try:
        _require_for_feeds(definition, place)
        targets = tuple(_prepare(definition, table, place, partitions) for table in step.tables)
        _prepare_marker_topic(definition, targets, place)
        place.require()
    except _OtherCluster as other:
        raise FeedError(
            f"the address of its sink, {admin.servers}, has come to mean another Kafka cluster while the "
            f"feed began: {cluster} answered first, and {other.found} does now. Create the feed again"
        ) from None
    return targets


def _prepare_again(
    definition: FeedDefinition, step: Prepare, admin: TopicAdmin, cluster: str, limit: RecordLimit
) -> None:
    """Have the topics of a feed that began in an earlier epoch: on the cluster that it is on, or on one that
    it comes to (step N5 of docs/accept-cluster.md).

    A topic of the cluster that it is on may be gone. Then its rows are refused, as they would be without a
    new epoch.
    """
    if fault := limit.fault(definition.options):
        raise SinkHeld(f"feed {definition.id} waits: {fault}")
    place = _Place(admin, cluster)
    try:
        _require_for_feeds(definition, place)
        if step.topics_anew:
            for target in step.targets:
                _prepare_as_it_was(definition, target, place)
            _prepare_marker_topic(definition, step.targets, place)
        elif definition.options.on_oversize is OnOversize.KEY_ONLY:
            for target in step.targets:
                _require_room_again(definition, target, place)
        else:
            return
        place.require()
    except _OtherCluster as other:
        raise SinkHeld(held(definition.id, admin.servers, cluster, other.found)) from None
    except (FeedError, TopologyError) as error:
        where = f"the cluster {cluster}" if cluster else "the engine's own cluster"
        raise SinkHeld(f"feed {definition.id} waits for its topics on {where}: {error}") from None


class _OtherCluster(Exception):
    """Another cluster answers at the address: the one with the id ``found``."""

    def __init__(self, found: str) -> None:
        super().__init__(found)
        self.found = found


@dataclass(frozen=True, slots=True)
class _Place:
    """Where topics are looked at and created: the cluster with the id ``cluster``, reached by ``admin``.

    The address may come to mean another cluster at any moment, so the client that creates a topic asks for
    the id right before. The engine's own cluster, whose id is empty here, is not asked.
    """

    admin: TopicAdmin
    cluster: str

    def require(self) -> None:
        """Raises ``_OtherCluster`` where another one answers, ``RetryError`` where none does."""
        if self.cluster and (found := self.admin.cluster_id()) != self.cluster:
            raise _OtherCluster(found)

    def partitions(self, topic: str) -> int | None:
        """As that of ``TopicAdmin``. Raises as ``require`` does."""
        self.require()
        return self.admin.partitions(topic)

    def create_unless_there(self, topic: str, partitions: int) -> int | None:
        """As that of ``TopicAdmin``. Raises as ``require`` does."""
        self.require()
        return self.admin.create_unless_there(TopicSpec(topic, partitions, _CREATED_WITH))


def _require_for_feeds(definition: FeedDefinition, place: _Place) -> None:
    """Raises ``FeedError`` for a topic that is a source's or an application's own, by its name and by what
    stands beside it."""
    for topic in wanted_topics(definition):
        mend = f"choose another {named_by(topic, definition.options)}"
        if fault := internal_topic_fault(topic, mend):
            raise FeedError(fault)
        log = log_beside(topic)
        if log and place.partitions(log) is not None:
            raise FeedError(
                f"no feed may write to {topic}: the log {log} stands beside it, so that it is the topic of "
                f"requests to a source; {mend}"
            )


def _prepare(definition: FeedDefinition, known: KnownTable, place: _Place, partitions: int) -> FeedTarget:
    topic = table_topic(known.table, definition.options)
    found = place.create_unless_there(topic, partitions)
    if found is not None:
        require_place_for_markers(definition.options, topic, place.admin)
    require_room(definition.options, topic, place.admin)
    return FeedTarget(known.table, known.table_id, topic, found or partitions, (table_span(known.table_id),))


def _prepare_as_it_was(definition: FeedDefinition, target: FeedTarget, place: _Place) -> None:
    found = place.create_unless_there(target.topic, target.partitions)
    if found is not None:
        require_as_it_was(definition, target, found, place.admin)
    require_room(definition.options, target.topic, place.admin)


def _prepare_marker_topic(definition: FeedDefinition, targets: Sequence[FeedTarget], place: _Place) -> None:
    topic = definition.options.resolved_topic
    if topic:
        needed = marker_partitions(targets)
        found = place.create_unless_there(topic, needed)
        if found is not None:
            require_marker_topic(topic, targets, found, place.admin)


def _require_room_again(definition: FeedDefinition, target: FeedTarget, place: _Place) -> None:
    place.require()
    if place.admin.partitions(target.topic) is not None:
        require_room(definition.options, target.topic, place.admin)
