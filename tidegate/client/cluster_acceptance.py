"""Lets a feed continue on the Kafka cluster that its sink's address means now
(docs/protocols/accept-cluster.md, step N1).

It shows an operator three things: the cluster that the feed is on, the cluster that answers, and the
timestamp above which the feed writes everything to the cluster that answers. It refuses feeds that cannot
continue there.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

from tidegate.changefeed.definition.feed import (
    ENDED,
    LIVE,
    AcceptedCluster,
    Engine,
    FeedDefinition,
    FeedEpoch,
    FeedId,
)
from tidegate.changefeed.definition.sink_servers import other_cluster
from tidegate.changefeed.lifecycle.job_records import TakeoverRecord
from tidegate.changefeed.lifecycle.jobs import FeedView, JobsView
from tidegate.changefeed.lifecycle.takeover import takeover
from tidegate.client.feed_rows import readable
from tidegate.client.feed_topics import row_decoder
from tidegate.client.fitting_topics import require_fitting
from tidegate.client.jobs import Jobs
from tidegate.client.kafka.connection import KafkaConnection
from tidegate.client.kafka.record_limit import known_fault
from tidegate.client.kafka.topic_admin import open_admin
from tidegate.client.kafka.topics import Topics
from tidegate.client.kafka.watched_cluster import WatchedCluster
from tidegate.client.last_markers import last_markers
from tidegate.client.subscribe.feed_term import term_of
from tidegate.client.topic_ownership import check_topics, wanted_topics
from tidegate.delivery.sink_clusters import OWN
from tidegate.errors import FeedError, InputError, TopologyError
from tidegate.hlc import ZERO, ResolvedTimestamp, Timestamp


class Begin(enum.Enum):
    """The beginning of a feed on the other cluster, when the operator gives no timestamp."""

    THERE = "there"
    """The feed begins after the lowest of the last markers of all partitions on the other cluster. A mirror
    has copied these markers.
    """
    MARKER = "marker"
    """The feed begins after the last marker that was written on the cluster that it was on before."""
    START = "start"
    """The feed begins at its start, with its initial scan if it had one."""


#: The operator's choice: a ``Begin``, or a timestamp.
Origin: TypeAlias = Begin | Timestamp

_CHOICES: Final = (
    "`--from marker` where its readers have read the former cluster up to the last marker and go on here, "
    "`--from start` for readers who have nothing, or `--from TIMESTAMP`"
)


@dataclass(frozen=True, slots=True)
class FoundCluster:
    """A feed, and the cluster ``there`` at its sink's address.

    ``stored`` is the id of the cluster that the feed's topics are on, in the form for people. ``cluster`` is
    the id of the found cluster in the stored form; it is empty for the workers' own cluster. ``left`` is the
    state that the feed's next epoch would take over. A marker at or below ``before`` may be that of a feed
    that had the topics earlier.
    """

    feed_id: FeedId
    definition: FeedDefinition
    left: TakeoverRecord
    before: Timestamp
    stored: str
    cluster: str
    there: WatchedCluster

    @property
    def found(self) -> str:
        """The id of the cluster that was found, for people."""
        return self.there.id

    @property
    def connection(self) -> KafkaConnection:
        """The connection to the cluster that is now at the sink's address."""
        return self.there.connection

    def accepted(self, begin: Timestamp | None, *, copied: bool = False) -> FeedDefinition:
        """Return the definition of the feed's next epoch, on this cluster.

        The epoch begins above ``begin``; if that is ``None``, it begins at the feed's start.

        ``copied`` says that a mirror has brought the rows up to ``begin``.
        """
        epoch, before = FeedEpoch(self.definition.epoch + 1), self.definition.accepted
        # rows that the mirrored cluster lacked are not in the mirror either
        lacks_up_to = None if before is None else before.complete_above
        copied_above = (lacks_up_to or ZERO) if copied else None
        accepted = AcceptedCluster(epoch, self.cluster, begin, copied_above)
        return replace(self.definition, epoch=epoch, accepted=accepted)


@contextmanager
def find_cluster(
    connection: KafkaConnection, app_id: str, feed_id: FeedId, jobs: JobsView
) -> Iterator[FoundCluster]:
    """Yield the cluster at the sink's address of a held feed (step N1a).

    ``connection`` is to the workers' own cluster. Raises ``InputError`` for a feed that is not held, or that
    cannot continue on the found cluster. Raises ``RetryError`` for a cluster that does not answer, or that no
    entry of the operator's allows.
    """
    feed = jobs[feed_id]
    definition = _that_has_begun(feed_id, feed)
    servers = other_cluster(definition.sink, connection.bootstrap_servers)
    reached = connection.to(servers, feed_id) if servers else connection
    own_id = open_admin(connection, connection.timeout_s).cluster_id()
    left = _left(feed)
    with closing(WatchedCluster(reached, left.targets[0].topic)) as there:
        cluster = OWN if there.id == own_id else there.id
        before = term_of(jobs, feed_id).before
        found = FoundCluster(feed_id, definition, left, before, left.sink_cluster or own_id, cluster, there)
        _require_held(found, feed)
        _require_free_topics(found, app_id, jobs)
        _require_fitting(found)
        yield found


def go_on_there(jobs: Jobs, found: FoundCluster, begin: Timestamp | None, *, copied: bool = False) -> None:
    """Ask that the feed continues on the found cluster, above ``begin``; return once that is durable.

    ``copied`` says that a mirror has brought the rows up to ``begin``: then readers get snapshots there.
    Raises as ``Jobs.accept`` does. Raises ``RetryError`` if the address has meant another cluster since
    ``found`` was made (step N1d).
    """
    found.there.require_same()
    jobs.accept(found.definition, found.accepted(begin, copied=copied))


def begin_there(found: FoundCluster, origin: Origin) -> Timestamp | None:
    """Return the timestamp above which the feed writes everything on the found cluster; ``None`` for its
    start.

    Raises ``InputError`` if the timestamp cannot be found, or if rows would be missing above it. Raises
    ``RetryError`` if what was read may come from another cluster (steps N1b and N1c).
    """
    if origin is Begin.START:
        return None
    left, feed_id = found.left, found.feed_id
    start, high_water = left.start, left.high_water
    if origin is Begin.THERE and start is not None and (highest := _highest(left)) is not None:
        with found.there.the_same():
            return _marker_there(found, start, highest)
    if start is None or high_water is None:
        raise InputError(
            f"Feed {feed_id} has no high-water yet: its scan is not done, on the cluster that it began on "
            "last. Have it begin again there: `--from start`."
        )
    if isinstance(origin, Timestamp):
        if not start <= origin <= high_water:
            raise InputError(
                f"Feed {feed_id} cannot go on above {origin}: it began at {start}, and only what is at or "
                f"below its high-water {high_water} was acknowledged. Give a timestamp between the two."
            )
        return origin
    return _written_marker(found)


def acceptance_row(found: FoundCluster, begin: Timestamp | None) -> dict[str, str]:
    """Return the values that an operator is shown, by their names."""
    left, from_start = found.left, "the start of the feed"
    return {
        "feed": found.feed_id,
        "sink": found.connection.bootstrap_servers,
        "topics_are_on": found.stored,
        "cluster_found": found.found,
        "goes_on_above": from_start if begin is None else _both(begin),
        "acknowledged_before_up_to": "nothing" if left.high_water is None else _both(left.high_water),
    }


def _both(timestamp: Timestamp) -> str:
    return f"{timestamp.decimal()} ({readable(timestamp)})"


def _written_marker(found: FoundCluster) -> Timestamp:
    if found.left.marked is None:
        raise InputError(
            f"Of feed {found.feed_id} no marker is known to be written: it has no option resolved, or ran on "
            "a version that did not note them. Give `--from TIMESTAMP`, which its readers have read up to, "
            "or `--from start`."
        )
    return found.left.marked


def _marker_there(found: FoundCluster, start: Timestamp, highest: ResolvedTimestamp) -> Timestamp:
    """Return the lowest of the partitions' last markers: up to there all partitions of a mirror are complete.

    No marker of the feed is above ``highest``. The feed may meanwhile have begun again on another cluster,
    and have no high-water there. The markers on this cluster stay true.
    """
    feed_id, options, topics = found.feed_id, found.definition.options, _row_topics(found)
    if options.resolved_interval_ns is None or options.resolved_topic:
        raise InputError(
            f"The markers of feed {feed_id} do not stand among its rows, so they do not tell what the "
            f"cluster {found.found} has. Give {_CHOICES}."
        )
    missing = sorted(set(topics) - found.there.partition_counts(topics).keys())
    if missing:
        raise InputError(
            f"The cluster {found.found} has no topic {', '.join(missing)}, so nothing there tells where feed "
            f"{feed_id} has to go on. Give {_CHOICES}."
        )
    markers = last_markers(found.there, topics, row_decoder(options, found.connection.destinations))
    silent = [str(place) for place, marker in sorted(markers.items()) if marker is None]
    if silent:
        raise InputError(
            f"On the cluster {found.found} no marker stands in {', '.join(silent)}, so nothing there tells "
            f"where feed {feed_id} has to go on. Give {_CHOICES}."
        )
    former = [str(place) for place, each in sorted(markers.items()) if each and start < each <= found.before]
    if former:
        raise InputError(
            f"On the cluster {found.found} the last marker in {', '.join(former)} may be that of a feed "
            f"that had the topic before feed {feed_id}: it is not above {found.before}, up to where that "
            f"feed had come. So it does not tell where feed {feed_id} has to go on. Give {_CHOICES}."
        )
    known = [marker for marker in markers.values() if marker is not None]
    if max(known) > highest or min(known) <= start:
        strange = max(known) if max(known) > highest else min(known)
        raise InputError(
            f"On the cluster {found.found} stands a marker {strange} that feed {feed_id} cannot have "
            f"written: it began at {start}, and has come to {highest}. The topics there are not copies of "
            f"its own. Have them deleted, and give {_CHOICES}."
        )
    return min(known)


def _that_has_begun(feed_id: FeedId, feed: FeedView) -> FeedDefinition:
    defined = feed.defined
    if defined is None:
        raise InputError(f"There is no feed {feed_id}; `tidegate feed list` shows those that there are.")
    if feed.status in ENDED:
        raise InputError(f"Feed {feed_id} has {feed.status.value}: nothing of it goes on anywhere.")
    if not feed.targets:
        raise InputError(
            f"Feed {feed_id} has not begun yet: it will be on the cluster that answers at its sink's address "
            "then. There is nothing to accept."
        )
    if defined.engine is Engine.BACKFILL:
        raise InputError(
            f"Feed {feed_id} is in a backfill, which cannot change clusters: drop the feed, and begin anew."
        )
    return defined


def _require_held(found: FoundCluster, feed: FeedView) -> None:
    if found.found == found.stored:
        raise InputError(
            f"Feed {found.feed_id} is not held: its topics are on the Kafka cluster {found.stored}, and that "
            f"is what answers at {found.connection.bootstrap_servers}. There is nothing to accept."
        )
    if not found.left.sink_cluster and feed.status in LIVE:
        raise InputError(
            f"Feed {found.feed_id} is not held: its topics are on the workers' own Kafka cluster "
            f"{found.stored}, whatever its sink's address means. There is nothing to accept."
        )


def _left(feed: FeedView) -> TakeoverRecord:
    """Return the state that the feed's next epoch would take over now."""
    assert feed.defined is not None
    coming = replace(feed.defined, epoch=FeedEpoch(feed.defined.epoch + 1))
    return takeover(coming, feed.state, feed.progress, feed.takeover)


def _row_topics(found: FoundCluster) -> list[str]:
    return [target.topic for target in found.left.targets]


def _highest(left: TakeoverRecord) -> ResolvedTimestamp | None:
    """Return a timestamp that is not exceeded by any marker of the feed, on any cluster.

    Returns ``None`` if the feed has written no marker.
    """
    marks = [mark for mark in (left.high_water, left.silent_to) if mark is not None]
    return max(marks, default=None)


def _require_free_topics(found: FoundCluster, app_id: str, jobs: JobsView) -> None:
    """Refuse topics that belong to others.

    This is asked before the epoch exists: the engine would fail the feed.
    """

    def shares(other: FeedView) -> bool:
        return bool(other.targets) and _left(other).sink_cluster == found.cluster

    internal = Topics(app_id, "").internal if found.cluster == OWN else set()
    topics, registries = wanted_topics(found.definition), found.connection.destinations
    check_topics(found.definition, topics, jobs, internal, shares, destinations=registries)


def _require_fitting(found: FoundCluster) -> None:
    """Refuse topics that do not fit.

    This is asked before the epoch exists: the feed would wait until they fit.
    """
    definition = found.definition
    fault = known_fault(definition.options, definition.engine)
    if not fault:
        try:
            require_fitting(
                definition, found.left.targets, open_admin(found.connection, found.connection.timeout_s)
            )
        except (FeedError, TopologyError) as error:
            fault = str(error)
    if fault:
        raise InputError(f"Feed {found.feed_id} cannot continue on {found.found}: {fault}.")
