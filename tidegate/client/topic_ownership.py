"""The output topics of a feed: which ones it wants, and whether it may have them. Also the timestamps up to
which former feeds have written to topics."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from heapq import merge
from typing import TypeAlias

from tidegate.access.destinations import NOWHERE_ELSE, Destinations
from tidegate.access.output_namespace import EVERYWHERE, OutputNamespace
from tidegate.changefeed.definition.definition_size import size_fault
from tidegate.changefeed.definition.extra_headers import headers_fault
from tidegate.changefeed.definition.feed import (
    ENDED,
    FIRST_EPOCH,
    LIVE,
    Engine,
    FeedDefinition,
    FeedId,
    FeedState,
)
from tidegate.changefeed.definition.internal_topics import internal_topic_fault
from tidegate.changefeed.definition.sink import require_shared_connection
from tidegate.changefeed.definition.table_topics import named_by, table_topic
from tidegate.changefeed.encoding.resolved_topic import resolved_topic_fault
from tidegate.changefeed.lifecycle.control import Removed
from tidegate.changefeed.lifecycle.jobs import FeedView, JobsView
from tidegate.changefeed.lifecycle.registration import Answers
from tidegate.client.subject_ownership import check_subjects
from tidegate.errors import FeedError, StatementError
from tidegate.hlc import ZERO, Timestamp

#: Tells whether the topics of another feed are on the same cluster.
Shares: TypeAlias = Callable[[FeedView], bool]


def _on_one_cluster(other: FeedView) -> bool:  # noqa: ARG001 - the same for every feed
    return True


def feed_fault(
    definition: FeedDefinition,
    cluster_of: Callable[[], str | None],
    jobs: JobsView,
    internal: set[str],
    shares: Shares = _on_one_cluster,
    namespace: OutputNamespace = EVERYWHERE,
    destinations: Destinations = NOWHERE_ELSE,
) -> str:
    """Return why a feed cannot run; an empty text if it can.

    This is asked before any partition has to wait for the feed. It is asked again before the feed's topics
    become its own, since an earlier feed may be known only then. ``cluster_of`` returns the id of the cluster
    of the feed's sink, empty for the engine's own. It is called only for a sink that can be written to. If it
    returns ``None``, the cluster is not known yet, and the topics are not checked this time. ``internal`` are
    tidegate's own topics, which are on the engine's own cluster. The other arguments are those of
    ``check_topics``.
    Raises what ``cluster_of`` raises, other than ``FeedError``.
    """
    try:
        check_sink(definition)
        cluster = cluster_of()
        if cluster is not None:
            topics, own = wanted_topics(definition), set() if cluster else internal
            check_topics(definition, topics, jobs, own, shares, namespace, destinations)
    except FeedError as error:
        return str(error)
    return ""


def check_sink(definition: FeedDefinition) -> None:
    """Raise ``FeedError`` for a sink that this version cannot write to, or a definition that is too large.

    A definition with too many headers, or with headers that are too large, is refused as well.
    """
    if fault := size_fault(definition) or headers_fault(definition.options.extra_headers):
        raise FeedError(fault)
    try:
        require_shared_connection(definition.sink)
    except StatementError as error:
        raise FeedError(str(error)) from None


def check_topics(
    definition: FeedDefinition,
    topics: Iterable[str],
    jobs: JobsView,
    internal: set[str],
    shares: Shares = _on_one_cluster,
    namespace: OutputNamespace = EVERYWHERE,
    destinations: Destinations = NOWHERE_ELSE,
) -> None:
    """Raise ``FeedError`` for a topic that belongs to another feed or to tidegate, or that this feed names
    twice, and for a subject that its schemas may not have.

    The topics that any application keeps for itself are known by their names (`internal_topics`). Of two
    feeds that both wait for their start, the one with the lower id gets the topic; ids sort by creation.
    ``internal`` are tidegate's own topics on the feed's cluster. ``shares`` tells which other feeds write to
    that cluster. ``namespace`` says which topics the operator lets feeds write to, ``destinations`` which
    URLs are one schema registry.
    """
    _check_resolved_topic(definition)
    seen: set[str] = set()
    topics = list(topics)
    taken = _taken(definition.id, topics, jobs, shares)
    for topic in topics:
        mend = f"choose another {named_by(topic, definition.options)}"
        if fault := internal_topic_fault(topic, mend) or namespace.fault(topic, mend):
            raise FeedError(fault)
        if topic in taken and jobs[taken[topic]].status in ENDED:
            raise FeedError(
                f"feed {taken[topic]} wrote to the topic {topic} and was moved between engines or clusters, "
                f"or is of a backfill: one that comes back late may still write rows of it; {mend}"
            )
        if topic in taken:
            raise FeedError(
                f"feed {taken[topic]} writes to the topic {topic} already or will soon, and an output topic "
                f"belongs to one feed; {mend}, or drop that feed"
            )
        if topic in internal:
            raise FeedError(f"{topic} is a topic of tidegate's own; {mend}")
        if topic in seen:
            raise FeedError(f"two tables of the feed would share the topic {topic}; make two feeds of them")
        seen.add(topic)
    check_subjects(definition, jobs, namespace, destinations)


def _check_resolved_topic(definition: FeedDefinition) -> None:
    topic = definition.options.resolved_topic
    fault = resolved_topic_fault(topic, _row_topics(definition)) if topic else ""
    if fault:
        raise FeedError(fault)


def former_owner(
    definition: FeedDefinition,
    topics: Iterable[str],
    jobs: JobsView,
    forgotten: Callable[[FeedDefinition], bool],
    shares: Shares = _on_one_cluster,
) -> FeedId | None:
    """Return a feed that has ended and may still write to one of the topics; ``None`` when there is none.

    ``forgotten`` tells whether every log partition has answered that it removed a feed. ``shares`` tells
    whether a feed writes to the same cluster.
    """
    former = {each for feeds in jobs.having(_left_topics, topics).values() for each in feeds}
    for other_id in sorted(former - {definition.id}):
        other = jobs[other_id]
        if other.definition is not None and shares(other) and not forgotten(other.definition):
            return other_id
    return None


def wait_for_owner(owner: FeedId) -> str:
    """Return the sentence for a feed that waits for ``owner``, the `former_owner` of its topics."""
    return (
        f"the feed {owner} had its topics and has ended; this feed begins once every log partition has "
        "removed that one, and nobody can write its markers any more"
    )


def wanted_topics(definition: FeedDefinition) -> list[str]:
    """Return the topics of the feed's tables, in the definition's order, and the topic of its markers."""
    return _row_topics(definition) + _marker_topics(definition)


def any_topics(feed: FeedView) -> Iterable[str]:
    """Return the topics that the feed wants, and those that it has."""
    return () if feed.definition is None else {*wanted_topics(feed.definition), *prepared_topics(feed)}


def prepared_topics(feed: FeedView) -> set[str]:
    """Return the topics that the feed has; none before its targets are stored."""
    if feed.definition is None or not feed.targets:
        return set()
    return {target.topic for target in feed.targets} | set(_marker_topics(feed.definition))


def promised(feed: FeedView) -> Timestamp:
    """Return the highest high-water that a feed has persisted in any epoch, on any cluster; zero for none.

    No marker of the feed is above it, not even one that a mirror has copied.
    """
    parts = (feed.progress, feed.takeover)
    highs = [part.high_water for part in parts if part is not None and part.high_water is not None]
    if feed.takeover is not None and feed.takeover.silent_to is not None:
        highs.append(feed.takeover.silent_to)
    return max(highs, default=ZERO)


def promised_on(topics: Iterable[str], feeds: Iterable[FeedView]) -> Timestamp | None:
    """Return the timestamp that bounds the markers on ``topics`` of those of ``feeds`` that have ended.

    None of these markers is above it.

    Returns ``None`` if no such feed has had any of them, and zero if none has persisted any progress.
    """
    return max(map(promised, _former(topics, feeds)), default=None)


def written_on(
    topics: Iterable[str], feeds: Iterable[FeedView], answers: Callable[[FeedView], Answers]
) -> Timestamp | None:
    """Return a timestamp that bounds what those of ``feeds`` that have ended have written on ``topics``.

    None of their markers and rows there is above it.

    ``answers`` gives what log partitions have answered about such a feed. Returns ``None`` if no such feed
    has had any of the topics, and zero if none has written anything.
    """
    former = _former(topics, feeds)
    return max((max(promised(feed), *_written(feed, answers(feed))) for feed in former), default=None)


def _former(topics: Iterable[str], feeds: Iterable[FeedView]) -> Iterator[FeedView]:
    """Return the feeds that have ended, and have had any of the topics."""
    wanted = frozenset(topics)
    return (feed for feed in feeds if feed.status in ENDED and not wanted.isdisjoint(prepared_topics(feed)))


def _written(feed: FeedView, answers: Answers) -> Iterator[Timestamp]:
    """Yield timestamps of a feed that has ended. No row of the feed is above the highest of them."""
    yield from (answer.highest for answer in answers.values() if isinstance(answer, Removed))
    yield ZERO if feed.beginning is None else feed.beginning.start or ZERO  # that of its initial scan's rows


def _row_topics(definition: FeedDefinition) -> list[str]:
    return [table_topic(table, definition.options) for table in definition.tables]


def _marker_topics(definition: FeedDefinition) -> list[str]:
    topic = definition.options.resolved_topic
    return [topic] if topic else []


def _taken(feed_id: FeedId, topics: Sequence[str], jobs: JobsView, shares: Shares) -> dict[str, FeedId]:
    """Return, for each topic that another feed has, the id of that feed; of several feeds, the highest id."""
    held, awaited = jobs.having(_held_topics, topics), jobs.having(_awaited_topics, topics)
    taken: dict[str, FeedId] = {}
    for topic in topics:
        earlier = awaited[topic][: bisect_left(awaited[topic], feed_id)]
        for other_id in merge(reversed(held[topic]), reversed(earlier), reverse=True):
            if other_id != feed_id and shares(jobs[other_id]):
                taken[topic] = other_id
                break
    return taken


def _held_topics(feed: FeedView) -> Iterable[str]:
    """Return the topics that this feed holds: no other feed gets them, even if that feed is older."""
    return prepared_topics(feed) if _holds(feed) else ()


def _awaited_topics(feed: FeedView) -> Iterable[str]:
    """Return the topics that this feed waits for: no later one gets them."""
    if feed.definition is None or feed.status is not FeedState.PENDING or _holds(feed):
        return ()
    return wanted_topics(feed.definition)


def _left_topics(feed: FeedView) -> Iterable[str]:
    """Return the topics to which this feed, which has ended, may still write."""
    return prepared_topics(feed) if feed.status in ENDED else ()


def _holds(feed: FeedView) -> bool:
    if feed.status in LIVE:
        return True
    outlives = feed.runs_on(Engine.BACKFILL) or (feed.epoch is not None and feed.epoch > FIRST_EPOCH)
    return outlives and bool(feed.targets)
