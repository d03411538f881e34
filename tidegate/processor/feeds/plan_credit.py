"""Bounds the work of new plans for kernels, so that it grows with the log and not with its square."""

from __future__ import annotations

from typing import Final

#: A lane of a plan takes about 0.13 ms to make. So many are free.
_FREE: Final = 2_000.0
#: A lane is earned by so many bytes of the log: it takes about as long to follow them.
_BYTES_OF_A_LANE: Final = 2_048


class PlanCredit:
    """The number of lanes that may still be planned when descriptors are learnt.

    A plan has a lane for each version of a table and each feed that wants it, and every new descriptor asks
    for a new plan. So a log that has only descriptors would cost n * n. Without credit Python writes the rows
    until the log has earned the next plan. There is room to save up for two plans.
    """

    __slots__ = ("_lanes", "_most")

    def __init__(self) -> None:
        self._lanes = self._most = _FREE

    def earn(self, log_bytes: int) -> None:
        """Take in that so many bytes of the log were followed."""
        self._lanes = min(self._most, self._lanes + log_bytes / _BYTES_OF_A_LANE)

    def grant(self, lanes: int) -> None:
        """Take in a plan that the log did not ask for, of so many lanes: the next one like it is free."""
        self._most = max(self._most, 2 * lanes)
        self._lanes = max(self._lanes, lanes)

    def pays(self, lanes: int) -> bool:
        """Return whether there is credit for a plan of so many lanes, and take it."""
        self._most = max(self._most, 2 * lanes)
        if lanes > self._lanes:
            return False
        self._lanes -= lanes
        return True
