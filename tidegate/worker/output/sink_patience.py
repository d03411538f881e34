"""How long batches wait for the rows of one feed before it is detached (step K1 of docs/catch-up.md)."""

from __future__ import annotations

from typing import Final

from tidegate.worker.output.resume_pause import ResumePause
from tidegate.worker.output.row_producer import Barrier

_TOO_MUCH: Final = 4  # a part of ``stall_s``


class SinkPatience:
    """Of one feed and log partition. Somebody looks every ``look_s`` seconds; a time in which nobody did, for
    the process stood still, does not count.

    It is over when the oldest batch has waited for ``stall_s`` and that is no longer forgiven, or no row of
    it was acknowledged for as long, or too many bytes wait for a quarter of that. Forgiven is what batches
    waited beyond ``stall_s`` since the feed was resumed, all together, up to what ``pause`` has told.
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
        """What waits has not waited yet. ``forgiving``: nothing of what is forgiven is used up."""
        self._oldest = None
        if forgiving:
            self._overdue_s = 0.0

    def look(self, now: float, oldest: Barrier | None, *, is_too_much: bool, has_ended: bool) -> None:
        """Count what the ``oldest`` batch that waits has waited until ``now``, seconds of a monotonic clock.

        ``is_too_much``: several batches wait, with more bytes than they may have. ``has_ended``: of a feed
        that was removed or has failed, of which nothing is forgiven.
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
