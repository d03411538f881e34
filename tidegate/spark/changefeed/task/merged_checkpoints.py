"""The checkpoints of one partition in a round, merged in its task, so that the driver is told few of them.

A step answers a checkpoint for each range that has moved. A batch of a long log has many steps, and only
the last checkpoint of a range matters to frontiers. A claim of a range is its generation and span. For each
claim the range is told at most twice: the first time, because ``RangeClaims`` counts from when a claim was
made, and the last time.

For example, with a claim of range 7 that moves in steps 1 to 9, the checkpoints of steps 1 and 9 tell it.
The checkpoints of one range stay in their order. But the last checkpoint of a range may come after later
claims of other ranges. So the driver gives all checkpoints of a round to ``RangeClaims`` together, before any
of them moves a frontier: the last checkpoint of a range may show that it has keys of another range.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TypeAlias

from tidegate.processor.batch import PartitionCheckpoint, RangeCheckpoint
from tidegate.raftlog.entry import Generation, RangeId
from tidegate.spans import Span

_Claim: TypeAlias = tuple[Generation, Span]


class MergedCheckpoints:
    """Collects checkpoints of a partition in the order of its steps."""

    def __init__(self) -> None:
        self._claims: dict[RangeId, _Claim] = {}
        #: The last checkpoint of each range whose claim was told before.
        self._pending: dict[RangeId, RangeCheckpoint] = {}
        self._newest: PartitionCheckpoint | None = None
        self._told: list[PartitionCheckpoint] = []

    def add(self, checkpoint: PartitionCheckpoint) -> None:
        """Add the checkpoint of the next step.

        A checkpoint holds for the feeds that it names. So if the checkpoints before it name other feeds, they
        are settled first.
        """
        if self._newest is not None and self._newest.feeds != checkpoint.feeds:
            self._settle()
        self._newest = checkpoint
        told = [item for each in checkpoint.ranges for item in self._told_of(each)]
        # An ended range claims nothing any more: nothing may be told of it later.
        told += [self._pending.pop(each) for each in checkpoint.ended if each in self._pending]
        for each in checkpoint.ended:
            self._claims.pop(each, None)
        if told or checkpoint.ended:
            self._told.append(replace(checkpoint, ranges=tuple(told)))

    def take_out(self) -> list[PartitionCheckpoint]:
        """Return the merged checkpoints in their order, and forget them."""
        self._settle()
        told, self._told = self._told, []
        self._claims.clear()
        return told

    def _told_of(self, item: RangeCheckpoint) -> Iterator[RangeCheckpoint]:
        """Yield what has to be told of a range now: the last of its old claim, and the new claim."""
        claim = item.generation, item.span
        if self._claims.get(item.range_id) == claim:
            self._pending[item.range_id] = item
            return
        self._claims[item.range_id] = claim
        if item.range_id in self._pending:
            yield self._pending.pop(item.range_id)
        yield item

    def _settle(self) -> None:
        if self._newest is not None and self._pending:
            self._told.append(replace(self._newest, ranges=tuple(self._pending.values()), ended=()))
        self._pending.clear()
        self._newest = None
