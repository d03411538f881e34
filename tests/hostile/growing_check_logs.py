"""Logs of n records for ``check-log``, each the worst of its kind that is known."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from tests.hand_log import HandLog, HandRange, HandTable, aborted, at, intent, txn
from tidegate.logcheck.breach import BreachPlace
from tidegate.logcheck.log_check import CheckedRecord, LogCheck, LogOptions
from tidegate.raftlog.entry import (
    Generation,
    OpenIntent,
    Parent,
    RaftIndex,
    RangeId,
    SnapshotReason,
    Trigger,
)
from tidegate.spans import Span

_TABLE: Final = HandTable.of(104, "t", "id INT, v STRING")
_OPS: Final = 50  # of a command


@dataclass(frozen=True, slots=True)
class CheckedLog:
    """A log; to call it is to check it."""

    records: list[CheckedRecord]

    @property
    def size(self) -> int:
        """The number of bytes of its records."""
        return sum(len(each.key or b"") + len(each.value or b"") for each in self.records)

    def __call__(self) -> None:
        check = LogCheck(LogOptions(1, ended=True), lambda _: None)
        for record in self.records:
            check.check_next(record)
        check.finish()


def _work(write: Callable[[HandLog, int], object]) -> Callable[[int], CheckedLog]:
    """Write a log of so many units, such as splits."""

    def make(count: int) -> CheckedLog:
        log = HandLog(1)
        log.describe(_TABLE)
        write(log, count)
        records = [
            CheckedRecord(BreachPlace(0, each.offset), each.key, each.value, each.timestamp)
            for each in log.partitions[0]
        ]
        return CheckedLog(records)

    return make


def _keys(first: int, end: int) -> Span:
    return Span(_TABLE.key(first), _TABLE.key(end))


def _child(log: HandLog, range_id: int, span: Span, *parents: Parent) -> HandRange:
    child = HandRange(log, RangeId(range_id), span)
    child.generation = 2
    child.snapshot(reason=SnapshotReason.SPLIT, parents=parents)
    return child


def _unknown(number: int, index: int = 5) -> Parent:
    return Parent(RangeId(1_000_000 + number), Generation(1), RaftIndex(index))


def _with_transactions(log: HandLog, count: int) -> HandRange:
    """A range with so many open transactions."""
    range_ = log.open_range(7, _TABLE.span)
    for first in range(0, count, _OPS):
        range_.apply(*(intent(first + each, 1) for each in range(_OPS)))
    return range_


def _triggers(log: HandLog, count: int) -> None:
    range_ = _with_transactions(log, count)
    for _ in range(count):
        range_.apply(trigger=Trigger.SPLIT)


def _triggers_and_ops(log: HandLog, count: int) -> None:
    range_ = _with_transactions(log, count)
    for number in range(count):
        range_.apply(trigger=Trigger.SPLIT)
        range_.apply(aborted(number))


def _snapshots_without_intents(log: HandLog, count: int) -> None:
    range_ = _with_transactions(log, count)
    for _ in range(count):
        range_.snapshot()


def _children_of_transactions(log: HandLog, count: int) -> None:
    range_ = _with_transactions(log, count)
    range_.apply(trigger=Trigger.SPLIT)
    for number in range(count):
        _child(log, 8 + number, _keys(number, number + 1), range_.as_parent())


def _children_of_two(log: HandLog, count: int) -> None:
    left = _with_transactions(log, count)
    left.apply(trigger=Trigger.MERGE)
    right = log.open_range(8, _keys(0, 1))
    right.end()
    for number in range(count):
        _child(log, 9 + number, _keys(number, number + 1), left.as_parent(), right.as_parent())


def _children(step: int) -> Callable[[HandLog, int], None]:
    """Children of one range, each with its own keys; with a step of 2 no two of them touch."""

    def write(log: HandLog, count: int) -> None:
        range_ = log.open_range(7, _keys(0, step * count))
        range_.apply(trigger=Trigger.SPLIT)
        for number in range(count):
            _child(log, 8 + number, _keys(step * number, step * number + 1), range_.as_parent())

    return write


def _waiting(log: HandLog, count: int) -> None:
    for number in range(count):
        _child(log, 7 + number, _keys(number, number + 1), _unknown(number))


def _waiting_for_one(log: HandLog, count: int) -> None:
    """All wait for other indexes of a range than those at which it splits."""
    for number in range(count):
        parent = Parent(RangeId(7), Generation(9), RaftIndex(11 + number))
        _child(log, 8 + number, _keys(number, number + 1), parent)
    _triggers(log, count)


def _waiting_for_skips(log: HandLog, count: int) -> None:
    """A range skips more and more of its log; the children wait for what is behind all of it."""
    for number in range(count):
        parent = Parent(RangeId(7), Generation(1), RaftIndex(10_000_000 + number))
        _child(log, 8 + number, _keys(number, number + 1), parent)
    range_ = log.open_range(7, _TABLE.span)
    for _ in range(count):
        range_.index += 2
        range_.snapshot(reason=SnapshotReason.RAFT_SNAPSHOT)


def _many_parents(log: HandLog, count: int) -> None:
    """A child of many parents, of which one comes at a time."""
    _child(log, 7, _TABLE.span, *(_unknown(number, index=10) for number in range(count)))
    for number in range(count):
        log.open_range(1_000_000 + number, _keys(number, number + 1)).end()


def _merges(log: HandLog, count: int) -> None:
    first, *others = (log.open_range(7 + number, _keys(number, number + 1)) for number in range(count))
    for other in others:
        first.merge(other)


def _splits(log: HandLog, count: int) -> None:
    range_ = log.open_range(7, _TABLE.span)
    for number in range(count):
        range_.split(_TABLE.key(2 * count - number), 8 + number)


def _intents_of_a_snapshot(log: HandLog, count: int) -> None:
    range_ = _with_transactions(log, count)
    intents = [OpenIntent(txn(number), b"anchor", _TABLE.key(1), at(1)) for number in range(count)]
    range_.snapshot(intents=intents)


def _large_write_below_closed(log: HandLog, count: int) -> None:
    range_ = log.open_range(7, _TABLE.span)
    range_.heartbeat(3)
    range_.apply(_TABLE.put(1, 5, "\x01" * 100 * count))


CHECKED_LOGS: Final[dict[str, Callable[[int], CheckedLog]]] = {
    "splits": _work(_splits),
    "merges": _work(_merges),
    "triggers with open transactions": _work(_triggers),
    "triggers between ops": _work(_triggers_and_ops),
    "snapshots without the open intents": _work(_snapshots_without_intents),
    "a snapshot of all open intents": _work(_intents_of_a_snapshot),
    "children of a range with open transactions": _work(_children_of_transactions),
    "children of two ranges with open transactions": _work(_children_of_two),
    "children of one range": _work(_children(1)),
    "children of one range that do not touch": _work(_children(2)),
    "ranges that wait for parents": _work(_waiting),
    "ranges that wait for one parent": _work(_waiting_for_one),
    "ranges that wait for what is skipped": _work(_waiting_for_skips),
    "a range of many parents": _work(_many_parents),
    "a large write below what is closed": _work(_large_write_below_closed),
}
