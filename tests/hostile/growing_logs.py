"""Logs of n records, each of which could cost all ranges or all other records. Each gives a step to time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final, NamedTuple, TypeAlias

from tests.feeds import activation
from tests.hand_log import HandLog, HandRange, HandTable, at
from tests.logs import Record
from tests.unit.processor.driving import Driven
from tidegate.changefeed.definition.feed import FeedId
from tidegate.changefeed.definition.options import FeedOptions, InitialScan
from tidegate.changefeed.lifecycle.control import Activate
from tidegate.kernel.kernel_mode import KernelMode
from tidegate.kernel.partition_kernel import kernels_for
from tidegate.processor.batch import ControlRecord, StepResult
from tidegate.processor.checkpoint import report_of
from tidegate.processor.config import ProcessorConfig
from tidegate.processor.processor import PartitionProcessor
from tidegate.processor.range_claims import RangeClaims
from tidegate.raftlog.entry import Generation, Offset, Parent, RaftIndex, RangeId, SnapshotReason, WriteValue
from tidegate.rows import Kind, SqlType
from tidegate.rows.types import EnumMember
from tidegate.rows.value_frame import CHECKSUM_SIZE, ValueTag
from tidegate.rows.valueside.arrays import encode_array
from tidegate.rows.valueside.scalars import encode_sized
from tidegate.rows.valueside.tags import WireType, encode_tag
from tidegate.spans import Span

#: After some steps of short rows a portion of the log is as long as one may be.
_WARM: Final = 800
Step: TypeAlias = Callable[[], StepResult]

_TABLE: Final = HandTable.of(104, "t", "id INT, v STRING")
_OTHER: Final = HandTable.of(105, "other", "id INT, v STRING")


def _processor(kernel: KernelMode = KernelMode.OFF, feeds: Sequence[Activate] = ()) -> PartitionProcessor:
    processor = PartitionProcessor(0, 1, ProcessorConfig(kernel=kernels_for(kernel)))
    messages = feeds or [activation([_TABLE.descriptor])]
    processor.control([ControlRecord(Offset(number), each) for number, each in enumerate(messages)])
    return processor


def _step_behind(log: HandLog, first: int, processor: PartitionProcessor) -> Step:
    """Step the records before ``first``, and return the step of the others."""
    records = log.partitions[0]
    processor.step(records[:first])
    return lambda: processor.step(records[first:])


def _open_ranges(log: HandLog, count: int) -> None:
    for number in range(1, count + 1):
        log.open_range(7 + number, Span(_TABLE.key(number), _TABLE.key(number + 1)))


def _open_child(log: HandLog, number: int) -> None:
    """A range that waits for its parent, of which nothing comes."""
    child = HandRange(log, RangeId(7 + number), Span(_TABLE.key(number), _TABLE.key(number + 1)))
    parent = Parent(RangeId(1_000_000 + number), Generation(1), RaftIndex(5))
    child.snapshot(reason=SnapshotReason.SPLIT, close=1, high=2, parents=(parent,))


def nameless(count: int) -> Step:
    """Make the step of so many live ranges, and as many records that name no range."""
    log = HandLog(1)
    log.describe(_TABLE)
    _open_ranges(log, count)
    first = len(log.partitions[0])
    _write_nameless(log, count)
    return _step_behind(log, first, _processor())


def nameless_with_parked_ranges(count: int) -> Step:
    """Make the step of so many ranges that wait for their parents, and as many records that name no range."""
    log = HandLog(1)
    log.describe(_TABLE)
    for number in range(count):
        _open_child(log, number)
    first = len(log.partitions[0])
    _write_nameless(log, count)
    return _step_behind(log, first, _processor())


def nameless_that_are_read_again(count: int) -> Step:
    """Make the step of so many ranges in a hole, and as many such records. One range waits, so they are read
    again."""
    log = HandLog(1)
    log.describe(_TABLE)
    _open_child(log, 0)
    _open_ranges(log, count)
    _write_nameless(log, count)
    driven, records = Driven(), log.partitions[0]
    driven.control(activation([_TABLE.descriptor]))
    driven.step(records)
    again = Driven.restored(driven.state).processor
    assert again.to_read_again
    return lambda: again.step(records)


def _write_nameless(log: HandLog, count: int) -> None:
    for _ in range(count):
        log.write_bytes(0, None, None)


def refused_by_the_kernel(count: int) -> Step:
    """Make the step of so many records of two ranges. Each hundredth is of a range in a hole, and the kernel
    refuses it."""
    log = HandLog(1)
    log.describe(_TABLE)
    live, broken = log.open_range(7, _TABLE.span), log.open_range(8, _TABLE.span)
    broken.unreadable()
    for _ in range(_WARM):
        live.heartbeat(0.5)
    first = len(log.partitions[0])
    for number in range(count):
        (broken.heartbeat if number % 100 == 0 else live.apply)(close=0.5)
    processor = _processor(KernelMode.ON)
    for begin in range(0, first, _WARM // 8):
        processor.step(log.partitions[0][begin : min(first, begin + _WARM // 8)])
    return _step_behind(log, first, processor)


def members_of_an_enum(count: int) -> Step:
    """A row with an array of so many elements, each of which is the last of so many members of an enum."""
    members = tuple(EnumMember(number.to_bytes(3, "big"), "x") for number in range(count))
    of = SqlType(Kind.ARRAY, element=SqlType(Kind.ENUM, name="e", members=members))
    first, second = _TABLE.descriptor.columns
    table = HandTable(replace(_TABLE.descriptor, columns=(first, replace(second, type=of))))
    array = encode_array([0] * count, WireType.BYTES, lambda _: encode_sized(members[-1].physical))
    body = encode_tag(second.id, WireType.ARRAY) + encode_sized(array)
    log = HandLog(1)
    log.describe(table)
    live = log.open_range(7, table.span)
    begun = len(log.partitions[0])
    live.apply(WriteValue(table.key(1), at(2), bytes(CHECKSUM_SIZE) + bytes((ValueTag.TUPLE,)) + body))
    return _step_behind(log, begun, _processor(KernelMode.ON, [activation([table.descriptor])]))


def versions_between_rows(count: int) -> Step:
    """Make the step of so many rows, and a new version of their table before each: the kernel's plan has all
    of them."""
    return _versions_between_rows(count, activation([_TABLE.descriptor]))


def versions_that_only_a_scan_wants(count: int) -> Step:
    """The same beside a live feed on another table; the feed on this one wants what its scan finds alone."""
    scanned = FeedOptions(initial_scan=InitialScan.ONLY)
    return _versions_between_rows(
        count,
        activation([_OTHER.descriptor], feed_id=FeedId("live")),
        activation([_TABLE.descriptor], scanned, start=at(500), feed_id=FeedId("scan")),
    )


def _versions_between_rows(count: int, *feeds: Activate) -> Step:
    log = HandLog(1)
    log.describe(_TABLE, _OTHER)
    opened, first = log.open_range(7, Span(_TABLE.span.start, _OTHER.span.end)), len(log.partitions[0])
    for number in range(count):
        seconds = 1 + number / 1_000
        changed = replace(_TABLE.descriptor, version=2 + number, modified=at(seconds - 0.0005))
        log.describe(HandTable(changed))
        opened.apply(_TABLE.put(seconds, number, "v"), close=seconds - 0.001)
    return _step_behind(log, first, _processor(KernelMode.ON, feeds))


def a_range_that_begins_anew(count: int) -> Step:
    """Make the step of so many Snapshots of one range in rising generations: each time its keys move, and it
    resolves more."""
    log = HandLog(1)
    log.describe(_TABLE)
    first = len(log.partitions[0])
    for number in range(count):
        again = HandRange(log, RangeId(7), Span(_TABLE.key(number), _TABLE.key(number + 2)))
        again.generation, again.index = 1 + number, 10 + number
        again.snapshot(close=1 + number / 1_000)
    return _step_behind(log, first, _processor())


def nested_ranges(count: int) -> Step:
    """Make the step of so many ranges over the same keys. Their checkpoints are counted, as frontiers do, in
    three rounds."""
    log = HandLog(1)
    log.describe(_TABLE)
    ranges = [
        log.open_range(7 + each, Span(_TABLE.key(each), _TABLE.key(4 * count - each)))
        for each in range(count)
    ]
    rounds: list[Sequence[Record]] = [log.partitions[0]]
    for number in range(3):
        for each in ranges:
            each.heartbeat(1 + number)
        rounds.append(log.partitions[0][sum(map(len, rounds)) :])
    processor, claims = _processor(), RangeClaims()

    def step() -> StepResult:
        for records in rounds:
            result = processor.step(records)
            if result.checkpoint is not None:
                claims.count([report_of(result.checkpoint)])
        return result

    return step


class GrowingLog(NamedTuple):
    """A log by a name: the maker of a step over n of its records, and an n large enough to be measured."""

    name: str
    step: Callable[[int], Step]
    small: int


GROWING_LOGS: Final = (
    GrowingLog("no range is named", nameless, 500),
    GrowingLog("a version of the table before each row", versions_between_rows, 100),
    GrowingLog("a version of a table that is scanned alone", versions_that_only_a_scan_wants, 400),
    GrowingLog("no range is named, and ranges wait", nameless_with_parked_ranges, 500),
    GrowingLog("no range is named, and records are read again", nameless_that_are_read_again, 1_000),
    GrowingLog("the kernel refuses each hundredth record", refused_by_the_kernel, 10_000),
    GrowingLog("elements of an array, and members of its enum", members_of_an_enum, 10_000),
    GrowingLog("ranges over the same keys", nested_ranges, 250),
    GrowingLog("a range begins anew with other keys", a_range_that_begins_anew, 1_000),
)
