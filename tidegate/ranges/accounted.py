"""Up to where changes of a range's data outside its op log are accounted for (docs/ranges.md#mutations)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from tidegate.hlc import ZERO, Timestamp
from tidegate.raftlog.entry import Offset, RaftIndex
from tidegate.spans import Span

#: Before any offset.
NEVER_NOTED: Final = Offset(-1)


class Accounted(NamedTuple):
    """Which history mutations of a range have failed the feeds that they concern, or concerned none.

    These are, of the keys of ``span``, those up to ``raft_index`` and those up to ``time``; what the range
    has applied counts as well. ``span`` is ``None`` for the range's own keys, and without a key where none of
    them has stayed with the range. ``noted`` is the highest index whose command was read and noted, though
    entries below it may be missing, and ``noted_at`` the offset of the command that was noted last: what
    stands at or below that was noted before, where an earlier version has not read it. ``passed`` is the
    index of the last Snapshot that the partition has passed and that was no copy; 0 in what an earlier
    version stored.
    """

    raft_index: RaftIndex = RaftIndex(0)
    noted: RaftIndex = RaftIndex(0)
    span: Span | None = None
    time: Timestamp = ZERO
    noted_at: Offset = NEVER_NOTED
    passed: RaftIndex = RaftIndex(0)

    def says_more(self, applied: RaftIndex) -> bool:
        """Whether this says more than that the entries up to ``applied`` are applied."""
        beyond = max(self.raft_index, self.noted, self.passed) > applied
        is_known = self.span is not None or self.noted_at != NEVER_NOTED
        return beyond or is_known or self.time > ZERO

    def knows(self, command: RaftIndex, offset: Offset, applied: RaftIndex) -> bool:
        """Whether a command at ``offset`` is a copy, or the same record read again; ``applied``: up to where
        the range has applied its log.

        One that follows on all that was read without a gap is new, though a higher index was noted: such an
        index may have been wrong.
        """
        without_gap = max(applied, self.raft_index)
        if offset <= self.noted_at or command <= without_gap or command == self.noted:
            return True
        return command < self.noted and command != without_gap + 1

    def behind(self, snapshot: RaftIndex, applied: RaftIndex) -> Accounted:
        """The same behind a Snapshot that was read now: no command before it has a higher index.

        A Snapshot below the noted index may be a copy from before the noted command. It counts as a new one
        only above all that was read without a gap, and above the Snapshot before it.
        """
        if snapshot < self.noted and (snapshot <= max(applied, self.passed) or snapshot < self.raft_index):
            return self
        return self._replace(noted=min(snapshot, self.noted), passed=snapshot)

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

    def of_no_key(self, own: Span | None) -> Accounted:
        """The same of no key, as nobody knows which of them have stayed; ``own`` are the range's."""
        before = self.span or own
        return self if before is None else self._replace(span=Span(before.end, before.end))


#: Of a range that knows nothing but what it has applied.
AS_APPLIED: Final = Accounted()
