"""Ranges that wait for hand-offs: which of them a hand-off still reaches."""

from __future__ import annotations

from tests.feeds import activation
from tests.hand_log import HandLog, at
from tests.unit.processor.driving import Driven, timestamp_of
from tests.unit.processor.logs import PLAIN
from tidegate.hlc import ResolvedTimestamp
from tidegate.processor.batch import ExchangeRecord, StateTable
from tidegate.processor.processor import PartitionProcessor
from tidegate.processor.state_codec import read_range
from tidegate.raftlog.entry import RangeId
from tidegate.rangefeed.gap import Lag
from tidegate.rangefeed.handoff import Claim, Exchange, HandOff
from tidegate.rangefeed.range_state import RangeState

_FEED = activation([PLAIN.descriptor])
_PARENT, _CHILD = RangeId(2), RangeId(3)  # in partition 0, and in partition 1


def _splits() -> HandLog:
    """Range 2 (partition 0) splits off range 3 (partition 1)."""
    log = HandLog(2)
    log.describe(PLAIN)
    parent = log.open_range(_PARENT, PLAIN.span)
    parent.apply(PLAIN.put(5, 150, "parent"), close=4)
    child = parent.split(PLAIN.key(100), _CHILD, close=6)
    child.apply(PLAIN.put(8, 150, "child"), close=7)
    return log


def _waiting_child(log: HandLog) -> Driven:
    """The child's partition, which has read its log and waits for the parent."""
    driven = Driven(PartitionProcessor(1, 2))
    driven.control(_FEED)
    driven.run(log.partitions[1])
    return driven


def _claim(driven: Driven) -> Claim:
    (claim,) = [message for result in driven.results for message in result.exchanges]
    assert isinstance(claim, Claim)
    return claim


def _hand_off(claim: Claim, seconds: float) -> HandOff:
    """The parent's answer: every row is out, and the feed lacks none."""
    lags = (Lag(str(_FEED.feed_id), ()),)
    return HandOff(claim, ResolvedTimestamp(at(seconds)), complete=True, span=claim.span, lags=lags)


def _deliver(driven: Driven, message: Exchange) -> None:
    offset = driven.processor.next_hand_off
    driven.note(driven.processor.exchange([ExchangeRecord(offset, message)]))
    while driven.processor.ready:
        driven.step(())


def _stored(driven: Driven, range_id: RangeId) -> RangeState:
    """The range as it was stored last."""
    stored = [
        read_range(key, value).state
        for (table, key), value in driven.state.items()
        if table is StateTable.RANGES
    ]
    (found,) = [state for state in stored if state.range_id == range_id]
    return found


def test_a_hand_off_lets_the_range_go_on_and_is_kept_no_longer() -> None:
    driven = _waiting_child(_splits())
    _deliver(driven, _hand_off(_claim(driven), 6))
    assert list(map(timestamp_of, driven.rows)) == [at(8)]
    assert _stored(driven, _CHILD).hand_offs == {}


def test_a_hand_off_for_a_range_that_has_gone_on_without_it_is_forgotten() -> None:
    """Kept, it would bind the rows of a later snapshot by what a parent of an earlier one had resolved."""
    driven = _waiting_child(_splits())
    hand_off = _hand_off(_claim(driven), 6)
    _deliver(driven, hand_off)
    _deliver(driven, hand_off)
    assert _stored(driven, _CHILD).hand_offs == {}


def test_a_hand_off_that_comes_before_the_snapshot_is_read_again_is_kept_for_it() -> None:
    log = _splits()
    before = _waiting_child(log)
    driven = Driven.restored(before.state, 1, 2)
    hand_off = _hand_off(_claim(before), 6)
    _deliver(driven, hand_off)
    assert _stored(driven, _CHILD).hand_offs == {hand_off.claim: hand_off}
    driven.run(log.partitions[1][driven.processor.next_offset or 0 :])
    assert list(map(timestamp_of, driven.rows)) == [at(8)]


def test_a_hand_off_between_a_merge_and_its_snapshot_is_kept_for_it() -> None:
    """After a restart the range stands behind its trigger, and has no backlog until it reads the snapshot."""
    log = HandLog(2)
    log.describe(PLAIN)
    low, high = PLAIN.split(100)
    left, right = log.open_range(_CHILD, low), log.open_range(_PARENT, high)
    right.apply(PLAIN.put(5, 150, "right"), close=5)
    left.merge(right, close=6)
    left.apply(PLAIN.put(8, 150, "merged"), close=8)
    before = _waiting_child(log)
    driven = Driven.restored(before.state, 1, 2)
    hand_off = _hand_off(_claim(before), 5)
    _deliver(driven, hand_off)
    assert _stored(driven, _CHILD).awaits_snapshot
    assert _stored(driven, _CHILD).hand_offs == {hand_off.claim: hand_off}
    driven.run(log.partitions[1][driven.processor.next_offset or 0 :])
    assert list(map(timestamp_of, driven.rows)) == [at(8)]
