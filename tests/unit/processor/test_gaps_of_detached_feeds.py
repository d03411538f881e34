"""Feeds whose sinks do not follow, over ranges that move: whoever has the keys has the gap."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import pytest

from tests.feeds import WITH_MARKERS, activation
from tests.hand_log import HandLog, HandRange, at
from tests.unit.processor.driving import Driven
from tests.unit.processor.logs import PLAIN
from tests.unit.processor.stuck_feed import MIDDLE, STUCK, WATCHED, Stuck, kv, scans, times
from tidegate.changefeed.definition.feed import FeedEpoch
from tidegate.changefeed.definition.options import InitialScan
from tidegate.changefeed.lifecycle.control import Register
from tidegate.hlc import ResolvedTimestamp
from tidegate.processor.batch import ExchangeRecord
from tidegate.processor.config import ProcessorConfig
from tidegate.processor.processor import PartitionProcessor
from tidegate.raftlog.encode import encode_key
from tidegate.raftlog.entry import Generation, Offset, Parent, RaftIndex, RangeId, SnapshotReason, Trigger
from tidegate.ranges.gap import Gap, ToldGaps, told_name, told_of
from tidegate.ranges.handoff import Claim, HandOff
from tidegate.spans import Span

_DETACHABLE: Final = ProcessorConfig(detachable=True)


def _split(stuck: Stuck, child: int) -> HandRange:
    right = stuck.range.split(MIDDLE, child, close=4)
    stuck.uncommitted += stuck.run()
    return right


def test_a_child_that_was_born_meanwhile_lacks_what_its_parent_lacks() -> None:
    stuck = Stuck()
    _split(stuck, 2)
    stuck.detach()
    gaps = {state.range_id: state.gaps for state in stuck.driven.processor._ranges}
    low, high = Span(WATCHED.start, MIDDLE), Span(MIDDLE, WATCHED.end)
    assert gaps == {
        RangeId(1): {STUCK: (Gap(low, at(2)),)},
        RangeId(2): {STUCK: (Gap(high, at(2)),)},
    }


def test_a_hand_off_that_is_not_committed_tells_what_a_detached_feed_lacks() -> None:
    stuck = Stuck(partitions=3)
    stuck.range.split(MIDDLE, 4, close=4)
    stuck.uncommitted += stuck.run()
    (parent,) = stuck.driven.processor._ranges
    claim = Claim(RangeId(4), RangeId(3), parent.applied, Span(MIDDLE, WATCHED.end))
    answered = stuck.driven.note(stuck.driven.processor.exchange([ExchangeRecord(Offset(0), claim)]))
    stuck.uncommitted.append(answered)
    stuck.detach()
    (hand_off,) = answered.exchanges
    assert isinstance(hand_off, HandOff)
    assert hand_off.told_gaps == (ToldGaps(STUCK, (Gap(WATCHED, at(2)),)),)
    assert [promise.told_gaps for promise in parent.promises] == [hand_off.told_gaps], "what is claimed later"


@pytest.mark.parametrize("epoch", [1, 2])
def test_a_child_is_told_of_a_gap_by_the_name_of_the_feeds_epoch(epoch: int) -> None:
    """By another name it would take the gap for none, and markers would cover the missing row."""
    log = HandLog(3)
    log.describe(PLAIN)
    parent = log.open_range(3, PLAIN.span)
    driven = Driven(PartitionProcessor(0, 3, _DETACHABLE))
    message = activation([PLAIN.descriptor], start=at(0.5), feed_id="stuck")
    definition = replace(message.definition, epoch=FeedEpoch(epoch))
    driven.control(Register(definition), replace(message, definition=definition))
    parent.apply(PLAIN.put(1, 150, "one"), close=2)
    driven.processor.committed(driven.step(log.partitions[0]).serial)
    read = len(log.partitions[0])
    parent.apply(PLAIN.put(3, 150, "three"), close=4)
    driven.note(driven.processor.detach(STUCK, [driven.step(log.partitions[0][read:])]))
    read = len(log.partitions[0])
    parent.split(MIDDLE, 4, close=5)
    driven.step(log.partitions[0][read:])
    (state,) = driven.processor._ranges
    claim = Claim(RangeId(4), RangeId(3), state.applied, Span(MIDDLE, WATCHED.end))
    (hand_off,) = driven.processor.exchange([ExchangeRecord(Offset(0), claim)]).exchanges
    assert isinstance(hand_off, HandOff)
    assert told_of(told_name("stuck", epoch), hand_off.told_gaps) == (Gap(WATCHED, at(2)),)


def test_what_a_healing_range_was_scanned_for_is_lacking_though_the_range_has_no_keys_yet() -> None:
    log = HandLog(partitions=1)
    log.describe(PLAIN)
    begun = HandRange(log, RangeId(1), PLAIN.span)
    begun.snapshot(close=9, high=8)
    driven = Driven(PartitionProcessor(0, 1, ProcessorConfig(detachable=True)))
    driven.control(activation([PLAIN.descriptor], start=at(1), feed_id="stuck"))
    driven.processor.committed(driven.step(log.partitions[0]).serial)
    (scan,) = scans(driven.results)
    begun.scanned(scan, kv(7, 1, "seven"), span=PLAIN.split(100)[0], last=False)
    given = driven.step(log.partitions[0][2:])
    assert times([given], STUCK) == [at(7)]
    driven.note(driven.processor.detach(STUCK, [given]))
    begun.scanned(scan, span=PLAIN.split(100)[1])
    driven = Driven.restored(driven.state)
    again = scans([*driven.run(log.partitions[0]), driven.step(())])
    assert [(item.span, item.after, item.upto) for item in again] == [(WATCHED, at(1), at(8))]


def test_what_a_feed_lacked_of_keys_that_its_range_scans_for_is_lacking_still() -> None:
    """An initial scan has shown nothing of them, and the range's own scan is no part of it."""
    log = HandLog(partitions=1)
    log.describe(PLAIN)
    HandRange(log, RangeId(1), PLAIN.span).snapshot(close=9, high=8)
    driven = Driven(PartitionProcessor(0, 1, ProcessorConfig(detachable=True)))
    options = replace(WITH_MARKERS, initial_scan=InitialScan.YES)
    driven.control(activation([PLAIN.descriptor], options, start=at(1), feed_id="stuck"))
    driven.processor.committed(driven.step(log.partitions[0]).serial)
    (state,) = driven.processor._ranges
    assert (state.span, state.gaps) == (None, {STUCK: (Gap(WATCHED, None),)})
    driven.note(driven.processor.detach(STUCK, []))
    assert state.gaps == {STUCK: (Gap(WATCHED, None),)}


def _born(driven: Driven, log: HandLog, resolved: float, *told: ToldGaps) -> HandRange:
    """Range 3 is born of range 1, of another partition, whose hand-off has come."""
    child = HandRange(log, RangeId(3), PLAIN.span)
    parent = Parent(RangeId(1), Generation(1), RaftIndex(7))
    child.snapshot(close=9, high=8, parents=(parent,))
    claim = Claim(RangeId(3), RangeId(1), RaftIndex(7), PLAIN.span)
    hand_off = HandOff(claim, ResolvedTimestamp(at(resolved)), complete=True, span=PLAIN.span, told_gaps=told)
    driven.step(log.partitions[0])
    driven.note(driven.processor.exchange([ExchangeRecord(Offset(0), hand_off)]))
    driven.step(())
    return child


@pytest.mark.parametrize(
    ("told", "certain"),
    [((), 5), ((ToldGaps("stuck", (Gap(PLAIN.span, at(2)),)),), 2)],
    ids=["whole", "with gaps"],
)
def test_of_keys_of_another_partition_what_was_handed_off_is_certain(
    told: tuple[ToldGaps, ...], certain: float
) -> None:
    log = HandLog(partitions=3)
    log.describe(PLAIN)
    driven = Driven(PartitionProcessor(0, 3, ProcessorConfig(detachable=True)))
    driven.control(activation([PLAIN.descriptor], start=at(1), feed_id="stuck"))
    _born(driven, log, 5, *told)
    driven.note(driven.processor.detach(STUCK, driven.results))
    (state,) = (state for state in driven.processor._ranges if state.range_id == 3)
    assert state.gaps == {STUCK: (Gap(WATCHED, at(certain)),)}


def test_what_a_feed_lacked_of_keys_that_were_handed_off_is_lacking_after_a_restart_too() -> None:
    """The range waits for a scan meanwhile, and takes its snapshot in steps that are not committed."""
    log = HandLog(partitions=3)
    log.describe(PLAIN)
    driven = Driven(PartitionProcessor(0, 3, _DETACHABLE))
    driven.control(activation([PLAIN.descriptor], start=at(1), feed_id="stuck"))
    child = HandRange(log, RangeId(3), PLAIN.span)
    child.snapshot(close=9, high=8, parents=(Parent(RangeId(1), Generation(1), RaftIndex(7)),))
    driven.step(log.partitions[0])
    claim = Claim(RangeId(3), RangeId(1), RaftIndex(7), PLAIN.span)
    told = (ToldGaps("stuck", (Gap(PLAIN.span, at(2)),)),)
    hand_off = HandOff(claim, ResolvedTimestamp(at(5)), complete=False, span=PLAIN.span, told_gaps=told)
    driven.note(driven.processor.exchange([ExchangeRecord(Offset(0), hand_off)]))
    driven.step(())
    (scan,) = [item for item in scans(driven.results) if item.all_versions]
    rows = ((table, key, value) for (table, key), value in driven.state.items())
    driven = Driven(PartitionProcessor.restore(0, 3, _DETACHABLE, rows), driven.state)
    child.scanned(scan, kv(6, 200, "six"))
    uncommitted = [*driven.run(log.partitions[0]), driven.step(())]
    (state,) = [state for state in driven.processor._ranges if state.range_id == 3]
    assert state.span == PLAIN.span, "it has not taken its snapshot"
    driven.processor.detach(STUCK, uncommitted)
    assert state.gaps == {STUCK: (Gap(WATCHED, at(2)),)}


def test_of_keys_that_went_on_within_the_same_steps_no_more_is_certain() -> None:
    """What the range between had resolved is of rows that may be lost."""
    log = HandLog(partitions=3)
    log.describe(PLAIN)
    driven = Driven(PartitionProcessor(0, 3, ProcessorConfig(detachable=True)))
    driven.control(activation([PLAIN.descriptor], start=at(1), feed_id="stuck"))
    child = _born(driven, log, 5)
    child.apply(PLAIN.put(10, 150, "ten"), close=10)
    child.split(MIDDLE, 6, close=10)
    driven.step(log.partitions[0][2:])
    driven.step(())
    driven.note(driven.processor.detach(STUCK, driven.results))
    low, high = Span(WATCHED.start, MIDDLE), Span(MIDDLE, WATCHED.end)
    gaps = {state.range_id: state.gaps for state in driven.processor._ranges}
    assert gaps == {RangeId(3): {STUCK: (Gap(low, at(5)),)}, RangeId(6): {STUCK: (Gap(high, at(5)),)}}


def test_what_a_parent_had_promised_before_these_steps_is_certain() -> None:
    log = HandLog(1)
    log.describe(PLAIN)
    parent = log.open_range(1, PLAIN.span)
    parent.apply(PLAIN.put(10, 150, "ten"), close=20)
    parent.split(MIDDLE, 2, close=20)
    driven = Driven(PartitionProcessor(0, 1, ProcessorConfig(detachable=True)))
    driven.control(activation([PLAIN.descriptor], start=at(1), feed_id="stuck"))
    driven.step(log.partitions[0][:-1])
    driven.processor.committed(driven.step(()).serial)
    born = [driven.step(log.partitions[0][-1:]), driven.step(())]
    driven.note(driven.processor.detach(STUCK, born))
    high = Span(MIDDLE, WATCHED.end)
    gaps = {state.range_id: state.gaps for state in driven.processor._ranges}
    assert gaps[RangeId(2)] == {STUCK: (Gap(high, at(20)),)}


def test_of_two_promises_at_one_index_the_one_of_these_steps_is_not_certain() -> None:
    """A range takes another in, and is taken in at once: it has promised twice at the index of the merge."""
    log = HandLog(3)
    log.describe(PLAIN)
    low, rest = PLAIN.split(50)
    middle, high = Span(rest.start, MIDDLE), Span(MIDDLE, rest.end)
    left, right = log.open_range(3, middle), log.open_range(6, high)
    left.apply(PLAIN.put(10, 60, "ten"), close=20)
    right.apply(PLAIN.put(10, 150, "ten"), close=20)
    driven = Driven(PartitionProcessor(0, 3, ProcessorConfig(detachable=True)))
    driven.control(activation([PLAIN.descriptor], start=at(1), feed_id="stuck"))
    left.apply(trigger=Trigger.MERGE, close=20)
    merged, before = left.as_parent(), len(log.partitions[0])
    driven.step(log.partitions[0])
    driven.processor.committed(driven.step(()).serial)
    right.apply(PLAIN.put(30, 150, "thirty"), close=40)
    right.end()
    left.span, left.generation, left.high = Span(middle.start, high.end), Generation(left.generation + 1), 30
    left.snapshot(reason=SnapshotReason.MERGE, close=40, high=30, parents=(merged, right.as_parent()))
    left.end()
    uncommitted = [driven.step(log.partitions[0][before:]), driven.step(())]
    claim = Claim(RangeId(4), RangeId(3), RaftIndex(left.index), Span(low.start, high.end))
    answered = driven.note(driven.processor.exchange([ExchangeRecord(Offset(0), claim)]))
    driven.note(driven.processor.detach(STUCK, [*uncommitted, answered]))
    (hand_off,) = answered.exchanges
    assert isinstance(hand_off, HandOff)
    assert hand_off.resolved == at(40)
    (told,) = hand_off.told_gaps or ()
    assert told.feed == STUCK
    assert min(gap.complete_to or at(0) for gap in told.gaps) == at(20), "the row of second 30 may be lost"


def test_what_comes_out_of_keys_that_came_after_the_detachment_may_be_lost_too() -> None:
    log = HandLog(partitions=3)
    log.describe(PLAIN)
    driven = Driven(PartitionProcessor(0, 3, ProcessorConfig(detachable=True)))
    driven.control(activation([PLAIN.descriptor], start=at(1), feed_id="stuck"))
    driven.note(driven.processor.detach(STUCK, driven.results))
    child = _born(driven, log, 5)
    (state,) = driven.processor._ranges
    assert state.gaps == {STUCK: (Gap(WATCHED, at(5)),)}
    child.apply(PLAIN.put(10, 1, "ten"), close=10)
    assert times([driven.step(log.partitions[0][2:])], STUCK) == [at(10)], "and it goes to the spool"
    driven.note(driven.processor.attach(STUCK))
    assert state.gaps == {}


def test_a_hand_off_of_what_was_promised_before_says_what_it_said() -> None:
    stuck = Stuck(partitions=3)
    stuck.range.split(MIDDLE, 4, close=4)
    stuck.committed(*stuck.uncommitted, *stuck.run())
    (parent,) = stuck.driven.processor._ranges
    claim = Claim(RangeId(4), RangeId(3), parent.applied, Span(MIDDLE, WATCHED.end))
    answered = stuck.driven.note(stuck.driven.processor.exchange([ExchangeRecord(Offset(0), claim)]))
    told = list(answered.exchanges)
    stuck.uncommitted = [answered]
    stuck.detach()
    assert answered.exchanges == told


def test_a_range_that_ended_in_a_hole_meanwhile_tells_its_heirs_later_what_is_lacking() -> None:
    stuck = Stuck(partitions=3)
    stuck.log.write_bytes(0, encode_key(RangeId(3)), b"\xff\xff\xff")
    stuck.range.index += 1
    stuck.range.end()
    stuck.uncommitted += stuck.run()
    stuck.detach()
    claim = Claim(RangeId(4), RangeId(3), RaftIndex(stuck.range.index), PLAIN.span)
    (told,) = stuck.driven.processor.exchange([ExchangeRecord(Offset(0), claim)]).exchanges
    assert isinstance(told, HandOff)
    assert told.told_gaps == (ToldGaps(STUCK, (Gap(WATCHED, at(2)),)),)


def test_of_keys_that_came_out_of_a_hole_nothing_is_certain() -> None:
    log = HandLog(partitions=3)
    log.describe(PLAIN)
    left, _ = PLAIN.split(100)
    driven = Driven(PartitionProcessor(0, 3, ProcessorConfig(detachable=True)))
    driven.control(activation([PLAIN.descriptor], start=at(1), feed_id="stuck"))
    child = HandRange(log, RangeId(3), left)
    parent = Parent(RangeId(1), Generation(1), RaftIndex(7))
    child.snapshot(close=5, high=5, parents=(parent,))
    driven.step(log.partitions[0])
    claim = Claim(RangeId(3), RangeId(1), RaftIndex(7), left)
    hand_off = HandOff(claim, ResolvedTimestamp(at(5)), complete=True, span=left, told_gaps=())
    driven.note(driven.processor.exchange([ExchangeRecord(Offset(0), hand_off)]))
    driven.processor.committed(driven.step(()).serial)
    log.write_bytes(0, encode_key(RangeId(3)), b"\xff\xff\xff")
    child.index, child.generation, child.span = child.index + 1, 3, PLAIN.span
    child.snapshot(
        close=9, high=8, parents=(child.as_parent(), Parent(RangeId(4), Generation(1), RaftIndex(9)))
    )
    uncommitted = [driven.step(log.partitions[0][2:])]
    (scan,) = scans(uncommitted)
    child.scanned(scan, kv(4, 200, "four"))
    uncommitted += [driven.step(log.partitions[0][4:]), driven.step(())]
    driven.processor.detach(STUCK, uncommitted)
    (state,) = driven.processor._ranges
    low, high = Span(WATCHED.start, MIDDLE), Span(MIDDLE, WATCHED.end)
    assert state.gaps == {STUCK: (Gap(low, at(5)), Gap(high, at(1)))}
