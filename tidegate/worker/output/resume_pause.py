"""How long a stalled feed waits before it catches up again: longer each time that its sink stops too soon.

Each attempt is a scan of the source, and makes other feeds wait once more for this one's rows. As its pauses
grow a feed is given more time for a batch, since what a scan gives at once may be too much for its sink: less
time than the longest pause, in which others do not wait, and none once the sink has followed.
"""

from __future__ import annotations

import math
from typing import Final

_LONGEST: Final = 20  # times ``stall_s``: five minutes with the default
_GOOD: Final = 4  # the same: what the sink has followed for is no flap
_PATIENT: Final = 6  # the same: far less than the longest pause, in which others do not wait


class ResumePause:
    """Of one feed and log partition; times are seconds of a monotonic clock, ``stall_s`` is a setting's.

    The first pause is none, the next is ``stall_s``, and each that follows is twice as long as the one
    before it, up to a bound. They begin anew when the sink has followed for longer than the last pause, and
    for four times ``stall_s``. It follows from the first batch on that it acknowledges, as long as no batch
    waits for longer than ``stall_s``.
    """

    def __init__(self, stall_s: float) -> None:
        self._first_s = stall_s
        self._longest_s = _LONGEST * stall_s
        self._good_s = _GOOD * stall_s
        self._patient_s = _PATIENT * stall_s
        self._next_s = self._last_s = 0.0
        self._follows_since = math.inf
        self._over_at = -math.inf

    @property
    def forgiven_s(self) -> float:
        """How much longer than ``stall_s`` batches may wait for a sink that goes on acknowledging: all of it
        together is as long as the last pause was, and six times ``stall_s`` at most.

        That is nothing once the sink has followed.
        """
        return min(max(self._first_s, self._last_s), self._patient_s) - self._first_s

    def live(self, now: float) -> None:
        """Batches wait for the feed again. When none comes, that says little for a while: scans take time."""
        self._follows_since = now + self._longest_s

    def acknowledged(self, now: float) -> None:
        """A batch was."""
        self._follows_since = min(self._follows_since, now)

    def overdue(self, now: float) -> None:
        """A batch has waited for longer than ``stall_s``."""
        self._follows_since = now + self._longest_s

    def followed(self, until: float) -> None:
        """No batch has waited for longer than that, and the oldest waits since then, or none does."""
        if until - self._follows_since >= max(self._good_s, self._last_s):
            self._next_s = self._last_s = 0.0

    def stalled(self, now: float) -> None:
        """The pause begins."""
        self._last_s = self._next_s
        self._over_at = now + self._last_s
        self._next_s = min(max(self._first_s, 2 * self._last_s), self._longest_s)

    def is_over(self, now: float) -> bool:
        """Whether the feed may catch up."""
        return now >= self._over_at
