"""The term of a feed on its topics: which of their records a reader may take for the feed's own.

An output topic belongs to one feed at a time, and several may have it one after the other
(docs/protocols/topics-that-change-owners.md). A record does not say which of them wrote it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from tidegate.changefeed.definition.feed import ENDED, FeedId
from tidegate.changefeed.lifecycle.jobs import FeedView, JobsView
from tidegate.client.feed_topics import FeedTopics
from tidegate.hlc import ZERO, Timestamp


@dataclass(frozen=True, slots=True)
class FeedTerm:
    """The times of a feed's records.

    Attributes:
        start: rows of the initial scan have this time, and changes are above it. A row below it is an earlier
            feed's.
        before: a marker at or below it may be an earlier feed's, so it says nothing of this feed.
        end: the high-water with which the feed has ended; ``None`` while it goes on. A marker is written
            after its high-water is persisted, so one above ``end`` is a later feed's.
    """

    start: Timestamp = ZERO
    before: Timestamp = ZERO
    end: Timestamp | None = None

    def is_earlier(self, marker: Timestamp) -> bool:
        """Return whether an earlier feed may have written the marker."""
        return marker <= self.before

    def is_later(self, marker: Timestamp) -> bool:
        """Return whether a later feed has written the marker."""
        return self.end is not None and marker > self.end


#: The term of a feed whose topics nobody else ever had.
ALONE: Final = FeedTerm()


def term_of(jobs: JobsView, feed_id: FeedId) -> FeedTerm:
    """Return the term of a feed that has started.

    If ``jobs`` was read after the feed's records, and has no end of the feed, then no later feed has written
    any of these records. Raises ``InputError`` for a feed that has not started.
    """
    view = jobs[feed_id]
    feed = FeedTopics.of(feed_id, view)
    topics = frozenset(feed.all_topics)
    before = feed.start.prev() if feed.start > ZERO else ZERO
    for other_id, other in jobs.feeds():
        if other_id >= feed_id:  # ids sort by creation, and of two feeds the one that is created first has
            break  # the topic first
        if other.status in ENDED and not topics.isdisjoint(target.topic for target in other.targets):
            before = max(before, _promised(other))
    return FeedTerm(feed.start, before, _promised(view) if view.status in ENDED else None)


def _promised(feed: FeedView) -> Timestamp:
    """Return the highest high-water that was persisted in any epoch; zero if there is none."""
    parts = (feed.progress, feed.takeover)
    return max((part.high_water for part in parts if part is not None and part.high_water), default=ZERO)
