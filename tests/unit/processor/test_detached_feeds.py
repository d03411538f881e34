"""Feeds whose sinks do not follow: what may be lost is a gap, in the state and in what heirs are told."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

import pytest

from tests.feeds import WITH_MARKERS, activation
from tests.hand_log import HandLog, HandRange, at
from tests.unit.processor.driving import Driven, rows_of, timestamp_of
from tests.unit.processor.logs import PLAIN
from tidegate.changefeed.definition.feed import FIRST_EPOCH, FeedId
from tidegate.changefeed.definition.options import InitialScan
from tidegate.changefeed.lifecycle.control import Register, Remove
from tidegate.errors import FeedError, StateError
from tidegate.hlc import ResolvedTimestamp, Timestamp
from tidegate.processor.batch import ExchangeRecord, StepResult
from tidegate.processor.config import ProcessorConfig
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
from tidegate.ranges.gap import Gap, Lag
from tidegate.ranges.handoff import Claim, HandOff
from tidegate.spans import Span

_STUCK, _OTHER = FeedId("stuck"), FeedId("other")
_WATCHED = PLAIN.span
_MIDDLE = PLAIN.key(100)


_DETACHABLE: Final = ProcessorConfig(detachable=True)


class _Stuck:
    """A range with a row of second 1, committed, and one of second 3 that is not; closed at 2 and 4."""

    def __init__(self, partitions: int = 1) -> None:
        self.log = HandLog(partitions)
        self.log.describe(PLAIN)
        self.range = self.log.open_range(partitions, PLAIN.span)
        self.driven = Driven(PartitionProcessor(0, partitions, ProcessorConfig(detachable=True)))
        self.driven.control(activation([PLAIN.descriptor], feed_id="stuck"))
        self.driven.control(activation([PLAIN.descriptor], feed_id="other"))
        self.range.apply(PLAIN.put(1, 1, "one"), close=2)
        self.committed(*self.run())
        self.range.apply(PLAIN.put(3, 1, "three"), close=4)
        self.uncommitted = self.run()

    def run(self) -> list[StepResult]:
        start = int(self.driven.processor.next_offset or 0)
        return [*self.driven.run(self.log.partitions[0][start:]), self.driven.step(())]

    def committed(self, *results: StepResult) -> None:
        self.driven.processor.committed(results[-1].serial)

    def detach(self) -> StepResult:
        return self.driven.note(self.driven.processor.detach(_STUCK, self.uncommitted))

    def restart(self) -> list[StepResult]:
        self.driven = Driven.restored(self.driven.state)
        return self.run()


def _times(results: Sequence[StepResult], feed: FeedId) -> list[Timestamp]:
    return [timestamp_of(row) for result in results for row in rows_of(result, feed)]


def _scans(results: Sequence[StepResult]) -> list[Scan]:
    return [item for result in results for item in result.requests if isinstance(item, Scan)]


def _names(result: StepResult) -> set[FeedId]:
    assert result.checkpoint is not None
    return {feed.feed_id for feed in result.checkpoint.feeds}


def _kv(seconds: float, number: int, text: str) -> KeyValue:
    key, value = PLAIN.pair(number, text)
    return KeyValue(key, at(seconds), value)


def test_rows_that_come_out_after_a_detachment_are_scanned_for_by_the_next_owner() -> None:
    stuck = _Stuck()
    stuck.detach()
    stuck.range.apply(PLAIN.put(5, 1, "five"), close=6)
    assert _times(stuck.run(), _STUCK) == [at(5)]
    (scan,) = _scans(stuck.restart())
    assert (scan.span, scan.after, scan.upto) == (_WATCHED, at(2), at(5))


def test_no_checkpoint_of_what_is_not_committed_names_a_detached_feed() -> None:
    stuck = _Stuck()
    assert _names(stuck.uncommitted[0]) == {_STUCK, _OTHER}
    stuck.detach()
    assert _names(stuck.uncommitted[0]) == {_OTHER}
    stuck.range.heartbeat(7)
    assert _names(stuck.run()[0]) == {_OTHER}


def test_an_attached_feed_lacks_nothing_and_is_named_with_all_ranges() -> None:
    stuck = _Stuck()
    stuck.detach()
    attached = stuck.driven.note(stuck.driven.processor.attach(_STUCK))
    assert _names(attached) == {_STUCK, _OTHER}
    assert _scans(stuck.restart()) == []


def test_a_stalled_feed_is_given_nothing_and_cannot_be_attached() -> None:
    stuck = _Stuck()
    stuck.detach()
    stuck.driven.note(stuck.driven.processor.stall(_STUCK))
    stuck.range.apply(PLAIN.put(5, 1, "five"), close=6)
    results = stuck.run()
    assert (_times(results, _STUCK), _times(results, _OTHER)) == ([], [at(5)])
    assert _scans(results) == []
    with pytest.raises(StateError, match="lacks rows"):
        stuck.driven.processor.attach(_STUCK)


def test_a_resumed_feed_is_given_what_it_lacks_and_then_what_is_live() -> None:
    stuck = _Stuck()
    stuck.detach()
    stuck.driven.note(stuck.driven.processor.stall(_STUCK))
    stuck.range.apply(PLAIN.put(5, 1, "five"), close=4)
    stuck.run()
    (scan,) = _scans([stuck.driven.note(stuck.driven.processor.resume(_STUCK))])
    assert (scan.after, scan.upto) == (at(2), at(5))
    stuck.range.apply(PLAIN.put(6, 1, "six"), close=4)
    stuck.range.scanned(scan, _kv(3, 1, "three"), _kv(5, 1, "five"))
    stuck.range.apply(PLAIN.put(7, 1, "seven"), close=7)
    assert _times(stuck.run(), _STUCK) == [at(3), at(5), at(6), at(7)]
    assert stuck.driven.processor.status().lagging == ()


def test_what_was_committed_is_certain() -> None:
    stuck = _Stuck()
    stuck.committed(*stuck.uncommitted)
    stuck.uncommitted = []
    stuck.detach()
    assert _scans(stuck.restart()) == [], "nothing is above what was resolved"


def _split(stuck: _Stuck, child: int) -> HandRange:
    right = stuck.range.split(_MIDDLE, child, close=4)
    stuck.uncommitted += stuck.run()
    return right


def test_a_child_that_was_born_meanwhile_lacks_what_its_parent_lacks() -> None:
    stuck = _Stuck()
    _split(stuck, 2)
    stuck.detach()
    lags = {state.range_id: state.lags for state in stuck.driven.processor._ranges}
    low, high = Span(_WATCHED.start, _MIDDLE), Span(_MIDDLE, _WATCHED.end)
    assert lags == {
        RangeId(1): {_STUCK: (Gap(low, at(2)),)},
        RangeId(2): {_STUCK: (Gap(high, at(2)),)},
    }


def test_a_hand_off_that_is_not_committed_tells_what_a_detached_feed_lacks() -> None:
    stuck = _Stuck(partitions=3)
    stuck.range.split(_MIDDLE, 4, close=4)
    stuck.uncommitted += stuck.run()
    (parent,) = stuck.driven.processor._ranges
    claim = Claim(RangeId(4), RangeId(3), parent.applied, Span(_MIDDLE, _WATCHED.end))
    answered = stuck.driven.note(stuck.driven.processor.exchange([ExchangeRecord(Offset(0), claim)]))
    stuck.uncommitted.append(answered)
    stuck.detach()
    (hand_off,) = answered.exchanges
    assert isinstance(hand_off, HandOff)
    assert hand_off.lags == (Lag(_STUCK, (Gap(_WATCHED, at(2)),)),)
    assert [promise.lags for promise in parent.promises] == [hand_off.lags], "what is claimed later"


def test_what_a_healing_range_was_scanned_for_is_lacking_though_the_range_has_no_keys_yet() -> None:
    log = HandLog(partitions=1)
    log.describe(PLAIN)
    begun = HandRange(log, RangeId(1), PLAIN.span)
    begun.snapshot(close=9, high=8)
    driven = Driven(PartitionProcessor(0, 1, ProcessorConfig(detachable=True)))
    driven.control(activation([PLAIN.descriptor], start=at(1), feed_id="stuck"))
    driven.processor.committed(driven.step(log.partitions[0]).serial)
    (scan,) = _scans(driven.results)
    begun.scanned(scan, _kv(7, 1, "seven"), span=PLAIN.split(100)[0], last=False)
    given = driven.step(log.partitions[0][2:])
    assert _times([given], _STUCK) == [at(7)]
    driven.note(driven.processor.detach(_STUCK, [given]))
    begun.scanned(scan, span=PLAIN.split(100)[1])
    driven = Driven.restored(driven.state)
    again = _scans([*driven.run(log.partitions[0]), driven.step(())])
    assert [(item.span, item.after, item.upto) for item in again] == [(_WATCHED, at(1), at(8))]


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
    assert (state.span, state.lags) == (None, {_STUCK: (Gap(_WATCHED, None),)})
    driven.note(driven.processor.detach(_STUCK, []))
    assert state.lags == {_STUCK: (Gap(_WATCHED, None),)}


def _born(driven: Driven, log: HandLog, resolved: float, *lags: Lag) -> HandRange:
    """Range 3 is born of range 1, of another partition, whose hand-off has come."""
    child = HandRange(log, RangeId(3), PLAIN.span)
    parent = Parent(RangeId(1), Generation(1), RaftIndex(7))
    child.snapshot(close=9, high=8, parents=(parent,))
    claim = Claim(RangeId(3), RangeId(1), RaftIndex(7), PLAIN.span)
    hand_off = HandOff(claim, ResolvedTimestamp(at(resolved)), complete=True, span=PLAIN.span, lags=lags)
    driven.step(log.partitions[0])
    driven.note(driven.processor.exchange([ExchangeRecord(Offset(0), hand_off)]))
    driven.step(())
    return child


@pytest.mark.parametrize(
    ("lags", "certain"), [((), 5), ((Lag("stuck", (Gap(PLAIN.span, at(2)),)),), 2)], ids=["whole", "lagging"]
)
def test_of_keys_of_another_partition_what_was_handed_off_is_certain(
    lags: tuple[Lag, ...], certain: float
) -> None:
    log = HandLog(partitions=3)
    log.describe(PLAIN)
    driven = Driven(PartitionProcessor(0, 3, ProcessorConfig(detachable=True)))
    driven.control(activation([PLAIN.descriptor], start=at(1), feed_id="stuck"))
    _born(driven, log, 5, *lags)
    driven.note(driven.processor.detach(_STUCK, driven.results))
    (state,) = (state for state in driven.processor._ranges if state.range_id == 3)
    assert state.lags == {_STUCK: (Gap(_WATCHED, at(certain)),)}


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
    lags = (Lag("stuck", (Gap(PLAIN.span, at(2)),)),)
    hand_off = HandOff(claim, ResolvedTimestamp(at(5)), complete=False, span=PLAIN.span, lags=lags)
    driven.note(driven.processor.exchange([ExchangeRecord(Offset(0), hand_off)]))
    driven.step(())
    (scan,) = [item for item in _scans(driven.results) if item.all_versions]
    rows = ((table, key, value) for (table, key), value in driven.state.items())
    driven = Driven(PartitionProcessor.restore(0, 3, _DETACHABLE, rows), driven.state)
    child.scanned(scan, _kv(6, 200, "six"))
    uncommitted = [*driven.run(log.partitions[0]), driven.step(())]
    (state,) = [state for state in driven.processor._ranges if state.range_id == 3]
    assert state.span == PLAIN.span, "it has not taken its snapshot"
    driven.processor.detach(_STUCK, uncommitted)
    assert state.lags == {_STUCK: (Gap(_WATCHED, at(2)),)}


def test_of_keys_that_went_on_within_the_same_steps_no_more_is_certain() -> None:
    """What the range between had resolved is of rows that may be lost."""
    log = HandLog(partitions=3)
    log.describe(PLAIN)
    driven = Driven(PartitionProcessor(0, 3, ProcessorConfig(detachable=True)))
    driven.control(activation([PLAIN.descriptor], start=at(1), feed_id="stuck"))
    child = _born(driven, log, 5)
    child.apply(PLAIN.put(10, 150, "ten"), close=10)
    child.split(_MIDDLE, 6, close=10)
    driven.step(log.partitions[0][2:])
    driven.step(())
    driven.note(driven.processor.detach(_STUCK, driven.results))
    low, high = Span(_WATCHED.start, _MIDDLE), Span(_MIDDLE, _WATCHED.end)
    lags = {state.range_id: state.lags for state in driven.processor._ranges}
    assert lags == {RangeId(3): {_STUCK: (Gap(low, at(5)),)}, RangeId(6): {_STUCK: (Gap(high, at(5)),)}}


def test_what_a_parent_had_promised_before_these_steps_is_certain() -> None:
    log = HandLog(1)
    log.describe(PLAIN)
    parent = log.open_range(1, PLAIN.span)
    parent.apply(PLAIN.put(10, 150, "ten"), close=20)
    parent.split(_MIDDLE, 2, close=20)
    driven = Driven(PartitionProcessor(0, 1, ProcessorConfig(detachable=True)))
    driven.control(activation([PLAIN.descriptor], start=at(1), feed_id="stuck"))
    driven.step(log.partitions[0][:-1])
    driven.processor.committed(driven.step(()).serial)
    born = [driven.step(log.partitions[0][-1:]), driven.step(())]
    driven.note(driven.processor.detach(_STUCK, born))
    high = Span(_MIDDLE, _WATCHED.end)
    lags = {state.range_id: state.lags for state in driven.processor._ranges}
    assert lags[RangeId(2)] == {_STUCK: (Gap(high, at(20)),)}


def test_of_two_promises_at_one_index_the_one_of_these_steps_is_not_certain() -> None:
    """A range takes another in, and is taken in at once: it has promised twice at the index of the merge."""
    log = HandLog(3)
    log.describe(PLAIN)
    low, rest = PLAIN.split(50)
    middle, high = Span(rest.start, _MIDDLE), Span(_MIDDLE, rest.end)
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
    driven.note(driven.processor.detach(_STUCK, [*uncommitted, answered]))
    (hand_off,) = answered.exchanges
    assert isinstance(hand_off, HandOff)
    assert hand_off.resolved == at(40)
    (lag,) = hand_off.lags or ()
    assert lag.feed == _STUCK
    assert min(gap.complete_to or at(0) for gap in lag.gaps) == at(20), "the row of second 30 may be lost"


def test_an_answer_to_a_scan_from_before_the_detachment_closes_no_gap() -> None:
    stuck = _Stuck()
    stuck.committed(*stuck.uncommitted)
    options = replace(WITH_MARKERS, initial_scan=InitialScan.YES)
    late = activation([PLAIN.descriptor], options, start=at(4), feed_id="late")
    stuck.committed(stuck.driven.control(Register(late.definition), late))
    stuck.range.apply(PLAIN.put(5, 1, "five"), close=4)
    asked = stuck.run()
    (first,) = _scans(asked)
    stuck.committed(*asked)
    stuck.range.scanned(first, _kv(3, 1, "three"))
    given = stuck.run()
    (second,) = _scans(given)
    assert (first.after, second.after) == (None, at(4))
    stuck.driven.note(stuck.driven.processor.detach(late.feed_id, given))
    stuck.driven.note(stuck.driven.processor.stall(late.feed_id))
    (again,) = _scans([stuck.driven.note(stuck.driven.processor.resume(late.feed_id))])
    assert again.after is None
    stuck.range.scanned(second, _kv(5, 1, "five"))
    stuck.run()
    (lag,) = stuck.driven.processor.status().lagging
    assert lag.complete_to is None, "the rows of the first scan are lacking still"


def test_of_a_feed_that_has_failed_nothing_from_before_that_is_told() -> None:
    stuck = _Stuck()
    stuck.driven.processor._feeds.fail(_STUCK, FeedError("a row that cannot be written"))
    stuck.detach()
    assert _names(stuck.uncommitted[0]) == {_OTHER}


def test_what_comes_out_of_keys_that_came_after_the_detachment_may_be_lost_too() -> None:
    log = HandLog(partitions=3)
    log.describe(PLAIN)
    driven = Driven(PartitionProcessor(0, 3, ProcessorConfig(detachable=True)))
    driven.control(activation([PLAIN.descriptor], start=at(1), feed_id="stuck"))
    driven.note(driven.processor.detach(_STUCK, driven.results))
    child = _born(driven, log, 5)
    (state,) = driven.processor._ranges
    assert state.lags == {_STUCK: (Gap(_WATCHED, at(5)),)}
    child.apply(PLAIN.put(10, 1, "ten"), close=10)
    assert _times([driven.step(log.partitions[0][2:])], _STUCK) == [at(10)], "and it goes to the spool"
    driven.note(driven.processor.attach(_STUCK))
    assert state.lags == {}


def test_what_is_scanned_for_after_the_detachment_may_be_lost_too() -> None:
    log = HandLog(partitions=1)
    log.describe(PLAIN)
    begun = HandRange(log, RangeId(1), PLAIN.span)
    begun.snapshot(close=9, high=8)
    driven = Driven(PartitionProcessor(0, 1, ProcessorConfig(detachable=True)))
    driven.control(activation([PLAIN.descriptor], start=at(1), feed_id="stuck"))
    driven.note(driven.processor.detach(_STUCK, driven.results))
    driven.step(log.partitions[0])
    (scan,) = _scans(driven.results)
    begun.scanned(scan, _kv(7, 1, "seven"))
    assert _times([driven.step(log.partitions[0][2:])], _STUCK) == [at(7)]
    (state,) = driven.processor._ranges
    assert state.lags == {_STUCK: (Gap(_WATCHED, at(1)),)}


@pytest.mark.parametrize(
    ("options", "lacking"),
    [({"cursor": at(1)}, at(1)), ({"initial_scan": InitialScan.YES}, None)],
    ids=["cursor", "initial scan"],
)
def test_nothing_is_certain_of_a_feed_whose_activation_is_not_committed(
    options: dict[str, Any], lacking: Timestamp | None
) -> None:
    stuck = _Stuck()
    first = at(1) if "cursor" in options else at(4)
    late = activation([PLAIN.descriptor], replace(WITH_MARKERS, **options), start=first, feed_id="late")
    begun = stuck.driven.control(Register(late.definition), late)
    stuck.driven.processor.detach(FeedId("late"), [*stuck.uncommitted, begun, *stuck.run()])
    (state,) = stuck.driven.processor._ranges
    assert state.lags == {FeedId("late"): (Gap(_WATCHED, lacking),)}


def test_a_scan_that_was_done_before_lacks_nothing_above_it() -> None:
    stuck = _Stuck()
    only = activation(
        [PLAIN.descriptor], replace(WITH_MARKERS, initial_scan=InitialScan.ONLY), start=at(4), feed_id="only"
    )
    stuck.driven.control(Register(only.definition), only)
    (scan,) = _scans(stuck.run())
    stuck.range.scanned(scan, _kv(3, 1, "three"))
    stuck.committed(*stuck.run())
    stuck.range.apply(PLAIN.put(6, 1, "six"), close=6)
    stuck.driven.processor.detach(FeedId("only"), stuck.run())
    (state,) = stuck.driven.processor._ranges
    assert state.lags == {}
    stuck.driven.control(Remove(FeedId("only"), FIRST_EPOCH))
    assert not stuck.driven.processor.is_spooling(FeedId("only"))


def test_a_hand_off_of_what_was_promised_before_says_what_it_said() -> None:
    stuck = _Stuck(partitions=3)
    stuck.range.split(_MIDDLE, 4, close=4)
    stuck.committed(*stuck.uncommitted, *stuck.run())
    (parent,) = stuck.driven.processor._ranges
    claim = Claim(RangeId(4), RangeId(3), parent.applied, Span(_MIDDLE, _WATCHED.end))
    answered = stuck.driven.note(stuck.driven.processor.exchange([ExchangeRecord(Offset(0), claim)]))
    told = list(answered.exchanges)
    stuck.uncommitted = [answered]
    stuck.detach()
    assert answered.exchanges == told


def test_a_range_that_ended_in_a_hole_meanwhile_tells_its_heirs_later_what_is_lacking() -> None:
    stuck = _Stuck(partitions=3)
    stuck.log.write_bytes(0, encode_key(RangeId(3)), b"\xff\xff\xff")
    stuck.range.index += 1
    stuck.range.end()
    stuck.uncommitted += stuck.run()
    stuck.detach()
    claim = Claim(RangeId(4), RangeId(3), RaftIndex(stuck.range.index), PLAIN.span)
    (told,) = stuck.driven.processor.exchange([ExchangeRecord(Offset(0), claim)]).exchanges
    assert isinstance(told, HandOff)
    assert told.lags == (Lag(_STUCK, (Gap(_WATCHED, at(2)),)),)


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
    hole = HandOff(claim, ResolvedTimestamp(at(6)), complete=False, span=PLAIN.span, lags=())
    answered = driven.note(driven.processor.exchange([ExchangeRecord(Offset(0), hole)]))
    driven.processor.committed(answered.serial)
    (scan,) = _scans(driven.results)
    low, _ = PLAIN.split(100)
    child.scanned(scan, _kv(7, 1, "seven"), span=low, last=False)
    child.apply(PLAIN.put(9.5, 1, "later"), close=9)
    child.split(_MIDDLE, 5, close=9)
    uncommitted = [driven.step(log.partitions[0][2:]), driven.step(())]
    assert _times(uncommitted, _STUCK) == [at(7)]
    *_, again = _scans(uncommitted)
    assert again.after == at(8)
    driven.processor.detach(_STUCK, uncommitted)
    (state,) = driven.processor._ranges
    assert state.lags == {_STUCK: (Gap(Span(_WATCHED.start, _MIDDLE), at(6)),)}


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
    hand_off = HandOff(claim, ResolvedTimestamp(at(5)), complete=True, span=left, lags=())
    driven.note(driven.processor.exchange([ExchangeRecord(Offset(0), hand_off)]))
    driven.processor.committed(driven.step(()).serial)
    log.write_bytes(0, encode_key(RangeId(3)), b"\xff\xff\xff")
    child.index, child.generation, child.span = child.index + 1, 3, PLAIN.span
    child.snapshot(
        close=9, high=8, parents=(child.as_parent(), Parent(RangeId(4), Generation(1), RaftIndex(9)))
    )
    uncommitted = [driven.step(log.partitions[0][2:])]
    (scan,) = _scans(uncommitted)
    child.scanned(scan, _kv(4, 200, "four"))
    uncommitted += [driven.step(log.partitions[0][4:]), driven.step(())]
    driven.processor.detach(_STUCK, uncommitted)
    (state,) = driven.processor._ranges
    low, high = Span(_WATCHED.start, _MIDDLE), Span(_MIDDLE, _WATCHED.end)
    assert state.lags == {_STUCK: (Gap(low, at(5)), Gap(high, at(1)))}


def test_a_range_in_which_nothing_is_lacking_does_not_fail_a_feed() -> None:
    stuck = _Stuck()
    stuck.committed(*stuck.uncommitted)
    stuck.uncommitted = []
    stuck.detach()
    stuck.range.snapshot(close=8, high=3, gc=7)
    stuck.run()
    assert stuck.driven.causes == []


def test_what_the_store_removes_does_not_concern_a_feed_whose_rows_are_spooled() -> None:
    stuck = _Stuck()
    stuck.detach()
    stuck.range.snapshot(close=4, high=3, gc=3.5)
    stuck.run()
    assert stuck.driven.causes == []
    attached = stuck.driven.note(stuck.driven.processor.attach(_STUCK))
    assert _names(attached) == {_STUCK, _OTHER}


def test_a_stalled_feed_fails_once_the_store_has_removed_what_it_lacks() -> None:
    stuck = _Stuck()
    stuck.detach()
    stuck.driven.note(stuck.driven.processor.stall(_STUCK))
    stuck.range.snapshot(close=4, high=3, gc=3.5)
    stuck.run()
    (cause,) = stuck.driven.causes
    assert str(at(2)) in cause
    assert str(at(3.5)) in cause
