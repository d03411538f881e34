"""A range whose keys have all gone to others says so once, though nobody watches what it has now."""

from __future__ import annotations

from typing import Final

from tests.feeds import activation
from tests.hand_log import HandLog, HandTable, at
from tests.unit.processor.driving import active
from tidegate.processor.batch import RangeCheckpoint
from tidegate.raftlog.entry import RangeId
from tidegate.spans import Span

_TABLE: Final = HandTable.of(104, "plain")
_BEFORE: Final = HandTable.of(103, "before")
_BOTH: Final = Span(_BEFORE.span.start, _TABLE.span.end)


def test_a_range_without_watched_keys_tells_its_new_span_once() -> None:
    log = HandLog(partitions=1)
    log.describe(_TABLE)
    left = log.open_range(1, _BOTH)
    left.heartbeat(3)
    right = left.split(_TABLE.span.start, 2, close=4)
    for second in (5, 6, 7):
        left.heartbeat(second)
        right.heartbeat(second)
    driven = active(activation([_TABLE.descriptor]))
    told: list[RangeCheckpoint] = []
    for record in log.partitions[0]:
        result = driven.step([record])
        told += [] if result.checkpoint is None else result.checkpoint.ranges
    by_left = [(each.span, each.resolved) for each in told if each.range_id == RangeId(1)]
    assert by_left[-1] == (Span(_BEFORE.span.start, _TABLE.span.start), at(4))
    assert [each.resolved for each in told if each.range_id == RangeId(2)][-1] == at(7)
