"""Holes end: the next snapshot and a scan bring back what was missed, in order, and markers go on."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.feeds import activation
from tests.hand_log import HandLog, HandRange, at
from tests.unit.processor.catchup.partition_parts import CHILD
from tests.unit.processor.driving import Driven, active, timestamp_of
from tests.unit.processor.logs import OTHER, PLAIN
from tests.unit.processor.moving.broken_range import FEED, MIDDLE, Broken, row_of, scans_in
from tests.unit.processor.moving.waiting_parts import WaitingParts, head, record
from tests.unit.processor.partitions import Partitions
from tests.unit.processor.table.breakages import BREAKAGES
from tidegate.changefeed.definition.feed import FeedId
from tidegate.changefeed.definition.options import Envelope
from tidegate.changefeed.lifecycle.control import Remove
from tidegate.raftlog.entry import Generation, KeyValue, Offset, RaftIndex, RangeId, ScanChunk
from tidegate.ranges.range_state import RangeState, RangeStatus
from tidegate.ranges.scan import SCAN_REPEAT_MS, RangeScan, ScanPart
from tidegate.spans import Span


@pytest.mark.parametrize("batch", [1, 2, 99])
@pytest.mark.parametrize("what", sorted(BREAKAGES.keys() - {"raft snapshot"}))
def test_every_kind_of_hole_is_healed(what: str, batch: int) -> None:
    low, _ = PLAIN.split(100)
    broken = Broken(BREAKAGES[what][0], low)
    broken.range.snapshot(close=9, high=8)
    broken.range.apply(PLAIN.put(10, 1, "after"), close=9)
    broken.run(batch)
    assert broken.times == [at(5)]
    scan = scans_in(broken.driven)[-1]
    assert (scan.after, scan.upto, scan.span, scan.all_versions) == (at(6), at(8), low, True)
    broken.range.scanned(scan, row_of(8, 1, "missed"))
    broken.range.heartbeat(12)
    broken.run(batch)
    assert broken.times == [at(5), at(8), at(10)]
    assert not broken.quarantined
    assert broken.driven.checkpoints[RangeId(1)].resolved == at(12)


def test_a_raft_snapshot_begins_the_healing_of_what_it_skipped() -> None:
    broken = Broken(BREAKAGES["raft snapshot"][0])
    broken.range.apply(PLAIN.put(10, 1, "after"), close=9)
    broken.run()
    (scan,) = scans_in(broken.driven)
    assert (scan.after, scan.upto) == (at(6), at(7))
    broken.range.scanned(scan, row_of(7, 1, "missed"))
    broken.run()
    assert broken.times == [at(5), at(7), at(10)]


def test_no_checkpoint_rises_before_the_scan_is_done() -> None:
    broken = Broken()
    scan = broken.heal()
    low = Span(PLAIN.span.start, MIDDLE)
    broken.range.scanned(scan, row_of(8, 1, "missed"), span=low, last=False)
    broken.range.heartbeat(12)
    broken.run()
    assert broken.times == [at(5), at(8)]
    assert broken.driven.checkpoints[RangeId(1)].resolved == at(6)
    broken.range.scanned(scan, row_of(7, 100, "missed too"), span=Span(MIDDLE, PLAIN.span.end))
    broken.run()
    assert broken.times == [at(5), at(8), at(7), at(10)]
    assert broken.driven.checkpoints[RangeId(1)].resolved == at(12)


def test_chunks_out_of_order_are_asked_for_again() -> None:
    broken = Broken()
    scan = broken.heal()
    broken.range.scanned(scan, row_of(7, 100, "missed too"), span=Span(MIDDLE, PLAIN.span.end))
    broken.run()
    again = scans_in(broken.driven)[-1]
    assert again.request_id != scan.request_id
    assert again.span == PLAIN.span
    assert broken.times == [at(5)]
    broken.range.scanned(again, row_of(8, 1, "missed"), row_of(7, 100, "missed too"))
    broken.run()
    assert broken.times == [at(5), at(8), at(7), at(10)]


def test_a_last_chunk_that_ends_too_early_has_the_rest_asked_for() -> None:
    broken = Broken()
    scan = broken.heal()
    broken.range.scanned(scan, row_of(8, 1, "missed"), span=Span(PLAIN.span.start, MIDDLE))
    broken.run()
    rest = scans_in(broken.driven)[-1]
    assert rest.span == Span(MIDDLE, PLAIN.span.end)
    broken.range.scanned(rest)
    broken.run()
    assert broken.times == [at(5), at(8), at(10)]
    assert not broken.quarantined


def test_a_chunk_twice_brings_its_rows_once() -> None:
    broken = Broken()
    scan = broken.heal()
    low = Span(PLAIN.span.start, MIDDLE)
    for _ in range(2):
        broken.range.scanned(scan, row_of(8, 1, "missed"), span=low, last=False)
    broken.run()
    assert broken.times == [at(5), at(8)]


def test_a_scan_without_an_answer_is_asked_for_again() -> None:
    broken = Broken()
    scan = broken.heal()
    broken.range.heartbeat(10)
    broken.run()
    broken.beat_at(10 + SCAN_REPEAT_MS / 1000 - 1)
    assert scans_in(broken.driven) == [scan]
    broken.beat_at(10 + SCAN_REPEAT_MS / 1000 + 1)
    again = scans_in(broken.driven)[-1]
    assert again == scan._replace(request_id=again.request_id)
    assert again.request_id != scan.request_id


def test_an_answer_to_an_earlier_request_counts_however_late_it_comes() -> None:
    broken = Broken()
    scan = broken.heal()
    for minutes in (1, 2, 3):
        broken.beat_at(60 * minutes)
    assert len(scans_in(broken.driven)) > 2
    broken.range.scanned(scan, row_of(8, 1, "missed"))
    broken.run()
    assert broken.times == [at(5), at(8), at(10)]


def test_an_answer_to_another_scan_does_not_count() -> None:
    broken = Broken()
    scan = broken.heal()
    broken.range.scanned(scan._replace(request_id=scan.request_id + 1), row_of(8, 1, "of another"))
    broken.range.scanned(scan._replace(after=at(7)), row_of(8, 1, "of a later one"))
    broken.run()
    assert broken.times == [at(5)]


def test_what_the_store_removes_while_it_is_scanned_for_fails_the_feeds_that_miss_it() -> None:
    broken = Broken()
    broken.heal()
    broken.range.snapshot(close=20, high=10, gc=15)
    broken.run()
    assert any(f"GC threshold {at(15)}" in cause for cause in broken.driven.causes)
    assert broken.driven.processor.status().parked == ()


def test_a_scan_that_begins_with_a_hand_off_fails_the_feeds_that_it_comes_too_late_for() -> None:
    """In the very step: what it says has to be durable together with the scan."""
    log = HandLog(partitions=2)
    log.describe(PLAIN)
    parent = log.open_range(2, PLAIN.span)
    parent.apply(PLAIN.put(5, 150, "lost"), close=4)
    parent.index += 1
    parent.apply(PLAIN.put(6, 150, "lost"), close=4)
    child = HandRange(log, RangeId(3), Span(MIDDLE, PLAIN.span.end))
    child.generation = 2
    child.snapshot(close=9, high=8, gc=7, parents=(parent.as_parent(),))
    run = Partitions(log)
    run.read(1)
    run.read(0)
    run.exchange(0)
    exchanged = len(run.driven[1].results)
    run.exchange(1)
    result = run.driven[1].results[exchanged]
    assert [ack.feed_id for ack in result.acks] == [FEED.feed_id]


def test_a_range_that_falls_silent_while_it_waits_is_left() -> None:
    """Its end was not seen; nobody shall read the log again from where it stands, for ever."""
    broken = Broken()
    broken.heal()
    other = broken.log.open_range(9, OTHER.span)
    for seconds in range(15, 1_200, 5):
        broken.log.wait_for(at(seconds))
        other.heartbeat(seconds)
    broken.run(1)
    asked = len(scans_in(broken.driven))
    assert broken.driven.processor.status().parked == ()
    restored = Driven.restored(broken.driven.state).processor
    assert restored.next_offset == broken.driven.processor.next_offset == len(broken.log.partitions[0])
    broken.run()
    assert len(scans_in(broken.driven)) == asked
    scan = broken.heal()
    broken.range.scanned(scan, row_of(8, 1, "missed"))
    broken.run()
    assert broken.times == [at(5), at(8), at(10)]


@pytest.mark.parametrize("seconds", [6, 9])
def test_an_answer_with_a_row_that_was_not_asked_for_is_refused(seconds: int) -> None:
    """Its time may be wrong, and the row one that is missing."""
    broken = Broken()
    scan = broken.heal()
    broken.range.scanned(scan, row_of(seconds, 2, "not asked for"), row_of(8, 1, "missed"))
    broken.run()
    assert broken.times == [at(5)]
    assert any("as was asked" in cause for cause in broken.driven.causes)


def test_rows_of_a_scan_come_out_in_the_order_of_their_timestamps() -> None:
    broken = Broken()
    scan = broken.heal()
    broken.range.scanned(scan, row_of(8, 1, "second"), row_of(7, 1, "first"))
    broken.run()
    assert broken.times == [at(5), at(7), at(8), at(10)]


def test_what_no_feed_misses_is_not_scanned() -> None:
    broken = Broken()
    broken.driven = active(replace(FEED, start=at(8)))
    broken.range.snapshot(close=9, high=8)
    broken.range.apply(PLAIN.put(10, 1, "after"), close=9)
    broken.run()
    assert scans_in(broken.driven) == []
    assert broken.times == [at(10)]
    assert not broken.quarantined


def test_a_hole_in_which_nothing_was_written_loses_nothing_whatever_the_store_has_removed() -> None:
    broken = Broken()
    broken.range.snapshot(close=90, high=5, gc=50)
    broken.range.heartbeat(95)
    broken.run()
    assert scans_in(broken.driven) == []
    assert broken.driven.causes == broken.driven.causes[:1], "the feed goes on"
    assert broken.driven.checkpoints[RangeId(1)].resolved == at(95)


def test_a_hole_whose_versions_the_store_has_removed_fails_the_feeds_that_miss_them() -> None:
    broken = Broken()
    broken.driven.control(activation([PLAIN.descriptor], start=at(50), feed_id="later"))
    broken.range.snapshot(close=90, high=80, gc=50)
    broken.run()
    (scan,) = scans_in(broken.driven)
    assert scan.after == at(50)
    _, cause = broken.driven.causes
    assert "feed feed failed" in cause
    assert f"above {at(6)}" in cause
    assert f"GC threshold {at(50)}" in cause


def test_a_feed_that_shows_previous_values_has_them_scanned_too() -> None:
    options = replace(FEED.definition.options, diff=True, envelope=Envelope.WRAPPED)
    broken = Broken()
    broken.driven = active(activation([PLAIN.descriptor], options, start=at(5)))
    assert broken.heal().with_prev


@pytest.mark.parametrize("chunks", [1, 2])
@pytest.mark.parametrize("restarts", range(5))
def test_a_restart_at_any_place_goes_on_with_the_scan(restarts: int, chunks: int) -> None:
    broken = Broken()
    scan = broken.heal()
    spans = [PLAIN.span] if chunks == 1 else [Span(PLAIN.span.start, MIDDLE), Span(MIDDLE, PLAIN.span.end)]
    rows = [row_of(8, 1, "missed"), row_of(7, 100, "missed too")]
    for number, span in enumerate(spans):
        inside = [row for row in rows if span.contains(row.key)]
        broken.range.scanned(scan, *inside, span=span, last=number == len(spans) - 1)
        broken.range.heartbeat(10)
    log = broken.log.partitions[0]
    stop = len(log) - restarts
    broken.driven.run(log[int(broken.driven.processor.next_offset or 0) : stop])
    while broken.driven.processor.ready:
        broken.driven.step(())
    restored = Driven.restored(broken.driven.state)
    restored.results = broken.driven.results
    broken.driven = restored
    broken.run(batch=1)
    assert sorted(set(map(timestamp_of, restored.rows))) == [at(5), at(7), at(8), at(10)]
    assert restored.checkpoints[RangeId(1)].resolved == at(10)
    assert [request.request_id for request in scans_in(restored)] == [scan.request_id]


def test_a_cut_log_is_healed_by_the_next_snapshots() -> None:
    broken = Broken(lambda log, broken: None)
    broken.run()
    next_offset = broken.driven.processor.next_offset
    assert next_offset is not None
    for _ in range(3):
        broken.range.heartbeat(6)
    broken.driven.note(broken.driven.processor.missing_below(Offset(next_offset + 3)))
    assert broken.quarantined
    broken.range.index += 2
    scan = broken.heal()
    broken.range.scanned(scan, row_of(8, 1, "missed"))
    broken.run()
    assert broken.times == [at(5), at(8), at(10)]


def test_a_range_waits_no_more_for_a_feed_that_is_gone() -> None:
    other = replace(FEED, start=at(8), definition=replace(FEED.definition, id=FeedId("late")))
    broken = Broken()
    broken.driven.control(other)
    broken.heal()
    assert [range_.range_id for range_ in broken.driven.processor.status().parked] == [1]
    broken.driven.control(Remove(FEED.feed_id, FEED.definition.epoch))
    broken.driven.step(())
    broken.run()
    assert broken.driven.processor.status().parked == ()
    assert not broken.quarantined
    assert timestamp_of(broken.driven.rows[-1]) == at(10)


# ---- part by part


def _scans(parts: WaitingParts, state: RangeState) -> RangeScan:
    scan = RangeScan(CHILD, Offset(40), PLAIN.span, [ScanPart(PLAIN.span, at(1))], at(5), with_prev=False)
    parts.healing.begin(state, parts.parked(state), scan)
    return scan


def _chunk(scan: RangeScan, *rows: KeyValue, generation: int = 2) -> ScanChunk:
    whole = PLAIN.span, scan.after, scan.upto
    answer = Generation(generation), RaftIndex(10), scan.request_id
    return ScanChunk(CHILD, *answer, *whole, all_versions=True, rows=rows, last=True)


def test_a_request_is_stored_with_the_range_that_it_is_for() -> None:
    parts = WaitingParts()
    state = parts.range(CHILD)
    _scans(parts, state)
    parts.table.touched.clear()
    (request,) = parts.due()
    assert (request.span, request.after, request.upto) == (PLAIN.span, at(1), at(5))
    assert [*parts.table.touched] == [CHILD]
    parts.table.touched.clear()
    parts.elapse(SCAN_REPEAT_MS - 1)
    assert (parts.due(), parts.table.touched) == ([], {})
    parts.elapse(1)
    assert len(parts.due()) == 1


@pytest.mark.parametrize(
    ("is_asked", "generation", "is_taken"), [(True, 2, True), (True, 3, False), (False, 2, False)]
)
def test_a_chunk_counts_if_its_range_scans_in_the_same_generation(
    is_asked: bool, generation: int, is_taken: bool
) -> None:
    parts = WaitingParts()
    state = parts.range(CHILD)
    scan = _scans(parts, state)
    parts.due()
    backlog = parts.backlogs[CHILD]
    if not is_asked:
        backlog.scan = None
    chunk = _chunk(scan, row_of(3, 1, "missed"), generation=generation)
    versions, has_more = parts.healing.take_chunk(backlog, chunk)
    assert ([version.timestamp for version in versions], has_more) == ([at(3)] * is_taken, False)
    assert backlog.parked is not is_taken


@pytest.mark.parametrize("was_broken", [True, False])
def test_a_range_whose_span_changed_while_it_waited_for_others_does_not_wait_for_its_scan(
    was_broken: bool,
) -> None:
    """Nobody answers a scan of keys that the range does not have any more."""
    parts = WaitingParts()
    state = parts.range(CHILD, resolved=4)
    if was_broken:
        state.quarantine_at(Offset(30), "broken", state.resolved)
    parts.parked(state).append(record(45), head(generation=3))
    scan = _scans(parts, state)
    backlog = parts.backlogs[CHILD]
    assert (backlog.parked, parts.backlogs.ready, backlog.start) == (False, True, 45)
    assert state.scan is scan, "the keys that it has covered count"
    assert state.status is RangeStatus.QUARANTINED
    assert state.quarantine is not None
    assert state.quarantine.offset == (30 if was_broken else 45)
    assert ("its span changed" in state.quarantine.cause) is not was_broken
    assert state.resolved == at(4)
