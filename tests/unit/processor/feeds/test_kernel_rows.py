"""Rows that a kernel refuses stand in their places, and a feed stops at the row at which Python would stop
it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from tests.feeds import activation
from tests.hand_log import HandLog, HandTable, at
from tests.unit.processor.driving import Driven
from tidegate.errors import StateError
from tidegate.processor.batch import LogRecord, OutputRecord, StepResult
from tidegate.processor.config import ProcessorConfig
from tidegate.processor.feeds.kernels import Kernel
from tidegate.processor.feeds.log_kernel import Followed, LogState, Named
from tidegate.processor.feeds.row_kernel import FeedRecords, TablePlan, Taken
from tidegate.processor.processor import PartitionProcessor
from tidegate.raftlog.entry import WriteValue
from tidegate.ranges.version import Version

_TABLE = HandTable.of(104, "t")


class _OddKernel:
    """A kernel that writes rows in its own way: those at odd places. It refuses all others."""

    def __init__(self) -> None:
        self.plans: list[Sequence[TablePlan]] = []

    def plan(self, tables: Sequence[TablePlan]) -> bool:
        self.plans.append(tables)
        versions = [version for table in tables for version in table.versions]
        self._feeds = {lane.feed for version in versions for lane in version.lanes or ()}
        return True

    def make_records(self, versions: Sequence[Version]) -> Taken | None:
        odd = range(1, len(versions), 2)
        records = [OutputRecord("t", 0, b"odd", None, 0, []) for _ in odd]
        feeds = {feed: FeedRecords([*records], [], [*odd]) for feed in self._feeds} if odd else {}
        return Taken(feeds, [*range(0, len(versions), 2)], {104: versions[-1].timestamp})

    def read(self, records: Sequence[LogRecord]) -> Named | None:
        return None

    def follow(self, state: LogState) -> Followed | None:
        return None

    def versions(self) -> Sequence[Version] | None:
        return None


class _Absent(_OddKernel):
    def make_records(self, versions: Sequence[Version]) -> Taken | None:
        return None


class _Kernels:
    def __init__(self, kernel: Kernel | None, *, checks: bool = False) -> None:
        self.checks = checks
        self._kernel = kernel

    def open(self) -> Kernel | None:
        return self._kernel


def _run(kernels: _Kernels | None, *ops: WriteValue) -> StepResult:
    log = HandLog(1)
    log.describe(_TABLE)
    log.open_range(7, _TABLE.span).apply(*ops)
    driven = Driven(PartitionProcessor(0, 1, ProcessorConfig(kernel=kernels)))
    driven.control(activation([_TABLE.descriptor]))
    return driven.step(log.partitions[0])


def _puts(count: int) -> list[WriteValue]:
    return [_TABLE.put(number, number, "x") for number in range(2, 2 + count)]


def _keys(result: StepResult) -> list[bytes]:
    return [record.key for records in result.outputs.values() for record in records]


def test_refused_rows_stand_in_their_places() -> None:
    assert _keys(_run(_Kernels(_OddKernel()), *_puts(5))) == [b"[2]", b"odd", b"[4]", b"odd", b"[6]"]


@pytest.mark.parametrize("kernel", [None, _Absent()])
def test_python_takes_what_no_kernel_takes(kernel: Kernel | None) -> None:
    assert _run(_Kernels(kernel), *_puts(5)) == _run(None, *_puts(5))


def test_a_feed_stops_at_a_refused_row_that_python_cannot_read() -> None:
    ops = _puts(5)
    ops[2] = ops[2]._replace(value=b"\0\0\0\0\x0a\xff")
    native, python = _run(_Kernels(_OddKernel()), *ops), _run(None, *ops)
    assert _keys(native) == [b"[2]", b"odd"]
    assert (native.incidents, native.acks, native.changes) == (python.incidents, python.acks, python.changes)


def test_a_kernel_is_told_of_feeds_and_of_each_descriptor_once() -> None:
    kernel = _OddKernel()
    log = HandLog(1)
    log.describe(_TABLE)
    log_range = log.open_range(7, _TABLE.span)
    for op in _puts(3):
        log_range.apply(op)
    driven = Driven(PartitionProcessor(0, 1, ProcessorConfig(kernel=_Kernels(kernel))))
    driven.control(activation([_TABLE.descriptor]))
    driven.run(log.partitions[0], batch=1)
    assert [len(tables) for tables in kernel.plans] == [1]
    assert [len(version.lanes or ()) for table in kernel.plans[0] for version in table.versions] == [1]
    log.describe(HandTable(replace(_TABLE.descriptor, version=2, modified=at(8))))
    log_range.apply(_TABLE.put(9, 9, "y"))
    driven.run(log.partitions[0][-2:])
    assert [len(version.lanes or ()) for table in kernel.plans[1] for version in table.versions] == [1, 1]
    assert len(kernel.plans) == 2


def test_a_checked_kernel_that_differs_ends_the_process_with_both_records() -> None:
    with pytest.raises(StateError, match=r"at 1 of 5: OutputRecord\(.*b'odd'.*b'\[3\]'.*TIDEGATE_KERNEL=off"):
        _run(_Kernels(_OddKernel(), checks=True), *_puts(5))
