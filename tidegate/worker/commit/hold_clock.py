"""How long a log partition has been held for the starts of new feeds.

A held partition holds every feed, so there is an end to it (docs/delivery.md#held-partitions). The end is the
engine's to find: the partition processor has no clock.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from tidegate.changefeed.definition.feed import FeedId


class HoldClock:
    """``due`` is when the partition is to give up the feeds that hold it, by ``clock``; never while none do.

    The time begins anew when one of them is activated or removed: somebody is deciding then.
    """

    def __init__(self, limit_s: float, clock: Callable[[], float]) -> None:
        self.limit_s = limit_s
        self.due = math.inf
        self._clock = clock
        self._feeds: frozenset[FeedId] = frozenset()

    def look(self, feeds: frozenset[FeedId]) -> None:
        """These feeds hold the partition now."""
        if not feeds:
            self.due = math.inf
        elif not self._feeds or self._feeds - feeds:
            self.due = self._clock() + self.limit_s
        self._feeds = feeds
