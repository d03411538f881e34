"""The simulated present, and the hybrid logical clocks of the simulated nodes.

Every clock runs *behind* the present by its own fixed skew, never ahead of it. So a driver that ties the
present to the wall clock writes no timestamp and no record time from the future. Source of the algorithm:
CockroachDB ``pkg/util/hlc``.
"""

from __future__ import annotations

from tidegate.hlc import ZERO, Timestamp


class Present:
    """Simulated time, in nanoseconds since 1970. Only the simulation moves it, and only forward."""

    __slots__ = ("ns",)

    def __init__(self, ns: int) -> None:
        self.ns = ns

    def move_to(self, ns: int) -> None:
        """Move forward to ``ns``; an earlier time changes nothing."""
        self.ns = max(self.ns, ns)


class HybridClock:
    """A node's clock. It is ``behind_ns`` behind the present, never falls, and gives no reading twice."""

    __slots__ = ("_behind_ns", "_last", "_present")

    def __init__(self, present: Present, behind_ns: int) -> None:
        self._present = present
        self._behind_ns = behind_ns
        self._last = ZERO

    def now(self) -> Timestamp:
        """Return a reading above every earlier one, and above every timestamp that was observed."""
        wall = self._present.ns - self._behind_ns
        self._last = Timestamp(wall) if wall > self._last.wall else self._last.next()
        return self._last

    def observe(self, remote: Timestamp) -> None:
        """Take in a timestamp from a message.

        A timestamp from the future does not move the clock. Versions have such timestamps in ranges whose
        closed timestamps are ahead of the present (CockroachDB's global tables).
        """
        if remote > self._last and remote.wall <= self._present.ns:
            self._last = remote
