"""Quarantines ranges of a log partition, and reports what went wrong there.

A range is quarantined at the timestamp up to which it was resolved, and an incident tells the operator
(docs/log-contract.md#quarantine).
"""

from __future__ import annotations

from tidegate.errors import MalformedEntry, RangeError, brief
from tidegate.hlc import ResolvedTimestamp
from tidegate.processor.batch import Incident, LogRecord
from tidegate.processor.bounds import PARENTS_MAX
from tidegate.processor.table.range_table import RangeTable
from tidegate.raftlog.encode import partition_of
from tidegate.raftlog.entry import Offset, RangeId, ScanChunk, Snapshot
from tidegate.ranges.range_snapshot import begins_again, require_replaceable
from tidegate.ranges.range_state import RangeState, RangeStatus
from tidegate.ranges.scan import SCAN_REPEAT_MS


class Quarantines:
    """Quarantines ranges of ``table``, and collects the incidents that tell of it."""

    def __init__(self, table: RangeTable) -> None:
        self._table = table
        self._incidents: list[Incident] = []

    def begin(self, state: RangeState, record: LogRecord, cause: str, resolved: ResolvedTimestamp) -> None:
        """Quarantine a range at ``record``. Its keys are complete up to ``resolved``.

        Nothing happens to a range that is quarantined already, or has ended.
        """
        if state.status in (RangeStatus.QUARANTINED, RangeStatus.ENDED):
            return
        self._begin(state, Offset(record.offset), cause, resolved)

    def begin_at(self, state: RangeState, offset: Offset, cause: str) -> None:
        """Quarantine a live range whose next entries did not come."""
        self._begin(state, offset, cause, state.resolved)

    def _begin(self, state: RangeState, offset: Offset, cause: str, resolved: ResolvedTimestamp) -> None:
        state.quarantine_at(offset, cause, resolved)
        self._table.touch(state.range_id)
        sentence = f"range {state.range_id} is quarantined at {resolved}: {brief(cause)}"
        self._report(state.range_id, offset, sentence)

    def begin_before(self, state: RangeState, head: Snapshot, record: LogRecord) -> None:
        """Quarantine a range if it cannot go on with the snapshot that begins with ``head``.

        Such a snapshot shows that entries before it are missing, begins within another one, or names too many
        parents. For any other snapshot nothing is done. That includes a snapshot that begins again after a
        crash of the source.
        """
        try:
            require_replaceable(state, head)
            if state.chunks and state.status is RangeStatus.LIVE and not begins_again(state, head):
                raise MalformedEntry(f"a snapshot at index {head.raft_index} began within another one")
            if len(head.parents) > PARENTS_MAX:
                raise MalformedEntry(
                    f"a snapshot at index {head.raft_index} names {len(head.parents)} parents, and "
                    f"{PARENTS_MAX} are waited for at most"
                )
        except RangeError as error:
            self.begin(state, record, str(error), state.resolved)

    def report_longer(self, state: RangeState, offset: Offset, cause: str) -> None:
        """Report that a quarantined range, which was about to heal, has to begin its healing anew."""
        self._report(
            state.range_id,
            offset,
            f"range {state.range_id} stays quarantined until a later snapshot heals it: {brief(cause)}",
        )

    def report_stray(self, range_id: RangeId, record: LogRecord) -> None:
        """Report a record that stands in another log partition than its range."""
        partitions = self._table.partitions
        self._report(
            range_id,
            Offset(record.offset),
            f"a record of range {range_id} was skipped: it belongs to partition "
            f"{partition_of(range_id, partitions)} of {partitions}",
        )

    def report_chunk(self, chunk: ScanChunk, record: LogRecord, error: MalformedEntry) -> None:
        """Report a ScanChunk that was refused. Its keys are asked for again."""
        self._report(
            chunk.range_id,
            Offset(record.offset),
            f"a ScanChunk of range {chunk.range_id} that answers request {chunk.request_id} was refused: "
            f"{error}. None of its rows was taken, and its keys are asked for again, after "
            f"{SCAN_REPEAT_MS // 1000} s. A source that goes on answering so holds back the feeds that wait",
        )

    def take_out(self) -> list[Incident]:
        """Take out and return the incidents since the last call."""
        incidents, self._incidents = self._incidents, []
        return incidents

    def _report(self, range_id: RangeId, offset: Offset, cause: str) -> None:
        self._incidents.append(Incident(self._table.partition, offset, range_id, None, cause))
