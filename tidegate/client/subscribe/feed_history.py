"""The past of a table that its output topic still has, and the offsets from which to read it.

| the topic | a snapshot as of t | changes above t |
|---|---|---|
| is whole, and its feed began with a scan at S | every t from S on | every t from S on |
| is whole, and its feed began without a scan at S | none | every t from S on |
| was begun above T, on a cluster that was accepted without the rows before | none | every t from T on |
| has lost its beginning | none | from the present on; further back only with a token |

A topic that has lost its beginning does not tell which rows it had. Its retention has to be longer than its
markers lag. Then every row above the present is there: the present is the lowest of the partitions' last
markers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from tidegate.changefeed.definition.feed import FeedTarget
from tidegate.changefeed.definition.options import InitialScan
from tidegate.changefeed.encoding.record import MarkerRecord
from tidegate.client.feed_topics import FeedTopics
from tidegate.client.kafka.cluster import Bounds, Cluster
from tidegate.client.kafka.reader import PartitionReader
from tidegate.client.kafka.watched_cluster import WatchedCluster
from tidegate.client.last_markers import last_markers
from tidegate.client.subscribe.feed_catalog import SubscribableTable
from tidegate.errors import HistoryLost, InputError, MalformedRecord
from tidegate.hlc import ZERO, Timestamp
from tidegate.subscribe.client.resume_token import ResumeToken
from tidegate.subscribe.gate.feed_record import FeedPartition
from tidegate.subscribe.plan import SubscribePlan
from tidegate.subscribe.readable_history import ReadableHistory
from tidegate.subscribe.updates.frontier import Frontier, frontier_after, resume_as_of
from tidegate.verify import TopicPartition
from tidegate.verify.auditor import OFFSET_MARKERS

_ELSE: Final = "Subscribe WITH (SNAPSHOT = false) to a feed WITH diff"


@dataclass(frozen=True, slots=True)
class FeedHistory:
    """The partitions that a subscription of ``table`` reads, with their bounds at one moment.

    ``markers`` are the partitions of the feed's ``resolved_topic``; none when markers stand among rows.
    """

    table: SubscribableTable
    rows: Mapping[FeedPartition, Bounds]
    markers: Mapping[FeedPartition, Bounds]

    @classmethod
    def now(cls, table: SubscribableTable) -> FeedHistory:
        """Return the history as Kafka has it now.

        Raises ``InputError`` for topics that are gone, ``HistoryLost`` for a compacted topic of rows,
        ``BrokerUnavailable``.
        """
        cluster = Cluster(table.connection)
        topic, side = table.target.topic, table.feed.resolved_topic
        counts = cluster.partition_counts([topic, side] if side else [topic])
        require_partitions(table.target, counts[topic])
        # Kafka takes no markers on a compacted topic: rows can be compacted only where markers stand aside.
        if side and topic in cluster.compacted([topic]):
            raise HistoryLost(
                f"Topic {topic} is compacted (cleanup.policy): it loses the older rows of a key before its "
                "readers have them, so it tells no table of the past, and not all changes. Subscribe to a "
                "feed whose topic is not compacted",
                topic,
            )
        places = [TopicPartition(name, number) for name, count in counts.items() for number in range(count)]
        bounds = {FeedPartition(*place): each for place, each in cluster.bounds(places).items()}
        rows = {place: each for place, each in bounds.items() if place.topic == topic}
        return cls(table, rows, {place: each for place, each in bounds.items() if place not in rows})

    @property
    def is_whole(self) -> bool:
        """Whether the topic still has its first records."""
        return all(each.low == 0 for each in self.rows.values())

    @property
    def begin(self) -> Timestamp:
        """The timestamp up to which rows and markers of the topic can only be those of a feed that had it
        before.

        The rows of the feed's scan have its start as their timestamp.
        """
        feed = self.table.feed
        scans = feed.options.initial_scan is not InitialScan.NO
        return resume_as_of(Frontier(feed.start)) if scans else feed.start

    def choose_as_of(self, plan: SubscribePlan, *, from_beginning: bool) -> Timestamp:
        """Return the AS OF at which a plan's subscription begins. Raises ``HistoryLost`` if it cannot be
        read.

        ``from_beginning`` says that every row is needed, for a snapshot or to know the row before a change.
        """
        start = self.table.feed.changes_from
        if from_beginning:
            self._require_snapshots()
        told = plan.as_of is not None and not plan.at_least and self.is_whole
        present = ZERO if told else self._present()
        readable_from = start if self.is_whole else max(start, present)
        return ReadableHistory(readable_from, max(start, present)).choose_as_of(plan)

    def starts(self, as_of: Timestamp, *, from_beginning: bool) -> dict[FeedPartition, int]:
        """Return the offsets from which a subscription that begins at ``as_of`` reads.

        Without ``from_beginning`` it reads a partition from the first record whose time is at or above
        ``as_of``: a record's time is that of its row. Where the broker sets the times of records, it reads
        from the first record that is left. Markers on a topic of their own are read from the beginning of
        that topic. Raises ``HistoryLost`` if the reading begins at the first record that is left, and nothing
        shows that the deleted records before it were at or below ``as_of``.
        """
        begin = {place: each.low for place, each in self.markers.items()}
        if from_beginning:
            return begin | {place: each.low for place, each in self.rows.items()}
        cluster = Cluster(self.table.connection)
        if self.table.target.topic in cluster.stamped_by_broker([self.table.target.topic]):
            found = {TopicPartition(*place): each.low for place, each in self.rows.items()}
        else:
            found = cluster.offsets_at([TopicPartition(*place) for place in self.rows], as_of.wall_ms)
        # asked for after the offsets: what retention deletes from here on is noticed by the reader
        bounds = cluster.bounds(found)
        for place, offset in found.items():
            if 0 < offset == bounds[place].low:
                self._require_nothing_above_deleted(place, bounds[place], as_of)
        return begin | {FeedPartition(*place): offset for place, offset in found.items()}

    def reaches(self, offsets: Mapping[FeedPartition, int]) -> bool:
        """Return whether the topics end at or after these offsets.

        A topic that ends before them was cut: its last records may not be those that were read.
        """
        return all(
            offsets.get(place, 0) <= bounds.end for place, bounds in {**self.rows, **self.markers}.items()
        )

    def require(self, token: ResumeToken) -> None:
        """Raise ``HistoryLost`` if the topics do not have all records after a token any more, or end before
        it."""
        for place, bounds in {**self.rows, **self.markers}.items():
            offset = token.offsets.get(place, 0)
            if offset < bounds.low:
                raise HistoryLost(
                    f"The token goes on at offset {offset} of {place}, whose first record is at "
                    f"{bounds.low}: the {bounds.low - offset} between them are deleted. Begin again with a "
                    "snapshot, and give the topic a longer retention",
                    place.topic,
                    place.partition,
                    offset,
                )
            if offset > bounds.end:
                raise HistoryLost(
                    f"The token goes on at offset {offset} of {place}, which ends at {bounds.end}: the topic "
                    "was cut, or is another one. Begin again with a snapshot",
                    place.topic,
                    place.partition,
                    offset,
                )

    def _require_snapshots(self) -> None:
        feed = self.table.feed
        if feed.options.initial_scan is InitialScan.NO:
            raise HistoryLost(
                f"Feed {feed.feed_id} began without a scan, so its topics lack the rows that have not "
                f"changed since {feed.start}: there is no snapshot. {_ELSE}, or to a feed WITH "
                "initial_scan"
            )
        require_beginning(feed, _ELSE)
        for place, bounds in self.rows.items():
            if bounds.low > 0:
                raise HistoryLost(
                    f"The first {bounds.low} records of {place} are deleted, so the topic has no snapshot. "
                    f"{_ELSE}, or to a new feed WITH initial_scan whose topic keeps its records",
                    place.topic,
                    place.partition,
                    0,
                )

    def _require_nothing_above_deleted(self, place: TopicPartition, bounds: Bounds, as_of: Timestamp) -> None:
        """Raise ``HistoryLost`` unless the first record that is left shows that the deleted ones before it
        were at or below ``as_of``.

        A row at ``as_of`` shows that, since rows come roughly in the order of their times. A marker at
        ``as_of`` does not, since it comes after rows above it. A quiet partition may have no record left, if
        its markers are on another topic. It passes: it has lost rows by their age alone, and markers do not
        lag by such an age.
        """
        if bounds.low == bounds.end and self.table.feed.resolved_topic:
            return
        shown = self._first_time(place, bounds)
        if shown is None or shown > as_of:
            raise HistoryLost(
                f"The first {bounds.low} records of {place} are deleted, and rows above AS OF {as_of} may be "
                "among them: no record that is left is older. Begin at a later time, once the topic has "
                "markers above that, and give it a longer retention than its markers lag",
                place.topic,
                place.partition,
                bounds.low,
            )

    def _first_time(self, place: TopicPartition, bounds: Bounds) -> Timestamp | None:
        """Return a timestamp of the first record of a partition that has one; ``None`` if no record has.

        That is the timestamp of a row, or the timestamp after a marker. It is zero for a record that cannot
        be decoded.
        """
        decoder = self.table.decoder()
        if bounds.low >= bounds.end:
            return None
        with PartitionReader(self.table.connection, {place: bounds.low}) as reader:
            for record in reader.read_to({place: bounds.end}):
                try:
                    first = decoder.decode(record.key, record.value, record.headers)
                except MalformedRecord:
                    return ZERO  # the reader that begins here meets this record, and names it
                if isinstance(first, MarkerRecord):
                    return frontier_after(first.resolved)
                if first.updated is not None:
                    return first.updated
        return None

    def _present(self) -> Timestamp:
        """Return the lowest of the last markers; zero where a partition has none."""
        side = self.table.feed.resolved_topic
        topic, decoder = (side, OFFSET_MARKERS) if side else (self.table.target.topic, self.table.decoder())
        cluster = WatchedCluster(self.table.connection, topic)
        try:
            found = last_markers(cluster, [topic], decoder)
            cluster.require_same()
        finally:
            cluster.close()
        return min((each or ZERO for each in found.values()), default=ZERO)


def require_beginning(feed: FeedTopics, instead: str) -> None:
    """Raise ``HistoryLost`` for a feed whose topics were never given the rows of its beginning.

    ``instead`` says what a reader can do, without a full stop.
    """
    if feed.complete_above is not None:
        raise HistoryLost(
            f"Feed {feed.feed_id} goes on above {feed.complete_above} on the Kafka cluster that was accepted "
            "for it, and its topics there lack the rows that have not changed since: there is no snapshot. "
            f"{instead}, or take a new feed WITH initial_scan"
        )


def require_partitions(target: FeedTarget, count: int) -> None:
    """Raise ``InputError`` where a topic has another number of partitions than its feed writes to."""
    if count != target.partitions:
        raise InputError(
            f"Topic {target.topic} has {count} partitions, and its feed writes to {target.partitions}: no "
            "marker would ever come in the others. Create a feed on a topic of its own, and read that."
        )
