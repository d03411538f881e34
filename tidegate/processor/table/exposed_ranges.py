"""The ranges of a log partition in which a record that names no range makes a hole.

Nobody knows to which range such a record belongs, so it is a hole of all ranges. If each of many such records
looked at each range, they would take time that grows with n * n. So a range is *exposed* only until it has
the first of these holes. A second hole directly after the first one changes nothing: the range is
quarantined or has ended, or its backlog ends with the first hole, which will quarantine it. A range that is
touched is exposed again, because it may have healed, or other entries of it came in between.

Example: ranges 1 and 2 are live, and records X1 to X9 name no range. X1 quarantines both. X2 to X9 look at no
range. A Snapshot heals range 1. The next such record quarantines range 1, and does not look at range 2.
"""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heappop, heappush

from tidegate.raftlog.entry import Offset, RangeId
from tidegate.ranges.range_state import RangeState


class ExposedRanges:
    """The exposed ranges of one log partition.

    After a restart the partition reads records again that it has passed before. Such a record is a hole only
    of the ranges that are behind it. The other exposed ranges are put aside, so that each record looks only
    at the ranges that it concerns.
    """

    __slots__ = ("_by_offset", "_put_by", "touched")

    def __init__(self) -> None:
        #: The ranges that were restored or touched, and not looked at since. `RangeTable` puts them here.
        self.touched: dict[RangeId, RangeState] = {}
        self._put_by: dict[RangeId, RangeState] = {}
        #: A heap of the offsets from which on ranges are behind, each with its range. A range may be in it
        #: several times.
        self._by_offset: list[tuple[Offset, RangeId]] = []

    def take_out(self) -> list[RangeState]:
        """Take out and return all exposed ranges, by their ids."""
        found = self._put_by | self.touched
        self.touched, self._put_by, self._by_offset = {}, {}, []
        return [found[range_id] for range_id in sorted(found)]

    def take_out_behind(self, offset: Offset) -> list[RangeState]:
        """Take out and return, by their ids, the exposed ranges that have not passed the entry at ``offset``.

        The partition has passed that entry before, and reads it again.
        """
        touched, self.touched = self.touched, {}
        for state in touched.values():
            self._put(state)
        found: dict[RangeId, RangeState] = {}
        while self._by_offset and self._by_offset[0][0] <= offset:
            _, range_id = heappop(self._by_offset)
            if range_id not in self._put_by:
                continue
            state = self._put_by.pop(range_id)
            if state.behind is not None and state.behind <= offset:
                found[range_id] = state
            else:
                self._put(state)
        return [found[range_id] for range_id in sorted(found)]

    def _put(self, state: RangeState) -> None:
        self._put_by[state.range_id] = state
        if state.behind is not None:
            heappush(self._by_offset, (state.behind, state.range_id))

    def forget(self, states: Sequence[RangeState]) -> None:
        """Take out these ranges: only the hole that they have had has touched them."""
        for state in states:
            self.touched.pop(state.range_id, None)
