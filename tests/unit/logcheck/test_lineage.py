"""Ranges that ended are remembered up to bounds; a child of a forgotten one is not accused, and counted."""

from __future__ import annotations

import pytest

from tests.hand_log import HandLog, HandRange, HandTable, aborted, at, intent, txn
from tidegate.logcheck.breach import Breach, BreachPlace, Rule
from tidegate.logcheck.log_check import CheckedRecord, LogCheck, LogOptions
from tidegate.logcheck.memory import CheckLimits
from tidegate.raftlog.entry import (
    AbortTxn,
    Generation,
    OpenIntent,
    Parent,
    RaftIndex,
    RangeId,
    SnapshotReason,
    Trigger,
)
from tidegate.spans import Span

_LIMITS = CheckLimits()
_TABLE = HandTable.of(104, "t", "id INT, v STRING")


def _checked(
    log: HandLog, limits: CheckLimits = _LIMITS, *, ended: bool = True
) -> tuple[list[Breach], tuple[str, ...]]:
    """The breaches, and what was not decided."""
    breaches: list[Breach] = []
    check = LogCheck(LogOptions(1, ended=ended, limits=limits), breaches.append)
    for each in log.partitions[0]:
        check.check_next(CheckedRecord(BreachPlace(0, each.offset), each.key, each.value, each.timestamp))
    return breaches, check.finish().undecided


def _open(*numbers: int) -> tuple[OpenIntent, ...]:
    return tuple(OpenIntent(txn(number), b"anchor", _TABLE.key(6), at(1)) for number in numbers)


def _late_child(*listed: int) -> HandLog:
    """A range with two open intents splits. Its child, which lists these, comes after splits of another."""
    log = HandLog(1)
    log.describe(_TABLE)
    parent = log.open_range(7, Span(_TABLE.key(0), _TABLE.key(10)))
    other = log.open_range(9, Span(_TABLE.key(10), _TABLE.key(20)))
    parent.apply(intent(1, 1), intent(2, 1))
    parent.apply(trigger=Trigger.SPLIT)
    left = parent.as_parent()
    parent.span, parent.generation = Span(_TABLE.key(0), _TABLE.key(5)), parent.generation + 1
    parent.snapshot(reason=SnapshotReason.SPLIT, parents=(left,), intents=_open(1))
    for number in range(5):
        other.split(_TABLE.key(19 - number), 20 + number)
    child = HandRange(log, RangeId(8), Span(_TABLE.key(5), _TABLE.key(10)))
    child.generation = parent.generation
    child.snapshot(reason=SnapshotReason.SPLIT, parents=(left,), intents=_open(*listed))
    child.apply(*(aborted(number) for number in listed))
    return log


def test_a_child_that_lists_other_intents_than_its_parent_left_is_told() -> None:
    assert _checked(_late_child(2)) == ([], ())
    breaches, undecided = _checked(_late_child(3))
    assert {breach.rule for breach in breaches} == {Rule.SNAPSHOT}
    assert undecided == ()


@pytest.mark.parametrize("limits", [CheckLimits(estates=3), CheckLimits(left=4)], ids=["estates", "left"])
@pytest.mark.parametrize("listed", [2, 3])
def test_a_child_of_what_was_forgotten_is_not_judged_and_that_is_told(
    limits: CheckLimits, listed: int
) -> None:
    breaches, (undecided,) = _checked(_late_child(listed), limits)
    assert breaches == []
    assert undecided.startswith("1 Snapshots after splits and merges were not compared with all that")


def test_a_child_waits_for_a_parent_that_has_not_come_so_far_though_others_were_forgotten() -> None:
    log = _late_child(2)
    unknown = HandRange(log, RangeId(50), Span(_TABLE.key(20), _TABLE.key(21)))
    unknown.snapshot(reason=SnapshotReason.SPLIT, parents=(Parent(RangeId(7), Generation(9), RaftIndex(99)),))
    breaches, _ = _checked(log, CheckLimits(estates=1))
    assert [breach.sentence for breach in breaches if "waits" in breach.sentence] == [
        "range 50 waits for a parent that never came so far"
    ]


def test_a_range_that_splits_again_and_again_pays_for_its_transactions() -> None:
    """Its 1,000 aborted transactions are handed on at each split, and no Snapshot lists them."""
    log = HandLog(1)
    log.describe(_TABLE)
    range_ = log.open_range(7, Span(_TABLE.key(0), _TABLE.key(1_000)))
    for number in range(_LIMITS.aborted):
        range_.apply(AbortTxn(txn(number)))
    for number in range(500):
        range_.split(_TABLE.key(999 - number), 8 + number)
    assert _checked(log) == ([], ())


def test_triggers_that_no_snapshot_follows_pay_for_few_copies() -> None:
    log = HandLog(1)
    log.describe(_TABLE)
    range_ = log.open_range(7, _TABLE.span)
    range_.apply(*(intent(number, 1) for number in range(5_000)))
    for _ in range(200):
        range_.apply(trigger=Trigger.SPLIT)
    left = range_.as_parent()
    range_.generation += 1
    range_.snapshot(reason=SnapshotReason.SPLIT, parents=(left,), intents=_open(1))
    breaches, (undecided,) = _checked(log)
    assert {breach.rule for breach in breaches} == {Rule.TRIGGER}
    assert "were not compared" in undecided


def test_many_ranges_that_wait_are_told_by_a_bounded_number_of_sentences() -> None:
    log = HandLog(1)
    log.describe(_TABLE)
    for number in range(150):
        child = HandRange(log, RangeId(7 + number), Span(_TABLE.key(number), _TABLE.key(number + 1)))
        parent = Parent(RangeId(1_000 + number), Generation(1), RaftIndex(5))
        child.snapshot(reason=SnapshotReason.SPLIT, parents=(parent,))
    _, undecided = _checked(log, ended=False)
    assert sum("waits for a parent" in sentence for sentence in undecided) == 100
    assert "50 more ranges were checked without their parents" in undecided
