"""The history mutations of a range that are accounted for (docs/protocols/history-mutations.md)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from tidegate.hlc import ZERO, Timestamp
from tidegate.raftlog.entry import Offset, RaftIndex
from tidegate.spans import Span

#: The offset of the last noted command while none was noted: below any offset of a log.
NEVER_NOTED: Final = Offset(-1)


class Accounted(NamedTuple):
    """The history mutations of a range that are accounted for: they have failed the feeds that they concern.

    A mutation of keys of ``span`` is accounted for if it is at ``raft_index`` or a lower index, at ``time``
    or an earlier time, or in an entry that the range has applied. ``span`` is ``None`` for the range's own
    keys, and empty where none of them has stayed with the range.

    ``noted`` is the highest index of a command that was noted; entries below it may be missing. ``noted_at``
    is the offset of the command that was noted last. A command at or below that offset was noted before, when
    the log is read again. ``passed`` is the index of the last Snapshot that the partition has passed and that
    was no copy; 0 in a state that an earlier version stored.
    """

    raft_index: RaftIndex = RaftIndex(0)
    noted: RaftIndex = RaftIndex(0)
    span: Span | None = None
    time: Timestamp = ZERO
    noted_at: Offset = NEVER_NOTED
    passed: RaftIndex = RaftIndex(0)

    def says_more(self, applied: RaftIndex) -> bool:
        """Whether this accounts for more than the entries up to ``applied``, so that it has to be stored."""
        beyond = max(self.raft_index, self.noted, self.passed) > applied
        is_known = self.span is not None or self.noted_at != NEVER_NOTED
        return beyond or is_known or self.time > ZERO

    def knows(self, command: RaftIndex, offset: Offset, applied: RaftIndex) -> bool:
        """Whether a command at ``offset`` was noted before: it is a copy, or the same record read again.

        ``applied`` is the last index that the range has applied. A command is new if it follows, without a
        gap, on all that was read, even if a higher index was noted: that index may have been wrong.
        """
        without_gap = max(applied, self.raft_index)
        if offset <= self.noted_at or command <= without_gap or command == self.noted:
            return True
        return command < self.noted and command != without_gap + 1

    def behind(self, snapshot: RaftIndex, applied: RaftIndex) -> Accounted:
        """Return what is accounted for after a Snapshot that was read now.

        No command before the Snapshot has a higher index, so ``noted`` falls to the Snapshot's index. But a
        Snapshot below ``noted`` may be a copy from before the noted command. It counts as new only if it is
        above all that was read without a gap, and above the Snapshot before it.
        """
        if snapshot < self.noted and (snapshot <= max(applied, self.passed) or snapshot < self.raft_index):
            return self
        return self._replace(noted=min(snapshot, self.noted), passed=snapshot)

    def kept_in(self, spans: Iterable[Span], own: Span | None) -> Accounted:
        """Return what is accounted for of keys that are in all of ``spans``; ``own`` is the range's span.

        The range had each of these spans for a while, and has not applied the entries of that time. A key
        that it did not have then was with another range, and this range's log does not tell that one's
        changes.
        """
        before = kept = self.span or own
        if before is None or kept is None:
            return self
        for span in spans:
            kept = kept.intersect(span) or Span(before.end, before.end)
        return self if kept == before else self._replace(span=kept)

    def of_no_key(self, own: Span | None) -> Accounted:
        """Return this without its keys, for a range of which nobody knows which keys have stayed.

        ``own`` is the span of the range.
        """
        before = self.span or own
        return self if before is None else self._replace(span=Span(before.end, before.end))


#: The value for a range of which only applied entries count.
AS_APPLIED: Final = Accounted()
