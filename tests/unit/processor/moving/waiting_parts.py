"""The parts of a log partition whose ranges wait for others, with ranges that a test makes as it wants."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tests.hand_log import at, closed
from tests.unit.processor.catchup.partition_parts import CHILD, ELSEWHERE, Parts
from tests.unit.processor.logs import PLAIN
from tidegate.processor.bounds import BOUNDS
from tidegate.processor.feeds.changes_outside_log import Mutations
from tidegate.processor.feeds.range_waits import Waiting
from tidegate.processor.moving.healing import Healing
from tidegate.processor.moving.parking import Parking
from tidegate.processor.table.partition_backlogs import Backlogs
from tidegate.processor.table.quarantine import Quarantines
from tidegate.raftlog.entry import (
    Generation,
    Offset,
    Parent,
    RaftIndex,
    RangeId,
    Snapshot,
    SnapshotReason,
)
from tidegate.raftlog.request import Scan
from tidegate.ranges.backlog import Backlog, RawEntry
from tidegate.ranges.handoff import Claim, Exchange
from tidegate.ranges.range_state import RangeState
from tidegate.spans import Span

#: The present position of the partition.
POSITION: Final = Offset(50)


class WaitingParts(Parts):
    """Partition 0 of 2, at offset 50. Its log time is second 10 000."""

    def __init__(self, backlog_bytes: int = 1 << 20, mutations: Mutations | None = None) -> None:
        super().__init__()
        self.backlogs = Backlogs(None)
        self.quarantines = Quarantines(self.table)
        self.mutations = mutations or Mutations(BOUNDS.key_bytes)
        self.healing = Healing(self.table, self.backlogs, self.missing, self.mutations)
        waiting = Waiting(self.feeds, self.mutations)
        self.parking = Parking(
            self.table,
            self.backlogs,
            waiting,
            self.healing,
            self.quarantines,
            self.mutations,
            backlog_bytes,
        )
        self.exchanges = self.parking.exchanges
        self.clock = self.table.clock
        self.clock.time_ms, self.clock.elapsed_ms = at(10_000).wall_ms, 1_000_000

    def elapse(self, ms: int) -> None:
        """Let so much log time pass."""
        self.clock.time_ms += ms
        self.clock.elapsed_ms += ms

    def parked(self, state: RangeState, *missing: Claim, size: int = 0, offset: int = 40) -> Backlog:
        """Let a range wait for these claims, with a backlog of some ``size``."""
        backlog = self.backlogs.hold(state.range_id, record(offset, size))
        now_ms = self.clock.elapsed_ms
        if backlog.parked:
            return backlog
        backlog.wait_for(head(range_id=state.range_id), Offset(offset), now_ms, frozenset(missing))
        backlog.heard_ms = backlog.asked_ms = now_ms
        return backlog

    def due(self, read: Offset = POSITION) -> list[Scan]:
        return [*self.parking.due(POSITION, read)]

    def sent(self) -> Sequence[Exchange]:
        """What was sent to other partitions since the last call."""
        return self.exchanges.take_out()

    def causes(self) -> list[str]:
        return [incident.cause for incident in self.quarantines.take_out()]


def record(offset: int, size: int = 0) -> RawEntry:
    return RawEntry(offset, b"", bytes(size), 0)


def head(
    *parents: RangeId, range_id: RangeId = CHILD, index: int = 10, generation: int = 2, high: float = 5
) -> Snapshot:
    """A snapshot of a range that begins at index 7 of each of these parents."""
    return Snapshot(
        range_id,
        Generation(generation),
        RaftIndex(index),
        PLAIN.span,
        closed(6),
        at(high),
        at(0),
        parents=tuple(Parent(parent, Generation(1), RaftIndex(7)) for parent in parents),
        reason=SnapshotReason.SPLIT,
    )


def claim_of(
    child: RangeId = CHILD,
    parent: RangeId = ELSEWHERE,
    *,
    index: int = 7,
    told: float = 6,
    span: Span = PLAIN.span,
) -> Claim:
    """A claim on a range, made at this log time."""
    return Claim(child, parent, RaftIndex(index), span, at(told).wall_ms)
