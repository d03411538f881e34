"""Partitions that are read independently, from a log whose beginning is removed by retention, even records
that were not read yet.

A partition cannot know which entries of its ranges it has lost. So each of its ranges has a hole, and scans
bring the rows.
"""

from __future__ import annotations

from random import Random
from typing import Final

from tests.simulation.partitions_apart import PartitionsApart
from tests.unit.processor.driving import Driven
from tidegate.raftlog.entry import Offset

_OFTEN: Final = 0.08
#: Each partition has read the descriptors of the tables by then.
_DESCRIBED: Final = 4
_UNREAD_MAX: Final = 12


class CutLogs(PartitionsApart):
    """The simulation of one seed. ``cuts`` counts how often a partition found that the records which it was
    to read next were gone."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.cuts = 0
        self._retention = Random(f"{seed}:retention")
        self._starts = [0] * self.count
        self._passes = True

    def _calm(self, *, with_snapshots: bool) -> bool:
        self._passes = False
        return super()._calm(with_snapshots=with_snapshots)

    def _read(self, driven: Driven, limit: int) -> None:
        number, read = driven.processor.partition, int(driven.processor.next_offset or 0)
        if self._passes and read >= _DESCRIBED and self._retention.random() < _OFTEN:
            start = min(len(self.log.partitions[number]), read + self._retention.randint(1, _UNREAD_MAX))
            self._starts[number] = max(self._starts[number], start)
        self._pass_over(driven)
        super()._read(driven, limit)

    def _restart(self, driven: Driven) -> None:
        super()._restart(driven)
        self._pass_over(driven)

    def _pass_over(self, driven: Driven) -> None:
        """Tell the processor that the log begins after the record that it was to read next."""
        start = self._starts[driven.processor.partition]
        if int(driven.processor.next_offset or 0) < start:
            self.cuts += 1
            self._note_result(driven, driven.processor.missing_below(Offset(start)))
