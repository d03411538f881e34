"""Prepares the output topics of a feed before an epoch of it begins.

It creates the topics that are missing, and pins their partition counts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from tidegate.changefeed.definition.feed import PARTITIONS_MAX, FeedDefinition, FeedTarget
from tidegate.changefeed.definition.internal_topics import internal_topic_fault, log_beside
from tidegate.changefeed.definition.options import ExistingTopics, FeedOptions, OnOversize
from tidegate.changefeed.definition.table_topics import named_by, table_topic
from tidegate.changefeed.encoding.resolved_topic import marker_partitions
from tidegate.changefeed.lifecycle.control import KnownTable
from tidegate.changefeed.lifecycle.output_topic import OutputTopic, OutputTopics, TopicOrigin
from tidegate.changefeed.lifecycle.registration import Prepare
from tidegate.client.fitting_topics import (
    require_as_it_was,
    require_marker_topic,
    require_place_for_markers,
    require_room,
)
from tidegate.client.kafka.record_limit import RecordLimit
from tidegate.client.kafka.topic_admin import TopicAdmin, TopicSpec
from tidegate.client.own_topics import OwnTopics, named_topics
from tidegate.client.topic_ownership import wanted_topics
from tidegate.delivery.sink_identity import held
from tidegate.errors import FeedError, SinkHeld, TopologyError
from tidegate.rows.table_key import table_span

#: Record times are commit timestamps, which may be long ago. If retention went by time, it could delete
#: records that were written a moment ago.
_CREATED_WITH: Final = {"cleanup.policy": "delete", "retention.ms": "-1"}
#: The client's text for a topic without an id: sixteen zero bytes.
_NO_ID: Final = "A" * 22
#: The client prints ids with the characters + and /, Kafka's tools with - and _ instead.
_AS_KAFKA_PRINTS: Final = str.maketrans("+/", "-_")


class PreparedTopics(NamedTuple):
    """The targets and topics with which an epoch of a feed begins."""

    targets: tuple[FeedTarget, ...]
    topics: OutputTopics


def topics_to_announce(
    definition: FeedDefinition,
    step: Prepare,
    admin: TopicAdmin,
    cluster: str,
    limit: RecordLimit,
    own: OwnTopics,
) -> OutputTopics:
    """Return the topics that have to be stored with a feed before ``prepare_topics`` creates topics for it.

    Returns an empty tuple if ``prepare_topics`` creates no topic that is not announced already. A process may
    die after it has created a topic, and before it has stored that. Then nobody would know that the topic is
    the application's. So an announced topic counts as created, as long as nothing was ever written to it.
    Blocks, and raises as ``prepare_topics`` does.
    """
    if step.targets:
        return ()
    _require_small_rows(definition, limit)
    place = _Place(admin, cluster)
    with _beginning(place):
        _require_for_feeds(definition, place)
        found = _look(definition, place, own)
    if all(topic is not None or name in own.announced for name, topic in found.items()):
        return ()
    return tuple(topic or OutputTopic("", TopicOrigin.ANNOUNCED) for topic in found.values())


def announced_specs(definition: FeedDefinition, topics: OutputTopics, partitions: int) -> list[TopicSpec]:
    """Return the topics of rows that ``prepare_topics`` is about to create for a feed.

    ``topics`` is the result of `topics_to_announce` for it. The feed's topic of markers is left out,
    since its partition count depends on the other topics.
    """
    named = named_topics(definition, topics)
    named.pop(definition.options.resolved_topic, None)
    return [
        TopicSpec(name, partitions, _CREATED_WITH)
        for name, topic in named.items()
        if topic.origin is TopicOrigin.ANNOUNCED
    ]


def prepare_topics(
    definition: FeedDefinition,
    step: Prepare,
    admin: TopicAdmin,
    cluster: str,
    partitions: int,
    limit: RecordLimit,
    own: OwnTopics,
) -> PreparedTopics:
    """Prepare the topics of a feed, and return the targets and topics with which an epoch of it begins.

    Blocks. The topics accept everything that the feed writes. ``cluster`` is the id of ``admin``'s cluster;
    empty for the engine's own, which is not asked for its id. Missing topics are created on this cluster; the
    topics of a new feed get ``partitions`` partitions. ``limit`` is the limit of the engine's row producers.
    Topics that exist have to be the application's ``own``, unless the feed was told to use existing topics of
    others.

    Raises ``RetryError`` for a cluster that does not answer. For a new feed it raises ``FeedError`` if a
    topic cannot take its records or is not for feeds, or if another cluster is at the address; and
    ``TopologyError`` for a topic that cannot be created or looked at. For a feed that has begun before it
    raises ``SinkHeld`` in these cases, so that the feed waits: somebody may mend the fault, or let the feed
    go on elsewhere, and nothing is lost meanwhile. Only a feed whose topic was created anew has lost rows:
    for that it raises ``FeedError``.
    """
    if step.targets:
        return PreparedTopics(step.targets, _prepare_again(definition, step, admin, cluster, limit, own))
    _require_small_rows(definition, limit)
    place = _Place(admin, cluster)
    with _beginning(place):
        _require_for_feeds(definition, place)
        found = _look(definition, place, own)
        targets = tuple(_prepare(definition, table, place, partitions) for table in step.tables)
        _require_few_partitions(targets)
        _prepare_marker_topic(definition, targets, place)
        if any(topic is None and name not in place.made for name, topic in found.items()):
            found = _look(definition, place, own)  # somebody was faster
        topics = tuple(topic or place.created(name) for name, topic in found.items())
        place.require()
    return PreparedTopics(targets, topics)


def _require_few_partitions(targets: Sequence[FeedTarget]) -> None:
    count = sum(target.partitions for target in targets)
    if count > PARTITIONS_MAX:
        raise FeedError(
            f"its topics have {count} partitions together, and a marker goes to each: {PARTITIONS_MAX} are "
            "the most that a feed may have"
        )


def _require_small_rows(definition: FeedDefinition, limit: RecordLimit) -> None:
    if fault := limit.fault(definition.options):
        raise FeedError(fault)


@contextmanager
def _beginning(place: _Place) -> Iterator[None]:
    """Turn ``_OtherCluster``, raised inside the block, into the ``FeedError`` of a new feed."""
    try:
        yield
    except _OtherCluster as other:
        raise FeedError(
            f"the address of its sink, {place.admin.servers}, has come to mean another Kafka cluster while "
            f"the feed began: {place.cluster} answered first, and {other.found} does now. Create the feed "
            "again"
        ) from None


def _look(definition: FeedDefinition, place: _Place, own: OwnTopics) -> dict[str, OutputTopic | None]:
    """Return the topics of a new feed; ``None`` for those that are missing.

    Raises ``FeedError`` for a topic that belongs to somebody else.
    """
    return {name: _found(name, definition.options, place, own) for name in wanted_topics(definition)}


def _found(name: str, options: FeedOptions, place: _Place, own: OwnTopics) -> OutputTopic | None:
    partitions = place.partitions(name)
    if partitions is None:
        return None
    topic_id = place.id(name)
    if own.has(name, topic_id) or (name in own.announced and place.is_empty(name, partitions)):
        return OutputTopic(topic_id, TopicOrigin.CREATED)
    if options.existing_topics is ExistingTopics.USE:
        return OutputTopic(topic_id, TopicOrigin.EXISTING)
    was_ours = any(name == created for created, _ in own.created)
    who = "somebody else has made it anew" if was_ours else "no feed of this application has created it"
    raise FeedError(
        f"the topic {name} exists already, and {who}: choose another {named_by(name, options)}, delete the "
        "topic where nobody needs it, or create the feed with existing_topics='use', and it writes there "
        "beside whoever else does"
    )


def _prepare_again(
    definition: FeedDefinition,
    step: Prepare,
    admin: TopicAdmin,
    cluster: str,
    limit: RecordLimit,
    own: OwnTopics,
) -> OutputTopics:
    """Prepare the topics of a feed that began in an earlier epoch.

    They are on the feed's cluster, or on one that it moves to (step N5 of docs/protocols/accept-cluster.md).
    On the feed's own cluster a topic may be gone. Its rows are then refused, as they would be without a new
    epoch.
    """
    if fault := limit.fault(definition.options):
        raise SinkHeld(f"feed {definition.id} waits: {fault}")
    place, wanted = _Place(admin, cluster), wanted_topics(definition)
    topics: list[OutputTopic | None]
    try:
        _require_for_feeds(definition, place)
        if step.topics_anew:
            for target in step.targets:
                _prepare_as_it_was(definition, target, place)
            _prepare_marker_topic(definition, step.targets, place)
            topics = [_accepted(name, place, own) for name in wanted]
        else:
            topics = [_now(name, place) for name in wanted]
            if definition.options.on_oversize is OnOversize.KEY_ONLY:
                for target in step.targets:
                    _require_room_again(definition, target, place)
        place.require()
    except _OtherCluster as other:
        raise SinkHeld(held(definition.id, admin.servers, cluster, other.found)) from None
    except (FeedError, TopologyError) as error:
        where = f"the cluster {cluster}" if cluster else "the engine's own cluster"
        raise SinkHeld(f"feed {definition.id} waits for its topics on {where}: {error}") from None
    known = named_topics(definition, step.topics)
    return tuple(_same(name, known.get(name), topic) for name, topic in zip(wanted, topics, strict=True))


def _accepted(name: str, place: _Place, own: OwnTopics) -> OutputTopic:
    """Return one of the feed's topics on the cluster that an operator has accepted.

    What the topic holds does not matter.
    """
    found = place.created(name)
    is_own = name in place.made or (name, found.id) in own.created
    return found if is_own else OutputTopic(found.id, TopicOrigin.EXISTING)


def _now(name: str, place: _Place) -> OutputTopic | None:
    """Return a topic of a feed that ran before; ``None`` for one that is gone."""
    return None if place.partitions(name) is None else place.created(name)


def _same(name: str, stored: OutputTopic | None, found: OutputTopic | None) -> OutputTopic:
    """Return what is known of a topic with which the feed goes on: what is stored of it, else what was found
    now.

    Raises ``FeedError`` for another topic of the same name.
    """
    if stored is None or found is None or not stored.id:
        return found or stored or OutputTopic("", TopicOrigin.UNKNOWN)
    if found.id and found.id != stored.id:
        raise FeedError(
            f"the topic {name} was deleted and made anew: its id is {found.id}, and the feed wrote to "
            f"{stored.id}. The rows that stood there are gone, and this topic is not the feed's. Create the "
            "feed again, with a scan, on other topics"
        )
    return stored


class _OtherCluster(Exception):
    """Raised because another cluster, with the id ``found``, answers at the address."""

    def __init__(self, found: str) -> None:
        super().__init__(found)
        self.found = found


@dataclass(frozen=True, slots=True)
class _Place:
    """The place of topics: the cluster with the id ``cluster``, which ``admin`` reaches.

    ``made`` are the topics that were created here. The address may come to mean another cluster at any
    moment, so the client that creates a topic asks for the cluster's id right before. The engine's own
    cluster, whose id is empty here, is not asked.
    """

    admin: TopicAdmin
    cluster: str
    made: set[str] = field(default_factory=set)

    def require(self) -> None:
        """Raise ``_OtherCluster`` if another cluster answers, ``RetryError`` if none does."""
        if self.cluster and (found := self.admin.cluster_id()) != self.cluster:
            raise _OtherCluster(found)

    def partitions(self, topic: str) -> int | None:
        """Return what ``TopicAdmin.partitions`` returns. Raises also what ``require`` raises."""
        self.require()
        return self.admin.partitions(topic)

    def create_unless_there(self, topic: str, partitions: int) -> int | None:
        """Create a topic as ``TopicAdmin.create_unless_there`` does. Raises also what ``require`` raises."""
        self.require()
        found = self.admin.create_unless_there(TopicSpec(topic, partitions, _CREATED_WITH))
        if found is None:
            self.made.add(topic)
        return found

    def id(self, topic: str) -> str:
        """Return the id of an existing topic, in the characters of Kafka's tools; empty if brokers give
        none.
        """
        self.require()
        found = self.admin.ids([topic])[topic].translate(_AS_KAFKA_PRINTS)
        return "" if found == _NO_ID else found

    def created(self, topic: str) -> OutputTopic:
        """Return the topic as one that the application created."""
        return OutputTopic(self.id(topic), TopicOrigin.CREATED)

    def is_empty(self, topic: str, partitions: int) -> bool:
        """Return whether nothing was ever written to the topic."""
        self.require()
        return self.admin.is_empty(topic, partitions)


def _require_for_feeds(definition: FeedDefinition, place: _Place) -> None:
    """Raise ``FeedError`` for a topic that belongs to a source or an application.

    Its name shows that, or a log that stands beside it.
    """
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
