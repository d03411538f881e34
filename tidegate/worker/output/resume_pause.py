"""The pause of a detached feed before it catches up: longer each time that its sink stops too soon.

Each attempt costs a scan of the source. Batches wait again for this feed's rows, and with the batches all
feeds that have rows in them. A scan may give more rows in a short time than the sink can take. So with longer
pauses a feed is also given more time for a batch. That extra time is shorter than the longest pause, in which
no batch waits for the feed. There is no extra time any more once the sink has followed for long enough.
"""

from __future__ import annotations

import math
from typing import Final

_LONGEST: Final = 20  # the longest pause, times ``stall_s``: five minutes with the default of 15 s
_GOOD: Final = 4  # times ``stall_s``: a sink that has followed for so long is not likely to stop soon
_PATIENT: Final = 6  # times ``stall_s``, for one batch: far less than the longest pause


class ResumePause:
    """The pauses of one feed in one log partition. Times are seconds of a monotonic clock.

    The first pause is 0, the next ``stall_s``, and each one after that is twice as long as the one before, up
    to 20 times ``stall_s``. Example for ``stall_s`` = 15: 0, 15, 30, 60, 120, 240, 300, 300 seconds.

    The pauses begin anew when the sink has followed for as long as the last pause, and for four times
    ``stall_s`` at least. A sink follows from the first batch on that it acknowledges, as long as no batch
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
        """The seconds beyond ``stall_s`` for which batches may wait for a sink that goes on acknowledging.

        All waits beyond ``stall_s`` since the feed resumed count together. The number is the last pause less
        ``stall_s``, and five times ``stall_s`` at most. Example for ``stall_s`` = 15: 45 s after a pause of
        60 s, and 75 s after one of 240 s. It is 0 once the sink has followed for long enough.
        """
        return min(max(self._first_s, self._last_s), self._patient_s) - self._first_s

    def live(self, now: float) -> None:
        """Note that batches wait for the feed again.

        No batch with rows of it may come for a while, since scans take time. That alone does not show that
        the sink follows: without an acknowledgement it counts as following only after the longest pause.
        """
        self._follows_since = now + self._longest_s

    def acknowledged(self, now: float) -> None:
        """Note that a batch was acknowledged: from ``now`` on the sink follows, if it did not before."""
        self._follows_since = min(self._follows_since, now)

    def overdue(self, now: float) -> None:
        """Note that a batch has waited for longer than ``stall_s``: the sink does not keep up now."""
        self._follows_since = now + self._longest_s

    def followed(self, until: float) -> None:
        """Note that no batch has waited for longer than ``stall_s`` up to ``until``.

        ``until`` is when the oldest batch began to wait, or the present when none waits. Sets the pauses back
        if the sink has followed for long enough by then.
        """
        if until - self._follows_since >= max(self._good_s, self._last_s):
            self._next_s = self._last_s = 0.0

    def stalled(self, now: float) -> None:
        """Begin the next pause at ``now``."""
        self._last_s = self._next_s
        self._over_at = now + self._last_s
        self._next_s = min(max(self._first_s, 2 * self._last_s), self._longest_s)

    def is_over(self, now: float) -> bool:
        """Whether the pause is over, so that the feed may catch up."""
        return now >= self._over_at
