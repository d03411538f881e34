"""The ranges of one log partition by their ids, which of them have changed, and their rows of state."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from tidegate.errors import KeyTooLong
from tidegate.processor.batch import StateChange
from tidegate.processor.bounds import RecordBounds
from tidegate.processor.feeds.journal import Journal
from tidegate.processor.log_clock import LogClock
from tidegate.processor.state.rows_at_rest import RowsAtRest, is_at_rest
from tidegate.processor.state.state_codec import (
    chunk_rows,
    intent_rows,
    range_row,
    told_is_stored,
    told_rows,
)
from tidegate.processor.table.exposed_ranges import ExposedRanges
from tidegate.processor.table.partition_backlogs import Backlogs
from tidegate.raftlog.encode import partition_of
from tidegate.raftlog.entry import Offset, RangeId
from tidegate.ranges.backlog import Backlog
from tidegate.ranges.intent_budget import PartitionSpill
from tidegate.ranges.range_state import FeedsServing, RangeState


class RangeTable:
    """The ranges of log partition ``partition`` of ``partitions``.

    Code that changes a range touches it first, so that the range is noted as changed.
    """

    def __init__(
        self, partition: int, partitions: int, spill: PartitionSpill | None, journal: Journal | None
    ) -> None:
        self.partition = partition
        self.partitions = partitions
        #: It notes how ranges were before the steps that are not committed; ``None`` if no feed can be
        #: detached.
        self.journal = journal
        #: Takes the open transactions that are too many for memory; ``None`` if memory holds all.
        self.spill = spill
        #: Log time and elapsed log time of this partition.
        self.clock = LogClock()
        self.states: dict[RangeId, RangeState] = {}
        #: The ranges that have changed since the last freeze.
        self.touched: dict[RangeId, RangeState] = {}
        #: The touched ranges that have only closed more, and have changed in nothing else.
        self._closed: set[RangeId] = set()
        #: The ranges in which a record that names no range makes a hole.
        self.exposed = ExposedRanges()
        #: Says which feeds ranges name in promises and hand-offs.
        self.serves: FeedsServing = lambda _: ()
        #: The sum of the hashes of each range's stored transactions, as of the last freeze.
        self._intents_hashes: dict[RangeId, int] = {}
        #: The sum over all ranges; the caller takes it modulo 2^64.
        self.intents_hash = 0

    def __iter__(self) -> Iterator[RangeState]:
        return iter(self.states.values())

    def is_here(self, range_id: RangeId) -> bool:
        """Whether a range belongs to this partition."""
        return partition_of(range_id, self.partitions) == self.partition

    def touch(self, range_id: RangeId) -> RangeState:
        """Return a range that is going to be changed, and note it as changed. A new id gets a new range."""
        state = self.states.get(range_id)
        if state is None:
            state = self.states[range_id] = RangeState(range_id)
        if self.journal is not None and range_id not in self.touched:
            self.journal.note(state)
        state.serves = self.serves
        self.touched[range_id] = self.exposed.touched[range_id] = state
        self._closed.discard(range_id)
        return state

    def rests(self, state: RangeState) -> bool:
        """Whether a range was at rest at the last freeze, and has only closed more since."""
        range_id = state.range_id
        return state.bytes_at_rest is not None and (range_id not in self.touched or range_id in self._closed)

    def close(self, state: RangeState) -> None:
        """Note that a range is going to close more, and to change in nothing else."""
        range_id = state.range_id
        state.serves = self.serves
        if range_id not in self.touched:
            if self.journal is not None:
                self.journal.note(state)
            self.touched[range_id] = state
            self._closed.add(range_id)

    # ---- state ----

    def restore(self, state: RangeState) -> None:
        """Put back a range as it was stored."""
        self.states[state.range_id] = self.exposed.touched[state.range_id] = state
        self._note_intents(state)

    def freeze(
        self,
        offset: Offset,
        read: Offset,
        backlogs: Backlogs,
        bounds: RecordBounds,
        refuse: Callable[[RangeState, str], None],
    ) -> list[StateChange]:
        """Return the state rows of everything that changed since the last freeze, as bytes of this moment.

        ``offset`` is the partition's position. ``read`` is how far it has read the log in this run; after a
        restart it is below the position while ranges are behind. A range with a key too long for ``bounds``
        is given to ``refuse``, which quarantines it, so that its transactions need not be stored.
        """
        changes: list[StateChange] = []
        at_rest, closed = RowsAtRest(offset), self._closed
        for range_id, state in self.touched.items():
            if range_id in closed and (row := at_rest.row_again(state)) is not None:
                changes.append(row)
                continue
            rests = is_at_rest(state) and range_id not in backlogs
            if not rests:
                _note_waiting(state, backlogs.get(state.range_id), offset, read)
                state.forget_old_promises()
            queue, intents = state.resolver.queue, list[StateChange]()
            if queue.changed or queue.gone:
                try:
                    intents += intent_rows(state, offset, bounds.key_bytes)
                except KeyTooLong as error:
                    refuse(state, str(error))
                    rests, intents = False, [*intent_rows(state, offset, bounds.key_bytes)]
            if not told_is_stored(state):
                changes.extend(told_rows(state, bounds.told_bytes))
            changes.append((at_rest.row(state) if rests else None) or range_row(state, offset))
            if not rests:
                state.bytes_at_rest = None
                changes.extend(chunk_rows(state))
            changes.extend(intents)
            self._note_intents(state)
        if self.spill is not None:
            self.spill.settle((state.range_id, state.resolver.queue) for state in self.touched.values())
        self.touched, self._closed = {}, set()
        return changes

    def _note_intents(self, state: RangeState) -> None:
        now, before = state.resolver.queue.rows_hash, self._intents_hashes.get(state.range_id, 0)
        if now != before:
            self.intents_hash += now - before
            self._intents_hashes[state.range_id] = now


def _note_waiting(state: RangeState, backlog: Backlog | None, offset: Offset, read: Offset) -> None:
    """Note where a range's backlog begins, since when it waits, and when it was heard last.

    A range without a backlog keeps the time when it was heard while feeds have gaps in it.
    """
    if backlog is not None:
        state.behind = backlog.start
        state.waits_since_ms = backlog.since_ms if backlog.parked else None
        state.heard_ms = backlog.heard_ms
    else:
        if state.behind is not None:
            state.behind = max(state.behind, Offset(read + 1)) if read < offset else None
        if state.behind is None:
            state.waits_since_ms = None
            if not state.gaps:
                state.heard_ms = None
