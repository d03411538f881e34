"""What an owner of a feed persists of its progress (docs/delivery.md, step M2), and how the next one goes on.

The same for every engine: each may have to go on where another one ended.
"""

from __future__ import annotations

from tidegate.changefeed.feed import FeedDefinition
from tidegate.changefeed.frontier import FeedFrontier
from tidegate.changefeed.job_records import ProgressRecord, StateRecord
from tidegate.changefeed.jobs import FeedView
from tidegate.hlc import ResolvedTimestamp


class FeedProgress:
    """Of one epoch of a feed. ``state`` is that of a feed that has its start."""

    def __init__(self, definition: FeedDefinition, state: StateRecord) -> None:
        self._definition = definition
        self._state = state
        self._read_up_to = dict(state.positions)  # by log partition, as it is persisted

    def begin(self, left: FeedView) -> FeedFrontier:
        """The frontier as the last owner of the epoch left it."""
        if left.progress is not None and left.high_water is not None:
            self._read_up_to.update(left.progress.positions)
        assert self._state.start is not None
        options = self._definition.options
        return FeedFrontier(
            [span for target in self._state.targets for span in target.spans],
            self._state.start,
            options.resolved_interval_ns,
            left.high_water,
            left.ahead,
            options.initial_scan,
        )

    def record(self, frontier: FeedFrontier, high_water: ResolvedTimestamp) -> ProgressRecord:
        """What to persist: a high-water of the frontier, and the log positions that belong to it."""
        for partition, offset in frontier.positions.items():
            self._read_up_to[partition] = max(offset + 1, self._read_up_to.get(partition, 0))
        definition = self._definition
        return ProgressRecord(definition.id, definition.epoch, high_water, dict(self._read_up_to))
