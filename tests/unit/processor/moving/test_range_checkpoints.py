"""A range whose keys have all gone to others says so once, though nobody watches what it has now."""

from __future__ import annotations

from typing import Final

from tests.feeds import activation
from tests.hand_log import HandLog, HandTable, at
from tests.unit.processor.catchup.partition_parts import CHILD, HERE, HIGH, LOW, Parts
from tests.unit.processor.driving import active
from tests.unit.processor.logs import PLAIN
from tidegate.hlc import ClosedTimestamp, ResolvedTimestamp, Timestamp
from tidegate.processor.batch import RangeCheckpoint
from tidegate.processor.moving.range_checkpoints import RangeCheckpoints
from tidegate.raftlog.entry import Offset, RangeId
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


def _told(found: list[RangeCheckpoint]) -> list[tuple[RangeId, Span]]:
    return [(each.range_id, each.span) for each in found]


def test_ranges_are_told_by_what_feeds_watch_now() -> None:
    parts = Parts()
    parts.range(HERE, LOW, resolved=4)
    parts.range(CHILD, HIGH, resolved=4)
    checkpoints = RangeCheckpoints(parts.table)
    low, both = (LOW,), (LOW, HIGH)
    assert _told(checkpoints.of(low, everything=False)) == [(HERE, LOW)]
    assert _told(checkpoints.of(both, everything=False)) == [(CHILD, HIGH)]
    assert _told(checkpoints.of(both, everything=True)) == [(HERE, LOW), (CHILD, HIGH)]
    assert _told(checkpoints.of(low, everything=True)) == [(HERE, LOW)]


def test_a_range_that_nobody_watches_any_more_has_not_moved_away() -> None:
    parts = Parts()
    state = parts.range(HERE, LOW, resolved=4)
    checkpoints = RangeCheckpoints(parts.table)
    assert _told(checkpoints.of((LOW,), everything=False)) == [(HERE, LOW)]
    state.resolver.forward_closed(ClosedTimestamp(at(5)))
    assert checkpoints.of((HIGH,), everything=False) == []
    state.span = Span(b"\x01", b"\x02")
    assert checkpoints.of((HIGH,), everything=False) == []


def test_nothing_is_told_of_a_range_that_has_resolved_nothing() -> None:
    parts = Parts()
    state = parts.range(HERE, resolved=4)
    checkpoints = RangeCheckpoints(parts.table)
    for wall, is_told in ((0, False), (1, True)):
        state.quarantine_at(Offset(9), "broken", ResolvedTimestamp(Timestamp(wall, 0)))
        for _ in range(2):
            found = checkpoints.of((PLAIN.span,), everything=True)
            assert [each.resolved.wall for each in found] == [wall] * is_told, "and it is told again"
