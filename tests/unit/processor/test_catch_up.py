"""Feeds that begin in the past or with a scan: nothing is left out, in order, and no marker too early."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.feeds import WITH_MARKERS, activation
from tests.hand_log import HandLog, HandRange, at, update_of
from tests.unit.processor.driving import Driven, rows_of, timestamp_of
from tests.unit.processor.late_feed import LATE, LIVE, Late, kv, late_feed, live_row
from tests.unit.processor.logs import PLAIN
from tidegate.changefeed.definition.feed import FIRST_EPOCH, FeedEpoch, FeedId
from tidegate.changefeed.definition.options import InitialScan
from tidegate.changefeed.lifecycle.control import Activate, Active, Register, Remove
from tidegate.hlc import ZERO, ZERO_RESOLVED, ResolvedTimestamp, Timestamp
from tidegate.processor.batch import ExchangeRecord
from tidegate.processor.catchup.gap_scans import CatchUpLimits
from tidegate.processor.processor import PartitionProcessor
from tidegate.raftlog.encode import encode_key
from tidegate.raftlog.entry import (
    Generation,
    KeyValue,
    Offset,
    Parent,
    RaftIndex,
    RangeId,
    SnapshotReason,
    Trigger,
)
from tidegate.raftlog.request import Scan
from tidegate.ranges.gap import Gap, ToldGaps
from tidegate.ranges.handoff import Claim, HandOff
from tidegate.spans import Span

_MIDDLE = PLAIN.key(100)
_WATCHED = PLAIN.span


def test_a_cursor_brings_what_has_passed_above_it_and_then_what_is_live() -> None:
    late = Late(late_feed(cursor=1))
    (scan,) = late.scans
    assert (scan.span, scan.after, scan.upto, scan.all_versions) == (_WATCHED, at(1), at(2), True)
    late.range.scanned(scan, kv(2, 1, "second"), kv(2, 200, "other"))
    late.range.apply(PLAIN.put(3, 1, "third"), close=3)
    late.run()
    assert late.rows == [live_row(1, 2), live_row(200, 2), live_row(1, 3)]
    assert late.live == [at(1), at(2), at(2), at(3)]


def test_no_checkpoint_names_the_feed_before_its_last_gap_is_closed_and_then_one_has_all_ranges() -> None:
    late = Late(late_feed(cursor=1))
    late.range.heartbeat(4)
    late.run()
    low, high = Span(_WATCHED.start, _MIDDLE), Span(_MIDDLE, _WATCHED.end)
    late.range.scanned(late.scans[0], kv(2, 1, "second"), span=low, last=False)
    late.range.heartbeat(5)
    late.run()
    assert not any(late.named())
    late.range.scanned(late.scans[0], kv(2, 200, "other"), span=high)
    late.run()
    assert [*late.named()][-1]
    checkpoint = late.driven.results[-2].checkpoint
    assert checkpoint is not None
    assert [item.range_id for item in checkpoint.ranges] == [RangeId(1)]
    assert not late.has_gaps


def test_what_is_committed_during_a_scan_comes_behind_the_chunk_of_its_key() -> None:
    late = Late(late_feed(cursor=1))
    late.range.apply(PLAIN.put(3, 1, "third"), PLAIN.put(3, 200, "other"), close=2)
    late.run()
    assert late.rows == []
    low, high = Span(_WATCHED.start, _MIDDLE), Span(_MIDDLE, _WATCHED.end)
    late.range.scanned(late.scans[0], kv(2, 1, "second"), span=low, last=False)
    late.range.apply(PLAIN.put(4, 1, "fourth"), PLAIN.put(4, 200, "other"), close=2)
    late.range.scanned(late.scans[0], kv(2, 200, "other"), span=high)
    late.run()
    assert late.rows == [
        *(live_row(1, 2), live_row(1, 3), live_row(1, 4)),
        *(live_row(200, 2), live_row(200, 3), live_row(200, 4)),
    ]
    assert len(late.scans) == 1


def test_what_is_too_much_to_hold_is_scanned_for_again() -> None:
    late = Late(late_feed(cursor=1), CatchUpLimits(held_bytes=1))
    late.range.apply(PLAIN.put(3, 1, "third"), close=2)
    late.range.scanned(late.scans[0], kv(2, 1, "second"), kv(2, 200, "other"))
    late.run()
    assert late.has_gaps
    again = late.scans[-1]
    assert (again.span, again.after, again.upto) == (_WATCHED, at(2), at(3))
    late.range.scanned(again, kv(3, 1, "third"))
    late.run()
    assert late.rows == [live_row(1, 2), live_row(200, 2), live_row(1, 3)]
    assert not late.has_gaps


def test_an_initial_scan_below_what_has_passed_is_followed_by_a_scan_of_that() -> None:
    late = Late(late_feed(cursor=1, scan=InitialScan.YES))
    late.range.scanned(late.scans[0], kv(1, 1, "first"))
    late.run()
    again = late.scans[-1]
    assert (again.after, again.upto, again.all_versions) == (at(1), at(2), True)
    late.range.scanned(again, kv(2, 1, "second"), kv(2, 200, "other"))
    late.run()
    assert late.rows == [(b"[1]", at(1), at(1)), live_row(1, 2), live_row(200, 2)]
    assert not late.has_gaps


def test_a_scan_only_feed_is_given_nothing_else() -> None:
    late = Late(late_feed(scan=InitialScan.ONLY, start=2))
    late.range.apply(PLAIN.put(3, 1, "third"), close=3)
    late.range.scanned(late.scans[0], kv(2, 1, "second"))
    late.range.apply(PLAIN.put(4, 1, "fourth"), close=4)
    late.run()
    assert late.rows == [(b"[1]", at(2), at(2))]
    assert not late.has_gaps


def test_a_restart_scans_for_what_was_not_covered_and_for_nothing_else() -> None:
    late = Late(late_feed(cursor=1))
    late.range.apply(PLAIN.put(3, 200, "held"), close=2)
    low, high = Span(_WATCHED.start, _MIDDLE), Span(_MIDDLE, _WATCHED.end)
    late.range.scanned(late.scans[0], kv(2, 1, "second"), span=low, last=False)
    late.run()
    late.restart()
    again = late.scans[-1]
    assert (again.span, again.after, again.upto) == (high, at(1), at(3))
    late.range.scanned(late.scans[0], kv(2, 200, "to a request of before"), span=high)
    late.range.scanned(again, kv(2, 200, "other"), kv(3, 200, "held"), span=high)
    late.run()
    assert late.rows == [live_row(1, 2), live_row(200, 2), live_row(200, 3)]


def test_a_cursor_at_or_above_all_that_has_passed_needs_no_scan() -> None:
    late = Late(late_feed(cursor=2))
    late.range.apply(PLAIN.put(3, 1, "third"), close=3)
    late.run()
    assert late.scans == []
    assert late.rows == [live_row(1, 3)]
    assert [*late.named()][-1]


@pytest.mark.parametrize("message", [late_feed(cursor=1), late_feed(scan=InitialScan.YES, start=2)])
def test_what_the_store_has_removed_fails_the_feed_by_a_sentence_with_both_timestamps(
    message: Activate,
) -> None:
    late = Late(message)
    late.range.snapshot(close=2, high=2, gc=3)
    late.range.scanned(late.scans[0], kv(2, 1, "second"))
    late.run()
    (cause,) = (cause for cause in late.driven.causes if "GC threshold" in cause)
    assert str(message.start) in cause
    assert str(at(3)) in cause
    assert late.live[-1] == at(2)


def test_how_near_a_feed_is_to_its_end_is_not_known_before_a_snapshot_tells_what_is_removed() -> None:
    late = Late(late_feed(cursor=1))
    assert late.reserve_ns is None
    late.range.snapshot(close=2, high=2, gc=0.25)
    late.run()
    assert late.reserve_ns == 750_000_000


def test_a_range_that_has_told_no_threshold_does_not_hide_one_that_has() -> None:
    late = Late(late_feed(cursor=1))
    right = late.range.split(_MIDDLE, 2, close=4)
    late.run()
    assert late.reserve_ns is None
    right.snapshot(close=4, high=4, gc=0.25)
    late.run()
    assert late.reserve_ns == 750_000_000


def test_a_feed_that_is_removed_leaves_no_gaps() -> None:
    late = Late(late_feed(cursor=1))
    late.driven.control(Remove(LATE, FIRST_EPOCH))
    late.run()
    assert not late.has_gaps
    late.range.scanned(late.scans[0], kv(2, 1, "second"))
    late.run()
    assert late.rows == []


def test_two_feeds_catch_up_on_one_range_in_turn() -> None:
    late = Late(late_feed(cursor=1))
    other = activation(
        [PLAIN.descriptor],
        replace(WITH_MARKERS, initial_scan=InitialScan.YES),
        start=at(2),
        feed_id="other",
    )
    late.driven.control(Register(other.definition), other)
    late.run()
    assert len(late.scans) == 1
    late.range.scanned(late.scans[0], kv(2, 1, "second"), kv(2, 200, "other"))
    late.run()
    assert len(late.rows) == 2
    late.range.scanned(late.scans[1], kv(2, 1, "second"))
    late.run()
    assert [len([*rows_of(result, FeedId("other"))]) for result in late.driven.results].count(1) == 1
    assert not late.has_gaps


def test_the_answer_to_an_activation_does_not_wait_for_scans() -> None:
    late = Late(late_feed(cursor=1))
    acks = [ack for result in late.driven.results for ack in result.acks if ack.feed_id == LATE]
    assert isinstance(acks[-1], Active)


class _Waits:
    """A range that is scanned above second 6, for the sake of the live feed; it has what came from a hole."""

    def __init__(self, *before: Register | Activate) -> None:
        log = HandLog(partitions=2)
        log.describe(PLAIN)
        self.log, self.range = log, HandRange(log, RangeId(2), PLAIN.span)
        self.range.generation = 2
        parent = Parent(RangeId(1), Generation(1), RaftIndex(12))
        self.range.snapshot(close=9, high=8, parents=(parent,))
        self.driven = Driven(PartitionProcessor(0, 2))
        self.driven.control(LIVE, *before)
        self.run()
        claim = Claim(RangeId(2), parent.range_id, parent.last_index, PLAIN.span)
        hole = HandOff(claim, ResolvedTimestamp(at(6)), complete=False, span=PLAIN.span, told_gaps=())
        self.driven.note(self.driven.processor.exchange([ExchangeRecord(Offset(0), hole)]))

    def run(self) -> None:
        self.driven.run(self.log.partitions[0][int(self.driven.processor.next_offset or 0) :])
        while self.driven.processor.ready:
            self.driven.step(())

    def answer(self, *rows: KeyValue) -> Scan:
        """Answer the last scan; returns what it asked for."""
        requests = (request for result in self.driven.results for request in result.requests)
        scan = [request for request in requests if isinstance(request, Scan)][-1]
        self.range.scanned(scan, *(row for row in rows if (scan.after or ZERO) < row.timestamp <= scan.upto))
        self.run()
        return scan

    def times(self, feed: FeedId) -> list[Timestamp]:
        return [timestamp_of(row) for result in self.driven.results for row in rows_of(result, feed)]


@pytest.mark.parametrize("early", [False, True], ids=["activated amid the scan", "activated before"])
def test_a_feed_that_lacks_more_than_a_range_is_scanned_for_is_not_given_the_later_half_first(
    early: bool,
) -> None:
    message = late_feed(cursor=2)
    waits = _Waits(Register(message.definition), message) if early else _Waits()
    if not early:
        waits.driven.control(Register(message.definition), message)
    rows = kv(3, 1, "three"), kv(7, 1, "seven"), kv(7, 200, "other")
    assert waits.answer(*rows).after == at(6)
    assert (waits.times(FeedId("live")), waits.times(LATE)) == ([at(7), at(7)], [])
    scan = waits.answer(*rows)
    assert (scan.span, scan.after) == (_WATCHED, at(2))
    assert waits.times(LATE) == [at(3), at(7), at(7)]
    assert waits.driven.processor.status().with_gaps == ()


def test_a_range_that_has_ended_says_nothing_of_a_feed_that_began_since() -> None:
    late = Late(late_feed(cursor=1))
    late.log.write_bytes(0, encode_key(RangeId(1)), b"\xff\xff\xff")  # a hole: complete up to second 2
    late.range.end()
    late.run()
    later = late_feed(cursor=1)
    definition = replace(later.definition, id=FeedId("later"))
    late.driven.control(Register(definition), replace(later, definition=definition))
    checkpoints = [result.checkpoint for result in late.driven.results[-2:]]
    assert [item for checkpoint in checkpoints if checkpoint is not None for item in checkpoint.ranges] == []


def test_a_range_that_ended_in_a_hole_tells_its_heir_what_a_feed_lacks_that_began_since() -> None:
    late = Late(late_feed(cursor=1))
    late.log.write_bytes(0, encode_key(RangeId(1)), b"\xff\xff\xff")
    late.range.end()
    late.run()
    later = late_feed(cursor=1)
    definition = replace(later.definition, id=FeedId("later"))
    late.driven.control(Register(definition), replace(later, definition=definition))
    late.run()
    heir = HandRange(late.log, RangeId(2), PLAIN.span)
    heir.generation = 2
    heir.snapshot(close=9, high=8, parents=(Parent(RangeId(1), Generation(1), RaftIndex(99)),))
    late.run()
    heir.scanned(late.scans[-1])  # what was missed, for the live feed
    late.run()
    assert [feed.feed_id for feed in late.driven.processor.status().with_gaps] == ["late", "later"]


def test_an_initial_scan_brings_the_newest_of_each_key_with_the_time_of_the_scan() -> None:
    late = Late(late_feed(scan=InitialScan.YES, start=2))
    (scan,) = late.scans
    assert (scan.span, scan.after, scan.upto, scan.all_versions) == (_WATCHED, None, at(2), False)
    late.range.scanned(scan, kv(2, 1, "second"), kv(1.5, 200, "other"), kv(1, 300, "")._replace(value=b""))
    late.run()
    assert late.rows == [(b"[1]", at(2), at(2)), (b"[200]", at(2), at(1.5))]


@pytest.mark.parametrize("registered", [True, False])
def test_a_feed_that_scans_holds_no_partition_and_is_given_what_passes_before_its_start_is_known(
    registered: bool,
) -> None:
    late = Late(LIVE)
    message = late_feed(scan=InitialScan.YES, start=2)
    if registered:
        late.driven.control(Register(message.definition))
    late.range.apply(PLAIN.put(3, 1, "third"), close=3)
    late.run()
    late.driven.control(message)
    late.run()
    late.range.scanned(late.scans[0], kv(2, 1, "second"))
    late.run()
    late.range.scanned(late.scans[1], kv(3, 1, "third"))
    late.run()
    assert [(scan.after, scan.upto) for scan in late.scans] == [(None, at(2)), (at(2), at(3))]
    assert late.rows == [(b"[1]", at(2), at(2)), live_row(1, 3)]


def test_what_the_writer_wanted_omitted_is_among_what_there_was() -> None:
    late = Late(late_feed(scan=InitialScan.YES, start=2))
    omitted = kv(2, 200, "other")._replace(omit_in_rangefeeds=True)
    late.range.scanned(late.scans[0], kv(2, 1, "second"), omitted)
    late.run()
    assert late.rows == [live_row(1, 2), live_row(200, 2)]


def test_a_split_in_the_first_batch_after_a_restart_is_no_reason_to_scan_anew() -> None:
    late = Late(late_feed(scan=InitialScan.YES, start=2))
    late.range.scanned(late.scans[0], kv(2, 1, "second"), kv(2, 200, "other"))
    late.run()
    late.range.split(_MIDDLE, 2, close=4)
    late.restart()
    assert not late.has_gaps
    assert len(late.scans) == 1


def test_a_feed_that_is_removed_before_its_answer_comes_is_no_trouble() -> None:
    late = Late(late_feed(cursor=1))
    late.driven.control(Remove(LATE, FIRST_EPOCH))
    late.range.snapshot(close=2, high=2, gc=3)
    late.range.scanned(late.scans[0], kv(2, 1, "second"))
    late.run()
    assert (late.rows, late.driven.causes) == ([], [])


def test_a_new_epoch_of_a_feed_begins_anew() -> None:
    late = Late(late_feed(cursor=1))
    message = late_feed(scan=InitialScan.YES, start=2)
    definition = replace(message.definition, epoch=FeedEpoch(2))
    again = replace(message, definition=definition)
    late.driven.control(Remove(LATE, FIRST_EPOCH), Register(definition), again)
    late.run()
    assert not late.scans[-1].all_versions
    late.range.scanned(late.scans[0], kv(2, 1, "of the last epoch"))
    late.run()
    assert late.has_gaps


def test_a_range_without_versions_that_a_feed_lacks_does_not_fail_it() -> None:
    late = Late(late_feed(cursor=2))
    late.range.apply(trigger=Trigger.SPLIT, close=2)  # nobody knows of the keys until its snapshot
    late.run()
    other = late_feed(cursor=2)
    definition = replace(other.definition, id=FeedId("other"))
    late.driven.control(Register(definition), replace(other, definition=definition))
    parent = late.range.as_parent()
    late.range.generation += 1
    late.range.snapshot(close=4, high=2, gc=3, reason=SnapshotReason.SPLIT, parents=(parent,))
    late.run()
    assert late.driven.causes == []
    assert not late.has_gaps


def test_a_parent_that_has_forgotten_what_it_promised_may_have_had_gaps_of_any_feed() -> None:
    log = HandLog(partitions=2)
    log.describe(PLAIN)
    driven = Driven(PartitionProcessor(0, 2))
    driven.control(LIVE)
    child = HandRange(log, RangeId(2), PLAIN.span)
    child.snapshot(close=9, high=8, parents=(Parent(RangeId(1), Generation(1), RaftIndex(7)),))
    driven.step(log.partitions[0])
    claim = Claim(RangeId(2), RangeId(1), RaftIndex(7), PLAIN.span)
    forgotten = HandOff(claim, ZERO_RESOLVED, complete=True)
    driven.note(driven.processor.exchange([ExchangeRecord(Offset(0), forgotten)]))
    driven.step(())
    (state,) = driven.processor._ranges
    assert state.gaps == {FeedId("live"): (Gap(_WATCHED, ZERO),)}


def test_of_keys_that_another_parent_told_of_nothing_lacks_for_one_that_has_forgotten() -> None:
    log = HandLog(partitions=2)
    log.describe(PLAIN)
    driven = Driven(PartitionProcessor(0, 2))
    driven.control(LIVE)
    child = HandRange(log, RangeId(2), PLAIN.span)
    parents = [Parent(RangeId(number), Generation(1), RaftIndex(7)) for number in (1, 3)]
    child.snapshot(close=9, high=8, parents=tuple(parents))
    driven.step(log.partitions[0])
    low, high = (Claim(RangeId(2), parent.range_id, RaftIndex(7), PLAIN.span) for parent in parents)
    known = Span(_MIDDLE, PLAIN.span.end)
    told = (ToldGaps("live", (Gap(Span(PLAIN.key(300), _WATCHED.end), at(5)),)),)
    hand_offs = HandOff(low, ZERO_RESOLVED, True), HandOff(high, ZERO_RESOLVED, True, known, told)
    for number, hand_off in enumerate(hand_offs):
        driven.note(driven.processor.exchange([ExchangeRecord(Offset(number), hand_off)]))
    driven.step(())
    (state,) = driven.processor._ranges
    assert state.gaps[FeedId("live")] == (Gap(Span(_WATCHED.start, _MIDDLE), ZERO), *told[0].gaps)


def test_a_broken_range_that_never_comes_back_does_not_keep_a_feed_from_its_markers() -> None:
    late = Late(late_feed(cursor=1))
    late.log.write_bytes(0, encode_key(RangeId(1)), b"\xff\xff\xff")
    late.run()
    assert not late.has_gaps
    checkpoint = late.driven.processor.full_checkpoint()
    assert [feed.feed_id for feed in checkpoint.feeds] == ["live", LATE]
    assert checkpoint.ranges == (), "the feed lacks rows of the range that broke"
    late.range.index += 1
    late.range.snapshot(close=5, high=4)
    late.run()
    assert late.driven.processor.status().with_gaps != ()
    assert [feed.feed_id for feed in late.driven.processor.full_checkpoint().feeds] == ["live"]


def test_a_descriptor_that_comes_behind_a_scan_that_it_governs_fails_the_feed() -> None:
    late = Late(late_feed(scan=InitialScan.YES, start=3))
    late.range.scanned(late.scans[0], kv(2, 1, "second"))
    late.log.write(update_of(replace(PLAIN.descriptor, version=2, modified=at(2.5))))
    late.run()
    assert any("is valid from" in cause for cause in late.driven.causes)


def test_an_answer_without_previous_values_is_none_to_a_feed_that_shows_them() -> None:
    late = Late(late_feed(cursor=1))
    message = late_feed(cursor=1)
    options = replace(message.definition.options, diff=True)
    showing = replace(message.definition, id=FeedId("showing"), options=options)
    late.driven.control(Remove(LATE, FIRST_EPOCH))
    late.driven.control(Register(showing), replace(message, definition=showing))
    late.driven.step(())
    first, second = late.scans
    assert (first.after, first.upto, first.with_prev) == (second.after, second.upto, False)
    late.range.scanned(first, kv(2, 1, "second"))
    late.run()
    assert late.driven.causes == []
    assert late.has_gaps


def test_a_scan_that_nobody_answers_is_told_with_its_last_request_and_how_long_it_stands() -> None:
    late = Late(late_feed(scan=InitialScan.YES, start=2))
    for seconds in range(10, 310, 10):
        late.log.wait_for(at(seconds))
        late.range.heartbeat(seconds)
        late.run()
    (found,) = late.driven.processor.status().with_gaps
    assert found.standing is not None
    assert found.standing[:2] == (1, late.scans[-1].request_id)
    assert len(late.scans) > 2
    assert found.standing.waits_ms >= 280_000
    late.range.scanned(late.scans[-1], span=PLAIN.split(100)[0], last=False)
    late.run()
    (found,) = late.driven.processor.status().with_gaps
    assert found.standing is not None
    assert found.standing.waits_ms == 0
