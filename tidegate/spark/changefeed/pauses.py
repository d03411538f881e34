"""Pauses of feeds whose sinks do not take rows (docs/protocols/spark-sinks.md, steps S2 to S4)."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final, NamedTuple

from tidegate.changefeed.definition.feed import FeedId

#: The first and the longest pause of a feed. After each pause its sink is tried, and a batch waits for it.
FIRST_PAUSE_S: Final = 15.0
_LONGEST_S: Final = 300.0


class _Pause(NamedTuple):
    length_s: float
    until: float


class Pauses:
    """Remembers until when each feed pauses, in memory only. ``clock`` is monotonic and counts seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._pauses: dict[FeedId, _Pause] = {}

    def begin(self, feed_id: FeedId) -> float | None:
        """Begin a pause, since the feed's sink did not take rows; return its length in seconds.

        The first pause takes 15 s. A pause that begins soon after the end of the last one is twice as long,
        up to 300 s: for example 15, 30, 60. "Soon" is within twice the length of the last one. Returns
        ``None`` for a feed that pauses already.
        """
        now, last = self._clock(), self._pauses.get(feed_id)
        if last is not None and now < last.until:
            return None
        flaps = last is not None and now < last.until + 2 * last.length_s
        length_s = min(2 * last.length_s, _LONGEST_S) if last is not None and flaps else FIRST_PAUSE_S
        self._pauses[feed_id] = _Pause(length_s, now + length_s)
        return length_s

    def feeds(self) -> frozenset[FeedId]:
        """Return the feeds that pause now."""
        now = self._clock()
        return frozenset(feed_id for feed_id, pause in self._pauses.items() if now < pause.until)
