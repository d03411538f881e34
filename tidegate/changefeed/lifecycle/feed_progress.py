"""The progress that a feed's owner persists (docs/protocols/markers.md, step M2), and how the next owner
goes on.

The progress has one form for all engines, since each may have to go on where another one ended.
"""

from __future__ import annotations

from tidegate.changefeed.definition.feed import FeedDefinition
from tidegate.changefeed.lifecycle.frontier import FeedFrontier
from tidegate.changefeed.lifecycle.job_records import ProgressRecord, StateRecord
from tidegate.changefeed.lifecycle.jobs import FeedView
from tidegate.hlc import ResolvedTimestamp


class FeedProgress:
    """The persisted progress of one epoch of a feed. ``state`` is its state record, which has a start."""

    def __init__(self, definition: FeedDefinition, state: StateRecord) -> None:
        self._definition = definition
        self._state = state
        self._read_up_to = dict(state.positions)  # by log partition, as it is stored
        self._marked: ResolvedTimestamp | None = None

    def begin(self, left: FeedView) -> FeedFrontier:
        """Return the frontier as the epoch's last owner left it; ``left`` has the feed's stored records."""
        progress, taken = left.progress, left.current_takeover
        if progress is not None and progress.epoch == self._definition.epoch:
            self._read_up_to.update(progress.positions)
            self._marked = progress.marked
        assert self._state.start is not None
        options = self._definition.options
        return FeedFrontier(
            [span for target in self._state.targets for span in target.spans],
            self._state.start,
            options.resolved_interval_ns,
            left.high_water,
            left.ahead,
            options.initial_scan,
            None if taken is None else taken.silent_to,
        )

    def note_marker(self, marker: ResolvedTimestamp) -> None:
        """Note that the marker was written to every output partition; the next record says so.

        An owner that has begun anew may note a marker late: then it has already read a higher one.
        """
        self._marked = marker if self._marked is None else max(marker, self._marked)

    def record(self, frontier: FeedFrontier, high_water: ResolvedTimestamp) -> ProgressRecord:
        """Return the record to persist: a high-water of the frontier, and the log positions that fit it."""
        for partition, offset in frontier.positions.items():
            self._read_up_to[partition] = max(offset + 1, self._read_up_to.get(partition, 0))
        definition = self._definition
        return ProgressRecord(
            definition.id, definition.epoch, high_water, dict(self._read_up_to), self._marked
        )
