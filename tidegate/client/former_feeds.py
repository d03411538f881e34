"""What the feeds that had a topic before have promised there.

A marker of a feed that has ended stays on its topics. A feed that gets one of them later must not break what
that marker says (docs/protocols/topics-that-change-owners.md).
"""

from __future__ import annotations

from collections.abc import Iterable

from tidegate.changefeed.definition.feed import ENDED
from tidegate.changefeed.lifecycle.jobs import FeedView
from tidegate.client.topic_ownership import prepared_topics
from tidegate.hlc import ZERO, Timestamp


def promised(feed: FeedView) -> Timestamp:
    """Return the highest high-water that a feed has persisted in any epoch, on any cluster; zero for none.

    No marker of the feed is above it, not even one that a mirror has copied.
    """
    parts = (feed.progress, feed.takeover)
    highs = [part.high_water for part in parts if part is not None and part.high_water is not None]
    if feed.takeover is not None and feed.takeover.silent_to is not None:
        highs.append(feed.takeover.silent_to)
    return max(highs, default=ZERO)


def promised_on(topics: Iterable[str], feeds: Iterable[FeedView]) -> Timestamp:
    """Return the timestamp that no marker of an ended one of ``feeds`` is above on ``topics``; zero for
    none.
    """
    wanted = frozenset(topics)
    former = (feed for feed in feeds if feed.status in ENDED and not wanted.isdisjoint(prepared_topics(feed)))
    return max(map(promised, former), default=ZERO)
