"""Ends a reading when its feed has ended and no more records of the feed come.

While a gate opens, each opening asks whether the feed had ended (`FeedGate.is_same`). After the last marker
of a feed no gate opens any more. So a gate that stands asks as well:

1. It has stood for ``LOOK_S``. The jobs topic is asked for its end, and the topics whether they are still
   the same: the clusters of both have to answer.
2. The feed has ended with the high-water H. No marker is above H. If everything up to H was let through, the
   reading ends. If all partitions of the feed have markers up to H, and the gate waits for those of other
   feeds, the reading goes on.
3. If not, the marker of H may be on its way, or may never come: a worker persists H more often than it
   writes markers, and one that is fenced between the two writes none. So the reading ends once the end has
   been known for ``LAST_MARKER_S``, and the brokers have nothing that was not read.

A feed that has succeeded ends the reading without an error in step 2 alone.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from tidegate.changefeed.definition.feed import FeedId, FeedState
from tidegate.client.subscribe.ended_feeds import EndedFeed, EndedFeeds
from tidegate.client.subscribe.feed_reader import FeedReader
from tidegate.errors import ObjectDropped
from tidegate.hlc import Timestamp

#: The seconds between two questions of a gate that stands. A gate that opens asks at each opening.
LOOK_S: Final = 5.0
#: The seconds for which a gate waits for the last marker of a feed that has ended.
LAST_MARKER_S: Final = 30.0
_HOW: Final = {
    FeedState.DROPPED: "was dropped",
    FeedState.FAILED: "has failed",
    FeedState.SUCCEEDED: "has succeeded",
}


class StandingGate:
    """Asks about the feeds of one gate while it stands. One thread uses it."""

    def __init__(self, ends: EndedFeeds, reader: FeedReader, marked: Callable[[FeedId], Timestamp]) -> None:
        """``marked`` returns the lowest of the last markers of a feed's partitions."""
        self._ends = ends
        self._reader = reader
        self._marked = marked
        self._is_asked = False
        self._look_at = time.monotonic() + LOOK_S
        #: Since when the end is known, and all that the brokers had is read.
        self._known_at: float | None = None

    def opens(self) -> None:
        """Say that the gate opens: it does not stand any more."""
        self._is_asked, self._known_at = False, None
        self._look_at = time.monotonic() + LOOK_S

    def has_ended(self, delivered: Timestamp, *, is_begun: bool) -> bool:
        """Return whether a feed has succeeded, and everything up to its high-water was let through.

        ``delivered`` is the timestamp up to which the gate has let everything through. ``is_begun`` says
        whether the reading has given its beginning, such as a snapshot. The call does not wait for answers.
        Raises ``ObjectDropped`` for any other end of a feed after which nothing comes.
        """
        now = time.monotonic()
        if not self._is_asked:
            if now >= self._look_at:
                self._reader.ask_topics()
                self._ends.ask()
                self._is_asked = True
            return False
        if not (self._reader.same_topics(0.0) and self._ends.look(0.0)):
            return False
        self._is_asked, self._look_at = False, now + LOOK_S
        end = self._ends.first()
        if end is None:
            self._known_at = None
            return False
        if delivered < end.high_water <= self._marked(end.feed_id):
            self._known_at = None
            return False
        if delivered < end.high_water and not self._is_over(now):
            return False
        if end.state is FeedState.SUCCEEDED and is_begun and delivered >= end.high_water:
            return True
        raise ObjectDropped(_told(end, delivered))

    def _is_over(self, now: float) -> bool:
        """Return whether the gate has waited for the last marker for ``LAST_MARKER_S``."""
        if not self._reader.at_ends():
            return False
        if self._known_at is None:
            self._known_at = now
        return now - self._known_at >= LAST_MARKER_S


def _told(end: EndedFeed, delivered: Timestamp) -> str:
    reason = f" ({end.reason})" if end.reason else ""
    if delivered < end.high_water:
        complete = (
            f"is complete up to {delivered}. Its high-water is {end.high_water}, whose marker has not come"
        )
    elif end.state is FeedState.SUCCEEDED:
        complete = f"is complete up to {end.high_water}. That is below AS OF, so there is no snapshot"
    else:
        complete = f"is complete up to {end.high_water}"
    return (
        f"feed {end.feed_id} {_HOW[end.state]}{reason}, and {complete}. Nothing follows in its topics: begin "
        "again with a snapshot of another feed that has the table"
    )
