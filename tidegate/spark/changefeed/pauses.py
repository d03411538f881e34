"""How long feeds pause whose sinks do not answer (docs/spark.md, steps S2 to S4)."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final, NamedTuple

from tidegate.changefeed.definition.feed import FeedId

#: The first pause of a feed, and the longest: each time that its sink is tried in vain a batch waits for it.
FIRST_PAUSE_S: Final = 15.0
_LONGEST_S: Final = 300.0


class _Pause(NamedTuple):
    length_s: float
    until: float


class Pauses:
    """Of feeds; ``clock`` is monotonic, seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._pauses: dict[FeedId, _Pause] = {}

    def begin(self, feed_id: FeedId) -> float | None:
        """The feed's sink was tried in vain: it pauses for the seconds that come out, twice as long as before
        when that was soon after its last pause. ``None`` for a feed that pauses already.
        """
        now, last = self._clock(), self._pauses.get(feed_id)
        if last is not None and now < last.until:
            return None
        flaps = last is not None and now < last.until + 2 * last.length_s
        length_s = min(2 * last.length_s, _LONGEST_S) if last is not None and flaps else FIRST_PAUSE_S
        self._pauses[feed_id] = _Pause(length_s, now + length_s)
        return length_s

    def feeds(self) -> frozenset[FeedId]:
        """Those that pause now."""
        now = self._clock()
        return frozenset(feed_id for feed_id, pause in self._pauses.items() if now < pause.until)
