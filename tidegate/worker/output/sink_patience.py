"""The time for which batches wait for one feed's rows before it is detached (step K1 of
docs/protocols/slow-sinks.md)."""

from __future__ import annotations

from typing import Final

from tidegate.worker.output.barrier import Barrier
from tidegate.worker.output.resume_pause import ResumePause

_TOO_MUCH: Final = 4  # too many bytes may wait for ``stall_s`` divided by this


class SinkPatience:
    """Measures how long the batches of one log partition wait for the rows of one feed.

    Call ``look`` every ``look_s`` seconds. Between two calls at most twice that time counts: if
    there was no call for longer, the process stood still. The patience is over in each of these cases:

    * the oldest batch has waited for ``stall_s``, and the allowance is used up;
    * no row of the oldest batch was acknowledged for ``stall_s``;
    * too many bytes have waited for a quarter of ``stall_s``.

    A feed has an allowance for waits beyond ``stall_s``: ``pause.forgiven_s`` seconds, which may be 0. All
    waits beyond ``stall_s`` since the feed was resumed are added up. The allowance is used up when the sum
    reaches it. A feed that has ended has no allowance.
    """

    def __init__(self, stall_s: float, look_s: float, pause: ResumePause) -> None:
        self._stall_s = stall_s
        self._counted_s = 2 * look_s
        self._pause = pause
        self._oldest: Barrier | None = None
        self._left = 0
        self._looked_at = 0.0
        self._waited_s = 0.0
        self._silent_s = 0.0
        self._overdue_s = 0.0
        self._too_much_s = 0.0
        self._forgiven_s = 0.0

    @property
    def is_over(self) -> bool:
        """Whether the feed is to be detached, as of the last look."""
        is_late = self._waited_s >= self._stall_s and self._overdue_s >= self._forgiven_s
        is_silent = self._silent_s >= self._stall_s
        return is_late or is_silent or self._too_much_s >= self._stall_s / _TOO_MUCH

    def begin_anew(self, *, forgiving: bool) -> None:
        """Let the wait of the oldest batch begin at zero.

        ``forgiving``: let the sum of the waits beyond ``stall_s`` begin at zero, too.
        """
        self._oldest = None
        if forgiving:
            self._overdue_s = 0.0

    def look(self, now: float, oldest: Barrier | None, *, is_too_much: bool, has_ended: bool) -> None:
        """Count how long the ``oldest`` batch has waited until ``now``, in seconds of a monotonic clock.

        ``is_too_much`` says that several batches wait, with more bytes than they may have. ``has_ended`` says
        that the feed was removed or has failed: then it has no allowance.
        """
        passed_s = min(max(0.0, now - self._looked_at), self._counted_s)
        self._looked_at = now
        self._wait(passed_s, oldest)
        beyond_s = self._waited_s - self._stall_s
        if beyond_s > 0:
            self._overdue_s += min(passed_s, beyond_s)
            self._pause.overdue(now)
        else:
            self._pause.followed(now - self._waited_s)
        self._too_much_s = self._too_much_s + passed_s if is_too_much else 0.0
        self._forgiven_s = 0.0 if has_ended else self._pause.forgiven_s

    def _wait(self, passed_s: float, oldest: Barrier | None) -> None:
        left = 0 if oldest is None else oldest.left
        if oldest is None or oldest is not self._oldest:
            self._waited_s = self._silent_s = 0.0
        else:
            self._waited_s += passed_s
            self._silent_s = self._silent_s + passed_s if left == self._left else 0.0
        self._oldest, self._left = oldest, left
