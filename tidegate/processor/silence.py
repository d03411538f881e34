"""How long nothing of a range was read, by elapsed log time (docs/ranges.md#log-time)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from tidegate.processor.log_clock import LogClock
from tidegate.raftlog.entry import RangeId

#: A range that somebody waits for, and of which nothing was read for so much elapsed log time, is gone.
SILENT_MS: Final = 900_000


class Silence:
    """When ranges were last heard, since somebody began to listen.

    A range that has not been heard since then counts as heard at that moment. The process forgets all of it,
    and listens anew: a restart never makes a silence longer than it is.
    """

    __slots__ = ("_clock", "_heard_ms", "_since_ms")

    def __init__(self, clock: LogClock) -> None:
        self._clock = clock
        self._since_ms: int | None = None
        self._heard_ms: dict[RangeId, int] = {}

    def hear(self, range_ids: Iterable[RangeId]) -> None:
        """Note that something of these ranges was read now; the first call begins to listen."""
        now_ms = self._clock.elapsed_ms
        if self._since_ms is None:
            self._since_ms = now_ms
        for range_id in range_ids:
            self._heard_ms[range_id] = now_ms

    def lasts(self, range_id: RangeId) -> bool:
        """Whether the range has been silent for so long that nobody waits for it any more."""
        if self._since_ms is None:
            return False
        return self._clock.elapsed_ms - self._heard_ms.get(range_id, self._since_ms) >= SILENT_MS

    def forget(self) -> None:
        """Nobody waits for any range."""
        self._since_ms = None
        self._heard_ms.clear()
