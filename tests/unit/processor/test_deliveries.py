"""Feeds are given the rows of the versions that their ranges commit, by a kernel as by Python."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

import pytest

from tests.feeds import WITH_MARKERS, activation
from tests.hand_log import HandLog, HandRange, at, update_of
from tests.unit.kernel.gap_histories import GapLockstep
from tests.unit.kernel.histories import Lockstep, history
from tests.unit.processor.driving import Driven, rows_of, timestamp_of
from tests.unit.processor.logs import OTHER, PLAIN
from tests.unit.processor.schemed import schemed_options
from tests.unit.processor.stuck_feed import kv
from tidegate.changefeed.definition.feed import FIRST_EPOCH, FeedId
from tidegate.changefeed.definition.options import FeedOptions, Format, InitialScan
from tidegate.changefeed.lifecycle.control import Failed, Register, Registered, Remove
from tidegate.hlc import Timestamp
from tidegate.kernel.kernel_mode import KernelMode
from tidegate.kernel.partition_kernel import kernels_for
from tidegate.processor.batch import SOURCE_HEADER, StepResult
from tidegate.processor.config import ProcessorConfig
from tidegate.processor.deliveries import Deliveries
from tidegate.processor.feeds.kernel_rows import KernelRows
from tidegate.processor.feeds.version_rows import PartitionRows
from tidegate.processor.processor import PartitionProcessor
from tidegate.processor.step_size import RowLimits
from tidegate.processor.written_records import rows_size
from tidegate.raftlog.entry import KeyValue, Trigger
from tidegate.raftlog.request import Scan
from tidegate.ranges.version import Version

pytest.importorskip("wasmtime")

_FEED: Final = activation([PLAIN.descriptor, OTHER.descriptor])
_LATE: Final = FeedId("late")
_ENGINES: Final = pytest.mark.parametrize("mode", list(KernelMode))
_DIFF: Final = FeedOptions(diff=True, updated=True, resolved_interval_ns=0)


class _Two:
    """Ranges of two tables. Range 1 has a row of second 2, and both have closed 3."""

    def __init__(self, mode: KernelMode, limits: RowLimits | None = None) -> None:
        self.log = HandLog(1)
        self.log.describe(PLAIN, OTHER)
        self.plain, self.other = self.log.open_range(1, PLAIN.span), self.log.open_range(2, OTHER.span)
        self.plain.apply(PLAIN.put(2, 1, "two"), close=3)
        self.other.heartbeat(3)
        config = ProcessorConfig(kernel=kernels_for(mode), rows=limits or RowLimits())
        self.driven = Driven(PartitionProcessor(0, 1, config))
        self.driven.control(_FEED)
        self.run()

    def run(self) -> StepResult:
        return self.driven.step(self.log.partitions[0][int(self.driven.processor.next_offset or 0) :])

    def begin(self, options: FeedOptions, start: float) -> None:
        late = activation([PLAIN.descriptor, OTHER.descriptor], options, start=at(start), feed_id=_LATE)
        self.driven.control(Register(late.definition), late)

    def miss(self, options: FeedOptions = WITH_MARKERS) -> Scan:
        """A feed begins at second 1; return the scan for what it misses, of range 1."""
        self.begin(replace(options, cursor=at(1)), 1)
        (scan,) = self.run().requests
        assert isinstance(scan, Scan)
        return scan


def _times(result: StepResult, feed: FeedId) -> list[Timestamp]:
    return [*map(timestamp_of, rows_of(result, feed))]


# ---- the same with a kernel ----


@pytest.mark.parametrize("mode", [KernelMode.ON, KernelMode.CHECK])
@pytest.mark.parametrize("seed", [0, 2, 5, 6])
def test_rows_of_random_histories_are_those_of_python(seed: int, mode: KernelMode) -> None:
    print(f"seed {seed}")
    Lockstep(mode).run(history(seed, 80))


@pytest.mark.parametrize("mode", [KernelMode.ON, KernelMode.CHECK])
@pytest.mark.parametrize("seed", [0, 1, 3])
def test_rows_of_scans_are_those_of_python(seed: int, mode: KernelMode) -> None:
    print(f"seed {seed}")
    GapLockstep(mode).run_scans(seed)


@pytest.mark.parametrize("seed", [0, 4, 6])
def test_rows_of_feeds_that_miss_versions_are_those_of_python(seed: int) -> None:
    print(f"seed {seed}")
    GapLockstep().run_seed(seed, 25)


# ---- the highest version ----


@_ENGINES
@pytest.mark.parametrize("order", [(9, 5, 6), (5, 9, 6), (5, 6, 9), (6, 5, 9), (9, 6, 5), (5, 9, None)])
@pytest.mark.parametrize("feeds", [True, False])
def test_feeds_begin_above_the_highest_version_of_a_batch(
    feeds: bool, order: Sequence[int | None], mode: KernelMode
) -> None:
    """Whoever takes it: a kernel refuses a command that splits its range, and Python takes its rows."""
    log = HandLog(1)
    log.describe(PLAIN, OTHER)
    plain, other = log.open_range(1, PLAIN.span), log.open_range(2, OTHER.span)
    driven = Driven(PartitionProcessor(0, 1, ProcessorConfig(kernel=kernels_for(mode))))
    if feeds:
        driven.control(_FEED)
    driven.run(log.partitions[0])
    read = len(log.partitions[0])
    for number, seconds in enumerate(order):
        if seconds is not None and number == 1:
            other.apply(OTHER.put(seconds, 1, "c"), OTHER.put(1, 2, "d"), trigger=Trigger.SPLIT)
        elif seconds is not None:
            plain.apply(PLAIN.put(seconds, 1, "e"), PLAIN.put(1, 2, "f"))
    driven.step(log.partitions[0][read:])
    (answer,) = driven.control(Register(replace(_FEED.definition, id=_LATE))).acks
    assert isinstance(answer, Registered)
    assert answer.highest == at(9)


# ---- the bytes of rows ----


@_ENGINES
@pytest.mark.parametrize("options", [WITH_MARKERS, schemed_options()], ids=["json", "avro"])
def test_a_result_counts_the_bytes_of_all_its_rows(options: FeedOptions, mode: KernelMode) -> None:
    """Of feeds that follow, of live rows beside a gap, and of what a scan finds. Kernels leave out names."""
    two = _Two(mode)
    scan = two.miss(options)
    two.other.apply(OTHER.put(5, 1, "five"), OTHER.put(5, 2, "five"), close=4)
    two.plain.scanned(scan, kv(2, 1, "two"))
    two.plain.apply(PLAIN.put(6, 2, "six"), close=4)
    result = two.run()
    rows = [*rows_of(result), *(row for each in result.unframed.values() for row in each)]
    assert len(rows) == 7
    size = rows_size(rows)  # type: ignore[arg-type]
    names = len(SOURCE_HEADER) * len(rows)
    assert size - names <= result.row_bytes <= size
    if mode is not KernelMode.ON:
        assert result.row_bytes == size


@_ENGINES
@pytest.mark.parametrize("fits", [False, True])
@pytest.mark.parametrize("options", [WITH_MARKERS, schemed_options()], ids=["json", "avro"])
def test_a_feed_fails_where_an_entry_has_a_byte_of_rows_too_many(
    options: FeedOptions, fits: bool, mode: KernelMode
) -> None:
    """The names of headers count."""

    def written(limits: RowLimits) -> StepResult:
        two = _Two(mode, limits)
        late = activation([OTHER.descriptor], options, start=at(3), feed_id=_LATE)
        two.driven.control(Remove(_FEED.feed_id, FIRST_EPOCH), Register(late.definition), late)
        two.other.apply(*(OTHER.put(5, number, "v" * 40) for number in range(12)), close=4)
        return two.run()

    whole = written(RowLimits())
    rows = [*rows_of(whole, _LATE), *whole.unframed.get(_LATE, ())]
    assert len(rows) == 12
    entry_bytes = rows_size(rows) - (not fits)
    bounded = written(RowLimits(entry_bytes=entry_bytes))
    failed = {ack.feed_id for ack in bounded.acks if isinstance(ack, Failed)}
    assert (_LATE in failed) is not fits


# ---- feeds that miss versions ----


@_ENGINES
def test_a_feed_that_misses_versions_is_given_what_is_live_beside_them(mode: KernelMode) -> None:
    two = _Two(mode)
    scan = two.miss()
    two.other.apply(OTHER.put(5, 1, "five"), close=4)
    two.plain.apply(PLAIN.put(6, 1, "six"), close=4)
    result = two.run()
    assert (_times(result, _FEED.feed_id), _times(result, _LATE)) == ([at(5), at(6)], [at(5)])
    two.plain.scanned(scan, kv(2, 1, "two"))
    two.plain.apply(PLAIN.put(7, 1, "seven"), close=4)
    result = two.run()
    assert (_times(result, _FEED.feed_id), _times(result, _LATE)) == ([at(7)], [at(2), at(6), at(7)])


@_ENGINES
@pytest.mark.parametrize("shows_previous", [True, False])
@pytest.mark.parametrize("alone", [True, False])
def test_a_feed_that_misses_versions_shows_what_a_row_replaced_as_it_would_otherwise(
    alone: bool, shows_previous: bool, mode: KernelMode
) -> None:
    two = _Two(mode)
    two.miss(_DIFF if shows_previous else WITH_MARKERS)
    if alone:
        two.driven.control(Remove(_FEED.feed_id, FIRST_EPOCH))
    before, after = OTHER.put(4, 1, "old"), OTHER.put(5, 1, "new")
    two.other.apply(after._replace(prev_value=before.value), close=4)
    (row,) = rows_of(two.run(), _LATE)
    assert (b'"old"' in (row.value or b"")) is shows_previous


@_ENGINES
def test_a_feed_that_fails_at_a_delivery_is_given_no_further_one(mode: KernelMode) -> None:
    two = _Two(mode)
    options = replace(WITH_MARKERS, initial_scan=InitialScan.YES)
    late = activation([PLAIN.descriptor], options, start=at(3), feed_id=_LATE)
    two.driven.control(Register(late.definition), late)
    (scan,) = two.run().requests
    assert isinstance(scan, Scan)
    low, high = PLAIN.split(50)
    two.plain.scanned(scan, kv(2, 1, "two"), span=low, last=False)
    two.plain.apply(PLAIN.put(5, 1, "five"), close=4)
    two.plain.scanned(scan, KeyValue(PLAIN.key(60), at(2), b"\xff" * 9), span=high)
    two.plain.apply(PLAIN.put(6, 1, "six"), close=4)
    result = two.run()
    assert [ack.feed_id for ack in result.acks if isinstance(ack, Failed)] == [_LATE]
    assert (_times(result, _FEED.feed_id), _times(result, _LATE)) == ([at(5), at(6)], [at(3), at(5)])


@_ENGINES
def test_versions_that_only_a_feed_with_gaps_was_given_are_remembered(mode: KernelMode) -> None:
    """A descriptor that is valid from before they were written comes too late."""
    two = _Two(mode)
    two.miss()
    two.driven.control(Remove(_FEED.feed_id, FIRST_EPOCH))
    two.other.apply(OTHER.put(9, 1, "nine"), close=4)
    assert _times(two.run(), _LATE) == [at(9)]
    two.log.write(update_of(OTHER.widened(7).descriptor))
    assert [ack.feed_id for ack in two.run().acks if isinstance(ack, Failed)] == [_LATE]


@_ENGINES
def test_rows_that_no_kernel_writes_come_beside_gaps_too(mode: KernelMode) -> None:
    two = _Two(mode)
    odd = FeedOptions(format=Format.CSV)
    two.driven.control(Remove(_FEED.feed_id, FIRST_EPOCH))
    beside = activation([OTHER.descriptor], odd, start=at(3), feed_id="beside")
    two.driven.control(Register(beside.definition), beside)
    two.miss(odd)
    two.other.apply(OTHER.put(5, 1, "five"), close=4)
    outputs = two.run().outputs
    assert {feed: [row.value for row in rows] for feed, rows in outputs.items()} == {
        _LATE: [b"1,five"],
        "beside": [b"1,five"],
    }


@_ENGINES
def test_a_feed_that_only_scans_reads_no_live_rows(mode: KernelMode) -> None:
    """A descriptor that comes late for them concerns it no more than they do."""
    log = HandLog(1)
    log.describe(PLAIN)
    range_: HandRange = log.open_range(1, PLAIN.span)
    range_.apply(PLAIN.put(2, 1, "two"), close=3)
    driven = Driven(PartitionProcessor(0, 1, ProcessorConfig(kernel=kernels_for(mode))))
    driven.run(log.partitions[0])
    only = replace(WITH_MARKERS, initial_scan=InitialScan.ONLY)
    late = activation([PLAIN.descriptor], only, start=at(3), feed_id=_LATE)
    driven.control(Register(late.definition), late)
    (scan,) = driven.step(()).requests
    assert isinstance(scan, Scan)
    for scanned in (False, True):
        read = int(driven.processor.next_offset or 0)
        if scanned:
            range_.scanned(scan, kv(2, 1, "two"))
            range_.apply(PLAIN.put(8, 1, "live"), close=4)
        range_.apply(PLAIN.put(9, 1, "live"), close=4)
        result = driven.step(log.partitions[0][read:])
        assert len([*rows_of(result)]) == scanned
    assert not driven.processor.status().with_gaps
    range_.apply(PLAIN.put(10, 1, "live"), close=4)
    log.write(update_of(PLAIN.widened(7).descriptor))
    result = driven.step(log.partitions[0][int(driven.processor.next_offset or 0) :])
    assert (result.acks, [*rows_of(result)]) == ([], [])


def test_a_kernel_of_a_feed_is_kept_only_while_the_feed_misses_versions() -> None:
    two = _Two(KernelMode.ON)
    kernel = two.driven.processor._state.kernel
    assert kernel is not None
    kernel.of_feeds.least = 1
    scan = two.miss()
    low, high = PLAIN.split(50)
    two.plain.scanned(scan, kv(2, 1, "two"), span=low, last=False)
    two.run()
    assert kernel.of_feeds._planned
    two.plain.scanned(scan, kv(2, 60, "two"), span=high)
    two.run()
    assert not two.driven.processor.status().with_gaps
    assert not kernel.of_feeds._planned


# ---- work that is spared ----


def test_a_version_that_several_feeds_are_given_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    two = _Two(KernelMode.OFF)
    scan = two.miss()
    read: list[Timestamp] = []
    decode = PartitionRows.decode

    def reading(rows: PartitionRows, versions: Sequence[Version], *more: Any, **named: Any) -> Any:
        read.extend(version.timestamp for version in versions)
        return decode(rows, versions, *more, **named)

    monkeypatch.setattr(PartitionRows, "decode", reading)
    two.other.apply(OTHER.put(5, 1, "five"), close=4)
    two.plain.apply(PLAIN.put(6, 1, "six"), close=4)
    two.run()
    assert read == [at(5), at(6)]
    two.plain.scanned(scan, kv(2, 1, "two"))
    two.run()
    assert read == [at(5), at(6), at(2), at(6)], "what was held back is read when it is given"


@pytest.mark.parametrize("fits", [True, False])
def test_a_kernel_is_not_asked_again_for_rows_that_may_be_too_many(
    fits: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    two = _Two(KernelMode.ON, None if fits else RowLimits(entry_bytes=200))
    asked: list[int] = []
    taken: list[int] = []
    emit, by_python = KernelRows.emit, Deliveries._emit_by_python

    def asking(rows: KernelRows, receivers: Any, versions: Any) -> Any:
        asked.append(len(versions))
        return emit(rows, receivers, versions)

    def reading(deliveries: Deliveries, *arguments: Any) -> Any:
        taken.append(1)
        return by_python(deliveries, *arguments)

    monkeypatch.setattr(KernelRows, "emit", asking)
    monkeypatch.setattr(Deliveries, "_emit_by_python", reading)
    for number in range(4):
        two.other.apply(OTHER.put(5, number, "v"), close=4)
    assert len([*rows_of(two.run())]) == 4
    assert (asked, bool(taken)) == ([], not fits)
