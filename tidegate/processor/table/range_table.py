"""The ranges of one log partition by their ids, and which of them have changed: what is stored of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from tidegate.errors import KeyTooLong
from tidegate.processor.batch import StateChange
from tidegate.processor.bounds import RecordBounds
from tidegate.processor.feeds.journal import Journal
from tidegate.processor.log_clock import LogClock
from tidegate.processor.state.state_codec import chunk_rows, intent_rows, range_row, told_rows
from tidegate.processor.table.partition_backlogs import Backlogs
from tidegate.raftlog.encode import partition_of
from tidegate.raftlog.entry import Offset, RangeId
from tidegate.ranges.backlog import Backlog
from tidegate.ranges.intent_budget import PartitionSpill
from tidegate.ranges.range_state import FeedsServing, RangeState


class RangeTable:
    """The ranges of log partition ``partition`` of ``partitions``. Whoever changes one touches it before."""

    def __init__(
        self, partition: int, partitions: int, spill: PartitionSpill | None, journal: Journal | None
    ) -> None:
        self.partition = partition
        self.partitions = partitions
        #: What changes within steps that are not committed, for feeds that may be detached.
        self.journal = journal
        #: Where open transactions go that are more than memory is to hold.
        self.spill = spill
        #: What time it is, as the log shows it.
        self.clock = LogClock()
        self.states: dict[RangeId, RangeState] = {}
        #: Those that have changed since the last freeze.
        self.touched: dict[RangeId, RangeState] = {}
        #: The feeds of which ranges tell those that go on from them.
        self.serves: FeedsServing = lambda _: ()
        #: Per range the sum over the stored rows of its transactions, as of the last freeze.
        self._intents_hashes: dict[RangeId, int] = {}
        #: The same over all ranges; the caller takes it modulo 2^64.
        self.intents_hash = 0

    def __iter__(self) -> Iterator[RangeState]:
        return iter(self.states.values())

    def is_here(self, range_id: RangeId) -> bool:
        """Whether a range belongs to this partition."""
        return partition_of(range_id, self.partitions) == self.partition

    def touch(self, range_id: RangeId) -> RangeState:
        """A range that is going to be changed, made if need be."""
        state = self.states.get(range_id)
        if state is None:
            state = self.states[range_id] = RangeState(range_id)
        if self.journal is not None and range_id not in self.touched:
            self.journal.note(state)
        state.serves = self.serves
        self.touched[range_id] = state
        return state

    # ---- state ----

    def restore(self, state: RangeState) -> None:
        """Put back a range as it was stored."""
        self.states[state.range_id] = state
        self._note_intents(state)

    def freeze(
        self,
        offset: Offset,
        read: Offset,
        backlogs: Backlogs,
        bounds: RecordBounds,
        refuse: Callable[[RangeState, str], None],
    ) -> list[StateChange]:
        """The rows of everything that changed since the last freeze, as bytes of this moment.

        ``offset`` is the partition's position, ``read`` how far it has read, which is lower after a restart
        with ranges that were behind. A range that does not fit into ``bounds`` is given to ``refuse``, which
        quarantines it: there is less to store of it then.
        """
        changes: list[StateChange] = []
        for state in self.touched.values():
            _note_waiting(state, backlogs.get(state.range_id), offset, read)
            state.forget_old_promises()
            try:
                intents = list(intent_rows(state, offset, bounds.key_bytes))
            except KeyTooLong as error:
                refuse(state, str(error))
                intents = list(intent_rows(state, offset, bounds.key_bytes))
            changes.extend(told_rows(state, bounds.told_bytes))
            changes.append(range_row(state, offset))
            changes.extend(chunk_rows(state))
            changes.extend(intents)
            self._note_intents(state)
        if self.spill is not None:
            self.spill.settle((state.range_id, state.resolver.queue) for state in self.touched.values())
        self.touched = {}
        return changes

    def _note_intents(self, state: RangeState) -> None:
        now = state.resolver.queue.rows_hash
        self.intents_hash += now - self._intents_hashes.get(state.range_id, 0)
        self._intents_hashes[state.range_id] = now


def _note_waiting(state: RangeState, backlog: Backlog | None, offset: Offset, read: Offset) -> None:
    """Note where a range's backlog begins, and how long it has waited. When it was heard is kept while feeds
    lack rows of it."""
    if backlog is not None:
        state.behind = backlog.start
        state.waits_since_ms = backlog.since_ms if backlog.parked else None
        state.heard_ms = backlog.heard_ms
    else:
        if state.behind is not None:
            state.behind = max(state.behind, Offset(read + 1)) if read < offset else None
        if state.behind is None:
            state.waits_since_ms = None
            if not state.lags:
                state.heard_ms = None
