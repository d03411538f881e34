"""Decides when a reader that follows a feed can stop, and says what may still come."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from tidegate.changefeed.definition.feed import ENDED, FeedState
from tidegate.changefeed.lifecycle.jobs import FeedView

#: The time, in seconds, for which a feed that has ended must be silent before reading stops.
SILENCE_S: Final = 2.0
#: The most seconds for which topics are followed after the feed's end is known, if they do not fall silent.
AT_MOST_S: Final = 60.0


class FollowedFeed:
    """Tells whether to follow a feed's topics any longer.

    The state *succeeded* is stored after all rows of the feed are acknowledged
    (docs/protocols/initial-scans.md), and such a feed has no markers: all its records are there. The states
    *failed* and *dropped* are stored before the log partitions are told
    (``tidegate.changefeed.lifecycle.registration``). Then rows go on coming until every worker knows of the
    end and no producer has rows of the feed left. Nothing tells when the last row has come, so the topics are
    followed until they are silent.

    ``look`` returns the feed as its records describe it, ``None`` while that is not known. ``now`` is a clock
    in seconds that never falls.
    """

    def __init__(
        self, look: Callable[[], FeedView | None], now: Callable[[], float] = time.monotonic
    ) -> None:
        self._look = look
        self._now = now
        self._known_at: float | None = None  # since when the end of the feed is known
        self._last_record_at = 0.0
        self._is_silent = False  # nothing came for ``SILENCE_S`` once the end was known
        self._is_late = False  # the end has been known for ``AT_MOST_S``

    def record_came(self) -> None:
        """Note that a record of the feed's topics was read, even if they are not followed any more."""
        self._last_record_at = self._now()
        self._is_silent = False

    def has_ended(self) -> bool:
        """Return whether to stop following. Call it again and again, and note all records in between."""
        state = self.state()
        if state not in ENDED:
            self._known_at = None  # the feed was created anew
            return False
        if state is FeedState.SUCCEEDED:
            return True
        now = self._now()
        if self._known_at is None:
            self._known_at = now
        self._is_silent = now - max(self._known_at, self._last_record_at) >= SILENCE_S
        self._is_late = now - self._known_at >= AT_MOST_S
        return self._is_silent or self._is_late

    def state(self) -> FeedState:
        """Return the feed's state as workers stored it. A drop counts only once workers have stored it."""
        feed = self._look()
        return FeedState.PENDING if feed is None or feed.current_state is None else feed.current_state.state

    def reason(self) -> str:
        """Return why the feed has failed; empty for a feed that has not."""
        feed = self._look()
        return "" if feed is None or feed.current_state is None else feed.current_state.error

    def outlook(self) -> str:
        """Return what may still come of a feed that has failed or was dropped, as the end of a sentence."""
        if self._is_silent:
            return f"nothing has come for {SILENCE_S:g} s; a worker that has not heard of it may still write"
        when = f"still came {AT_MOST_S:g} s later" if self._is_late else "came to the last"
        return f"rows {when}; more may follow until every worker has heard of it"
