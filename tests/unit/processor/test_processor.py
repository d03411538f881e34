"""What an engine sees of a partition processor: positions, portions of a step, and what a result has."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Final

import pytest

from tests.feeds import WITH_MARKERS, activation
from tests.hand_log import HandLog, HandRange, at
from tests.logs import Record
from tests.unit.processor.driving import Driven, rows_of
from tests.unit.processor.logs import OTHER, PLAIN, opened
from tests.unit.processor.partitions import FEED, MIDDLE, Partitions, split_log
from tests.unit.processor.stuck_feed import OTHER as FOLLOWER
from tests.unit.processor.stuck_feed import STUCK, Stuck, kv
from tidegate.changefeed.definition.feed import FIRST_EPOCH, FeedEpoch, FeedId
from tidegate.changefeed.definition.options import InitialScan
from tidegate.changefeed.lifecycle.control import Active, Failed, Register, Remove, Removed
from tidegate.errors import FeedError, RowRefused
from tidegate.hlc import ZERO
from tidegate.kernel.kernel_mode import KernelMode
from tidegate.kernel.partition_kernel import kernels_for
from tidegate.processor import step_size
from tidegate.processor.batch import ControlRecord, ExchangeRecord, StepResult
from tidegate.processor.config import ProcessorConfig
from tidegate.processor.containment import Input, InputPlace, StepBroke
from tidegate.processor.feeds.plan_credit import PlanCredit
from tidegate.processor.log_step import LogStep
from tidegate.processor.processor import PartitionProcessor
from tidegate.processor.step_size import RowLimits, StepPace
from tidegate.raftlog.entry import Offset, RangeId
from tidegate.raftlog.request import Scan
from tidegate.ranges.handoff import HandOff
from tidegate.spans import Span

_FEED: Final = activation([PLAIN.descriptor])
_LATE: Final = FeedId("late")
#: A step with a chunk has room for so many rows.
_ROOM: Final = 6


def _log(rows: int) -> HandLog:
    """A log whose last records have a row each, all of the same length."""
    log = HandLog(partitions=1)
    log.describe(PLAIN)
    range_ = log.open_range(1, PLAIN.span)
    for number in range(rows):
        range_.apply(PLAIN.put(1 + number, 1 + number, "v"), close=0.5 + number)
    return log


def _driven(
    limits: RowLimits | None = None, mode: KernelMode = KernelMode.OFF, *, detachable: bool = False
) -> Driven:
    config = ProcessorConfig(rows=limits or RowLimits(), kernel=kernels_for(mode), detachable=detachable)
    driven = Driven(PartitionProcessor(0, 1, config))
    driven.control(_FEED)
    return driven


def _row_bytes() -> int:
    """The bytes of a row of ``_log``."""
    driven = _driven()
    return sum(result.row_bytes for result in driven.run(_log(4).partitions[0])) // 4


def _raise(*_: object, **__: object) -> Any:
    raise ArithmeticError("nobody foresaw it")


# ---- portions of a step ----


@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize("beside", [-1, 0, 1])
def test_a_step_ends_with_the_record_that_fills_it(
    beside: int, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows are counted after each portion, and portions have one record here."""
    monkeypatch.setattr(step_size, "_FIRST", 1)
    monkeypatch.setattr(step_size, "_MOST", 1)
    records, each = _log(6).partitions[0], _row_bytes()
    driven = _driven(RowLimits(step_bytes=count * each + beside))
    result = driven.note(driven.processor.step_some(records))
    rows = count + (beside > 0)
    assert len([*rows_of(result)]) == rows
    assert (result.taken, result.row_bytes) == (2 + rows, rows * each)
    assert driven.processor.next_offset == result.taken


@pytest.mark.parametrize("single", [True, False])
def test_the_pace_is_told_the_bytes_of_each_portion_and_of_its_rows(
    single: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if single:
        monkeypatch.setattr(step_size, "_FIRST", 1)
        monkeypatch.setattr(step_size, "_MOST", 1)
    told: list[tuple[int, int]] = []
    driven, records, each = _driven(), _log(5).partitions[0], _row_bytes()
    note = StepPace.note

    def noted(pace: StepPace, log_bytes: int, row_bytes: int) -> None:
        told.append((log_bytes, row_bytes))
        note(pace, log_bytes, row_bytes)

    monkeypatch.setattr(StepPace, "note", noted)
    driven.step(records)
    sizes = [len(record.value or b"") for record in records]
    rows = [0, 0, *[each] * 5]
    assert told == ([*zip(sizes, rows, strict=True)] if single else [(sum(sizes), sum(rows))])


def test_a_kernels_plans_are_earned_by_all_bytes_of_the_log(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("wasmtime")
    earned: list[int] = []
    monkeypatch.setattr(PlanCredit, "earn", lambda _, log_bytes: earned.append(log_bytes))
    records = _log(5).partitions[0]
    _driven(mode=KernelMode.ON).run(records, 2)
    assert sum(earned) == sum(len(record.value or b"") for record in records)


def _with_chunk(*, beside: bool = False) -> tuple[HandLog, HandRange, Driven, Scan, int]:
    """A feed that begins with a scan; the scan, and where the log ends. ``beside``: another feed follows.

    A step has room for some rows.
    """
    log, range_ = opened()
    driven = _driven(RowLimits(step_bytes=_ROOM * _row_bytes()))
    driven.run(log.partitions[0])
    options = replace(WITH_MARKERS, initial_scan=InitialScan.YES)
    late = activation([PLAIN.descriptor], options, start=at(6), feed_id=_LATE)
    if not beside:
        driven.control(Remove(_FEED.feed_id, FIRST_EPOCH))
    driven.control(Register(late.definition), late)
    (scan,) = (each for each in driven.step(()).requests if isinstance(each, Scan))
    return log, range_, driven, scan, len(log.partitions[0])


def _steps(driven: Driven, records: Sequence[Record]) -> list[StepResult]:
    results = []
    while records:
        results.append(driven.note(driven.processor.step_some(records)))
        records = records[results[-1].taken :]
    return results


def test_a_chunk_has_only_the_room_that_the_rows_before_it_have_left(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(StepPace, "log_bytes", 1)
    log, range_, driven, scan, end = _with_chunk(beside=True)
    before = _ROOM - 1
    range_.apply(*(PLAIN.put(7, 70 + number, "v") for number in range(before)), close=6)
    range_.scanned(scan, *(kv(4, number, "v") for number in range(10, 40)))
    range_.apply(PLAIN.put(8, 92, "v"), close=7)
    results = _steps(driven, log.partitions[0][end:])
    assert results[0].taken == 1, "the chunk is not taken with its first part"
    assert len([*rows_of(results[0], _FEED.feed_id)]) == before
    assert all(result.row_bytes <= (_ROOM + 1) * _row_bytes() for result in results[:4])
    keys = [row.key for result in results for row in rows_of(result, _LATE)]
    scanned = [b"[%d]" % number for number in range(10, 40)]
    live = [b"[%d]" % number for number in (*range(70, 70 + before), 92)]
    assert [key for key in keys if key in scanned] == scanned
    assert sorted(keys) == [*scanned, *live]


@pytest.mark.parametrize("is_first", [True, False])
def test_a_chunk_that_shares_its_portion_is_taken_whole_and_nothing_comes_twice(
    is_first: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(StepPace, "log_bytes", 1 << 20)
    log, range_, driven, scan, end = _with_chunk()
    found = [kv(4, number, "v") for number in range(10, 20)]
    if is_first:
        range_.scanned(scan, *found)
    range_.apply(PLAIN.put(8, 92, "v"), close=7)
    if not is_first:
        range_.scanned(scan, *found)
    (result,) = _steps(driven, log.partitions[0][end:])
    keys = [row.key for row in rows_of(result)]
    assert sorted(keys) == [*(b"[%d]" % number for number in range(10, 20)), b"[92]"]


def test_a_chunk_in_parts_is_heard_by_the_log_clock_with_its_last_part() -> None:
    log, range_, driven, scan, end = _with_chunk()
    log.wait_for(at(9))
    range_.scanned(scan, *(kv(4, number, "v") for number in range(10, 40)))
    before = driven.processor.full_checkpoint().log_time_ms
    records = log.partitions[0][end:]
    results: list[StepResult] = []
    while not results or not results[-1].taken:
        assert driven.processor.full_checkpoint().log_time_ms == before
        results.append(driven.note(driven.processor.step_some(records)))
    assert len(results) > 2
    assert driven.processor.full_checkpoint().log_time_ms == at(9).wall_ms > before


@pytest.mark.parametrize("bounded", [True, False])
def test_backlogs_that_have_grown_come_before_the_log_in_a_bounded_step_only(
    bounded: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(StepPace, "log_bytes", 1)
    log = HandLog(partitions=1)
    log.describe(PLAIN)
    parent = log.open_range(2, PLAIN.span)
    parent.apply(PLAIN.put(2, 150, "v"), close=1)
    child = parent.split(MIDDLE, 3, close=3)
    for number in range(6):
        child.apply(PLAIN.put(5 + number, 150, "v"), close=4)
    described, begun, put, trigger, left, born, *late = log.partitions[0]
    for number in range(3):
        parent.apply(PLAIN.put(6, number, "v"), close=5)
    *_, one, two, three = log.partitions[0]
    order = [described, begun, born, *late[:5], put, trigger, left, one, late[5], two, three]
    records = [record._replace(offset=offset) for offset, record in enumerate(order)]
    driven = _driven(RowLimits(step_bytes=1))
    assert [driven.processor.step_some(records[at:]).taken for at in (0, 9, 12)] == [9, 3, 2]
    step = driven.processor.step_some if bounded else driven.processor.step
    assert step(records[14:]).taken == (0 if bounded else 1)


# ---- what breaks a step ----


@pytest.mark.parametrize("room", [None, 2])
def test_what_breaks_at_the_end_of_a_step_names_the_records_that_were_taken(
    room: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(StepPace, "log_bytes", 1)
    records = _log(5).partitions[0]
    driven = _driven(RowLimits(step_bytes=(room or 99) * _row_bytes()))
    driven.step(records[:2])
    monkeypatch.setattr(LogStep, "settle", _raise)
    with pytest.raises(StepBroke) as broke:
        driven.processor.step_some(records[2:])
    last = records[-1].offset if room is None else 1 + room
    assert (broke.value.first, broke.value.last) == (InputPlace(Input.LOG, 2), InputPlace(Input.LOG, last))


def test_what_breaks_after_a_part_of_a_chunk_names_the_chunk(monkeypatch: pytest.MonkeyPatch) -> None:
    log, range_, driven, scan, end = _with_chunk()
    range_.scanned(scan, *(kv(4, number, "v") for number in range(10, 40)))
    range_.apply(PLAIN.put(8, 92, "v"), close=7)
    monkeypatch.setattr(LogStep, "settle", _raise)
    with pytest.raises(StepBroke) as broke:
        driven.processor.step_some(log.partitions[0][end:])
    assert broke.value.first == broke.value.last == InputPlace(Input.LOG, end)


def test_what_breaks_a_step_without_records_is_raised_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    driven = _driven()
    monkeypatch.setattr(LogStep, "settle", _raise)
    with pytest.raises(ArithmeticError):
        driven.step(())


# ---- positions ----


@pytest.mark.parametrize("last", ["command", "chunk"])
def test_after_a_restart_what_a_waiting_range_has_put_off_is_read_again_and_nothing_else(last: str) -> None:
    run = Partitions(split_log())
    if last == "chunk":
        late = HandRange(run.log, RangeId(3), Span(MIDDLE, PLAIN.span.end))
        late.scanned(Scan(RangeId(3), 77, late.span, ZERO, at(2), True, False))
    run.read(1)
    records = run.log.partitions[1]
    clock = run.driven[1].processor._state.position.clock
    run.restart(1)
    again = run.driven[1].processor
    (state,) = (each for each in again._ranges if each.behind is not None)
    assert again.to_read_again == range(state.behind or 0, len(records))
    assert again.next_offset == state.behind
    run.read(1)
    assert again.to_read_again == range(len(records), len(records))
    assert again.next_offset == len(records)
    assert again._state.position.clock == clock, "the clock has heard these records before"
    run.settle()
    assert run.rows() == {0: [at(5), at(9)], 1: [at(8)]}


@pytest.mark.parametrize(("lost", "heard"), [(-1, False), (0, False), (1, True), (4, True)])
def test_a_log_that_begins_behind_the_next_offset_is_a_hole(lost: int, heard: bool) -> None:
    driven = _driven()
    records = _log(3).partitions[0]
    driven.step(records)
    result = driven.note(driven.processor.missing_below(Offset(len(records) + lost)))
    assert bool(result.incidents) is heard
    assert driven.processor.next_offset == len(records) + max(lost, 0)
    if heard:
        assert f"but offset {len(records)} was to be read next" in result.incidents[0].cause


def test_messages_at_or_below_the_position_are_passed_over() -> None:
    driven = Driven()
    first = driven.processor.control([ControlRecord(Offset(4), _FEED)])
    assert [*map(type, first.acks)] == [Active]
    for offset in (3, 4):
        again = [ControlRecord(Offset(offset), Remove(_FEED.feed_id, FIRST_EPOCH))]
        assert driven.processor.control(again).acks == []
    assert driven.processor.next_control_offset == 5
    last = driven.processor.control([ControlRecord(Offset(5), Remove(_FEED.feed_id, FIRST_EPOCH))])
    assert [*map(type, last.acks)] == [Removed]


def test_hand_offs_below_the_position_are_passed_over() -> None:
    run = Partitions(split_log())
    run.settle()
    processor, (message,) = run.driven[1].processor, run.sent[1]
    assert processor.next_hand_off == 1
    processor.exchange([ExchangeRecord(Offset(7), message)])
    assert processor.next_hand_off == 8
    processor.pass_over({InputPlace(Input.HAND_OFFS, offset): "it is odd" for offset in (7, 8)})
    assert processor.exchange([ExchangeRecord(Offset(7), message)]).incidents == []
    (incident,) = processor.exchange([ExchangeRecord(Offset(8), message)]).incidents
    assert (incident.partition, incident.range_id) == (1, 3)
    assert incident.offset == run.log.partitions[1][-1].offset
    assert incident.cause == "a claim or a hand-off at offset 8 was passed over: it is odd"


@pytest.mark.parametrize("read", [False, True])
def test_a_result_has_the_offset_that_its_state_is_of(read: bool) -> None:
    driven = _driven()
    records = _log(1).partitions[0]
    if read:
        driven.step(records)
    assert driven.step(()).offset == (len(records) - 1 if read else None)
    assert driven.processor.next_offset == (len(records) if read else None)


def test_results_have_the_numbers_of_their_steps() -> None:
    driven = Driven()
    results = [driven.control(_FEED), *driven.run(_log(3).partitions[0], 2), driven.processor.exchange(())]
    assert [result.serial for result in results] == [1, 2, 3, 4, 5]


# ---- checkpoints ----


def _idle(act: Callable[[Driven], StepResult]) -> StepResult:
    """Act on a partition whose ranges stand still; one feed follows and one is detached."""
    driven = _driven(detachable=True)
    driven.control(activation([PLAIN.descriptor], feed_id="stuck"))
    driven.step(_log(2).partitions[0])
    driven.processor.committed(driven.results[-1].serial)
    driven.note(driven.processor.detach(STUCK, ()))
    return act(driven)


_REGISTER: Final = Register(replace(_FEED.definition, id=_LATE))


def _refuse_message(driven: Driven) -> StepResult:
    driven.processor.pass_over({InputPlace(Input.CONTROL, 2): "odd"})
    return driven.control(_REGISTER)


#: What moves no range, so that no checkpoint has to say anything of one.
_MOVES_NOTHING: Final[dict[str, Callable[[Driven], StepResult]]] = {
    "step": lambda driven: driven.step(()),
    "exchange": lambda driven: driven.processor.exchange(()),
    "register": lambda driven: driven.control(_REGISTER),
    "refused message": _refuse_message,
    "give up": lambda driven: (driven.control(_REGISTER), driven.processor.give_up(1))[1],
    "missing below": lambda driven: driven.processor.missing_below(Offset(0)),
    "fail delivery": lambda driven: driven.processor.fail_delivery(STUCK, RowRefused("odd"), ()),
    "detach": lambda driven: driven.processor.detach(_FEED.feed_id, ()),
    "stall": lambda driven: driven.processor.stall(STUCK),
    "resume": lambda driven: (driven.processor.stall(STUCK), driven.processor.resume(STUCK))[1],
}


@pytest.mark.parametrize("act", _MOVES_NOTHING)
def test_what_moves_no_range_has_no_checkpoint(act: str) -> None:
    assert _idle(_MOVES_NOTHING[act]).checkpoint is None


_NAMES_ALL: Final[dict[str, Callable[[Driven], StepResult]]] = {
    "activate": lambda driven: driven.control(
        _REGISTER, activation([PLAIN.descriptor], start=at(9), feed_id=_LATE)
    ),
    "attach": lambda driven: driven.processor.attach(STUCK),
}


@pytest.mark.parametrize("act", _NAMES_ALL)
def test_a_feed_that_a_checkpoint_names_anew_is_told_of_all_ranges(act: str) -> None:
    checkpoint = _idle(_NAMES_ALL[act]).checkpoint
    assert checkpoint is not None
    assert [each.range_id for each in checkpoint.ranges] == [1]


def test_an_attached_feed_that_lacked_nothing_is_told_of_all_ranges() -> None:
    driven = _driven(detachable=True)
    driven.control(activation([OTHER.descriptor], feed_id=STUCK))
    driven.step(_log(2).partitions[0])
    driven.note(driven.processor.detach(STUCK, driven.results))
    checkpoint = driven.processor.attach(STUCK).checkpoint
    assert checkpoint is not None
    assert [each.range_id for each in checkpoint.ranges] == [1]


def test_a_feed_that_has_caught_up_is_told_of_all_ranges() -> None:
    log = HandLog(partitions=1)
    log.describe(PLAIN, OTHER)
    plain = log.open_range(1, PLAIN.span)
    log.open_range(2, OTHER.span)
    plain.heartbeat(6)
    driven = Driven()
    tables = [PLAIN.descriptor, OTHER.descriptor]
    driven.control(activation(tables))
    driven.step(log.partitions[0])
    late = activation(tables, replace(WITH_MARKERS, cursor=at(1)), start=at(1), feed_id=_LATE)
    driven.control(Register(late.definition), late)
    scans = [each for result in (driven.step(()),) for each in result.requests if isinstance(each, Scan)]
    assert scans == [], "nothing was written above the cursor"
    late = activation(
        tables, replace(WITH_MARKERS, initial_scan=InitialScan.YES), start=at(6), feed_id="scans"
    )
    driven.control(Register(late.definition), late)
    scans = [each for each in driven.step(()).requests if isinstance(each, Scan)]
    for scan in scans:
        plain.id, before = scan.range_id, plain.id
        plain.scanned(scan)
        plain.id = before
    *_, result = driven.run(log.partitions[0][int(driven.processor.next_offset or 0) :], 1)
    assert result.checkpoint is not None
    assert {feed.feed_id for feed in result.checkpoint.feeds} == {"feed", _LATE, "scans"}
    assert [each.range_id for each in result.checkpoint.ranges] == [1, 2]


# ---- feeds that end with rows in a result ----


class _Parent:
    """A step that has rows of two feeds, and a hand-off to another partition."""

    def __init__(self) -> None:
        log = split_log()
        self.driven = Driven(PartitionProcessor(0, 2, ProcessorConfig(detachable=True)))
        for name in (STUCK, FOLLOWER):
            self.driven.control(activation([PLAIN.descriptor], feed_id=name))
        run = Partitions(log)
        run.read(1)
        (claim,) = run.sent[0]
        self.driven.step(log.partitions[0][:2])
        self.driven.processor.committed(self.driven.results[-1].serial)
        self.driven.processor.exchange([ExchangeRecord(Offset(0), claim)])
        self.result = self.driven.step(log.partitions[0][2:])
        assert {*self.result.outputs} == {STUCK, FOLLOWER}
        assert self.names(self.result) == {STUCK, FOLLOWER}
        assert self.gaps() == set()

    @staticmethod
    def names(result: StepResult) -> set[FeedId]:
        assert result.checkpoint is not None
        return {feed.feed_id for feed in result.checkpoint.feeds}

    def gaps(self) -> set[str]:
        """The feeds to which the hand-off says that they miss versions."""
        (message,) = self.result.exchanges
        assert isinstance(message, HandOff)
        return {told.feed for told in message.told_gaps or ()}


def test_a_feed_whose_rows_cannot_be_written_leaves_the_result_and_the_hand_offs() -> None:
    parent = _Parent()
    parent.driven.processor.refuse(STUCK, FeedError("odd"), parent.result)
    assert {*parent.result.outputs} == {FOLLOWER}
    assert parent.names(parent.result) == {FOLLOWER}
    assert parent.gaps() == {STUCK}
    assert [*map(type, parent.result.acks)] == [Failed]
    assert [each.feed_id for each in parent.result.incidents] == [STUCK]


def test_a_feed_that_is_forgotten_leaves_the_result_and_misses_nothing() -> None:
    parent = _Parent()
    changes = len(parent.result.changes)
    parent.driven.processor.forget(STUCK, parent.result)
    assert {*parent.result.outputs} == {FOLLOWER}
    assert parent.names(parent.result) == {FOLLOWER}
    assert parent.gaps() == set()
    (removed,) = parent.result.acks
    assert removed == Removed(STUCK, FIRST_EPOCH, 0, "", at(9))
    assert not parent.driven.processor.is_active(STUCK)
    assert len(parent.result.changes) > changes, "that it is gone is stored with the step"


def test_a_feed_whose_delivery_is_refused_is_named_by_no_uncommitted_result() -> None:
    parent = _Parent()
    failed = parent.driven.processor.fail_delivery(STUCK, RowRefused("too large"), [parent.result])
    assert {*parent.result.outputs} == {STUCK, FOLLOWER}
    assert parent.names(parent.result) == {FOLLOWER}
    assert parent.gaps() == {STUCK}
    assert [*map(type, failed.acks)] == [Failed]
    again = parent.driven.processor.fail_delivery(STUCK, RowRefused("too large"), [parent.result])
    assert again.acks == []


def test_a_feed_that_failed_before_it_was_detached_is_told_to_the_heirs() -> None:
    parent = _Parent()
    parent.driven.processor._feeds.fail(STUCK, FeedError("odd"))
    parent.driven.processor.detach(STUCK, [parent.result])
    assert parent.names(parent.result) == {FOLLOWER}
    assert parent.gaps() == {STUCK}


def test_a_detached_feed_misses_in_the_heirs_what_is_not_committed() -> None:
    parent = _Parent()
    parent.driven.processor.detach(STUCK, [parent.result])
    assert parent.names(parent.result) == {FOLLOWER}
    assert parent.gaps() == {STUCK}


# ---- feeds that have ended between two steps ----


def test_a_feeds_next_epoch_has_no_gaps_of_the_one_before() -> None:
    stuck = Stuck()
    cursor = replace(WITH_MARKERS, cursor=at(1))
    first = activation([PLAIN.descriptor], cursor, start=at(1), feed_id=_LATE)
    stuck.driven.control(Register(first.definition), first)
    assert stuck.driven.processor.status().with_gaps
    definition = replace(first.definition, epoch=FeedEpoch(FIRST_EPOCH + 1), options=WITH_MARKERS)
    second = replace(first, definition=definition, start=at(3))
    stuck.driven.control(Remove(_LATE, FIRST_EPOCH), Register(definition), second)
    assert not stuck.driven.processor.status().with_gaps
    assert stuck.driven.processor.is_active(_LATE)
    assert not stuck.driven.step(()).requests


def test_a_detached_feed_that_has_failed_since_is_not_scanned_for() -> None:
    stuck = Stuck()
    stuck.detach()
    stuck.driven.processor.stall(STUCK)
    stuck.driven.processor.fail_delivery(STUCK, RowRefused("too large"), ())
    assert stuck.driven.processor.resume(STUCK).requests == []
    assert stuck.driven.processor.status().with_gaps == ()


def test_a_range_waits_for_no_feed_that_has_failed_since() -> None:
    run = Partitions(split_log())
    run.read(1)
    processor = run.driven[1].processor
    assert processor.status().parked
    processor.fail_delivery(FEED.feed_id, RowRefused("too large"), ())
    processor.exchange(())
    assert processor.status().parked == ()
