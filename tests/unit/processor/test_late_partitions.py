"""Partitions that are read at different times: one claims what the other has not come to."""

from __future__ import annotations

import pytest

from tests.feeds import activation
from tests.hand_log import HandLog, at, seconds_of
from tests.unit.processor.logs import OTHER, PLAIN
from tidegate.changefeed.encoding.json_decoder import parse_record
from tidegate.changefeed.encoding.record import RowRecord
from tidegate.processor.reference import ReferenceEngine
from tidegate.raftlog.encode import encode_key
from tidegate.raftlog.entry import RangeId, SnapshotReason, Trigger
from tidegate.raftlog.request import Scan
from tidegate.ranges.range_state import RangeStatus
from tidegate.spans import Span


def _rows(engine: ReferenceEngine) -> list[float]:
    records = (record for each in engine.output.values() for record in each if record.key is not None)
    rows = (parse_record(record.key, record.value) for record in records)
    return sorted(
        seconds_of(row.updated) for row in rows if isinstance(row, RowRecord) and row.updated is not None
    )


@pytest.mark.parametrize("again", ["a periodic Snapshot", "a copy of the merge's Snapshot"])
def test_a_range_that_its_heir_has_taken_over_is_not_revived_by_a_snapshot(again: str) -> None:
    """Range 2 waits for what range 3 missed, and range 1 claims it meanwhile, and scans."""
    feed, log = activation([PLAIN.descriptor]), HandLog(partitions=2)
    log.describe(PLAIN)
    low, high = PLAIN.split(100)
    left = log.open_range(1, low)
    middle = log.open_range(2, Span(high.start, PLAIN.key(150)))
    right = log.open_range(3, Span(PLAIN.key(150), high.end))
    for range_, key in ((left, 1), (middle, 100), (right, 150)):
        range_.apply(PLAIN.put(5, key, "x"), close=6)
    log.write_bytes(1, encode_key(right.id), b"\xff")
    right.index += 1
    right.apply(PLAIN.put(20, 160, "missing"), close=20)
    before = [len(records) for records in log.partitions]
    middle.merge(right, close=30)
    merged = len(log.partitions[0])
    if again == "a periodic Snapshot":
        middle.snapshot(close=40, high=30)
    else:
        log.write_bytes(0, log.partitions[0][-1].key or b"", log.partitions[0][-1].value)
    middle.heartbeat(50)
    followed = len(log.partitions[0])
    middle.apply(PLAIN.put(55, 101, "y"), close=55)
    left.heartbeat(50)
    beaten = len(log.partitions[1])
    left.merge(middle, close=60)

    engine = ReferenceEngine(2, [feed])
    for partition in (0, 1):
        engine.step(partition, log.partitions[partition][: before[partition]])
    engine.step(1, log.partitions[1][before[1] : beaten])
    engine.step(0, log.partitions[0][before[0] : merged])
    engine.step(1, log.partitions[1][beaten:])  # range 1 claims range 2
    engine.step(0, log.partitions[0][merged:followed])
    ended = engine._processors[0]._state.ranges.table.states[RangeId(2)]
    assert ended.status is RangeStatus.ENDED
    assert seconds_of(engine.high_water(feed.feed_id)) == 6, "the row at 20 has not come"
    assert _rows(engine) == [5, 5, 5]
    assert [scan.range_id for scan in engine.requests if isinstance(scan, Scan)] == [2, 1]


@pytest.mark.parametrize("order", [(0, 1), (1, 0)], ids=["parent first", "child first"])
def test_a_parent_whose_log_is_only_late_has_not_lost_its_end(order: tuple[int, int]) -> None:
    """Nobody has read for half an hour, in which range 2 was written and merged away."""
    feed, log = activation([PLAIN.descriptor], start=at(5)), HandLog(partitions=2)
    log.describe(PLAIN)
    low, high = PLAIN.split(100)
    left, right = log.open_range(1, low, gc=8), log.open_range(2, high, gc=8)
    left.apply(PLAIN.put(10, 1, "a"), close=10)
    right.apply(PLAIN.put(10, 100, "b"), close=10)
    others = log.open_range(4, OTHER.span), log.open_range(3, Span(b"\xff\x01", b"\xff\x02"))
    start = [len(records) for records in log.partitions]
    for second in range(11, 1_800, 6):
        log.wait_for(at(second + 3))
        right.apply(PLAIN.put(second, 100 + second, "b"), close=second)
        for range_ in (left, *others):
            range_.heartbeat(second)
    right.end()
    left.apply(trigger=Trigger.MERGE, close=1_801)
    parents = left.as_parent(), right.as_parent()
    left.span, left.generation = PLAIN.span, left.generation + 1
    left.snapshot(reason=SnapshotReason.MERGE, close=1_801, high=right.high, parents=parents, gc=8)
    for second in range(1_804, 1_830, 3):
        log.wait_for(at(second + 3))
        left.heartbeat(second)
        for range_ in others:
            range_.heartbeat(second)

    engine = ReferenceEngine(2, [feed])
    for partition in (0, 1):
        engine.step(partition, log.partitions[partition][: start[partition]])
    for partition in order:
        records = log.partitions[partition][start[partition] :]
        for first in range(0, len(records), 50):
            engine.step(partition, records[first : first + 50])
    assert [incident.cause for incident in engine.incidents] == []
    assert not [request for request in engine.requests if isinstance(request, Scan)]
    assert seconds_of(engine.high_water(feed.feed_id)) == 1_828


@pytest.mark.parametrize("order", [(0, 1), (1, 0)], ids=["parent first", "child first"])
@pytest.mark.parametrize("minutes", [9, 15])
def test_a_child_does_not_give_up_a_parent_whose_partition_is_read_later(
    order: tuple[int, int], minutes: int
) -> None:
    """Nobody has read for a while, in whose beginning range 2 was merged into range 1.

    A catch-up passes those minutes in a second. The store keeps no versions from before, so a scan could not
    bring what range 2 has: the feed would fail.
    """
    feed, log = activation([PLAIN.descriptor], start=at(5)), HandLog(partitions=2)
    log.describe(PLAIN)
    low, high = PLAIN.split(100)
    left, right = log.open_range(1, low), log.open_range(2, high)
    left.apply(PLAIN.put(10, 1, "a"), close=10)
    right.apply(PLAIN.put(10, 100, "b"), close=10)
    others = log.open_range(4, OTHER.span), log.open_range(3, Span(b"\xff\x01", b"\xff\x02"))
    log.wait_for(at(13))
    start = [len(records) for records in log.partitions]
    right.apply(PLAIN.put(12, 105, "c"), close=12)
    right.end()
    left.apply(trigger=Trigger.MERGE, close=12)
    parents = left.as_parent(), right.as_parent()
    left.span, left.generation = PLAIN.span, left.generation + 1
    left.snapshot(reason=SnapshotReason.MERGE, close=12, high=12, parents=parents, gc=8)
    last = 15 + 60 * minutes
    for second in range(15, last, 3):
        log.wait_for(at(second + 3))
        for range_ in (left, *others):
            range_.heartbeat(second)

    engine = ReferenceEngine(2, [feed])
    for partition in (0, 1):
        engine.step(partition, log.partitions[partition][: start[partition]])
    for partition in order:
        records = log.partitions[partition][start[partition] :]
        for first in range(0, len(records), 50):
            engine.step(partition, records[first : first + 50])
    assert [incident.cause for incident in engine.incidents] == []
    assert engine.requests == []
    assert _rows(engine) == [10, 10, 12]
    assert seconds_of(engine.high_water(feed.feed_id)) == last - 3
