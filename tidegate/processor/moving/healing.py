"""Healing: ranges come out of holes by scans for what they missed (docs/protocols/healing.md, Q2 to Q4)."""

from __future__ import annotations

from collections.abc import Sequence

from tidegate.processor.catchup.committed import scanned_version
from tidegate.processor.catchup.missing_versions import MissingVersions
from tidegate.processor.feeds.changes_outside_log import Mutations
from tidegate.processor.table.partition_backlogs import Backlogs
from tidegate.processor.table.range_table import RangeTable
from tidegate.raftlog.entry import Offset, ScanChunk
from tidegate.raftlog.request import Scan
from tidegate.ranges.backlog import Backlog
from tidegate.ranges.range_state import RangeState, RangeStatus
from tidegate.ranges.scan import Fitting, RangeScan
from tidegate.ranges.version import Version


class Healing:
    """The scans that parked ranges wait for.

    ``missing_versions`` notes the feeds that miss more versions of a range's keys than its scan brings.
    """

    def __init__(
        self, table: RangeTable, backlogs: Backlogs, missing_versions: MissingVersions, mutations: Mutations
    ) -> None:
        self._table = table
        self._backlogs = backlogs
        self._missing_versions = missing_versions
        self._mutations = mutations

    def begin(self, state: RangeState, backlog: Backlog, scan: RangeScan) -> None:
        """Let the range wait for a scan (Q2)."""
        self._missing_versions.foresee(state, scan)
        state.scan = backlog.scan = scan
        self.leave_behind(state, backlog)

    def leave_behind(self, state: RangeState, backlog: Backlog) -> None:
        """Go on where the range's span changed, if it changed after the Snapshot that the range waits at.

        Nobody answers a scan of keys that the range does not have any more. The entries up to the change
        become part of the hole. The scan stays in the state, since the keys that it has covered count.
        """
        left_out = backlog.skip_to_move()
        if left_out:
            self._mutations.leave_out(state, left_out)
            if state.status is not RangeStatus.QUARANTINED:
                cause = "its span changed while rows were scanned for"
                state.quarantine_at(backlog.start, cause, state.resolved)
            self._backlogs.let_go_on(state.range_id)

    def take_chunk(
        self, backlog: Backlog, chunk: ScanChunk, fitting: Fitting | None = None
    ) -> tuple[Sequence[Version], bool]:
        """Return the versions in a chunk that the range waits for (Q3), and whether the chunk has more.

        ``fitting`` means the same as for `RangeScan.take_chunk`. After the last chunk the range goes on (Q4).
        """
        scan = backlog.scan
        if scan is None or chunk.generation != backlog.head.generation:
            return (), False
        rows = scan.take_chunk(chunk, self._table.clock.elapsed_ms, fitting)
        if scan.done:
            self._backlogs.clear(chunk.range_id)
        return [scanned_version(chunk.range_id, row) for row in rows], scan.has_more

    def due(self, state: RangeState, backlog: Backlog, offset: Offset) -> Sequence[Scan]:
        """Return the request to send now, if the range waits for a scan that is not asked for or answered."""
        now_ms = self._table.clock.elapsed_ms
        if backlog.scan is None or not backlog.scan.is_due(now_ms):
            return ()
        self._table.touch(state.range_id)
        return (backlog.scan.request(offset, now_ms),)
