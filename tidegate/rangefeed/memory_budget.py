"""How much memory the events on their way to feeds may hold.

An event is charged once, when it is taken in, however many feeds hold it; the last holder that lets go
returns the charge. Events of a catch-up are made when they are read and are not charged. Source: CockroachDB
``rangefeed/budget.go``.
"""

from __future__ import annotations


class MemoryBudget:
    """At most ``limit_bytes`` charged at a time; ``None`` charges without a limit.

    With a ``pool``, what is charged here is charged there too and must fit into both.
    """

    __slots__ = ("_pool", "limit_bytes", "used_bytes")

    def __init__(self, limit_bytes: int | None = None, *, pool: MemoryBudget | None = None) -> None:
        self.limit_bytes = limit_bytes
        self.used_bytes = 0
        self._pool = pool

    def charge(self, size_bytes: int) -> Charge | None:
        """Charge ``size_bytes`` for one holder; ``None``, with nothing charged, when they do not fit."""
        if not self.fits(size_bytes):
            return None
        self.hold(size_bytes)
        return Charge(self, size_bytes)

    def fits(self, size_bytes: int) -> bool:
        """Whether so much more can be charged."""
        if self.limit_bytes is not None and self.used_bytes + size_bytes > self.limit_bytes:
            return False
        return self._pool is None or self._pool.fits(size_bytes)

    def hold(self, size_bytes: int) -> None:
        """Count so many bytes more as held, fewer if negative."""
        self.used_bytes += size_bytes
        if self._pool is not None:
            self._pool.hold(size_bytes)


class Charge:
    """What one event is charged, and by how many it is held."""

    __slots__ = ("_budget", "_size_bytes", "holders")

    def __init__(self, budget: MemoryBudget, size_bytes: int) -> None:
        self._budget = budget
        self._size_bytes = size_bytes
        self.holders = 1

    def release(self) -> None:
        """One holder lets go."""
        self.holders -= 1
        if self.holders == 0:
            self._budget.hold(-self._size_bytes)
