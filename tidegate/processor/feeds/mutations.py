"""Changes of data outside the op log: those that commands tell, and those that no entry could tell.

Each fails the feeds that it concerns, in whatever state its range is (docs/ranges.md#mutations).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from tidegate.hlc import MAX, ZERO, ZERO_RESOLVED, ClosedTimestamp, ResolvedTimestamp, Timestamp
from tidegate.raftlog.entry import Command, Generation, Offset, RaftIndex, RangeId, Snapshot, Trigger
from tidegate.ranges.gap import remainder
from tidegate.ranges.mutated_keys import MutatedKeys, dated, just_above, remember
from tidegate.ranges.range_state import RangeState, RangeStatus
from tidegate.rows.table_key import prefix_end, without_tenant
from tidegate.spans import Span

#: Of keys that are kept for good; longer ones are cut.
_KEPT_KEY_BYTES: Final = 1_024


class Mutation(NamedTuple):
    """A command changed data of ``span`` outside the op log: rows changed, and no record says how.

    The versions that it changed stand from ``first`` to ``last``, both included. Before it the range was
    complete up to ``resolved`` for all keys of ``span``. The defaults say that nothing is known of these.
    """

    range_id: RangeId
    raft_index: RaftIndex
    span: Span
    what: str
    first: Timestamp = ZERO
    last: Timestamp = MAX
    resolved: ResolvedTimestamp = ZERO_RESOLVED


class MutationPlace(NamedTuple):
    """Where a command stands in the log of its range: at ``offset``, where the range has ``span``.

    ``closed`` is the highest that it has closed by then, as far as its entries were read. ``is_behind``: it
    has not applied what stands before, and will.
    """

    offset: Offset
    span: Span | None
    closed: ClosedTimestamp
    is_behind: bool


class HiddenMutation(NamedTuple):
    """Data of a range changed outside the op log at ``time``, in entries that nobody could apply.

    Any key of ``span`` may have changed, but no version above ``high``. ``raft_index`` is 0 for a change in a
    range that this one came from.
    """

    range_id: RangeId
    raft_index: RaftIndex
    span: Span
    time: Timestamp
    high: Timestamp


class Untold(NamedTuple):
    """The snapshot at ``offset`` stands behind entries that were not applied, and tells of no mutation."""

    range_id: RangeId
    offset: Offset
    span: Span
    high: Timestamp


def mutations_of(
    range_id: RangeId, command: Command, span: Span | None, resolved: ResolvedTimestamp = ZERO_RESOLVED
) -> Iterator[Mutation]:
    """What a command changed that its ops do not tell; it says where, or it may be anywhere in ``span``.

    ``resolved``: how far the range was complete before the command.

    Source: CockroachDB ends rangefeeds there (``MVCCHistoryMutationError``, or "unexpected SST ingestion" by
    the changefeed); docs/log-contract.md#data-that-changes-outside-the-op-log.
    """
    if command.trigger in (Trigger.ADD_SSTABLE, Trigger.HISTORY_MUTATION):
        what, written = command.trigger.value, command.write_timestamp
        first, last = ZERO, MAX if written is None else written
        if command.at_write_timestamp:
            first = resolved if written is None else written
        for mutated in command.mutated or (() if span is None else (span,)):
            yield Mutation(range_id, command.raft_index, without_tenant(mutated), what, first, last, resolved)


class Mutations:
    """Collects the mutations of one log partition until the step fails the feeds that they concern."""

    def __init__(self, key_bytes: int) -> None:
        self._key_bytes = key_bytes  # of a key that can be stored
        self._noted: list[Mutation] = []
        self._hidden: list[HiddenMutation] = []
        self._untold: list[Untold] = []

    def note(self, state: RangeState, command: Command, place: MutationPlace) -> None:
        """Note what a command tells when the partition reads it, whether or not the range ever applies it.

        Copies were noted before, and so was what is read again after a restart, as its offset shows. Versions
        that no op tells may stand up to the command's write timestamp: feeds that begin later scan up to it.
        """
        index, accounted = command.raft_index, state.accounted
        if not accounted.knows(index, place.offset, state.applied):
            found = [*mutations_of(state.range_id, command, place.span, state.resolved)]
            if found:
                noted = max(index, accounted.noted)
                state.accounted = accounted._replace(noted=noted, noted_at=place.offset)
                state.high = max(state.high, command.write_timestamp or ZERO)
                self._noted += found
                time = _time_of(state, command, place)
                for each in found:
                    dated_at = max(time, _above_floors(state, each.span))
                    _remember(state, each.span, dated_at, each.last, each.first)

    def account(self, state: RangeState, command: Command, generation: Generation) -> None:
        """The partition has read a command that the range has not applied: nothing before it is hidden, if
        that is so of the one before.

        ``generation`` is that of the last Snapshot that was read. Of a command of a later one nobody knows
        which keys had left the range by then.
        """
        follows = command.raft_index == max(state.applied, state.accounted.raft_index) + 1
        if follows and command.generation <= generation:
            state.accounted = state.accounted._replace(raft_index=command.raft_index)

    def pass_snapshot(
        self, state: RangeState, head: Snapshot, closed: ClosedTimestamp, *, is_new: bool
    ) -> None:
        """Take in a Snapshot that the partition reads, whatever the range makes of it.

        It dates the changes before it whose time is not known: above what the range had ``closed``, and above
        what the Snapshot closes and tells. A Snapshot below the index that was noted last may be a copy from
        before that change, and dates nothing. ``is_new``: the partition has not read it before.
        """
        if state.accounted.noted <= head.raft_index:
            told = ZERO if head.last_mutation is None else head.last_mutation.time
            time = max(told, just_above(max(head.closed, closed)))
            state.mutated = dated(state.mutated, lambda span: max(time, _above_floors(state, span)))
        if is_new:
            state.accounted = state.accounted.behind(head.raft_index, state.applied)

    def leave_out(self, state: RangeState, spans: Iterable[Span]) -> None:
        """Account for the keys alone that all of ``spans`` have.

        The range leaves out the entries between the Snapshots of these spans. A key that one of them lacks
        was another range's by then, and may have changed there. Where a key of a span is too long to store,
        no key is accounted for.
        """
        left_out = [*spans]
        if any(len(key) > self._key_bytes for span in left_out for key in span):
            self.forget_keys(state)
        else:
            state.accounted = state.accounted.kept_in(left_out, state.span)

    def forget_keys(self, state: RangeState) -> None:
        """Nobody knows which keys have stayed with the range: Snapshots are not read again, for example."""
        state.accounted = state.accounted.of_no_key(state.span)

    def judge(self, state: RangeState, head: Snapshot, offset: Offset, complete: Timestamp) -> None:
        """Find out whether entries that were not applied before the snapshot may have changed data.

        The keys of the snapshot are complete up to ``complete``.
        """
        told, accounted = head.last_mutation, state.accounted
        index = max(state.applied, accounted.raft_index)
        if told is None:
            if head.raft_index > index:
                self._untold.append(Untold(state.range_id, offset, without_tenant(head.span), head.high))
        elif told.time > complete:
            for part in _unaccounted(state, head, told.time, is_known=0 < told.raft_index <= index):
                hidden = HiddenMutation(
                    state.range_id, told.raft_index, without_tenant(part), told.time, head.high
                )
                self._hidden.append(hidden)
                _remember(state, hidden.span, told.time, told.time)
        span = None if head.span == state.span else head.span
        time = accounted.time if told is None else max(told.time, accounted.time)
        state.accounted = accounted._replace(raft_index=max(index, head.raft_index), span=span, time=time)

    def suspect(self, state: RangeState, head: Snapshot) -> None:
        """Take for changed what came to the range with a snapshot, as nobody has asked where it came from.

        The ranges that it came from were not waited for, since no feed needs it; what they missed is unknown.
        """
        told = head.last_mutation
        if told is not None and told.time > ZERO:
            for part in [head.span] if state.span is None else remainder(head.span, (state.span,)):
                _remember(state, without_tenant(part), told.time, told.time)

    def take_noted(self) -> list[Mutation]:
        """What commands told since the last call."""
        noted, self._noted = self._noted, []
        return noted

    def take_hidden(self) -> list[HiddenMutation]:
        """What entries since the last call may have changed that nobody could apply."""
        hidden, self._hidden = self._hidden, []
        return hidden

    def take_untold(self) -> list[Untold]:
        """The snapshots since the last call that should have told, and did not."""
        untold, self._untold = self._untold, []
        return untold


def _time_of(state: RangeState, command: Command, place: MutationPlace) -> Timestamp:
    """A timestamp above everything that the range's log had closed before a command, though entries before it
    may be missing; `MAX` where that is not known, until the next snapshot tells."""
    is_live = state.status is RangeStatus.LIVE and not place.is_behind
    if is_live and command.raft_index == state.applied + 1:
        closed = place.closed
    elif command.closed is not None:
        closed = max(place.closed, command.closed)
    else:
        return MAX
    return max(just_above(closed), command.write_timestamp or ZERO)


def _above_floors(state: RangeState, span: Span) -> Timestamp:
    """A timestamp above what ranges that this one goes on from had resolved for keys of a span."""
    floors = (floor for floor in state.floors if without_tenant(floor.span).overlaps(span))
    return max((just_above(floor.resolved) for floor in floors), default=ZERO)


def _remember(
    state: RangeState, span: Span, time: Timestamp, last: Timestamp, first: Timestamp = ZERO
) -> None:
    """Keep a change for feeds that go on; the span is made larger where its keys are long."""
    start, end = span
    kept = Span(
        start[:_KEPT_KEY_BYTES], end if len(end) <= _KEPT_KEY_BYTES else prefix_end(end[:_KEPT_KEY_BYTES])
    )
    state.mutated = remember(state.mutated, MutatedKeys(kept, time, last, first))


def _unaccounted(state: RangeState, head: Snapshot, time: Timestamp, *, is_known: bool) -> list[Span]:
    """The keys of a snapshot that a mutation at ``time`` may have changed without anybody's notice.

    ``is_known``: it was accounted for by its index. A range that is whole has noted all those of its keys.
    """
    accounted = state.accounted
    own = accounted.span or state.span
    if own is not None and (is_known or state.quarantine is None or time <= accounted.time):
        return remainder(head.span, (own,))
    return [head.span]
