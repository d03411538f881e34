"""Bounds the memory that events take while they wait for feeds' readers.

An event is charged once, when it is taken in, however many feeds hold it. The last holder returns the
charge when it does not need the event any more. Events of a catch-up are made when they are read, so they are
not charged. Source: CockroachDB ``rangefeed/budget.go``.
"""

from __future__ import annotations


class MemoryBudget:
    """A budget: at most ``limit_bytes`` are charged at one moment. ``None`` means that there is no limit.

    With a ``pool`` each charge is made there too, and must fit into both budgets.
    """

    __slots__ = ("_pool", "limit_bytes", "used_bytes")

    def __init__(self, limit_bytes: int | None = None, *, pool: MemoryBudget | None = None) -> None:
        self.limit_bytes = limit_bytes
        self.used_bytes = 0
        self._pool = pool

    def charge(self, size_bytes: int) -> Charge | None:
        """Charge ``size_bytes`` for one holder. Returns ``None``, and charges nothing, if they do not fit."""
        if not self.fits(size_bytes):
            return None
        self.hold(size_bytes)
        return Charge(self, size_bytes)

    def fits(self, size_bytes: int) -> bool:
        """Whether ``size_bytes`` more can be charged."""
        if self.limit_bytes is not None and self.used_bytes + size_bytes > self.limit_bytes:
            return False
        return self._pool is None or self._pool.fits(size_bytes)

    def hold(self, size_bytes: int) -> None:
        """Add ``size_bytes`` to the bytes that are held. A negative number takes them away."""
        self.used_bytes += size_bytes
        if self._pool is not None:
            self._pool.hold(size_bytes)


class Charge:
    """The charge for one event, and how many holders the event has."""

    __slots__ = ("_budget", "_size_bytes", "holders")

    def __init__(self, budget: MemoryBudget, size_bytes: int) -> None:
        self._budget = budget
        self._size_bytes = size_bytes
        self.holders = 1

    def release(self) -> None:
        """Take one holder away. After the last one the bytes are given back."""
        self.holders -= 1
        if self.holders == 0:
            self._budget.hold(-self._size_bytes)
