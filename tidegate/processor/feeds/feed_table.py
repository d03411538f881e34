"""The feeds that one log partition has taken up, what steps and ranges ask of them, and their answers.

``feed_control.py`` takes up the messages with which feeds begin and end. ``feed_failures.py`` has the reasons
for which they fail.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence

from tidegate.changefeed.definition.feed import FeedDefinition, FeedEpoch, FeedId
from tidegate.changefeed.lifecycle.control import Ack, Active, Failed, Removed
from tidegate.errors import FeedError
from tidegate.hlc import MAX, ZERO, Timestamp
from tidegate.processor.batch import ActiveFeed, Incident, StateChange, StateTable
from tidegate.processor.feeds.partition_feed import FeedStatus, PartitionFeed, feed_row, read_feed
from tidegate.processor.feeds.range_waits import Reach
from tidegate.processor.feeds.version_rows import Starts
from tidegate.raftlog.entry import Offset
from tidegate.ranges.gap import Gap, Gaps, amended
from tidegate.ranges.handoff import Claim, Exchange
from tidegate.rows.table_key import watched_parts
from tidegate.spans import Span


class PartitionFeeds:
    """All feeds of log partition ``partition``."""

    def __init__(self, partition: int) -> None:
        self.partition = partition
        self._feeds: dict[FeedId, PartitionFeed] = {}
        self._changed: set[FeedId] = set()
        self._acks: list[Ack] = []
        self._incidents: list[tuple[FeedId, str]] = []
        self._refresh()

    def __len__(self) -> int:
        return len(self._feeds)

    def __getitem__(self, feed_id: FeedId) -> PartitionFeed:
        return self._feeds[feed_id]

    def get(self, feed_id: FeedId) -> PartitionFeed | None:
        """Return the feed, ``None`` if the partition has not taken it up."""
        return self._feeds.get(feed_id)

    # ---- what steps ask ----

    def _refresh(self) -> None:
        """Work out, from the feeds as they are now, what every step asks."""
        registered = (
            feed.id
            for feed in self._feeds.values()
            if feed.status is FeedStatus.REGISTERED and not feed.can_miss_versions
        )
        #: The feeds that hold the partition until it knows their starts. A feed that can miss versions does
        #: not hold it: scans bring what passes meanwhile. It is a plain attribute, so that another thread may
        #: read it.
        self.registered: frozenset[FeedId] = frozenset(registered)
        active = [feed for feed in self._feeds.values() if feed.status is FeedStatus.ACTIVE]
        self.active: Sequence[PartitionFeed] = active
        #: The active feeds that are given versions of live ranges.
        self.live: Sequence[PartitionFeed] = [feed for feed in active if not feed.scans_only]
        #: The active feeds that want versions that ranges had passed when they were activated.
        self.able_to_miss_versions: Sequence[PartitionFeed] = [
            feed for feed in active if feed.can_miss_versions
        ]
        self._have_earlier_rows = [feed for feed in active if feed.begins_with_scan or feed.goes_on]
        self._all_active = tuple(ActiveFeed(feed.id, feed.epoch) for feed in active)
        self.wanted_tables = frozenset[int]().union(*(feed.table_ids for feed in active))
        self.wanted_previous = frozenset[int]().union(
            *(feed.table_ids for feed in active if feed.shows_previous)
        )
        previous = [feed for feed in active if feed.shows_previous]
        self.starts = Starts(_lowest_starts(active), _lowest_starts(previous))
        self.watched_spans: tuple[Span, ...] = tuple({span: None for feed in active for span in feed.spans})

    def definition_of(self, feed_id: FeedId) -> FeedDefinition:
        """Return the definition of a feed that the partition has taken up."""
        return self._feeds[feed_id].message.definition

    def is_active(self, feed_id: FeedId) -> bool:
        """Whether the feed is active. A feed that was removed is not."""
        feed = self._feeds.get(feed_id)
        return feed is not None and feed.status is FeedStatus.ACTIVE

    def active_feeds(self, with_gaps: Collection[FeedId]) -> tuple[ActiveFeed, ...]:
        """Return the feeds that a checkpoint names: all active ones but those ``with_gaps``."""
        if not with_gaps:
            return self._all_active
        return tuple(each for each in self._all_active if each.feed_id not in with_gaps)

    # ---- what ranges ask ----

    def lowest_start(self, span: Span, below: Timestamp, reach: Reach) -> Timestamp | None:
        """See ``tidegate.processor.feeds.range_waits.Watchers``."""
        missing = (feed.start for feed in self.missing(span, below) if reach.includes(feed.start))
        return min(missing, default=None)

    def want_previous(self, span: Span) -> bool:
        """See ``tidegate.processor.feeds.range_waits.Watchers``."""
        return any(feed.shows_previous and feed.watches(span) for feed in self.active)

    def has_earlier_rows(self, span: Span) -> bool:
        """See ``tidegate.processor.feeds.range_waits.Watchers``."""
        return any(feed.watches(span) for feed in self._have_earlier_rows)

    def missing(self, span: Span, below: Timestamp) -> Sequence[PartitionFeed]:
        """Return the active feeds that watch the span, without tenant prefix, and start below a timestamp."""
        return [feed for feed in self.active if feed.start < below and feed.watches(span)]

    def tell_failures(self, message: Exchange) -> Exchange:
        """Return a message for another partition, in which feeds that have failed here miss all versions.

        Such a feed may be active there until everyone has heard of the failure. A checkpoint there that names
        it would otherwise speak for rows that this partition has left out.
        """
        failed = [feed for feed in self._feeds.values() if feed.status is FeedStatus.FAILED]
        if not failed or isinstance(message, Claim) or message.span is None or message.told_gaps is None:
            return message
        told_gaps = message.told_gaps
        for feed in failed:
            lost = _given_nothing(feed, message.span)
            told_gaps = amended(told_gaps, feed.told_as, lost) if lost else told_gaps
        return message._replace(told_gaps=told_gaps)

    # ---- how they change ----

    def answer(self, feed: PartitionFeed) -> None:
        """Store the feed as it is, and answer with its status. Both are written with the same step."""
        self._feeds[feed.id] = feed
        self._changed.add(feed.id)
        self._refresh()
        if feed.status is FeedStatus.ACTIVE:
            self._acks.append(Active(feed.id, feed.epoch, self.partition))
        elif feed.status is FeedStatus.FAILED:
            self._acks.append(Failed(feed.id, feed.epoch, self.partition, feed.reason))
        elif feed.registered is not None:
            self._acks.append(feed.registered)

    def fail(self, feed_id: FeedId, error: FeedError) -> None:
        """Fail a feed, and tell the jobs agent and the operator. The feed stays failed."""
        self.refuse(self._feeds[feed_id], error)

    def refuse(self, feed: PartitionFeed, error: FeedError) -> None:
        """Fail a feed as `fail` does, also one that the partition has not taken up before."""
        feed.fail(str(error))
        self._incidents.append((feed.id, f"feed {feed.id} failed: {error}"))
        self.answer(feed)

    def remove(self, feed_id: FeedId, epoch: FeedEpoch, highest: Timestamp) -> None:
        """Forget a feed, unless it is of a later epoch.

        Answer ``Removed``, with the reason if it had failed. ``highest`` is the highest timestamp that the
        partition has applied.
        """
        feed = self._feeds.get(feed_id)
        reason = ""
        if feed is not None and feed.epoch <= epoch:
            reason = feed.reason
            del self._feeds[feed_id]
            self._changed.add(feed_id)
            self._refresh()
        self._acks.append(Removed(feed_id, epoch, self.partition, reason, highest))

    def take_acks(self) -> list[Ack]:
        """Return the answers since the last call."""
        acks, self._acks = self._acks, []
        return acks

    def take_incidents(self, offset: Offset) -> list[Incident]:
        """Return the incidents of the failures since the last call."""
        incidents, self._incidents = self._incidents, []
        return [Incident(self.partition, offset, None, feed_id, cause) for feed_id, cause in incidents]

    # ---- state ----

    def freeze(self) -> Iterator[StateChange]:
        """Yield the rows of state that changed since the last call."""
        for feed_id in sorted(self._changed):
            feed = self._feeds.get(feed_id)
            yield StateChange(StateTable.FEEDS, feed_id.encode(), None if feed is None else feed_row(feed))
        self._changed = set()

    def restore(self, values: Iterable[bytes]) -> None:
        """Put back the feeds of rows that ``freeze`` gave."""
        for value in values:
            feed = read_feed(value)
            self._feeds[feed.id] = feed
        self._refresh()


def _given_nothing(feed: PartitionFeed, span: Span) -> Gaps:
    """Return the gaps of a feed that was given nothing of the keys in ``span``.

    Where the feed failed before its start and keys were known here, the gap is the whole span, from the
    beginning. The receiver, which knows both, takes the part that the feed wants.
    """
    if not feed.targets:
        return (Gap(span, None if feed.begins_with_scan else ZERO),)
    complete_to = None if feed.begins_with_scan else feed.start
    return tuple(Gap(part, complete_to) for part in watched_parts(span, feed.spans))


def _lowest_starts(feeds: Iterable[PartitionFeed]) -> dict[int, Timestamp]:
    """Return, for each table, the lowest start of its feeds."""
    lowest: dict[int, Timestamp] = {}
    for feed in feeds:
        for table_id in feed.table_ids:
            lowest[table_id] = min(feed.start, lowest.get(table_id, MAX))
    return lowest
