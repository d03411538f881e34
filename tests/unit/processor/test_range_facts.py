"""Tests what an operator can ask about ranges: each condition, with what there is to know in it."""

from __future__ import annotations

import json

import pytest

from tests.feeds import activation
from tests.hand_log import HandLog, at, intent, moved, txn
from tests.unit.processor.driving import Driven, active
from tests.unit.processor.logs import OTHER, PLAIN
from tests.unit.processor.partitions import Partitions
from tidegate.hlc import ZERO
from tidegate.processor import log_step, status
from tidegate.processor.config import ProcessorConfig
from tidegate.processor.processor import PartitionProcessor
from tidegate.processor.push_policy import PushPolicy
from tidegate.processor.range_facts import Condition, RangeFacts
from tidegate.processor.status import RangesIn
from tidegate.raftlog.encode import encode_key
from tidegate.raftlog.entry import AbortTxn, Generation, RangeId, Trigger
from tidegate.raftlog.request import Scan
from tidegate.spans import EVERYTHING, Span

_FEED = activation([PLAIN.descriptor])
_LOW, _HIGH = PLAIN.split(100)


def facts(driven: Driven, range_id: int = 1) -> RangeFacts:
    """Return what is known of a range, after a way through JSON."""
    found = driven.processor.ranges_in(EVERYTHING)
    read = RangesIn.from_json(json.loads(json.dumps(found.to_json())))
    assert read == found
    return next(each for each in read.slowest if each.range_id == range_id)


class _Open:
    """A range with two open transactions, in a partition that pushes what is older than 10 s."""

    def __init__(self) -> None:
        self.log = HandLog(partitions=1)
        self.range = self.log.open_range(1, PLAIN.span)
        policy = PushPolicy(10_000, 5_000)
        self.driven = Driven(PartitionProcessor(0, 1, ProcessorConfig(policy)))
        self.range.apply(intent(1, 2), intent(1, 2), intent(2, 3))

    def at(self, seconds: float) -> RangeFacts:
        self.log.wait_for(at(seconds))
        self.range.heartbeat(seconds - 1)
        self.driven.step(self.log.partitions[0])
        return facts(self.driven)


def test_the_oldest_transaction_is_told_with_its_intents_and_anchor() -> None:
    told = _Open().at(4)
    assert told.condition is Condition.LIVE
    assert (told.resolved, told.closed, told.open_transactions) == (at(1.999999999), at(3), 2)
    assert told.txn is not None
    assert (told.txn.txn_id, told.txn.anchor_key, told.txn.intents) == (txn(1), b"anchor", 2)
    assert (told.txn.began, told.txn.timestamp) == (at(2), at(2))
    assert told.push is None
    assert (told.entries, told.since_ms, told.offset) == (0, None, None)


def test_a_push_without_an_answer_is_told_with_how_often_it_was_sent() -> None:
    held = _Open()
    for seconds in (20, 21, 25, 30):
        told = held.at(seconds)
    assert told.push is not None
    assert (told.push.asked_ms, told.push.tries) == (at(30).wall_ms, 3)
    assert (told.push.oldest, told.push.txns) == (txn(1), 2)
    assert (told.push.ended, told.push.moved) == (0, 0)


def test_the_answer_of_a_push_is_kept() -> None:
    held = _Open()
    held.at(20)
    held.range.apply(moved(1, 20))
    told = held.at(21)
    assert told.push is not None
    assert (told.push.ended, told.push.moved) == (0, 1)
    held.range.apply(AbortTxn(txn(2)))
    told = held.at(22)
    assert told.push is not None
    assert (told.push.ended, told.push.moved) == (1, 1)
    held.range.apply(AbortTxn(txn(1)))
    told = held.at(23)
    assert told.txn is None
    assert told.push is not None


def test_a_quarantined_range_is_told_with_the_place_of_its_cause() -> None:
    log = HandLog(partitions=1)
    log.describe(PLAIN)
    broken = log.open_range(1, PLAIN.span)
    broken.apply(PLAIN.put(5, 1, "before"), close=6)
    log.write_bytes(0, encode_key(RangeId(1)), b"\xff\xff\xff")
    driven = active(_FEED)
    driven.run(log.partitions[0])
    told = facts(driven)
    assert (told.condition, told.offset, told.resolved) == (Condition.QUARANTINED, 3, at(6))
    assert told.cause
    broken.index += 1
    broken.snapshot(close=9, high=8)
    broken.apply(PLAIN.put(10, 1, "after"), close=9)
    driven.run(log.partitions[0][4:])
    told = facts(driven)
    assert (told.condition, told.offset, told.entries) == (Condition.HEALING, 3, 2)
    assert told.scan is not None
    assert (told.scan.span, told.scan.next_key) == (PLAIN.span, PLAIN.span.start)
    assert (told.scan.after, told.scan.upto) == (at(6), at(8))
    scan = next(request for request in driven.results[-1].requests if isinstance(request, Scan))
    broken.scanned(scan, span=_LOW, last=False)
    driven.run(log.partitions[0][6:])
    told = facts(driven)
    assert told.scan is not None
    assert told.scan.next_key == _HIGH.start


def test_a_range_that_catches_up_is_told_with_what_is_left_of_its_backlog(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """After a restart the partition reads these entries again, and so does not know how many there are."""
    monkeypatch.setattr(log_step, "_DRAIN_MAX", 2)
    log = HandLog(partitions=1)
    log.describe(PLAIN)
    healing = log.open_range(1, PLAIN.span)
    healing.unreadable()
    healing.snapshot(close=2, high=2)
    driven = active(_FEED)
    (scan,) = (each for each in driven.step(log.partitions[0]).requests if isinstance(each, Scan))
    for seconds in (3, 4, 5, 6):
        healing.apply(PLAIN.put(seconds, seconds, "after"), close=seconds - 0.5)
    healing.scanned(scan)
    driven.step(log.partitions[0])
    for partition, entries in ((driven, 3), (Driven.restored(driven.state), 0)):
        told = facts(partition)
        assert (told.condition, told.entries, told.offset) == (Condition.CATCHING_UP, entries, 5)
        assert (told.since_ms, told.parents, told.scan) == (None, (), None)


def test_a_parked_range_is_told_with_its_parents_and_since_when() -> None:
    log = HandLog(partitions=2)
    log.describe(PLAIN)
    first = log.open_range(1, PLAIN.span)
    first.apply(PLAIN.put(5, 1, "a"), close=5)
    log.wait_for(at(7))
    first.split(PLAIN.key(100), 2, close=6).apply(PLAIN.put(8, 200, "b"), close=7)
    partitions = Partitions(log)
    partitions.read(0)
    told = facts(partitions.driven[0], 2)
    assert (told.condition, told.parents, told.entries) == (Condition.PARKED, (1,), 2)
    assert (told.since_ms, told.span) == (at(7).wall_ms, _HIGH)
    found = partitions.driven[0].processor.status()
    assert (found.backlog_entries, found.log_time_ms) == (2, at(8).wall_ms)


def test_a_range_between_its_split_and_its_snapshot_is_changing() -> None:
    log = HandLog(partitions=1)
    log.open_range(1, PLAIN.span).apply(trigger=Trigger.SPLIT)
    driven = active(_FEED)
    driven.run(log.partitions[0])
    assert facts(driven).condition is Condition.CHANGING


def test_a_range_whose_first_snapshot_is_not_complete_is_starting() -> None:
    log = HandLog(partitions=1)
    log.open_range(1, PLAIN.span, chunk=0, chunks=2)
    driven = Driven()
    driven.run(log.partitions[0])
    told = facts(driven)
    assert (told.condition, told.span, told.resolved) == (Condition.STARTING, PLAIN.span, ZERO)


@pytest.mark.parametrize(
    ("span", "ranges"),
    [(PLAIN.span, [1, 2]), (_LOW, [1]), (OTHER.span, [3]), (Span(b"\x01", b"\x02"), [])],
)
def test_the_ranges_of_a_span_are_those_that_have_its_keys(span: Span, ranges: list[int]) -> None:
    log = HandLog(partitions=1)
    log.open_range(3, OTHER.span)
    log.open_range(2, _HIGH)
    log.open_range(1, _LOW).apply(close=3)
    log.open_range(4, PLAIN.span).end()
    driven = Driven()
    driven.run(log.partitions[0])
    found = driven.processor.ranges_in(span)
    assert [item.range_id for item in found.spans] == ranges
    assert {each.range_id for each in found.slowest} == set(ranges)
    assert found.complete


def test_of_the_ranges_of_a_span_only_those_that_work_are_live() -> None:
    log = HandLog(partitions=1)
    log.open_range(1, _LOW)
    log.open_range(2, _HIGH).unreadable()
    log.open_range(3, OTHER.span, chunk=0, chunks=2)
    driven = Driven()
    driven.run(log.partitions[0])
    found = driven.processor.ranges_in(EVERYTHING)
    assert [(item.range_id, item.live) for item in found.spans] == [(1, True), (2, False), (3, False)]


def test_spans_are_complete_up_to_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(status, "_SPANS_MAX", 2)
    log = HandLog(partitions=1)
    log.open_range(1, _LOW)
    log.open_range(2, _HIGH)
    log.open_range(3, OTHER.span)
    driven = Driven()
    driven.run(log.partitions[0])
    for span, ranges, complete in ((PLAIN.span, 2, True), (EVERYTHING, 3, False)):
        found = driven.processor.ranges_in(span)
        assert (len(found.spans), len(found.slowest), found.complete) == (2, ranges, complete)


def test_a_range_that_heals_without_a_scan_is_refused() -> None:
    told = RangeFacts(RangeId(1), Generation(1), Condition.PARKED, _LOW, ZERO, ZERO)
    assert RangeFacts.from_json(told.to_json()) == told
    with pytest.raises(ValueError, match="has no scan"):
        RangeFacts.from_json({**told.to_json(), "state": Condition.HEALING.value})
