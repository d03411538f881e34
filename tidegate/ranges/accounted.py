"""The history mutations of a range that are accounted for (docs/protocols/history-mutations.md)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from tidegate.hlc import ZERO, Timestamp
from tidegate.raftlog.entry import Offset, RaftIndex
from tidegate.spans import Span

#: The value of ``noted_at`` while no command was noted. It is below any offset of a log.
NEVER_NOTED: Final = Offset(-1)


class Accounted(NamedTuple):
    """The history mutations of a range that are accounted for: they have failed the feeds that they concern.

    A mutation of keys of ``span`` is accounted for in three cases: its index is at or below ``raft_index``,
    its time is at or below ``time``, or the range has applied its entry. ``span`` is ``None`` for the range's
    own keys. It is empty if none of them has stayed with the range.

    A command is *noted* when the partition passes it and it is a mutation. ``noted`` is the highest index of
    a noted command; entries below it may be missing. ``noted_at`` is the offset of the command that was noted
    last. If the log is read again, the commands at or below that offset were noted before. ``passed`` is the
    index of the last Snapshot that the partition has passed, copies left out. It is 0 in a state that an
    earlier version stored.
    """

    raft_index: RaftIndex = RaftIndex(0)
    noted: RaftIndex = RaftIndex(0)
    span: Span | None = None
    time: Timestamp = ZERO
    noted_at: Offset = NEVER_NOTED
    passed: RaftIndex = RaftIndex(0)

    def says_more(self, applied: RaftIndex) -> bool:
        """Whether this accounts for more than the entries up to ``applied``: then it has to be stored."""
        beyond = max(self.raft_index, self.noted, self.passed) > applied
        is_known = self.span is not None or self.noted_at != NEVER_NOTED
        return beyond or is_known or self.time > ZERO

    def knows(self, command: RaftIndex, offset: Offset, applied: RaftIndex) -> bool:
        """Whether a command at ``offset`` was noted before: it is a copy, or the same record read again.

        ``applied`` is the last index that the range has applied. If the command's offset is above
        ``noted_at``, and its index is the next one after all entries that were read without a gap, the
        command is new. That holds even if a higher index was noted: the higher index may have been wrong.
        """
        without_gap = max(applied, self.raft_index)
        if offset <= self.noted_at or command <= without_gap or command == self.noted:
            return True
        return command < self.noted and command != without_gap + 1

    def behind(self, snapshot: RaftIndex, applied: RaftIndex) -> Accounted:
        """Return what is accounted for once a Snapshot at index ``snapshot`` was read.

        No command before the Snapshot has a higher index, so ``noted`` falls to the Snapshot's index. But a
        Snapshot below ``noted`` may be a copy from before the noted command. It counts as new only if its
        index is above ``applied``, above the last Snapshot, and not below ``raft_index``.
        """
        if snapshot < self.noted and (snapshot <= max(applied, self.passed) or snapshot < self.raft_index):
            return self
        return self._replace(noted=min(snapshot, self.noted), passed=snapshot)

    def kept_in(self, spans: Iterable[Span], own: Span | None) -> Accounted:
        """Return the same for only the keys that are in all of ``spans``; ``own`` is the range's span.

        The range had each of these spans for a while, and has not applied the entries of that time. A key
        that is not in one of the spans was with another range then, and this range's log does not tell how it
        changed there.
        """
        before = kept = self.span or own
        if before is None or kept is None:
            return self
        for span in spans:
            kept = kept.intersect(span) or Span(before.end, before.end)
        return self if kept == before else self._replace(span=kept)

    def of_no_key(self, own: Span | None) -> Accounted:
        """Return the same for no key. It is for a range of which nobody knows which keys have stayed with it.

        ``own`` is the span of the range.
        """
        before = self.span or own
        return self if before is None else self._replace(span=Span(before.end, before.end))


#: The value for a range of which only the applied entries are accounted for.
AS_APPLIED: Final = Accounted()
