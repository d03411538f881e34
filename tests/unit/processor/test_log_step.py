"""The inside of a step: what each kind of entry changes, and in which order rows and failures come."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Final

import pytest

from tests.feeds import WITH_MARKERS, activation
from tests.hand_log import BASE_S, FIRST_INDEX, HandLog, HandRange, at, closed, update_of
from tests.logs import Record
from tests.unit.processor.driving import Driven, active, timestamp_of
from tests.unit.processor.logs import OTHER, PLAIN, opened
from tests.unit.processor.partitions import MIDDLE, UPPER, Partitions, split_log
from tidegate.changefeed.definition.feed import FeedId
from tidegate.changefeed.lifecycle.control import Failed, Register, Registered
from tidegate.hlc import ZERO, Timestamp
from tidegate.processor import log_step
from tidegate.processor.batch import ExchangeRecord, StepResult
from tidegate.processor.config import ProcessorConfig
from tidegate.processor.feeds.version_rows import PartitionRows
from tidegate.processor.processor import PartitionProcessor
from tidegate.processor.step_size import RowLimits, StepPace
from tidegate.raftlog.encode import encode_entry, encode_key
from tidegate.raftlog.entry import (
    DescriptorUpdate,
    Generation,
    Heartbeat,
    HistoryMutation,
    Offset,
    OpenIntent,
    RaftIndex,
    RangeId,
    Snapshot,
    Trigger,
)
from tidegate.raftlog.request import Scan
from tidegate.ranges.handoff import Claim
from tidegate.ranges.range_state import RangeStatus

_FEED: Final = activation([PLAIN.descriptor])
_LATE: Final = FeedId("late")
_SOON: Final = HistoryMutation(RaftIndex(FIRST_INDEX), at(30))


def _failed(result: StepResult) -> list[str]:
    return [ack.feed_id for ack in result.acks if isinstance(ack, Failed)]


# ---- entries ----


def test_rows_are_read_by_the_descriptors_of_their_ranges_snapshot() -> None:
    log = HandLog(partitions=1)
    range_ = log.open_range(1, PLAIN.span, descriptors=(update_of(PLAIN.descriptor),))
    range_.apply(PLAIN.put(5, 1, "one"), close=6)
    driven = active(_FEED)
    driven.run(log.partitions[0])
    assert [*map(timestamp_of, driven.rows)] == [at(5)]


@pytest.mark.parametrize(
    ("fields", "highest"),
    [({"high": 8}, 8), ({"last_mutation": _SOON}, 30), ({"high": 40, "last_mutation": _SOON}, 40)],
)
def test_feeds_begin_above_all_that_a_snapshot_tells_of(fields: dict[str, object], highest: float) -> None:
    log = HandLog(partitions=1)
    log.describe(PLAIN)
    range_ = log.open_range(1, PLAIN.span)
    log.wait_for(at(50))
    range_.snapshot(close=3, **fields)  # type: ignore[arg-type]
    driven = Driven()
    driven.run(log.partitions[0])
    (answer,) = driven.control(Register(_FEED.definition)).acks
    assert isinstance(answer, Registered)
    assert answer.highest == at(highest)


def _lowest(monkeypatch: pytest.MonkeyPatch, *snapshots: Snapshot) -> list[Timestamp | None]:
    """Return what the rows are told with each descriptor as the time of the range's lowest row."""
    told: list[Timestamp | None] = []

    def noted(_: PartitionRows, update: DescriptorUpdate, place: str, lowest: Timestamp | None) -> None:
        told.append(lowest)

    monkeypatch.setattr(PartitionRows, "learn", noted)
    log = HandLog(partitions=1)
    log.describe(PLAIN)
    for snapshot in snapshots:
        log.write(snapshot._replace(descriptors=(update_of(PLAIN.descriptor),)))
    active(_FEED).run(log.partitions[0])
    return told


@pytest.mark.parametrize(
    ("intents", "lowest"), [((), at(5)), ((7,), at(5)), ((4, 3, 8), at(3))], ids=["none", "above", "below"]
)
def test_the_lowest_row_of_a_snapshot_is_an_intent_or_above_what_the_store_removed(
    intents: Sequence[float], lowest: Timestamp, monkeypatch: pytest.MonkeyPatch
) -> None:
    open_ = tuple(OpenIntent(bytes(16), b"a", PLAIN.key(1), at(seconds)) for seconds in intents)  # type: ignore[arg-type]
    whole = Snapshot(RangeId(1), Generation(1), RaftIndex(10), PLAIN.span, closed(2), at(9), at(5), open_)
    part = whole._replace(chunks=2)
    assert _lowest(monkeypatch, whole) == [None, lowest], "a broadcast has no range"
    assert _lowest(monkeypatch, part) == [None, ZERO], "the other chunk may have intents too"


# ---- what a chunk in parts may have ----


@pytest.mark.parametrize(("room", "most"), [(5, 5), (100, 70), (70, 70)])
@pytest.mark.parametrize("breaks", [False, True])
def test_only_within_their_context_chunks_come_in_parts(room: int, most: int, breaks: bool) -> None:
    config = ProcessorConfig(rows=RowLimits(step_bytes=70))
    processor = PartitionProcessor(0, 1, config)
    step, entries = processor._step, processor._ranges.entries
    entries.has_more = True
    with suppress(ZeroDivisionError), step.chunk_in_parts(room, is_amid=True):
        assert (entries.row_bytes, entries.is_amid_chunk, step.has_more) == (most, True, False)
        assert 1 // (not breaks)
    assert (entries.row_bytes, entries.is_amid_chunk) == (None, False)


# ---- the log clock ----


class _Clock:
    """A partition with range 1, whose records show the time 10, and range 2, which nobody has heard.

    Record times are given for each record, in seconds. One that is not above the clock's is passed over.
    """

    def __init__(self) -> None:
        self.log = HandLog(partitions=1)
        self.log.describe(PLAIN, OTHER)
        self.heard = self.log.open_range(1, PLAIN.span)
        self.other = self.log.open_range(2, OTHER.span, close=-BASE_S)
        self.driven = Driven()
        self.driven.run(self.log.partitions[0])
        self.write(Heartbeat(RangeId(1), Generation(1), closed(9), RaftIndex(FIRST_INDEX)), 10)
        assert self.voices == {1: at(9).wall_ms}

    def write(self, entry: object, seconds: float, partition: int = 0) -> None:
        """Write an entry with a record time, and step it."""
        read = len(self.log.partitions[0])
        range_id = entry.range_id  # type: ignore[attr-defined]
        time_ms = int((BASE_S + seconds) * 1_000)
        self.log.write_bytes(partition, encode_key(range_id), encode_entry(entry), time_ms)  # type: ignore[arg-type]
        self.driven.run(self.log.partitions[0][read:])

    def beat(self, closes: float, seconds: float, *, ahead: int = 0) -> None:
        """Range 2 closes so far, ``ahead`` entries later."""
        covers = RaftIndex(self.other.index + ahead)
        self.write(Heartbeat(RangeId(2), Generation(1), closed(closes), covers), seconds)

    def command(self, seconds: float, close: float | None = None) -> None:
        self.other.index += 1
        self.write(self.other.command(close=close), seconds)

    @property
    def voices(self) -> dict[int, int]:
        """What each known range has closed."""
        clock = self.driven.processor._state.position.clock
        assert clock is not None
        return {voice.range_id: voice.closed_ms for voice in clock.voices}


def test_a_range_is_heard_with_what_an_entry_closes_later() -> None:
    clock = _Clock()
    clock.beat(8, 11, ahead=1)
    assert clock.voices[2] == at(8).wall_ms


def test_a_range_is_heard_with_what_it_had_closed_where_the_entry_closes_nothing_new() -> None:
    clock = _Clock()
    clock.beat(8, 2)
    clock.beat(7, 12)
    assert 2 not in clock.voices, "it has closed nothing more"
    clock.beat(8.5, 13)
    assert clock.voices[2] == at(8.5).wall_ms


def test_a_command_with_which_its_range_closes_more_is_heard() -> None:
    clock = _Clock()
    clock.beat(8, 2, ahead=1)
    assert 2 not in clock.voices
    clock.command(12)
    assert clock.voices[2] == at(8).wall_ms


def test_a_command_that_closes_nothing_makes_its_range_no_voice() -> None:
    clock = _Clock()
    clock.beat(8, 2)
    clock.command(12)
    assert 2 not in clock.voices


def test_a_range_that_ends_is_heard_no_more() -> None:
    clock = _Clock()
    clock.beat(8, 11)
    assert {*clock.voices} == {1, 2}
    clock.other.end()
    clock.driven.run(clock.log.partitions[0][int(clock.driven.processor.next_offset or 0) :])
    assert {*clock.voices} == {1}


def test_a_range_of_another_partition_is_not_heard() -> None:
    log = HandLog(partitions=3)
    log.describe(PLAIN)
    here = log.open_range(3, PLAIN.span)
    log.wait_for(at(9))
    here.heartbeat(8)
    log.wait_for(at(12))
    stray = Heartbeat(RangeId(1), Generation(1), closed(11), RaftIndex(FIRST_INDEX))
    log.write(stray, partition=0)
    driven = Driven(PartitionProcessor(0, 3))
    driven.run(log.partitions[0])
    clock = driven.processor._state.position.clock
    assert clock is not None
    assert [voice.range_id for voice in clock.voices] == [3]


# ---- backlogs ----


def _backlog(limits: RowLimits | None = None) -> tuple[Driven, Sequence[Record]]:
    """Range 3 has put off six rows, and goes on with the next two records. Another row comes after them."""
    log = HandLog(partitions=1)
    log.describe(PLAIN)
    parent = log.open_range(2, PLAIN.span)
    parent.apply(PLAIN.put(2, 150, "v"), close=1)
    child = parent.split(MIDDLE, 3, close=3)
    for number in range(6):
        child.apply(PLAIN.put(5 + number, 150, "v"), close=4)
    described, begun, put, trigger, left, born, *late = log.partitions[0]
    parent.apply(PLAIN.put(6, 50, "v"), close=5)
    order = [described, begun, put, born, *late, trigger, left, log.partitions[0][-1]]
    records = [record._replace(offset=offset) for offset, record in enumerate(order)]
    driven = Driven(PartitionProcessor(0, 1, ProcessorConfig(rows=limits or RowLimits())))
    driven.control(_FEED)
    driven.run(records[:-3])
    assert driven.processor.status().parked
    del driven.results[:]
    return driven, records[-3:]


def _size_of_a_row() -> int:
    driven, records = _backlog()
    result = driven.step(records[:2])
    assert len(driven.rows) == 6
    return result.row_bytes // 6


@pytest.mark.parametrize("beside", [-1, 0, 1])
def test_a_backlog_is_applied_until_the_step_is_full(beside: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(StepPace, "log_bytes", 1)
    each = _size_of_a_row()
    driven, records = _backlog(RowLimits(step_bytes=2 * each + beside))
    result = driven.note(driven.processor.step_some(records[:2]))
    rows = 2 + (beside > 0)
    assert len(driven.rows) == rows
    assert result.row_bytes == rows * each
    assert driven.processor.ready


def test_a_backlog_goes_on_by_a_portion_though_the_log_has_filled_the_step(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(StepPace, "log_bytes", 1)
    driven, records = _backlog(RowLimits(step_bytes=1))
    driven.note(driven.processor.step_some(records[:2]))
    result = driven.note(driven.processor.step_some(records[2:]))
    assert result.taken == 1
    assert [*map(timestamp_of, driven.rows)] == [at(5), at(6), at(6)]


def test_a_step_without_a_bound_applies_all_of_a_backlog_in_portions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(StepPace, "log_bytes", 1)
    told: list[tuple[StepPace, int, int]] = []
    monkeypatch.setattr(
        StepPace, "note", lambda pace, log_bytes, row_bytes: told.append((pace, log_bytes, row_bytes))
    )
    each = _size_of_a_row()
    driven, records = _backlog()
    del told[:]
    driven.step(records)
    assert len(driven.rows) == 7
    assert not driven.processor.ready
    of_backlogs = [more for pace, *more in told if pace is driven.processor._state.backlog_pace]
    assert [rows for _, rows in of_backlogs] == [0, *[each] * 6], "the snapshot first"
    assert all(log_bytes > 1 for log_bytes, _ in of_backlogs)


@pytest.mark.parametrize("most", [2, 3])
def test_a_step_applies_so_many_entries_of_backlogs_at_most(
    most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_step, "_DRAIN_MAX", most)
    monkeypatch.setattr(StepPace, "log_bytes", 1)
    driven, records = _backlog()
    driven.step(records[:2])
    while driven.processor.ready:
        driven.step(())
    per_step = [sum(map(len, result.outputs.values())) for result in driven.results]
    assert max(per_step) == most
    assert sum(per_step) == 6


def test_a_claim_that_is_answered_by_the_last_entry_that_fits_the_step_ends_it() -> None:
    """Range 3 splits in its backlog, and range 4 waits for that. The step has room for just that backlog."""
    log = HandLog(partitions=1)
    log.describe(PLAIN)
    parent = log.open_range(2, PLAIN.span)
    parent.apply(PLAIN.put(2, 150, "v"), close=1)
    child = parent.split(MIDDLE, 3, close=3)
    child.apply(PLAIN.put(5, 150, "v"), close=4)
    grandchild = child.split(UPPER, 4, close=5)
    grandchild.apply(PLAIN.put(6, 250, "v"), close=5)
    described, begun, put, trigger, left, *of_children = log.partitions[0]
    order = [described, begun, put, *of_children, trigger, left]
    records = [record._replace(offset=offset) for offset, record in enumerate(order)]
    driven = Driven(PartitionProcessor(0, 1, ProcessorConfig(rows=RowLimits(step_bytes=1))))
    driven.control(_FEED)
    driven.run(records[:-2])
    assert [each.range_id for each in driven.processor.status().parked] == [3, 4]
    of_child = driven.processor.status().parked[0].entries
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(log_step, "_DRAIN_MAX", of_child)
        patch.setattr(StepPace, "log_bytes", 2**20)
        driven.note(driven.processor.step_some(records[-2:]))
    assert [*map(timestamp_of, driven.rows)] == [at(2), at(5)]
    assert driven.processor.status().parked == ()
    assert driven.processor.ready


# ---- feeds that fail amid a step ----


def _mutates(log: HandLog, range_: HandRange) -> None:
    range_.apply(trigger=Trigger.HISTORY_MUTATION)


def _hides_a_mutation(log: HandLog, range_: HandRange) -> None:
    range_.heartbeat(5.2)
    range_.unreadable()
    told = HistoryMutation(RaftIndex(range_.index), at(5.5))
    range_.snapshot(close=5.6, high=5, last_mutation=told)


def _loses_versions(log: HandLog, range_: HandRange) -> None:
    range_.unreadable()
    range_.snapshot(close=8, high=8, gc=7.5)


def _is_dropped(log: HandLog, range_: HandRange) -> None:
    log.write(update_of(replace(PLAIN.descriptor, version=2, modified=at(7), dropped=True)))


def _comes_late(log: HandLog, range_: HandRange) -> None:
    log.write(update_of(PLAIN.widened(4).descriptor))


def _cannot_be_read(log: HandLog, range_: HandRange) -> None:
    log.write(DescriptorUpdate(PLAIN.descriptor.id, 2, at(7), b"\xff"))


def _contradicts(log: HandLog, range_: HandRange) -> None:
    log.write(update_of(replace(PLAIN.descriptor, name="another")))


@pytest.mark.parametrize("batch", [1, 99])
@pytest.mark.parametrize(
    "befall",
    [_mutates, _hides_a_mutation, _loses_versions, _is_dropped, _comes_late, _cannot_be_read, _contradicts],
)
def test_a_feed_that_fails_amid_a_step_has_the_rows_from_before_and_no_others(
    befall: Callable[[HandLog, HandRange], None], batch: int
) -> None:
    log = HandLog(partitions=1)
    log.describe(PLAIN, OTHER)
    plain, other = log.open_range(1, PLAIN.span), log.open_range(2, OTHER.span)
    plain.apply(PLAIN.put(5, 1, "before"), close=2)
    befall(log, plain)
    plain.apply(PLAIN.put(9, 1, "after"), close=2)
    other.apply(OTHER.put(9, 1, "beside"), close=2)
    driven = Driven()
    driven.control(_FEED, activation([OTHER.descriptor], feed_id="beside"))
    results = driven.run(log.partitions[0], batch)
    assert [name for result in results for name in _failed(result)] == ["feed"]
    found = {feed: [*map(timestamp_of, rows)] for result in results for feed, rows in result.outputs.items()}
    assert found == {"feed": [at(5)], "beside": [at(9)]}


def _overtaken() -> tuple[Driven, Sequence[Record]]:
    """A feed that misses versions from 1 on; the next record says that the store has removed them."""
    log, range_ = opened()
    driven = active(_FEED)
    driven.run(log.partitions[0])
    late = activation([PLAIN.descriptor], replace(WITH_MARKERS, cursor=at(1)), start=at(1), feed_id=_LATE)
    driven.control(Register(late.definition), late)
    read = len(log.partitions[0])
    range_.apply(PLAIN.put(7, 1, "seven"), close=6)
    range_.snapshot(close=6, high=7, gc=5.5)
    return driven, log.partitions[0][read:]


@pytest.mark.parametrize("batch", [1, 99])
def test_a_feed_whose_missing_versions_are_removed_fails_in_that_step(batch: int) -> None:
    driven, records = _overtaken()
    *_, result = driven.run(records, batch)
    assert _failed(result) == [_LATE]
    assert result.requests == []


def test_a_feed_that_fails_by_its_scan_has_been_given_the_rows_before_it() -> None:
    """A chunk finds that the store has removed versions. Live rows of the same step came before it."""
    log, range_ = opened()
    other = log.open_range(2, OTHER.span)
    driven = active(_FEED)
    driven.run(log.partitions[0])
    options = replace(WITH_MARKERS, cursor=at(1))
    late = activation([PLAIN.descriptor, OTHER.descriptor], options, start=at(1), feed_id=_LATE)
    driven.control(Register(late.definition), late)
    (scan,) = (each for each in driven.step(()).requests if isinstance(each, Scan))
    read = len(log.partitions[0])
    other.apply(OTHER.put(8, 1, "live"), close=7)
    range_.snapshot(close=6, high=5, gc=7)
    range_.scanned(scan)
    other.apply(OTHER.put(9, 1, "after"), close=7)
    result = driven.step(log.partitions[0][read:])
    assert _failed(result) == [_LATE]
    assert [*map(timestamp_of, result.outputs[_LATE])] == [at(8)]


# ---- a source that does not tell of mutations ----


def test_a_source_that_tells_of_no_mutations_is_named_once_and_where_a_feed_may_miss_rows() -> None:
    log = HandLog(partitions=1)
    log.describe(PLAIN, OTHER)
    plain, other = log.open_range(1, PLAIN.span), log.open_range(2, OTHER.span)
    driven = active(_FEED)
    told: list[list[int | None]] = []
    for range_ in (other, plain, plain):
        range_.unreadable()
        range_.snapshot(close=0, high=range_.index, last_mutation=None)
        result = driven.step(log.partitions[0][int(driven.processor.next_offset or 0) :])
        told.append([each.range_id for each in result.incidents if "last_mutation" in each.cause])
        for scan in result.requests:
            assert isinstance(scan, Scan)
            range_.scanned(scan)
        driven.step(log.partitions[0][int(driven.processor.next_offset or 0) :])
        assert not driven.processor.status().parked
    assert told == [[], [1], []], "no feed reads the keys of range 2"


# ---- records that are read again ----


@pytest.mark.parametrize("last", ["nameless", "unreadable", "snapshot", "heartbeat"])
def test_a_restart_reads_the_last_record_again_as_one_that_has_passed(last: str) -> None:
    """Only the range that waits takes it; nothing is noted or reported anew."""
    runs = [Partitions(split_log()) for _ in range(2)]
    for run in runs:
        child = HandRange(run.log, RangeId(3), PLAIN.split(100)[1])
        child.index, child.generation = 11, 2
        beside = run.log.open_range(5, OTHER.span)
        run.log.wait_for(at(9))
        beside.heartbeat(8)
        run.log.wait_for(at(20))
        if last == "nameless":
            run.log.write_bytes(1, None, b"\xff")
        elif last == "unreadable":
            child.unreadable()
        elif last == "snapshot":
            child.snapshot(close=8, high=8)
        else:
            child.heartbeat(9)
        run.read(1)
    runs[1].restart(1)
    assert runs[1].driven[1].processor.to_read_again
    runs[1].read(1)
    assert runs[1].causes() == runs[0].causes()
    states = [{state.range_id: state for state in run.driven[1].processor._ranges} for run in runs]
    backlogs = [dict(run.driven[1].processor._ranges._backlogs.items()) for run in runs]
    for one, other in zip(*(sorted(each.items()) for each in states), strict=True):
        assert one[1].quarantine == other[1].quarantine
    assert states[0][RangeId(3)].accounted == states[1][RangeId(3)].accounted
    assert backlogs[0][RangeId(3)].heard_ms == backlogs[1][RangeId(3)].heard_ms
    for run in runs:
        run.settle()
    assert runs[0].rows() == runs[1].rows()
    assert runs[0].causes() == runs[1].causes()


def test_a_record_that_names_no_range_is_no_hole_of_a_range_that_was_claimed_after_it() -> None:
    """Also where it is the last one that a range which waits reads again."""
    run = Partitions(split_log())
    run.log.write_bytes(1, None, b"\xff")
    run.read(1)
    claim = Claim(RangeId(8), RangeId(5), RaftIndex(11), OTHER.span)
    run.note_step(1, run.driven[1].processor.exchange([ExchangeRecord(Offset(0), claim)]))
    run.restart(1)
    assert run.driven[1].processor.to_read_again
    run.read(1)
    assert run.causes() == []
    (claimed,) = (state for state in run.driven[1].processor._ranges if state.range_id == 5)
    assert claimed.status is RangeStatus.UNINITIALISED
