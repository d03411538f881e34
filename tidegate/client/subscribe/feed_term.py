"""The term of a feed on its topics: which of their records a reader may regard as the feed's own.

An output topic belongs to one feed at a time, and several may have it one after the other
(docs/protocols/topics-that-change-owners.md). A record does not say which of them wrote it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from tidegate.changefeed.definition.feed import ENDED, FeedId
from tidegate.changefeed.lifecycle.jobs import JobsView
from tidegate.client.feed_topics import FeedTopics
from tidegate.client.topic_ownership import prepared_topics, promised, promised_on
from tidegate.hlc import ZERO, Timestamp
from tidegate.subscribe.updates.frontier import Frontier, resume_as_of


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

    @property
    def rows_above(self) -> Timestamp:
        """The timestamp above which rows are the feed's."""
        return resume_as_of(Frontier(self.start))

    def is_earlier(self, marker: Timestamp) -> bool:
        """Return whether an earlier feed may have written the marker."""
        return marker <= self.before

    def is_later(self, marker: Timestamp) -> bool:
        """Return whether a later feed has written the marker."""
        return self.end is not None and marker > self.end


#: The term of a feed whose topics nobody else ever had.
ALONE: Final = FeedTerm()


@dataclass(frozen=True, slots=True)
class OtherFeeds:
    """Whether other feeds have had topics of a feed before it, and whether others have them after it."""

    earlier: bool
    later: bool


def other_feeds_of(jobs: JobsView, feed_id: FeedId) -> OtherFeeds:
    """Return whether the topics of a feed are also those of others. ``jobs`` is as for `term_of`."""
    topics, earlier = prepared_topics(jobs[feed_id]), _earlier(jobs, feed_id)
    others = {each for each, other in jobs.feeds() if each != feed_id and topics & prepared_topics(other)}
    return OtherFeeds(bool(others & earlier), bool(others - earlier))


def term_of(jobs: JobsView, feed_id: FeedId) -> FeedTerm:
    """Return the term of a feed that has started.

    If ``jobs`` was read after the feed's records, and has no end of the feed, then no later feed has written
    any of these records. Raises ``InputError`` for a feed that has not started.
    """
    view = jobs[feed_id]
    feed = FeedTopics.of(feed_id, view)
    before = resume_as_of(Frontier(feed.start))
    goes_on = view.status not in ENDED
    earlier = [jobs[each] for each in _earlier(jobs, feed_id)]
    before = max(before, promised_on(feed.all_topics, earlier) or ZERO)
    return FeedTerm(feed.start, before, None if goes_on else promised(view))


def _earlier(jobs: JobsView, feed_id: FeedId) -> set[FeedId]:
    """Return the feeds that came before this feed on every topic that they share with it."""
    # While this feed goes on, every ended one was earlier. Of two that have ended, the one that was created
    # first had the topic first: ids sort by creation, as far as the clients' clocks agree.
    goes_on = jobs[feed_id].status not in ENDED
    return {each for each, _ in jobs.feeds() if each != feed_id and (goes_on or each < feed_id)}
