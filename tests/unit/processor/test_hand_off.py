"""Splits and merges: a key's rows come out in order, and no checkpoint covers a row that was not written."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import permutations

import pytest

from tests.feeds import activation
from tests.hand_log import HandLog, HandRange, at, intent, txn
from tests.unit.processor.driving import Driven, range_of, timestamp_of
from tests.unit.processor.logs import OTHER, PLAIN
from tests.unit.processor.partitions import (
    FEED,
    MIDDLE,
    UPPER,
    Partitions,
    beats,
    chain_log,
    scans_of,
    split_log,
)
from tidegate.hlc import Timestamp
from tidegate.processor.config import ProcessorConfig
from tidegate.processor.moving.parking import HAND_OFF_LIMIT_MS
from tidegate.processor.processor import PartitionProcessor
from tidegate.raftlog.entry import Offset, OpenIntent, RangeId, SnapshotReason, Trigger, WriteValue
from tidegate.ranges.handoff import Claim
from tidegate.spans import Span


@pytest.mark.parametrize("batch", [1, 2, 99])
def test_a_child_emits_nothing_before_its_parent_has_handed_off(batch: int) -> None:
    run = Partitions(split_log())
    run.read(1, batch=batch)
    assert run.rows() == {0: [], 1: []}
    assert run.parked() == [(3, (2,))]
    assert run.resolved(3) is None
    run.read(0, batch=batch)
    assert run.rows()[1] == []
    run.settle()
    assert run.rows() == {0: [at(5), at(9)], 1: [at(8)]}
    assert (run.resolved(2), run.resolved(3)) == (at(8), at(7))
    assert run.parked() == []
    assert run.causes() == []


def test_the_claim_may_come_before_or_after_the_parents_trigger() -> None:
    for order in ((0, 1), (1, 0)):
        run = Partitions(split_log())
        for number in order:
            run.read(number)
        run.settle()
        assert run.rows() == {0: [at(5), at(9)], 1: [at(8)]}


@pytest.mark.parametrize("batch", [1, 3, 99])
def test_ranges_of_one_partition_hand_off_within_the_step(batch: int) -> None:
    run = Partitions(split_log(1))
    run.read(0, batch=batch)
    assert sorted(run.rows()[0]) == [at(5), at(8), at(9)]
    assert run.sent == [[]]
    assert run.parked() == []


def test_a_child_whose_snapshot_stands_before_the_trigger_waits_in_its_own_partition_too() -> None:
    log = HandLog(1)
    log.describe(PLAIN)
    parent = log.open_range(2, PLAIN.span)
    parent.apply(PLAIN.put(5, 150, "parent"), close=4)
    early = HandLog(1)
    early.describe(PLAIN)
    begun = early.open_range(2, PLAIN.span)
    begun.apply(PLAIN.put(5, 150, "parent"), close=4)
    child = begun.split(MIDDLE, 3, close=6)
    child.apply(PLAIN.put(8, 150, "child"), close=7)
    *head, trigger, left, born, write = early.partitions[0]
    order = [*head[:-1], born, write, head[-1], trigger, left]
    records = [record._replace(offset=offset) for offset, record in enumerate(order)]
    driven = Driven(PartitionProcessor(0, 1))
    driven.control(FEED)
    driven.run(records, 1)
    assert list(map(timestamp_of, driven.rows)) == [at(5), at(8)]
    assert driven.processor.status().parked == ()


@pytest.mark.parametrize("order", list(permutations(range(3))))
@pytest.mark.parametrize("batch", [1, 99])
def test_a_chain_of_splits_and_merges_keeps_the_order_of_a_key(order: Sequence[int], batch: int) -> None:
    run = Partitions(chain_log()[0])
    for number in order:
        run.read(number, batch=batch)
    seen = [timestamp for _, timestamp in _in_time(run)]
    assert seen == sorted(seen)
    run.settle()
    assert [timestamp for _, timestamp in _in_time(run)] == [at(1), at(3), at(5), at(7)]
    assert run.resolved(3) == at(7)
    assert run.causes() == []


def _in_time(run: Partitions) -> Iterator[tuple[int, Timestamp]]:
    """Rows of all partitions by their timestamps: of one key, whose versions rise with each hand-off."""
    rows = [(range_of(row), timestamp_of(row)) for driven in run.driven for row in driven.rows]
    return iter(sorted(rows, key=lambda row: row[1]))


@pytest.mark.parametrize("cut", range(1, 8))
@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_a_restart_at_any_place_loses_nothing(cut: int, order: Sequence[int]) -> None:
    run = Partitions(split_log())
    for number in order:
        run.read(number, upto=cut)
        run.restart(number)
    for number in order:
        run.exchange(number)
        run.restart(number)
        run.read(number, batch=1)
        run.restart(number)
    run.settle()
    assert {timestamp for rows in run.rows().values() for timestamp in rows} == {at(5), at(8), at(9)}
    assert (run.resolved(2), run.resolved(3)) == (at(8), at(7))
    assert run.causes() == []


def test_a_parked_range_is_read_again_from_its_snapshot() -> None:
    run = Partitions(split_log())
    run.read(1)
    before = run.driven[1].processor.next_offset
    run.restart(1)
    after = run.driven[1].processor.next_offset
    assert before is not None
    assert after is not None
    assert after < before
    run.read(1)
    assert run.parked() == [(3, (2,))]


def test_nobody_waits_for_rows_that_no_feed_wants() -> None:
    late = activation([PLAIN.descriptor], start=at(6))
    run = Partitions(split_log(), late)
    run.read(1)
    assert run.rows()[1] == [at(8)]
    assert run.parked() == []
    assert [type(message) for message in run.sent[0]] == [Claim]  # its parent may not learn of it otherwise


def _child_of(log: HandLog) -> HandRange:
    """Range 3 as `split_log` leaves it."""
    child = HandRange(log, RangeId(3), Span(MIDDLE, PLAIN.span.end))
    child.generation, child.index = 2, child.index + 1
    return child


def test_a_parent_is_waited_for_as_long_as_its_partition_was_not_read() -> None:
    """However long that is: how far another partition is nobody here can know."""
    log = split_log()
    child = _child_of(log)
    other = log.open_range(1, OTHER.span)
    run = Partitions(log)
    run.read(1)
    beats(log, [child, other], 10, 10 + 5 * HAND_OFF_LIMIT_MS // 1000)
    run.read(1, batch=10)
    assert scans_of(run, 1) == []
    assert run.parked() == [(3, (2,))]
    assert len(run.sent[0]) == 1 + 5, "it claims again every ten minutes"
    run.settle()
    assert run.parked() == []
    assert run.rows() == {0: [at(5), at(9)], 1: [at(8)]}


@pytest.mark.parametrize("batch", [1, 10_000])
def test_a_parent_that_its_partition_does_not_come_to_is_scanned_for_in_the_end(batch: int) -> None:
    """The log of partition 0 has lost its beginning; it is read long after partition 1."""
    log = split_log()
    others = [log.open_range(1, OTHER.span), log.open_range(4, OTHER.span), _child_of(log)]
    cut = len(log.partitions[0]) - 1
    beats(log, others, 10, 30 + 2 * HAND_OFF_LIMIT_MS // 1000)
    run = Partitions(log)
    run.read(1)
    run.driven[0].note(run.driven[0].processor.missing_below(Offset(cut)))
    run.exchange(0)
    middle = cut + (len(log.partitions[0]) - cut) // 3
    run.read(0, middle, batch)
    run.exchange(1)
    assert scans_of(run, 1) == []
    run.read(0, batch=batch)
    run.exchange(1)
    run.read(1)
    (scan,) = scans_of(run, 1)
    assert (scan.range_id, scan.upto, scan.after) == (3, at(5), FEED.start)


def test_a_row_of_a_child_below_what_its_parent_had_resolved_is_refused() -> None:
    log = HandLog(2)
    log.describe(PLAIN)
    parent = log.open_range(2, PLAIN.span)
    parent.apply(PLAIN.put(5, 150, "parent"), close=9)
    child = parent.split(MIDDLE, 3, close=0)
    child.apply(PLAIN.put(8, 150, "child"), close=7)
    run = Partitions(log)
    run.settle()
    assert run.rows()[1] == []
    assert any("an earlier generation" in cause for cause in run.causes())


def test_a_range_that_waits_for_a_merge_hands_nothing_off_itself() -> None:
    """4 takes 5 over, and 3 takes 4 over with no command between: 3 has to wait for the rows of 5 as well."""
    log = HandLog(3)
    log.describe(PLAIN)
    first, rest = PLAIN.split(100)
    last = PLAIN.split(200)[1]
    heir, middle = log.open_range(3, first), log.open_range(4, Span(rest.start, last.start))
    right = log.open_range(5, last)
    right.apply(PLAIN.put(5, 250, "right"), close=4)
    middle.merge(right, close=6)
    heir.merge(middle, close=7)
    heir.apply(PLAIN.put(9, 250, "heir"), close=9)
    run = Partitions(log)
    for _ in range(3):
        for number in (0, 1):
            run.read(number)
            run.exchange(number)
    assert run.rows() == {0: [], 1: [], 2: []}
    assert run.resolved(3) is None
    run.settle()
    assert run.rows() == {0: [at(9)], 1: [], 2: [at(5)]}
    assert run.resolved(3) == at(9)


def test_what_one_parent_had_resolved_binds_none_of_the_others_keys() -> None:
    """The left range has an open intent below what the right one has resolved."""
    log = HandLog(2)
    log.describe(PLAIN)
    low, high = PLAIN.split(100)
    left, right = log.open_range(2, low), log.open_range(3, high)
    left.apply(intent(1, 5), close=9)
    right.apply(PLAIN.put(6, 150, "right"), close=9)
    left.merge(right, close=9, intents=[OpenIntent(txn(1), b"anchor", PLAIN.key(1), at(5))])
    left.apply(PLAIN.commit(1, 7, 1, "left"), close=10)
    run = Partitions(log)
    run.settle()
    assert run.rows() == {0: [at(7)], 1: [at(6)]}
    assert run.causes() == []


def test_a_state_that_waits_is_the_same_after_its_restart() -> None:
    run = Partitions(split_log())
    run.read(1)
    restored = PartitionProcessor.restore(
        1, 2, ProcessorConfig(), ((table, key, value) for (table, key), value in run.driven[1].state.items())
    )
    assert restored.next_hand_off == run.driven[1].processor.next_hand_off


def test_a_range_takes_nothing_twice_that_is_touched_while_its_partition_reads_again() -> None:
    log = HandLog(2)
    log.describe(PLAIN)
    other = log.open_range(3, PLAIN.split(50)[0])
    left, right = log.open_range(5, Span(MIDDLE, UPPER)), log.open_range(6, Span(UPPER, PLAIN.span.end))
    parent = log.open_range(2, Span(PLAIN.key(50), MIDDLE))
    parent.apply(PLAIN.put(4, 60, "parent"), close=4)
    right.apply(PLAIN.put(4, 250, "right"), close=4)
    other.merge(parent, close=5)
    left.heartbeat(5)
    left.merge(right, close=6)
    left.apply(PLAIN.put(7, 250, "merged"), close=7)
    run = Partitions(log)
    run.read(1)
    assert run.parked() == [(3, (2,)), (5, (6,))]
    run.restart(1)
    run.read(0)
    run.exchange(0)
    run.read(1, upto=(run.driven[1].processor.next_offset or 0) + 1)
    run.exchange(1)
    run.settle()
    assert run.causes() == []
    assert run.resolved(5) == at(7)


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
@pytest.mark.parametrize("moves", ["split", "merge"])
def test_a_range_that_refused_a_command_promises_no_heir_what_it_had(
    moves: str, order: Sequence[int]
) -> None:
    """The refused command has a good row of the heir's keys: it is scanned for, and no marker covers it."""
    log = HandLog(2)
    log.describe(PLAIN)
    far, good = PLAIN.put(200_000, 101, "two days ahead"), PLAIN.put(3, 102, "good")
    if moves == "split":
        broken, heir = log.open_range(2, PLAIN.span), 3
        broken.apply(PLAIN.put(1, 101, "first"), close=2)
        _refuse(log, broken, good, far, trigger=Trigger.SPLIT)
        parent, keys = broken.as_parent(), Span(MIDDLE, PLAIN.span.end)
        broken.span, broken.generation = Span(PLAIN.span.start, MIDDLE), 2
        broken.snapshot(reason=SnapshotReason.SPLIT, close=3, high=3, parents=(parent,))
        born = HandRange(log, RangeId(heir), keys)
        born.generation, born.high = 2, 3
        born.snapshot(reason=SnapshotReason.SPLIT, close=3, high=3, parents=(parent,))
        born.heartbeat(9)
    else:
        left, heir = log.open_range(3, Span(PLAIN.span.start, MIDDLE)), 3
        broken = log.open_range(2, Span(MIDDLE, PLAIN.span.end))
        broken.apply(PLAIN.put(1, 101, "first"), close=2)
        _refuse(log, broken, good, far)
        left.merge(broken, close=6)
        left.heartbeat(9)
    run = Partitions(log)
    for number in order:
        run.read(number)
        for scan in scans_of(run, 0):
            broken.scanned(scan)  # the range that has split heals before anybody asks it
        run.read(number)
    run.settle()
    resolved = run.resolved(heir)
    assert resolved is None or resolved < at(3)
    assert [scan.range_id for scan in scans_of(run, 1)] == [heir]
    assert any("the time of a version is" in cause for cause in run.causes())


def _refuse(log: HandLog, broken: HandRange, *ops: WriteValue, trigger: Trigger = Trigger.NONE) -> None:
    """Write a command whose record time is that of its first op."""
    broken.index += 1
    log.wait_for(ops[0].timestamp)
    broken.high = 3
    log.write(broken.command(*ops, close=4 if trigger is Trigger.NONE else 3, trigger=trigger))


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
@pytest.mark.parametrize("batch", [1, 99])
@pytest.mark.parametrize("cut", [None, 3])
def test_a_source_that_crashes_within_the_snapshots_of_a_split_stops_no_range(
    order: Sequence[int], batch: int, cut: int | None
) -> None:
    """It writes them again from their first chunks on. A partition may begin anew between the two."""
    log = HandLog(2)
    log.describe(PLAIN)
    whole = log.open_range(2, PLAIN.span)
    whole.apply(PLAIN.put(1, 101, "first"), close=2)
    whole.apply(trigger=Trigger.SPLIT, close=3)
    parent = whole.as_parent()
    whole.span, whole.generation = Span(PLAIN.span.start, MIDDLE), 2
    born = HandRange(log, RangeId(3), Span(MIDDLE, PLAIN.span.end))
    born.generation = 2
    for each in (whole, born):
        for number in (0, 0, 1):
            each.snapshot(
                reason=SnapshotReason.SPLIT, close=3, high=1, parents=(parent,), chunk=number, chunks=2
            )
        each.heartbeat(9)
    born.apply(PLAIN.put(10, 102, "a row of the child"), close=10)
    run = Partitions(log)
    for number in order:
        if cut is not None:
            run.read(number, cut, batch)
            run.restart(number)
        run.read(number, batch=batch)
    run.settle()
    assert run.causes() == []
    assert (run.resolved(2), run.resolved(3)) == (at(9), at(10))
    assert sorted(time for times in run.rows().values() for time in times) == [at(1), at(10)]
