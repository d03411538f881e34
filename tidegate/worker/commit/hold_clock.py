"""Limits how long a log partition is held for the starts of new feeds.

A held partition holds back every feed, so the hold has a limit (docs/protocols/held-partitions.md). The
engine measures the time, since the partition processor has no clock.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from tidegate.changefeed.definition.feed import FeedId


class HoldClock:
    """A timer for the feeds that hold one partition.

    ``due`` is the time of ``clock`` at which the partition gives these feeds up, and infinite while no feed
    holds it. The ``limit_s`` seconds begin anew when one of the feeds is activated or removed. That shows
    that the jobs agent is at work.
    """

    def __init__(self, limit_s: float, clock: Callable[[], float]) -> None:
        self.limit_s = limit_s
        self.due = math.inf
        self._clock = clock
        self._feeds: frozenset[FeedId] = frozenset()

    def look(self, feeds: frozenset[FeedId]) -> None:
        """Note that ``feeds`` hold the partition now."""
        if not feeds:
            self.due = math.inf
        elif not self._feeds or self._feeds - feeds:
            self.due = self._clock() + self.limit_s
        self._feeds = feeds
