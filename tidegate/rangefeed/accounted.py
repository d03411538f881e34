"""Up to where changes of a range's data outside its op log are accounted for (docs/ranges.md#mutations)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from tidegate.hlc import ZERO, Timestamp
from tidegate.raftlog.entry import RaftIndex
from tidegate.spans import Span


class Accounted(NamedTuple):
    """Which history mutations of a range have failed the feeds that they concern, or concerned none.

    These are, of the keys of ``span``, those up to ``raft_index`` and those up to ``time``; what the range
    has applied counts as well. ``span`` is ``None`` for the range's own keys, and without a key where none of
    them has stayed with the range. ``noted`` is the highest index whose command was read and noted, though
    entries below it may be missing.
    """

    raft_index: RaftIndex = RaftIndex(0)
    noted: RaftIndex = RaftIndex(0)
    span: Span | None = None
    time: Timestamp = ZERO

    def says_more(self, applied: RaftIndex) -> bool:
        """Whether this says more than that the entries up to ``applied`` are applied."""
        beyond = max(self.raft_index, self.noted) > applied
        return beyond or self.span is not None or self.time > ZERO

    def kept_in(self, spans: Iterable[Span], own: Span | None) -> Accounted:
        """The same of the keys alone that all of ``spans`` have; ``own`` are the range's.

        The range had each of these spans for a while, and has not applied the entries of that time. What it
        did not have then was another range's, whose changes this one's log does not tell.
        """
        before = kept = self.span or own
        if before is None or kept is None:
            return self
        for span in spans:
            kept = kept.intersect(span) or Span(before.end, before.end)
        return self if kept == before else self._replace(span=kept)


#: Of a range that knows nothing but what it has applied.
AS_APPLIED: Final = Accounted()
