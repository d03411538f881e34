"""History mutations: changes of data outside the op log (docs/protocols/history-mutations.md).

Commands tell of some of them. Others stand in entries that nobody could read or apply, and the next Snapshot
tells of them. Each one fails the feeds that it concerns, whatever the state of its range.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from tidegate.hlc import MAX, ZERO, ZERO_RESOLVED, ClosedTimestamp, ResolvedTimestamp, Timestamp
from tidegate.raftlog.entry import Command, Generation, Offset, RaftIndex, RangeId, Snapshot
from tidegate.ranges.gap import remainder
from tidegate.ranges.mutated_keys import MutatedKeys, dated, just_above, remember
from tidegate.ranges.range_state import RangeState, RangeStatus
from tidegate.rows.table_key import prefix_end, without_tenant
from tidegate.spans import Span

#: Mutated keys are never forgotten, so at most this many bytes of each key are kept. Longer keys are cut.
_KEPT_KEY_BYTES: Final = 1_024


class Mutation(NamedTuple):
    """A change of data in ``span`` by a command, outside the op log: no record says how rows changed.

    The versions that it changed have timestamps from ``first`` to ``last``, both included. Before it the
    range was complete up to ``resolved`` for all keys of ``span``. By default nothing is known of these
    timestamps.
    """

    range_id: RangeId
    raft_index: RaftIndex
    span: Span
    what: str
    first: Timestamp = ZERO
    last: Timestamp = MAX
    resolved: ResolvedTimestamp = ZERO_RESOLVED


class MutationPlace(NamedTuple):
    """The place of a command in the log of its range: at ``offset``, where the range has ``span``.

    ``closed`` is the highest timestamp that the range has closed by then, as far as its entries were read.
    ``is_behind``: the range has a backlog, so it has yet to apply entries before the command.
    """

    offset: Offset
    span: Span | None
    closed: ClosedTimestamp
    is_behind: bool


class HiddenMutation(NamedTuple):
    """A change of a range's data outside the op log, at ``time``, in entries that nobody could apply.

    Any key of ``span`` may have changed, but no version above ``high``. ``raft_index`` is 0 when the change
    was in a parent of the range.
    """

    range_id: RangeId
    raft_index: RaftIndex
    span: Span
    time: Timestamp
    high: Timestamp


class Untold(NamedTuple):
    """A snapshot, at ``offset``, from a source that does not tell of changes outside the op log.

    Entries before the snapshot were not applied, and nobody can know whether they were such changes.
    """

    range_id: RangeId
    offset: Offset
    span: Span
    high: Timestamp


def mutations_of(
    range_id: RangeId, command: Command, span: Span | None, resolved: ResolvedTimestamp = ZERO_RESOLVED
) -> Iterator[Mutation]:
    """Yield the changes of a command that its ops do not tell.

    The command names their spans; if it names none they may be anywhere in ``span``. The range was complete
    up to ``resolved`` before the command.

    Source: CockroachDB ends rangefeeds there (``MVCCHistoryMutationError``, or "unexpected SST ingestion" by
    the changefeed); docs/log-contract.md#data-that-changes-outside-the-op-log.
    """
    what, written = command.change.value, command.write_timestamp
    first, last = ZERO, MAX if written is None else written
    if command.at_write_timestamp:
        first = resolved if written is None else written
    for mutated in command.mutated_spans(() if span is None else (span,)):
        yield Mutation(range_id, command.raft_index, without_tenant(mutated), what, first, last, resolved)


class Mutations:
    """The mutations of one log partition that a step has found and has not failed feeds for yet."""

    def __init__(self, key_bytes: int) -> None:
        self._key_bytes = key_bytes  # the longest key that can be stored
        self._noted: list[Mutation] = []
        self._hidden: list[HiddenMutation] = []
        self._untold: list[Untold] = []

    def note(self, state: RangeState, command: Command, place: MutationPlace) -> None:
        """Note the changes of a command when the partition passes it, even if the range never applies it.

        A copy is not noted again. A record that is read again after a restart is not noted again either: its
        offset shows it. A change may have left versions up to the command's write timestamp, and no op tells
        them. So ``high`` rises to it, and scans for feeds that begin later read up to it.
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
        """Account for a command that the partition has read and the range has not applied.

        A command counts only if its index is the next one after all that is accounted for: then no entry
        before it can hide a change. ``generation`` is that of the last Snapshot that was read. A command of a
        later generation does not count: nobody knows which keys had left the range by then.
        """
        follows = command.raft_index == max(state.applied, state.accounted.raft_index) + 1
        if follows and command.generation <= generation:
            state.accounted = state.accounted._replace(raft_index=command.raft_index)

    def pass_snapshot(
        self, state: RangeState, head: Snapshot, closed: ClosedTimestamp, *, is_new: bool
    ) -> None:
        """Take in a Snapshot that the partition passes, whether or not the range takes it.

        It gives a time to the changes before it whose time is not known. That time is above the timestamp
        that the range had ``closed``, above the one that the Snapshot closes, and above the range's floors.
        It is not below the time that the Snapshot tells of its last mutation. A Snapshot below the index that
        was noted last may be a copy from before that change, so it gives no time. ``is_new``: the partition
        has not read it before.
        """
        if state.accounted.noted <= head.raft_index:
            told = ZERO if head.last_mutation is None else head.last_mutation.time
            time = max(told, just_above(max(head.closed, closed)))
            state.mutated = dated(state.mutated, lambda span: max(time, _above_floors(state, span)))
        if is_new:
            state.accounted = state.accounted.behind(head.raft_index, state.applied)

    def leave_out(self, state: RangeState, spans: Iterable[Span]) -> None:
        """Account from here on only for keys that are in all of ``spans``.

        ``spans`` are those of Snapshots that the range leaves out, or may break at. A key that is not in one
        of them was with another range by then, and may have changed there. Where a bound of a span is too
        long to store, no key is accounted for any more.
        """
        left_out = [*spans]
        if any(len(key) > self._key_bytes for span in left_out for key in span):
            self.forget_keys(state)
        else:
            state.accounted = state.accounted.kept_in(left_out, state.span)

    def forget_keys(self, state: RangeState) -> None:
        """Account for no key any more: nobody knows which keys have stayed with the range.

        For example, the log was cut above Snapshots of the range that were to be read again.
        """
        state.accounted = state.accounted.of_no_key(state.span)

    def judge(self, state: RangeState, head: Snapshot, offset: Offset, complete: Timestamp) -> None:
        """Find out whether entries that were not applied before the snapshot may have changed data (X4, X6).

        All keys of the snapshot are complete up to ``complete``.
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
        """Take the last mutation that a snapshot tells as a change of all keys that come with it (X8).

        The range takes this snapshot without its parents' answers, since no feed needs it. So nobody knows
        which changes the parents have noted.
        """
        told = head.last_mutation
        if told is not None and told.time > ZERO:
            for part in [head.span] if state.span is None else remainder(head.span, (state.span,)):
                _remember(state, without_tenant(part), told.time, told.time)

    @property
    def has_news(self) -> bool:
        """Whether one of the three methods below would return anything."""
        return bool(self._noted or self._hidden or self._untold)

    def take_noted(self) -> list[Mutation]:
        """Return the changes that commands have told since the last call."""
        noted, self._noted = self._noted, []
        return noted

    def take_hidden(self) -> list[HiddenMutation]:
        """Return the changes, found since the last call, in entries that nobody could apply."""
        hidden, self._hidden = self._hidden, []
        return hidden

    def take_untold(self) -> list[Untold]:
        """Return the snapshots since the last call that should have told of mutations and did not."""
        untold, self._untold = self._untold, []
        return untold


def _time_of(state: RangeState, command: Command, place: MutationPlace) -> Timestamp:
    """Return a timestamp above everything that the range's log had closed before a command.

    Entries before the command may be missing. Where nobody knows what they closed, and the command closes
    nothing, the timestamp is `MAX` until the next Snapshot gives it a time.
    """
    is_live = state.status is RangeStatus.LIVE and not place.is_behind
    if is_live and command.raft_index == state.applied + 1:
        closed = place.closed
    elif command.closed is not None:
        closed = max(place.closed, command.closed)
    else:
        return MAX
    return max(just_above(closed), command.write_timestamp or ZERO)


def _above_floors(state: RangeState, span: Span) -> Timestamp:
    """Return a timestamp above everything that the range's parents had resolved for keys of a span."""
    floors = (floor for floor in state.floors if without_tenant(floor.span).overlaps(span))
    return max((just_above(floor.resolved) for floor in floors), default=ZERO)


def _remember(
    state: RangeState, span: Span, time: Timestamp, last: Timestamp, first: Timestamp = ZERO
) -> None:
    """Keep a change for feeds that go on here later. Long keys are shortened: the kept span gets larger."""
    start, end = span
    kept = Span(
        start[:_KEPT_KEY_BYTES], end if len(end) <= _KEPT_KEY_BYTES else prefix_end(end[:_KEPT_KEY_BYTES])
    )
    state.mutated = remember(state.mutated, MutatedKeys(kept, time, last, first))


def _unaccounted(state: RangeState, head: Snapshot, time: Timestamp, *, is_known: bool) -> list[Span]:
    """Return the keys of a snapshot that a mutation at ``time`` may have changed unnoticed.

    These are all keys, or those that were not accounted for. In keys that are accounted for, the mutation was
    noticed if its index is accounted for (``is_known``), if its time is, or if the range is in no hole.
    """
    accounted = state.accounted
    own = accounted.span or state.span
    if own is not None and (is_known or state.quarantine is None or time <= accounted.time):
        return remainder(head.span, (own,))
    return [head.span]
