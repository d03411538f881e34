"""Bounds the work of new plans for kernels, so that it grows with the log and not with its square."""

from __future__ import annotations

from typing import Final

#: This many lanes are free. To make a lane of a plan takes about 0.13 ms.
_FREE: Final = 2_000.0
#: This many bytes of the log earn a lane: to follow them takes about as long as to make the lane.
_BYTES_OF_A_LANE: Final = 2_048


class PlanCredit:
    """The number of lanes that may still be planned when descriptors are learnt.

    A plan has a lane for each version of a table and each feed that wants it, and every new descriptor asks
    for a new plan. So a log that has only descriptors would cost n * n. Without credit Python writes the rows
    until the log has earned the next plan. Credit for at most two plans of the largest size so far is saved
    up.
    """

    __slots__ = ("_lanes", "_most")

    def __init__(self) -> None:
        self._lanes = self._most = _FREE

    def earn(self, log_bytes: int) -> None:
        """Add the credit for ``log_bytes`` bytes of the log that were followed."""
        self._lanes = min(self._most, self._lanes + log_bytes / _BYTES_OF_A_LANE)

    def grant(self, lanes: int) -> None:
        """Note a plan with ``lanes`` lanes that the log did not ask for: the next of this size is free."""
        self._most = max(self._most, 2 * lanes)
        self._lanes = max(self._lanes, lanes)

    def pays(self, lanes: int) -> bool:
        """Return whether there is credit for a plan with ``lanes`` lanes. If there is, take it."""
        self._most = max(self._most, 2 * lanes)
        if lanes > self._lanes:
            return False
        self._lanes -= lanes
        return True
