"""Finds closed cuts of a feed, for the driver."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from tidegate.changefeed.definition.options import InitialScan
from tidegate.client.kafka.cluster import Bounds, Cluster
from tidegate.client.kafka.settled_bounds import settled_bounds
from tidegate.client.kafka.topic_admin import open_admin
from tidegate.client.kafka.watched_cluster import WatchedCluster
from tidegate.client.last_markers import last_markers
from tidegate.client.subscribe.feed_history import require_beginning
from tidegate.errors import HistoryLost, InputError
from tidegate.hlc import ZERO, Timestamp
from tidegate.spark.datasource.batch_bound import RECORD_TIME_NS, farthest_cut
from tidegate.spark.datasource.closed_cut import ANEW, ClosedCut
from tidegate.spark.datasource.source_feed import SourceFeed
from tidegate.spark.warehouse.buckets import Buckets
from tidegate.subscribe.gate.feed_record import FeedPartition
from tidegate.verify import TopicPartition


class CutFinder:
    """Asks Kafka how far a feed is complete. Close it. ``wait`` is called with seconds that have to pass.

    Every method raises ``BrokerUnavailable`` where Kafka does not answer, and ``HistoryLost`` for a topic
    that was made anew.
    """

    def __init__(self, feed: SourceFeed, wait: Callable[[float], object] = time.sleep) -> None:
        self._feed = feed
        self._wait = wait
        self._connection = feed.reading.connection
        self._decoder = feed.reading.decoder()
        self._cluster = WatchedCluster(self._connection, feed.tables[0].topic)
        self._asked = Cluster(self._connection)
        self._admin = open_admin(self._connection, self._connection.timeout_s)

    def close(self) -> None:
        """Close the clients."""
        self._cluster.close()

    def newest(self, buckets: Buckets | None = None) -> Timestamp:
        """Return the newest closed cut; with ``buckets``, the end of the last closed bucket.

        Returns zero if any partition has no marker of the feed yet. If the feed has ended, markers of a later
        feed may have closed the cut: ``_own`` bounds it.
        """
        found = last_markers(self._cluster, self._feed.topic_ids, self._decoder)
        self._cluster.require_same()
        closed = min((each or ZERO for each in found.values()), default=ZERO)
        if self._feed.term.is_earlier(closed):
            return ZERO
        return _bucketed(closed, buckets)

    def _own(self, closed: Timestamp, buckets: Buckets | None = None) -> Timestamp:
        """Return the cut ``closed``, or the cut at the end of this feed if the feed has ended below that.

        This asks for the feed's state, after the markers that close ``closed`` were read. So if the feed has
        not ended, the markers are its own.
        """
        end = self._feed.term_now().end
        return closed if end is None or closed <= end else _bucketed(end, buckets)

    def first(self, start: Timestamp | None, buckets: Buckets | None = None) -> ClosedCut:
        """Return the cut at which a new stream begins: it reads the rows above it.

        ``start`` is zero for the beginning of the topics, ``None`` for the newest cut, or for the feed's
        start if the feed has no cut yet. Raises ``InputError`` for a start that the topics do not reach back
        to.
        """
        if start == ZERO:
            require_beginning(self._feed.topics, "Start from latest, or from a timestamp above that")
        bounds = self._bounds()
        if start == ZERO:
            self._require_whole(bounds, "start from latest, or from a timestamp behind what was deleted")
            return self._cut(ZERO, {place: each.low for place, each in bounds.items()})
        begin = self._feed.topics.changes_from
        if start is None:
            newest = self._own(self.newest(buckets), buckets)
            start = max(newest, begin)  # the newest cut is zero without a marker
        if start < begin:
            raise InputError(
                f"Feed {self._feed.feed_id} began at {begin}, and the start {start} is before that: its rows "
                "begin with the option start='earliest'."
            )
        return self._cut(start, self._positions(start, bounds))

    def next(
        self,
        cut: ClosedCut,
        buckets: Buckets | None,
        most: int | None = None,
        target: Timestamp | None = None,
    ) -> ClosedCut:
        """Return the newest cut above ``cut``, or ``cut`` itself where there is none.

        No cut is below the feed's start. The rows of the initial scan are of that time, but their records may
        have any time below it (``_positions``). A lower cut would part these rows from their records.

        If a batch up to the newest cut would read more than ``most`` records, the result is a lower cut
        (``batch_bound.py``). It is at most ``target``. Raises ``HistoryLost`` if records after ``cut`` are
        deleted, if records before it were cut off, and if the feed has ended and a later feed goes on. Raises
        ``InputError`` for a cut of another feed.
        """
        cut.require_of(self._feed.feed_id, self._admin.ids(list(self._feed.topic_ids)))
        bounds = settled_bounds(self._bounds, cut.positions, self._wait)
        self._require_kept(cut, bounds)
        closed = self.newest(buckets) if target is None else target
        if closed <= cut.closed or closed < self._feed.topics.start:
            return cut
        own = self._own(closed, buckets)
        if own <= cut.closed or own < self._feed.topics.start:
            raise HistoryLost(
                f"Feed {self._feed.feed_id} has ended, and is read to its end. The markers on its topics "
                f"go on, up to {closed}: a later feed has the topics, and no feed has written the changes "
                "between the two. Read the later feed with a new checkpoint"
            )
        closed = own
        if most is not None:
            closed = self._bounded(cut, closed, most, buckets)
        return self._cut(closed, self._positions(closed, bounds, cut))

    def _bounded(self, cut: ClosedCut, closed: Timestamp, most: int, buckets: Buckets | None) -> Timestamp:
        """Return the highest cut up to ``closed`` for which a batch reads at most ``most`` records.

        Where the broker stamps records, their times say nothing, and no batch is bounded. All rows of a scan
        are of the feed's start, so one batch has all of them.
        """
        if self._asked.stamped_by_broker(list(self._feed.topic_ids)):
            return closed
        places = {place: TopicPartition(*place) for place in cut.positions}

        def records_up_to(end: Timestamp) -> int:
            found = self._asked.offsets_at(places.values(), end.wall_ms + 1)  # after the rows at ``end``
            return sum(max(found[at] - cut.positions[place], 0) for place, at in places.items())

        begin = max(cut.closed, self._feed.topics.start)
        step_ns = RECORD_TIME_NS if buckets is None else buckets.length_ns
        return farthest_cut(begin, closed, most, step_ns, records_up_to) if begin < closed else closed

    def whole(self, as_of: Timestamp | None) -> ClosedCut:
        """Return the cut of a batch query, with the beginnings of all partitions as positions.

        Raises ``InputError`` for a timestamp that is not closed yet, or before the feed began, and
        ``HistoryLost`` where the topics do not have all rows.
        """
        feed, newest = self._feed, self._own(self.newest())
        if feed.topics.options.initial_scan is InitialScan.NO:
            raise HistoryLost(
                f"Feed {feed.feed_id} began without a scan, so its topics lack the rows that have not "
                f"changed since {feed.topics.start}: they do not tell a table's state. Read a feed WITH "
                "initial_scan"
            )
        require_beginning(feed.topics, "Read changes above that as a stream")
        bounds = self._bounds()
        self._require_whole(bounds, "read a new feed WITH initial_scan whose topic keeps its records")
        closed = newest if as_of is None else as_of
        if closed > newest:
            raise InputError(
                f"Not every row up to {closed} has come: the feed is complete up to {newest}. Wait, or "
                "choose an as_of at or below that."
            )
        if closed < feed.topics.start:
            raise InputError(
                f"Feed {feed.feed_id} began at {feed.topics.start}: as_of {closed} is before that."
            )
        return self._cut(closed, {place: each.low for place, each in bounds.items()})

    def _cut(self, closed: Timestamp, positions: Mapping[FeedPartition, int]) -> ClosedCut:
        return ClosedCut(closed, positions, self._feed.topic_ids, self._feed.feed_id)

    def _bounds(self) -> dict[FeedPartition, Bounds]:
        asked = self._asked.bounds([TopicPartition(*place) for place in self._feed.places()])
        return {FeedPartition(*place): each for place, each in asked.items()}

    def _positions(
        self, closed: Timestamp, bounds: Mapping[FeedPartition, Bounds], known: ClosedCut | None = None
    ) -> dict[FeedPartition, int]:
        """Return for each partition the offset of the first record whose time is at or above ``closed``.

        A record's time is the commit time of its version. The row has the same time, except a row of the
        initial scan, which is of the feed's start: ``closed`` is at or above that. Where the broker stamps
        records, their time is neither of the two, and reading begins where it began before.
        """
        stamped = self._asked.stamped_by_broker(list(self._feed.topic_ids))
        places = [TopicPartition(*place) for place in bounds if place.topic not in stamped]
        found = self._asked.offsets_at(places, closed.wall_ms) if places else {}
        before = known.positions if known is not None else {place: each.low for place, each in bounds.items()}
        return {
            place: max(found.get(TopicPartition(*place), 0), before.get(place, bounds[place].low))
            for place in bounds
        }

    def _require_kept(self, cut: ClosedCut, bounds: Mapping[FeedPartition, Bounds]) -> None:
        for place, each in bounds.items():
            position = cut.positions.get(place, 0)
            if position < each.low:
                raise HistoryLost(
                    f"The query goes on at offset {position} of {place}, whose first record is at "
                    f"{each.low}: those between them are deleted. {ANEW}, and give the topic a longer "
                    "retention",
                    place.topic,
                    place.partition,
                    position,
                )
            if position > each.end:
                raise HistoryLost(
                    f"The query goes on at offset {position} of {place}, which ends at {each.end}: the topic "
                    f"was cut, and its last records may not be those that were read. {ANEW}",
                    place.topic,
                    place.partition,
                    position,
                )

    def _require_whole(self, bounds: Mapping[FeedPartition, Bounds], advice: str) -> None:
        for place, each in bounds.items():
            if each.low > 0:
                raise HistoryLost(
                    f"The first {each.low} records of {place} are deleted: {advice}",
                    place.topic,
                    place.partition,
                    0,
                )


def _bucketed(closed: Timestamp, buckets: Buckets | None) -> Timestamp:
    """Return the end of the last bucket that a marker closes; without buckets the marker itself."""
    return closed if buckets is None else Timestamp(buckets.closed_by(closed))
