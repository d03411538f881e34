"""Feeds whose sinks do not follow: what may be lost is a gap, in the state and in what heirs are told."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.feeds import WITH_MARKERS, activation
from tests.hand_log import HandLog, HandRange, at
from tests.unit.processor.driving import Driven
from tests.unit.processor.logs import PLAIN
from tests.unit.processor.stuck_feed import MIDDLE, OTHER, STUCK, WATCHED, Stuck, kv, scans, times
from tidegate.changefeed.definition.feed import FIRST_EPOCH, FeedId
from tidegate.changefeed.definition.options import InitialScan
from tidegate.changefeed.lifecycle.control import Register, Remove
from tidegate.errors import FeedError, StateError
from tidegate.hlc import ResolvedTimestamp, Timestamp
from tidegate.processor.batch import ExchangeRecord, StepResult
from tidegate.processor.config import ProcessorConfig
from tidegate.processor.processor import PartitionProcessor
from tidegate.raftlog.entry import Generation, Offset, Parent, RaftIndex, RangeId
from tidegate.ranges.gap import Gap
from tidegate.ranges.handoff import Claim, HandOff
from tidegate.spans import Span


def _names(result: StepResult) -> set[FeedId]:
    assert result.checkpoint is not None
    return {feed.feed_id for feed in result.checkpoint.feeds}


def test_rows_that_come_out_after_a_detachment_are_scanned_for_by_the_next_owner() -> None:
    stuck = Stuck()
    stuck.detach()
    stuck.range.apply(PLAIN.put(5, 1, "five"), close=6)
    assert times(stuck.run(), STUCK) == [at(5)]
    (scan,) = scans(stuck.restart())
    assert (scan.span, scan.after, scan.upto) == (WATCHED, at(2), at(5))


def test_no_checkpoint_of_what_is_not_committed_names_a_detached_feed() -> None:
    stuck = Stuck()
    assert _names(stuck.uncommitted[0]) == {STUCK, OTHER}
    stuck.detach()
    assert _names(stuck.uncommitted[0]) == {OTHER}
    stuck.range.heartbeat(7)
    assert _names(stuck.run()[0]) == {OTHER}


def test_an_attached_feed_lacks_nothing_and_is_named_with_all_ranges() -> None:
    stuck = Stuck()
    stuck.detach()
    attached = stuck.driven.note(stuck.driven.processor.attach(STUCK))
    assert _names(attached) == {STUCK, OTHER}
    assert scans(stuck.restart()) == []


def test_a_stalled_feed_is_given_nothing_and_cannot_be_attached() -> None:
    stuck = Stuck()
    stuck.detach()
    stuck.driven.note(stuck.driven.processor.stall(STUCK))
    stuck.range.apply(PLAIN.put(5, 1, "five"), close=6)
    results = stuck.run()
    assert (times(results, STUCK), times(results, OTHER)) == ([], [at(5)])
    assert scans(results) == []
    with pytest.raises(StateError, match="lacks rows"):
        stuck.driven.processor.attach(STUCK)


def test_a_resumed_feed_is_given_what_it_lacks_and_then_what_is_live() -> None:
    stuck = Stuck()
    stuck.detach()
    stuck.driven.note(stuck.driven.processor.stall(STUCK))
    stuck.range.apply(PLAIN.put(5, 1, "five"), close=4)
    stuck.run()
    resumed = stuck.driven.note(stuck.driven.processor.resume(STUCK))
    (scan,) = scans([resumed])
    assert (scan.after, scan.upto) == (at(2), at(5))
    assert resumed.checkpoint is None, "no range has moved"
    stuck.range.apply(PLAIN.put(6, 1, "six"), close=4)
    stuck.range.scanned(scan, kv(3, 1, "three"), kv(5, 1, "five"))
    stuck.range.apply(PLAIN.put(7, 1, "seven"), close=7)
    assert times(stuck.run(), STUCK) == [at(3), at(5), at(6), at(7)]
    assert stuck.driven.processor.status().with_gaps == ()


def test_what_was_committed_is_certain() -> None:
    stuck = Stuck()
    stuck.committed(*stuck.uncommitted)
    stuck.uncommitted = []
    stuck.detach()
    assert scans(stuck.restart()) == [], "nothing is above what was resolved"


def test_an_answer_to_a_scan_from_before_the_detachment_closes_no_gap() -> None:
    stuck = Stuck()
    stuck.committed(*stuck.uncommitted)
    options = replace(WITH_MARKERS, initial_scan=InitialScan.YES)
    late = activation([PLAIN.descriptor], options, start=at(4), feed_id="late")
    stuck.committed(stuck.driven.control(Register(late.definition), late))
    stuck.range.apply(PLAIN.put(5, 1, "five"), close=4)
    asked = stuck.run()
    (first,) = scans(asked)
    stuck.committed(*asked)
    stuck.range.scanned(first, kv(3, 1, "three"))
    given = stuck.run()
    (second,) = scans(given)
    assert (first.after, second.after) == (None, at(4))
    stuck.driven.note(stuck.driven.processor.detach(late.feed_id, given))
    stuck.driven.note(stuck.driven.processor.stall(late.feed_id))
    (again,) = scans([stuck.driven.note(stuck.driven.processor.resume(late.feed_id))])
    assert again.after is None
    stuck.range.scanned(second, kv(5, 1, "five"))
    stuck.run()
    (found,) = stuck.driven.processor.status().with_gaps
    assert found.complete_to is None, "the rows of the first scan are lacking still"


def test_of_a_feed_that_has_failed_nothing_from_before_that_is_told() -> None:
    stuck = Stuck()
    stuck.driven.processor._feeds.fail(STUCK, FeedError("a row that cannot be written"))
    stuck.detach()
    assert _names(stuck.uncommitted[0]) == {OTHER}


def test_what_is_scanned_for_after_the_detachment_may_be_lost_too() -> None:
    log = HandLog(partitions=1)
    log.describe(PLAIN)
    begun = HandRange(log, RangeId(1), PLAIN.span)
    begun.snapshot(close=9, high=8)
    driven = Driven(PartitionProcessor(0, 1, ProcessorConfig(detachable=True)))
    driven.control(activation([PLAIN.descriptor], start=at(1), feed_id="stuck"))
    driven.note(driven.processor.detach(STUCK, driven.results))
    driven.step(log.partitions[0])
    (scan,) = scans(driven.results)
    begun.scanned(scan, kv(7, 1, "seven"))
    assert times([driven.step(log.partitions[0][2:])], STUCK) == [at(7)]
    (state,) = driven.processor._ranges
    assert state.gaps == {STUCK: (Gap(WATCHED, at(1)),)}


@pytest.mark.parametrize(
    ("options", "complete_to"),
    [({"cursor": at(1)}, at(1)), ({"initial_scan": InitialScan.YES}, None)],
    ids=["cursor", "initial scan"],
)
def test_nothing_is_certain_of_a_feed_whose_activation_is_not_committed(
    options: dict[str, Any], complete_to: Timestamp | None
) -> None:
    stuck = Stuck()
    first = at(1) if "cursor" in options else at(4)
    late = activation([PLAIN.descriptor], replace(WITH_MARKERS, **options), start=first, feed_id="late")
    begun = stuck.driven.control(Register(late.definition), late)
    stuck.driven.processor.detach(FeedId("late"), [*stuck.uncommitted, begun, *stuck.run()])
    (state,) = stuck.driven.processor._ranges
    assert state.gaps == {FeedId("late"): (Gap(WATCHED, complete_to),)}


def test_a_scan_that_was_done_before_lacks_nothing_above_it() -> None:
    stuck = Stuck()
    only = activation(
        [PLAIN.descriptor], replace(WITH_MARKERS, initial_scan=InitialScan.ONLY), start=at(4), feed_id="only"
    )
    stuck.driven.control(Register(only.definition), only)
    (scan,) = scans(stuck.run())
    stuck.range.scanned(scan, kv(3, 1, "three"))
    stuck.committed(*stuck.run())
    stuck.range.apply(PLAIN.put(6, 1, "six"), close=6)
    stuck.driven.processor.detach(FeedId("only"), stuck.run())
    (state,) = stuck.driven.processor._ranges
    assert state.gaps == {}
    stuck.driven.control(Remove(FeedId("only"), FIRST_EPOCH))
    assert not stuck.driven.processor.is_spooling(FeedId("only"))


def test_what_a_scan_brought_is_lacking_though_another_has_taken_its_place() -> None:
    log = HandLog(partitions=2)
    log.describe(PLAIN)
    child = HandRange(log, RangeId(2), PLAIN.span)
    child.generation = 2
    parent = Parent(RangeId(1), Generation(1), RaftIndex(12))
    child.snapshot(close=9, high=8, parents=(parent,))
    driven = Driven(PartitionProcessor(0, 2, ProcessorConfig(detachable=True)))
    driven.control(activation([PLAIN.descriptor], feed_id="stuck"))
    driven.step(log.partitions[0])
    claim = Claim(RangeId(2), parent.range_id, parent.last_index, PLAIN.span)
    hole = HandOff(claim, ResolvedTimestamp(at(6)), complete=False, span=PLAIN.span, told_gaps=())
    answered = driven.note(driven.processor.exchange([ExchangeRecord(Offset(0), hole)]))
    driven.processor.committed(answered.serial)
    (scan,) = scans(driven.results)
    low, _ = PLAIN.split(100)
    child.scanned(scan, kv(7, 1, "seven"), span=low, last=False)
    child.apply(PLAIN.put(9.5, 1, "later"), close=9)
    child.split(MIDDLE, 5, close=9)
    uncommitted = [driven.step(log.partitions[0][2:]), driven.step(())]
    assert times(uncommitted, STUCK) == [at(7)]
    *_, again = scans(uncommitted)
    assert again.after == at(8)
    driven.processor.detach(STUCK, uncommitted)
    (state,) = driven.processor._ranges
    assert state.gaps == {STUCK: (Gap(Span(WATCHED.start, MIDDLE), at(6)),)}


def test_a_range_in_which_nothing_is_lacking_does_not_fail_a_feed() -> None:
    stuck = Stuck()
    stuck.committed(*stuck.uncommitted)
    stuck.uncommitted = []
    stuck.detach()
    stuck.range.snapshot(close=8, high=3, gc=7)
    stuck.run()
    assert stuck.driven.causes == []


def test_what_the_store_removes_does_not_concern_a_feed_whose_rows_are_spooled() -> None:
    stuck = Stuck()
    stuck.detach()
    stuck.range.snapshot(close=4, high=3, gc=3.5)
    stuck.run()
    assert stuck.driven.causes == []
    attached = stuck.driven.note(stuck.driven.processor.attach(STUCK))
    assert _names(attached) == {STUCK, OTHER}


def test_a_stalled_feed_fails_once_the_store_has_removed_what_it_lacks() -> None:
    stuck = Stuck()
    stuck.detach()
    stuck.driven.note(stuck.driven.processor.stall(STUCK))
    stuck.range.snapshot(close=4, high=3, gc=3.5)
    stuck.run()
    (cause,) = stuck.driven.causes
    assert str(at(2)) in cause
    assert str(at(3.5)) in cause
