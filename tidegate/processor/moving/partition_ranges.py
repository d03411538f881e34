"""The ranges of one log partition: entries in, committed versions out (docs/protocols/ranges.md).

This module puts the parts together. They are in

    table/range_table.py         all ranges, which of them have changed, their rows of state
    range_entries.py             how entries of the log reach their ranges
    table/quarantine.py          ranges that cannot be followed, and what is reported of them
    table/exposed_ranges.py      which ranges a record that names no range concerns
    parking.py                   ranges that wait before a snapshot; exchange.py has claims and hand-offs
    healing.py                   the scans of ranges that come out of a hole
    feeds/changes_outside_log.py changes of their data outside the op log
    table/partition_backlogs.py  the entries of ranges that wait, or have waited
    table/silence.py             when a range counts as silent: nothing of it is read
    range_checkpoints.py         how far the ranges are resolved
    catchup/feed_gaps.py         which feeds have gaps in which ranges
    catchup/missing_versions.py  how feeds get gaps; gap_scans.py has the scans that close them
    catchup/detached.py          feeds that are detached because their sinks do not keep up
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tidegate.processor.batch import RangeCheckpoint, StateChange
from tidegate.processor.bounds import RecordBounds
from tidegate.processor.catchup.committed import Committed, CommittedVersions
from tidegate.processor.catchup.detached import DetachedFeeds
from tidegate.processor.catchup.feed_gaps import FeedGaps
from tidegate.processor.catchup.gap_scans import CatchUpLimits, GapScans
from tidegate.processor.catchup.missing_versions import MissingVersions
from tidegate.processor.feeds.changes_outside_log import Mutations
from tidegate.processor.feeds.feed_table import PartitionFeeds
from tidegate.processor.feeds.journal import Certainty, Journal
from tidegate.processor.feeds.partition_feed import PartitionFeed
from tidegate.processor.feeds.range_waits import Waiting
from tidegate.processor.feeds.row_reckoning import RowReckoning
from tidegate.processor.moving.healing import Healing
from tidegate.processor.moving.parking import Parking
from tidegate.processor.moving.range_checkpoints import RangeCheckpoints
from tidegate.processor.moving.range_entries import RangeEntries
from tidegate.processor.table.partition_backlogs import Backlogs
from tidegate.processor.table.quarantine import Quarantines
from tidegate.processor.table.range_table import RangeTable
from tidegate.raftlog.decode import decode_key
from tidegate.raftlog.entry import BROADCAST, Offset, RangeId
from tidegate.raftlog.request import Scan
from tidegate.ranges.backlog import Backlog, QueueFactory, RawEntry
from tidegate.ranges.intent_budget import PartitionSpill
from tidegate.ranges.mutated_keys import MutatedKeys
from tidegate.ranges.range_state import RangeState, RangeStatus
from tidegate.rows.table_key import prefix_end
from tidegate.spans import Span


class PartitionRanges:
    """All ranges of one log partition, and the versions that they commit for the partition's ``feeds``.

    It is partition number ``partition`` of ``partitions``. ``committed`` has the versions that were committed
    since they were last taken out.
    """

    def __init__(
        self,
        partition: int,
        partitions: int,
        feeds: PartitionFeeds,
        queue: QueueFactory | None,
        spill: PartitionSpill | None,
        catch_up: CatchUpLimits | None,
        journal: Journal | None,
        bounds: RecordBounds,
        reckoning: RowReckoning,
        backlog_bytes: int,
    ) -> None:
        self.partition = partition
        self._bounds = bounds
        self.table = table = RangeTable(partition, partitions, spill, journal)
        self._backlogs = backlogs = Backlogs(queue)
        self.quarantines = Quarantines(table)
        self.committed = CommittedVersions()
        self.gaps = FeedGaps(feeds, table, backlogs.__contains__, self.committed)
        self.detached = DetachedFeeds(table, self.gaps)
        self.missing_versions = MissingVersions(feeds, table, self.gaps, self.detached)
        self.catch_ups = GapScans(
            self.gaps,
            self.detached,
            table,
            self.committed,
            self.quarantines,
            catch_up or CatchUpLimits(),
            reckoning,
        )
        self.mutations = Mutations(bounds.key_bytes)
        healing = Healing(table, backlogs, self.missing_versions, self.mutations)
        waiting = Waiting(feeds, self.mutations)
        self.parking = Parking(
            table, backlogs, waiting, healing, self.quarantines, self.mutations, backlog_bytes
        )
        self.entries = RangeEntries(
            table,
            backlogs,
            self.parking,
            healing,
            self.quarantines,
            self.missing_versions,
            self.catch_ups,
            self.committed,
            self.mutations,
            bounds,
            reckoning,
        )
        self._checkpoints = RangeCheckpoints(table)

    def __iter__(self) -> Iterator[RangeState]:
        return iter(self.table)

    def __len__(self) -> int:
        return len(self.table.states)

    def restore(self, state: RangeState) -> None:
        """Put back a range as it was stored."""
        self.table.restore(state)
        self.parking.exchanges.restore(state)

    @property
    def touched(self) -> Iterable[RangeState]:
        """The ranges that changed since the last freeze and have applied all their entries."""
        touched = self.table.touched.values()
        if not self._backlogs.items():
            return touched
        return (state for state in touched if state.range_id not in self._backlogs)

    @property
    def backlogs(self) -> Iterable[tuple[RangeState, Backlog]]:
        """The ranges with entries that they have not applied."""
        states = self.table.states
        return ((states[range_id], backlog) for range_id, backlog in self._backlogs.items())

    def has_backlog(self, range_id: RangeId) -> bool:
        """Whether a range has entries that it has not applied."""
        return range_id in self._backlogs

    @property
    def ready(self) -> bool:
        """Whether there are entries that `RangeEntries.drain` would apply."""
        return self._backlogs.ready

    @property
    def backlogs_come_first(self) -> bool:
        """Whether ready backlogs are to be applied before more of the log is read."""
        return self._backlogs.come_first

    def settle_gaps(self) -> bool:
        """Index the gaps of the ranges that changed in this step.

        Returns whether any feed has caught up (C6).
        """
        return self.gaps.settle(self.table.touched.values())

    @property
    def lowest_behind(self) -> Offset | None:
        """The lowest ``behind`` of all ranges, ``None`` when no range is behind."""
        return min((state.behind for state in self if state.behind is not None), default=None)

    def is_behind(self, key: bytes | None, offset: int) -> bool:
        """Whether any range may have yet to apply a record that the partition has passed.

        A record that names no range, or all of them, may be a hole of each range, so the answer is true.
        """
        range_id = decode_key(key)
        if range_id is None or range_id == BROADCAST:
            return True
        state = self.table.states.get(range_id)
        return state is not None and state.behind is not None and offset >= state.behind

    def due(self, offset: Offset, read: Offset) -> list[Scan]:
        """Return the requests to send now, to heal ranges and to catch up.

        Also ends waits that last too long. ``offset`` and ``read`` mean the same as in `Parking.due`.
        """
        healing = [*self.parking.due(offset, read)]
        catch_ups = self.catch_ups.due(self.table.touched.values(), offset)
        return [scan._replace(span=self._asked(scan.span)) for scan in healing + catch_ups]

    def _asked(self, span: Span) -> Span:
        """Return the span to ask for so that ``span`` comes: a bound that is too long for a record is cut.

        The cut span is larger, never smaller. For example, with keys of 4 bytes at most, ``abcdef`` to
        ``abcxyz`` becomes ``abcd`` to ``abcy``. Rows outside ``span`` are passed over when they come.
        """
        most = self._bounds.key_bytes
        start, end = span
        return Span(start[:most], end if len(end) <= most else prefix_end(end[:most]))

    # ---- feeds ----

    def begin(self, feed: PartitionFeed) -> None:
        """Give a feed that was activated its gaps, and note in the journal that it began."""
        if self.table.journal is not None:
            self.table.journal.begin(feed.id)
        self.missing_versions.begin(feed)

    def mutated(self) -> Iterator[tuple[RangeId, MutatedKeys]]:
        """Yield the keys that were changed outside the op log, each with the range whose log told it."""
        return ((state.range_id, keys) for state in self.table for keys in state.mutated)

    def detach(self, feed: PartitionFeed) -> Certainty:
        """Detach a feed (K2): treat its rows of all steps that are not committed as lost.

        Returns up to where its rows are certain to be acknowledged.
        """
        assert self.table.journal is not None
        certain = Certainty(feed, self.table.states, self.table.journal)
        self.detached.detach(feed, certain)
        self.catch_ups.give_up(feed.id)
        return certain

    def take_committed(self) -> Committed:
        """Return the versions since the last call: the shared ones, and the deliveries of single feeds."""
        return self.committed.take_out(self.gaps.feeds)

    # ---- checkpoints and state ----

    def checkpoints(self, spans: Iterable[Span], *, everything: bool = False) -> list[RangeCheckpoint]:
        """Return the checkpoints of touched ranges (with ``everything``, of all) on keys of ``spans``."""
        return self._checkpoints.of(spans, everything=everything)

    def ended(self) -> Iterator[RangeId]:
        """Yield the ids of the touched ranges that have ended."""
        return (each.range_id for each in self.table.touched.values() if each.status is RangeStatus.ENDED)

    def catch_up(self) -> None:
        """Forget the ``behind`` of each range without a backlog: the partition has read everything again.

        This happens once after a restart, when the partition reaches its position.
        """
        for state in self:
            if state.behind is not None and state.range_id not in self._backlogs:
                self.table.touch(state.range_id).behind = None

    def freeze(self, offset: Offset, read: Offset) -> list[StateChange]:
        """Return the state rows of everything that changed since the last freeze; see `RangeTable.freeze`."""

        def refuse(state: RangeState, cause: str) -> None:
            self.quarantines.begin(state, RawEntry(offset, None, None, 0), cause, state.resolved)

        return self.table.freeze(offset, read, self._backlogs, self._bounds, refuse)
