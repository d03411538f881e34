"""The parts of a log partition by which entries come to ranges that a test makes as it wants."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from tests.hand_log import at, closed
from tests.unit.processor.catchup.partition_parts import HERE
from tests.unit.processor.logs import PLAIN
from tests.unit.processor.moving.waiting_parts import POSITION, WaitingParts
from tidegate.hlc import ClosedTimestamp
from tidegate.processor.bounds import BOUNDS, RecordBounds
from tidegate.processor.catchup.gap_scans import CatchUpLimits, GapScans
from tidegate.processor.feeds.changes_outside_log import MutationPlace, Mutations
from tidegate.processor.feeds.row_reckoning import RowReckoning
from tidegate.processor.moving.range_entries import RangeEntries, RangeEntry
from tidegate.raftlog.encode import encode_entry, encode_key
from tidegate.raftlog.entry import (
    Command,
    Generation,
    Heartbeat,
    Op,
    RaftIndex,
    RangeId,
    Snapshot,
    Trigger,
    WriteValue,
)
from tidegate.ranges.backlog import Backlog, RawEntry
from tidegate.ranges.range_state import RangeState
from tidegate.spans import Span

#: The record time of all entries.
_TIME_MS: Final = at(9).wall_ms


class NotedMutations(Mutations):
    """Changes outside the op log, and what they were told of entries."""

    def __init__(self) -> None:
        super().__init__(BOUNDS.key_bytes)
        self.told: list[tuple[object, ...]] = []

    def note(self, state: RangeState, command: Command, place: MutationPlace) -> None:
        self.told.append(("note", command.raft_index, place))
        super().note(state, command, place)

    def account(self, state: RangeState, command: Command, generation: Generation) -> None:
        self.told.append(("account", command.raft_index, generation))
        super().account(state, command, generation)

    def pass_snapshot(
        self, state: RangeState, head: Snapshot, closed: ClosedTimestamp, *, is_new: bool
    ) -> None:
        self.told.append(("pass", head.raft_index, closed, is_new))
        super().pass_snapshot(state, head, closed, is_new=is_new)

    def leave_out(self, state: RangeState, spans: Iterable[Span]) -> None:
        spans = [*spans]
        self.told.append(("leave out", *spans))
        super().leave_out(state, spans)

    def forget_keys(self, state: RangeState) -> None:
        self.told.append(("forget", state.range_id))
        super().forget_keys(state)


class EntriesParts(WaitingParts):
    """Partition 0 of 2, which has read up to offset 50."""

    def __init__(self, bounds: RecordBounds = BOUNDS) -> None:
        self.noted = NotedMutations()
        super().__init__(mutations=self.noted)
        reckoning = RowReckoning(self.rows, self.feeds)
        self.scans = GapScans(
            self.gaps,
            self.detached,
            self.table,
            self.committed,
            self.quarantines,
            CatchUpLimits(),
            reckoning,
        )
        self.entries = RangeEntries(
            self.table,
            self.backlogs,
            self.parking,
            self.healing,
            self.quarantines,
            self.missing,
            self.scans,
            self.committed,
            self.mutations,
            bounds,
            reckoning,
        )

    def take(self, entry: RangeEntry, offset: int = 51, *, passed: bool = False) -> None:
        """The next entry of the log."""
        record = RawEntry(offset, encode_key(entry.range_id), encode_entry(entry), _TIME_MS)
        self.entries.apply_or_queue(record, entry, passed=passed)

    def lives(self, range_id: RangeId = HERE) -> RangeState:
        """A range at index 10 of generation 1, closed up to second 4."""
        state = self.range(range_id, resolved=4)
        state.applied, state.generation = RaftIndex(10), Generation(1)
        return state

    def has_backlog(self, state: RangeState, *entries: RangeEntry, offset: int = 40) -> Backlog:
        """Let a range have these entries to apply, from an offset on, and wait for nothing."""
        first, *later = [
            RawEntry(offset + number, encode_key(entry.range_id), encode_entry(entry), _TIME_MS)
            for number, entry in enumerate(entries)
        ]
        backlog = self.backlogs.hold(state.range_id, first)
        for raw, entry in zip(later, entries[1:], strict=True):
            backlog.append(raw, entry)
        self.backlogs.let_go_on(state.range_id)
        return backlog

    def rest(self) -> None:
        """End a step: what can rests from here on."""
        self.table.freeze(POSITION, POSITION, self.backlogs, BOUNDS, lambda *_: None)


def command(
    index: int,
    *ops: Op,
    close: float | None = None,
    trigger: Trigger = Trigger.NONE,
    range_id: RangeId = HERE,
    generation: int = 1,
) -> Command:
    told = None if close is None else closed(close)
    return Command(range_id, Generation(generation), RaftIndex(index), ops, told, trigger)


def beat(close: float, *, covers: int = 10, generation: int = 1, range_id: RangeId = HERE) -> Heartbeat:
    return Heartbeat(range_id, Generation(generation), closed(close), RaftIndex(covers))


def put(seconds: float, number: int = 1) -> WriteValue:
    return PLAIN.put(seconds, number, "v")
