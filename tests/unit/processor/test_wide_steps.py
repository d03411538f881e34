"""A step's work for a record does not grow with ranges and feeds that the record does not concern.

Steps are counted and not timed: each call of a function, Python's or the interpreter's, is one.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from itertools import pairwise

import pytest

from tests.feeds import activation
from tests.hand_log import HandLog, HandRange, HandTable
from tests.logs import Record
from tidegate.kernel.kernel_mode import KernelMode
from tidegate.kernel.partition_kernel import kernels_for
from tidegate.processor.batch import ControlRecord, StepResult
from tidegate.processor.config import ProcessorConfig
from tidegate.processor.processor import PartitionProcessor
from tidegate.raftlog.entry import Offset
from tidegate.spans import Span

_MODES = [KernelMode.OFF, KernelMode.ON]


def _calls(work: Callable[[], object]) -> int:
    count = 0

    def note(_: object, event: str, __: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(None)
    return count


class _Partition:
    """A processor behind the head of a log, and the log to write on."""

    def __init__(self, ranges: int, feeds: int, mode: KernelMode) -> None:
        self.tables = [HandTable.of(104 + number, f"t{number}") for number in range(feeds)]
        self.log, self._read = HandLog(1), 0
        self.log.describe(*self.tables)
        self.ranges = [*self._opened(ranges)]
        self.processor = PartitionProcessor(0, 1, ProcessorConfig(kernel=kernels_for(mode), detachable=True))
        for number, table in enumerate(self.tables):
            feed = activation([table.descriptor], feed_id=f"feed-{number}")
            self.processor.control([ControlRecord(Offset(number), feed)])
        self.step()
        self.beat(1)
        self.step()

    def _opened(self, ranges: int) -> Iterator[HandRange]:
        table = self.tables[0]
        bounds = [table.span.start, *(table.key(number) for number in range(1, ranges)), table.span.end]
        for number, (start, end) in enumerate(pairwise(bounds)):
            yield self.log.open_range(number + 1, Span(start, end))

    def beat(self, seconds: float) -> None:
        for each in self.ranges:
            each.heartbeat(seconds)

    def step(self) -> StepResult:
        records = self._new()
        return self.processor.step(records)

    def _new(self) -> list[Record]:
        records = self.log.partitions[0]
        new, self._read = [*records[self._read :]], len(records)
        return new

    def calls_of_step(self) -> int:
        records = self._new()
        return _calls(lambda: self.processor.step(records))


@pytest.mark.parametrize("mode", _MODES)
def test_a_heartbeat_takes_as_much_among_many_ranges(mode: KernelMode) -> None:
    few, many = _Partition(100, 1, mode), _Partition(400, 1, mode)
    for partition in (few, many):
        partition.beat(2)
    assert many.calls_of_step() < 4.2 * few.calls_of_step()


@pytest.mark.parametrize("mode", _MODES)
def test_a_row_takes_as_much_among_many_ranges(mode: KernelMode) -> None:
    few, many = _Partition(100, 1, mode), _Partition(400, 1, mode)
    for partition in (few, many):
        for number in range(50):
            partition.ranges[number].apply(partition.tables[0].put(2, number, "v"), close=2)
    assert many.calls_of_step() < 1.1 * few.calls_of_step()


@pytest.mark.parametrize("mode", _MODES)
def test_a_row_takes_as_much_with_feeds_that_it_does_not_concern(mode: KernelMode) -> None:
    few, many = _Partition(1, 2, mode), _Partition(1, 60, mode)
    for partition in (few, many):
        for number in range(50):
            partition.ranges[0].apply(partition.tables[0].put(2, number, "v"), close=2)
    assert many.calls_of_step() < few.calls_of_step() + 4 * 60


@pytest.mark.parametrize("mode", _MODES)
def test_a_heartbeat_takes_as_much_with_feeds_that_it_does_not_concern(mode: KernelMode) -> None:
    few, many = _Partition(20, 2, mode), _Partition(20, 60, mode)
    for partition in (few, many):
        partition.beat(2)
    assert many.calls_of_step() < few.calls_of_step() + 60


@pytest.mark.parametrize("mode", _MODES)
def test_feeds_that_rows_do_not_concern_are_not_named(mode: KernelMode) -> None:
    partition = _Partition(1, 3, mode)
    partition.ranges[0].apply(partition.tables[0].put(2, 7, "v"))
    outputs = partition.step().outputs
    assert [(feed, len(records)) for feed, records in outputs.items()] == [("feed-0", 1)]
