"""Up to where changes of a range's data outside its op log are accounted for (docs/ranges.md#mutations)."""

from __future__ import annotations

from typing import Final, NamedTuple

from tidegate.hlc import ZERO, Timestamp
from tidegate.raftlog.entry import RaftIndex
from tidegate.spans import Span


class Accounted(NamedTuple):
    """Which history mutations of a range have failed the feeds that they concern, or concerned none.

    These are those up to ``raft_index``, and those of the keys of ``span`` up to ``time``; what the range has
    applied counts as well. ``span`` is ``None`` for the range's own keys. ``noted`` is the highest index
    whose command was read and noted, though entries below it may be missing.
    """

    raft_index: RaftIndex = RaftIndex(0)
    noted: RaftIndex = RaftIndex(0)
    span: Span | None = None
    time: Timestamp = ZERO

    def says_more(self, applied: RaftIndex) -> bool:
        """Whether this says more than that the entries up to ``applied`` are applied."""
        beyond = max(self.raft_index, self.noted) > applied
        return beyond or self.span is not None or self.time > ZERO


#: Of a range that knows nothing but what it has applied.
AS_APPLIED: Final = Accounted()
