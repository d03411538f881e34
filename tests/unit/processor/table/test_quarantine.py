"""Holes: each cause is named, the range stands still, and nothing else stops."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import pytest

from tests.feeds import WITH_MARKERS, activation
from tests.hand_log import HandLog, HandRange, at, intent, txn
from tests.logs import Record
from tests.unit.processor.driving import Driven, active, range_of
from tests.unit.processor.logs import PLAIN
from tests.unit.processor.table.breakages import BREAKAGES, FAR_AHEAD, HIGH, LOW, Breakage, garbage
from tidegate.changefeed.definition.options import InitialScan
from tidegate.changefeed.lifecycle.control import Register, Registered
from tidegate.errors import MalformedEntry
from tidegate.hlc import ZERO, ClosedTimestamp, ResolvedTimestamp
from tidegate.processor.bounds import BOUNDS, PARENTS_MAX
from tidegate.processor.processor import PartitionProcessor
from tidegate.processor.table.partition_backlogs import Backlogs
from tidegate.processor.table.quarantine import Quarantines
from tidegate.processor.table.range_table import RangeTable
from tidegate.raftlog.encode import encode_entry, encode_key
from tidegate.raftlog.entry import (
    BROADCAST,
    Generation,
    KeyValue,
    Offset,
    OpenIntent,
    Parent,
    RaftIndex,
    RangeId,
    ScanChunk,
    Snapshot,
    Trigger,
)
from tidegate.raftlog.request import Scan
from tidegate.ranges.range_state import RangeState, RangeStatus
from tidegate.ranges.resolver import Resolver

_FEED = activation([PLAIN.descriptor])


def _mutation_far_ahead(log: HandLog, broken: HandRange) -> None:
    broken.index += 1
    command = broken.command(trigger=Trigger.HISTORY_MUTATION)
    log.write(command._replace(write_timestamp=at(FAR_AHEAD)))


def _broken_behind_far_ahead(log: HandLog, broken: HandRange) -> None:
    broken.index += 1
    far, bare = PLAIN.put(10 * FAR_AHEAD, 2, "far"), PLAIN.put(3, 3, "bare")._replace(value=None)
    log.write(broken.command(far, bare, close=3))


def _far_ahead_in_its_own_time(log: HandLog, hasty: HandRange) -> None:
    """One record whose time is as wrong as its version's, so that it is believed."""
    hasty.index += 1
    ahead = at(10 * FAR_AHEAD)
    command = hasty.command(PLAIN.put(10 * FAR_AHEAD, 2, "far"), close=3)
    log.write_bytes(0, encode_key(hasty.id), encode_entry(command), ahead.wall_ms)


def _broken_log(breakage: Breakage) -> HandLog:
    """Range 1 breaks after its rows of second 5, which are closed up to 6; range 2 goes on to second 20."""
    log = HandLog(partitions=1)
    log.describe(PLAIN)
    broken, healthy = log.open_range(1, LOW), log.open_range(2, HIGH)
    broken.apply(PLAIN.put(5, 1, "before"), close=6)
    breakage(log, broken)
    broken.apply(PLAIN.put(10, 1, "after"), close=10)
    broken.snapshot(close=11, high=10)
    broken.heartbeat(12)
    healthy.apply(PLAIN.put(20, 100, "healthy"), close=20)
    return log


@pytest.mark.parametrize("batch", [1, 3, 99])
@pytest.mark.parametrize("what", BREAKAGES)
def test_a_hole_stops_its_range_by_name_and_no_other(what: str, batch: int) -> None:
    breakage, cause = BREAKAGES[what]
    log = _broken_log(breakage)
    driven = active(_FEED)
    driven.run(log.partitions[0], batch)
    assert [record.key for record in driven.rows] == [b"[1]", b"[100]"]
    (incident,) = [incident for result in driven.results for incident in result.incidents]
    assert incident.range_id == 1
    assert cause in incident.cause
    assert "range 1 is quarantined at" in incident.cause
    assert driven.checkpoints[RangeId(2)].resolved == at(20)


@pytest.mark.parametrize("batch", [1, 3, 99])
@pytest.mark.parametrize("what", sorted(BREAKAGES.keys() - {"trigger without snapshot"}))
def test_the_last_checkpoint_of_a_stopped_range_does_not_depend_on_the_batches(what: str, batch: int) -> None:
    driven = active(_FEED)
    driven.run(_broken_log(BREAKAGES[what][0]).partitions[0], batch)
    assert driven.checkpoints[RangeId(1)].resolved == at(6)


@pytest.mark.parametrize("batch", [1, 2, 99])
def test_no_checkpoint_stands_between_a_trigger_and_the_hole_behind_it(batch: int) -> None:
    log = HandLog(partitions=1)
    log.describe(PLAIN)
    broken = log.open_range(1, LOW, close=2)
    broken.apply(close=6, trigger=Trigger.SPLIT)
    broken.apply()
    driven = active(_FEED)
    driven.run(log.partitions[0], batch)
    assert [c.resolved for c in driven.checkpoints.values()] in ([], [at(2)])
    assert driven.processor.status().quarantined


@pytest.mark.parametrize("what", BREAKAGES)
def test_an_operator_sees_where_and_why_a_range_is_quarantined(what: str) -> None:
    breakage, cause = BREAKAGES[what]
    driven = active(_FEED)
    driven.run(_broken_log(breakage).partitions[0])
    (hole,) = driven.processor.status().quarantined
    (incident,) = driven.results[-1].incidents
    assert (hole.range_id, hole.resolved, hole.offset) == (1, at(6), incident.offset)
    assert cause in hole.cause


def test_a_command_that_breaks_off_leaves_its_range_where_it_stood_before_it() -> None:
    """Its first op ends the oldest intent: without the row of that op, nothing has become complete."""
    log = HandLog(partitions=1)
    log.describe(PLAIN)
    broken = log.open_range(1, LOW)
    broken.apply(intent(1, 5), close=9)
    broken.apply(PLAIN.commit(1, 6, 1, "lost"), PLAIN.put(2, 2, "forbidden"))
    driven = active(_FEED)
    driven.run(log.partitions[0])
    assert driven.rows == []
    (hole,) = driven.processor.status().quarantined
    assert hole.resolved < at(5)
    assert driven.checkpoints[RangeId(1)].resolved == hole.resolved


def test_a_first_snapshot_that_breaks_in_its_intents_has_told_nothing() -> None:
    """The next one begins the range, with the scan of a feed that wants what stands in the table."""
    log = HandLog(partitions=1)
    log.describe(PLAIN)
    undated = OpenIntent(txn(8), b"anchor", PLAIN.key(1), ZERO)
    opened = log.open_range(1, PLAIN.span, close=3, high=2, intents=[undated])
    opened.snapshot(close=3, high=2)
    opened.heartbeat(9)
    options = replace(WITH_MARKERS, initial_scan=InitialScan.YES)
    driven = active(activation([PLAIN.descriptor], options, start=at(3)))
    driven.run(log.partitions[0])
    (cause,) = driven.causes
    assert "has no timestamp" in cause
    (scan,) = [request for result in driven.results for request in result.requests]
    assert isinstance(scan, Scan)
    assert not scan.all_versions
    assert [each.ranges for each in driven.processor.status().with_gaps] == [1]


@pytest.mark.parametrize("key", [None, b"short", b"\xff" * 8, encode_key(RangeId(0))])
def test_an_unreadable_record_that_names_no_range_stops_all_of_its_partition(key: bytes | None) -> None:
    log = HandLog(partitions=1)
    log.describe(PLAIN)
    ranges = log.open_range(1, LOW), log.open_range(2, HIGH)
    for each in ranges:
        each.heartbeat(5)
    log.write_bytes(0, key, b"\xff\xff\xff")
    ranges[0].apply(PLAIN.put(8, 1, "lost"), close=9)
    ranges[1].apply(PLAIN.put(8, 100, "lost"), close=9)
    driven = active(_FEED)
    driven.run(log.partitions[0])
    assert driven.rows == []
    assert ["names no range" in cause for cause in driven.causes] == [True, True]
    assert [hole.resolved for hole in driven.processor.status().quarantined] == [at(5), at(5)]
    assert {item.resolved for item in driven.checkpoints.values()} == {at(5)}


def test_an_unreadable_first_record_stops_a_range_that_nobody_has_seen() -> None:
    log = HandLog(partitions=1)
    log.describe(PLAIN)
    log.write_bytes(0, encode_key(RangeId(1)), b"\xff\xff\xff")
    log.open_range(1, LOW, close=5, high=4).apply(PLAIN.put(6, 1, "lost"), close=6)
    driven = active(_FEED)
    driven.run(log.partitions[0])
    assert driven.rows == []
    assert driven.checkpoints == {}
    assert len(driven.causes) == 1


def test_a_record_in_a_strange_partition_is_skipped_and_told() -> None:
    log = HandLog(partitions=2)
    log.describe(PLAIN)
    own = log.open_range(2, PLAIN.span)
    stray = HandRange(log, RangeId(3), PLAIN.span)
    log.write(stray.command(PLAIN.put(4, 1, "astray"), close=9), partition=0)
    log.write_bytes(0, encode_key(RangeId(3)), b"\xff\xff\xff")
    own.apply(PLAIN.put(5, 2, "own"), close=6)
    driven = Driven(PartitionProcessor(0, 2))
    driven.control(_FEED)
    driven.run(log.partitions[0])
    assert [range_of(record) for record in driven.rows] == [2]
    assert len(driven.causes) == 2
    assert all("range 3 was skipped: it belongs to partition 1 of 2" in cause for cause in driven.causes)
    assert driven.processor.status().quarantined == ()


def _ranges_up_to(seconds: float) -> HandLog:
    log = HandLog(partitions=1)
    log.describe(PLAIN)
    for number, span in ((1, LOW), (2, HIGH)):
        log.open_range(number, span).apply(close=seconds)
    return log


def test_a_log_that_begins_above_what_was_to_be_read_is_a_hole_of_every_range() -> None:
    log = _ranges_up_to(5)
    driven = active(_FEED)
    driven.run(log.partitions[0])
    next_offset = driven.processor.next_offset
    assert next_offset is not None
    result = driven.processor.missing_below(Offset(next_offset + 4))
    assert [incident.range_id for incident in result.incidents] == [1, 2]
    assert all("retention removed" in incident.cause for incident in result.incidents)
    assert driven.processor.next_offset == next_offset + 4
    assert result.changes
    assert result.checkpoint is None


@pytest.mark.parametrize("early", [0, 1])
def test_a_log_that_still_has_what_is_read_next_is_whole(early: int) -> None:
    log = _ranges_up_to(5)
    driven = active(_FEED)
    driven.run(log.partitions[0])
    next_offset = driven.processor.next_offset
    assert next_offset is not None
    result = driven.processor.missing_below(Offset(next_offset - early))
    assert result.incidents == []
    assert driven.processor.next_offset == next_offset
    assert driven.processor.status().quarantined == ()


@pytest.mark.parametrize("what", [each for each in BREAKAGES if "far ahead" in each] + ["mutation far ahead"])
def test_no_later_feed_starts_at_a_time_that_is_far_ahead(what: str) -> None:
    breakage = BREAKAGES[what][0] if what in BREAKAGES else _mutation_far_ahead
    driven = active(_FEED)
    driven.run(_broken_log(breakage).partitions[0])
    (answer,) = driven.control(Register(activation([PLAIN.descriptor], feed_id="later").definition)).acks
    assert isinstance(answer, Registered)
    assert answer.highest <= at(20)


def test_a_day_ahead_is_believed() -> None:
    log = HandLog(partitions=1)
    log.describe(PLAIN)
    only = log.open_range(1, PLAIN.span)
    only.index += 1
    log.write(only.command(PLAIN.put(86_400, 1, "a day ahead")))
    driven = active(_FEED)
    driven.run(log.partitions[0])
    assert [record.key for record in driven.rows] == [b"[1]"]
    assert driven.causes == []


@pytest.mark.parametrize("first", [_broken_behind_far_ahead, _far_ahead_in_its_own_time])
def test_a_range_heals_once_and_goes_on_behind_what_was_far_ahead(first: Breakage) -> None:
    """Later commands are measured by their own versions, and scans go up to versions that there are."""
    log = HandLog(partitions=1)
    log.describe(PLAIN)
    opened = log.open_range(1, PLAIN.span)
    opened.apply(PLAIN.put(1, 1, "one"), close=2)
    first(log, opened)
    opened.high = 1
    log.wait_for(at(4))
    opened.snapshot(close=4, high=1)
    for second in range(5, 9):
        opened.apply(PLAIN.put(second, second, "healthy"), close=second)
    driven = Driven()
    driven.run(log.partitions[0], 1)
    assert all("without its value" in cause for cause in driven.causes)
    assert driven.processor.status().quarantined == ()
    options = replace(WITH_MARKERS, cursor=at(0.5))
    later = activation([PLAIN.descriptor], options, start=at(0.5), feed_id="later")
    driven.control(Register(later.definition), later)
    (scan,) = driven.step(()).requests
    assert isinstance(scan, Scan)
    assert scan.upto == (at(8) if first is _broken_behind_far_ahead else at(10 * FAR_AHEAD))


def test_a_scan_that_shows_what_is_far_ahead_is_refused() -> None:
    """It is asked for again: a range that heals, and a feed that catches up, are given none of it."""
    log = _broken_log(garbage)
    driven = active(_FEED)
    driven.run(log.partitions[0])
    key, value = PLAIN.pair(1, "far ahead")
    (scan,) = driven.results[-1].requests
    assert isinstance(scan, Scan)
    given = len(driven.rows)
    rows = (KeyValue(key, at(FAR_AHEAD), value),)
    place = RangeId(1), Generation(1), RaftIndex(12)
    log.write(ScanChunk(*place, scan.request_id, scan.span, scan.after, scan.upto, True, rows, True))
    driven.step(log.partitions[0])
    assert len(driven.rows) == given
    assert "a version of a ScanChunk is" in driven.causes[-1]


@pytest.mark.parametrize("key", [None, encode_key(BROADCAST)], ids=["names no range", "names all ranges"])
@pytest.mark.parametrize("restarted", [False, True])
def test_what_nobody_can_read_behind_a_range_that_waits_is_its_hole_after_a_restart_too(
    key: bytes | None, restarted: bool
) -> None:
    """The record may have been a descriptor, so the rows after it must not come out by an older one."""
    log = HandLog(1)
    log.describe(PLAIN)
    opened = log.open_range(1, PLAIN.span)
    opened.apply(PLAIN.put(2, 1, "first"), close=2)
    driven = Driven()
    driven.control(activation([PLAIN.descriptor]))
    opened.index += 5  # entries are missing
    opened.apply(PLAIN.put(3, 2, "second"), close=3)
    opened.snapshot(close=4, high=3)
    asked = [scan for result in driven.run(log.partitions[0]) for scan in result.requests]
    behind = len(log.partitions[0])
    log.write_bytes(0, key, b"\xff")
    opened.apply(PLAIN.put(5, 3, "third"), close=5)
    driven.run(log.partitions[0][behind:])
    if restarted:
        driven = Driven.restored(driven.state)
        again = driven.run(log.partitions[0][int(driven.processor.next_offset or 0) :])
        asked = [scan for result in again for scan in result.requests] or asked
    assert isinstance(asked[-1], Scan)
    behind = len(log.partitions[0])
    opened.scanned(asked[-1])
    opened.apply(PLAIN.put(6, 4, "fourth"), close=6)
    driven.run(log.partitions[0][behind:])
    (quarantined,) = driven.processor.status().quarantined
    assert quarantined.range_id == RangeId(1)
    assert not [row.key for row in driven.rows if row.key in (b"[3]", b"[4]")]


# ---- quarantines of one range ----

_AT: Final = Offset(30)
_RECORD: Final = Record(30, encode_key(RangeId(7)), b"", 0)
_RESOLVED: Final = ResolvedTimestamp(at(8))


def _live_range(status: RangeStatus = RangeStatus.LIVE) -> tuple[RangeTable, Quarantines, RangeState]:
    """A range, stored as it is, with the first chunk of its next snapshot."""
    table = RangeTable(2, 5, None, None)
    state = table.touch(RangeId(7))
    state.status, state.span = status, PLAIN.span
    state.generation, state.applied = Generation(3), RaftIndex(12)
    state.resolver = Resolver.restored(ClosedTimestamp(at(9)), _RESOLVED)
    state.chunks = [_head()]
    table.freeze(_AT, _AT, Backlogs(None), BOUNDS, lambda *_: None)
    return table, Quarantines(table), state


def _head(generation: int = 4, index: int = 12, parents: int = 0) -> Snapshot:
    named = tuple(Parent(RangeId(number), Generation(3), RaftIndex(1)) for number in range(1, parents + 1))
    closed = ClosedTimestamp(at(9))
    return Snapshot(
        RangeId(7),
        Generation(generation),
        RaftIndex(index),
        PLAIN.span,
        closed,
        ZERO,
        ZERO,
        parents=named,
        chunks=2,
    )


def test_a_quarantined_range_stands_where_it_was_resolved_and_is_stored_and_told() -> None:
    table, quarantines, state = _live_range()
    resolved = ResolvedTimestamp(at(5))
    quarantines.begin(state, _RECORD, "broken", resolved)
    assert (state.status, state.quarantine) == (RangeStatus.QUARANTINED, ("broken", _AT, resolved))
    assert [*table.touched] == [RangeId(7)]
    (incident,) = quarantines.take_out()
    assert (incident.partition, incident.offset, incident.range_id) == (2, _AT, 7)
    assert incident.cause == f"range 7 is quarantined at {resolved}: broken"
    assert quarantines.take_out() == []


@pytest.mark.parametrize("status", [RangeStatus.QUARANTINED, RangeStatus.ENDED])
def test_a_range_that_is_quarantined_or_has_ended_is_not_quarantined(status: RangeStatus) -> None:
    table, quarantines, state = _live_range(status)
    quarantines.begin(state, _RECORD, "broken", _RESOLVED)
    assert (state.status, state.quarantine, table.touched) == (status, None, {})
    assert quarantines.take_out() == []


def test_a_range_whose_entries_did_not_come_stands_where_it_has_resolved() -> None:
    table, quarantines, state = _live_range()
    quarantines.begin_at(state, Offset(31), "silent")
    assert state.quarantine == ("silent", 31, _RESOLVED)
    assert [*table.touched] == [RangeId(7)]
    assert [incident.offset for incident in quarantines.take_out()] == [31]


@pytest.mark.parametrize(
    ("head", "cause"),
    [
        (_head(), None),
        (_head(parents=PARENTS_MAX), None),
        (_head(generation=5), "a snapshot at index 12 began within another one"),
        (
            _head(parents=PARENTS_MAX + 1),
            f"names {PARENTS_MAX + 1} parents, and {PARENTS_MAX} are waited for",
        ),
        (_head(index=13), "skipped entries"),
    ],
    ids=["again", "most parents", "within another", "too many parents", "entries missing"],
)
def test_a_range_is_quarantined_before_a_snapshot_that_it_cannot_go_on_with(
    head: Snapshot, cause: str | None
) -> None:
    _, quarantines, state = _live_range()
    if head.parents:
        state.chunks = [head]
    quarantines.begin_before(state, head, _RECORD)
    if cause is None:
        assert state.status is RangeStatus.LIVE
    else:
        assert state.quarantine is not None
        assert cause in state.quarantine.cause
        assert state.quarantine.resolved == _RESOLVED


def test_a_range_that_has_taken_no_snapshot_may_begin_with_another_one() -> None:
    _, quarantines, state = _live_range(RangeStatus.UNINITIALISED)
    quarantines.begin_before(state, _head(generation=5), _RECORD)
    assert state.status is RangeStatus.UNINITIALISED
    quarantines.begin_before(state, _head(parents=PARENTS_MAX + 1), _RECORD)
    assert state.quarantine is not None
    assert "parents" in state.quarantine.cause


def test_a_live_range_without_a_snapshot_in_hand_may_begin_any() -> None:
    _, quarantines, state = _live_range()
    state.chunks = []
    quarantines.begin_before(state, _head(generation=5), _RECORD)
    assert state.status is RangeStatus.LIVE


def test_reports_name_the_range_the_place_and_what_follows() -> None:
    _, quarantines, state = _live_range()
    quarantines.report_longer(state, Offset(31), "again")
    quarantines.report_stray(RangeId(9), _RECORD)
    chunk = ScanChunk(
        RangeId(8), Generation(1), RaftIndex(12), 84, PLAIN.span, ZERO, at(9), True, (), last=True
    )
    quarantines.report_chunk(chunk, _RECORD, MalformedEntry("torn"))
    told = [(incident.offset, incident.range_id) for incident in quarantines.take_out()]
    assert told == [(31, 7), (30, 9), (30, 8)]
