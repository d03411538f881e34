"""Ranges that split, merge or end in a hole, or while they are scanned for what they missed."""

from __future__ import annotations

import pytest

from tests.hand_log import HandLog, HandRange, at
from tests.unit.processor.driving import Driven, timestamp_of
from tests.unit.processor.logs import PLAIN
from tests.unit.processor.moving.broken_range import FEED, MIDDLE, Broken, row_of, scans_in
from tests.unit.processor.partitions import Partitions
from tidegate.hlc import ZERO
from tidegate.processor.batch import StateTable
from tidegate.processor.state.state_codec import read_range
from tidegate.raftlog.encode import encode_key
from tidegate.raftlog.entry import KeyValue, RangeId
from tidegate.raftlog.request import Scan
from tidegate.ranges.range_state import RangeStatus
from tidegate.spans import Span


def test_a_range_that_was_merged_away_while_it_waits_is_left() -> None:
    """Its end cannot be read; the range that took it over says so by its claim."""
    log = HandLog(partitions=2)
    log.describe(PLAIN)
    low, high = PLAIN.split(100)
    left, right = log.open_range(2, low), log.open_range(3, high)
    right.apply(PLAIN.put(3, 150, "right"), close=3)
    log.write_bytes(1, encode_key(RangeId(3)), b"\xff\xff\xff")
    right.index += 1
    right.snapshot(close=6, high=5)
    run = Partitions(log)
    run.settle()
    assert run.parked() == [(3, ())]
    log.write_bytes(1, encode_key(RangeId(3)), b"\xff\xff\xff")
    shadow = HandLog(partitions=2)
    lost_end = HandRange(shadow, RangeId(3), high)
    lost_end.index, lost_end.high = right.index, 5
    left.merge(lost_end, close=7)
    run.settle()
    assert [number for number, _ in run.parked()] == [2]
    (scan, *_) = scans_in(run.driven[0])
    assert (scan.span, scan.after) == (high, at(3))
    left.scanned(scan, row_of(5, 150, "lost"))
    run.settle()
    assert run.parked() == []
    assert run.rows() == {0: [at(5)], 1: [at(3)]}


def test_a_hole_that_hides_a_split_is_healed_on_both_sides() -> None:
    log = HandLog(partitions=2)
    log.describe(PLAIN)
    parent = log.open_range(2, PLAIN.span)
    parent.apply(PLAIN.put(5, 150, "before"), close=6)
    shadow = HandLog(partitions=2)
    hidden = HandRange(shadow, RangeId(2), PLAIN.span)
    hidden.index, hidden.high = parent.index, parent.high
    hidden.apply(PLAIN.put(8, 150, "lost"), PLAIN.put(8, 50, "lost"))
    hidden.split(MIDDLE, 3, close=9)
    child = HandRange(log, RangeId(3), Span(MIDDLE, PLAIN.span.end))
    child.generation = hidden.generation
    before = HandRange(log, RangeId(2), PLAIN.span)
    before.index = hidden.index
    child.snapshot(close=9, high=8, parents=(before.as_parent(),))
    child.apply(PLAIN.put(10, 150, "child"), close=10)
    log.write_bytes(0, encode_key(RangeId(2)), b"\xff\xff\xff")
    parent.index, parent.generation, parent.span = hidden.index, hidden.generation, hidden.span
    parent.snapshot(close=9, high=8)
    parent.apply(PLAIN.put(10, 50, "parent"), close=10)
    run = Partitions(log)
    run.settle()
    scans = {scan.range_id: scan for driven in run.driven for scan in scans_in(driven)}
    assert {number: (scan.after, scan.span) for number, scan in scans.items()} == {
        2: (at(6), parent.span),
        3: (at(6), child.span),
    }
    parent.scanned(scans[RangeId(2)], row_of(8, 50, "lost"))
    child.scanned(scans[RangeId(3)], row_of(8, 150, "lost"))
    run.settle()
    assert run.rows() == {0: [at(5), at(8), at(10)], 1: [at(8), at(10)]}
    assert (run.resolved(2), run.resolved(3)) == (at(10), at(10))


def test_a_range_that_splits_while_it_is_scanned_is_scanned_anew() -> None:
    log = HandLog(partitions=2)
    log.describe(PLAIN)
    parent = log.open_range(2, PLAIN.span)
    parent.apply(PLAIN.put(5, 150, "before"), close=6)
    log.write_bytes(0, encode_key(RangeId(2)), b"\xff\xff\xff")
    parent.index += 1
    parent.snapshot(close=9, high=8)
    parent.apply(PLAIN.put(10, 150, "after"), close=9)
    run = Partitions(log)
    run.settle()
    child = parent.split(MIDDLE, 3, close=11)
    child.apply(PLAIN.put(12, 150, "child"), close=12)
    run.settle()
    first, second = scans_in(run.driven[0])
    (third,) = scans_in(run.driven[1])
    assert (first.span, second.span, second.upto) == (PLAIN.span, parent.span, at(10))
    assert (third.after, third.upto) == (at(6), at(10))
    parent.scanned(first, row_of(8, 1, "for the first"))
    parent.scanned(second, row_of(8, 50, "missed"))
    child.scanned(third, row_of(8, 150, "missed"), row_of(10, 150, "after"))
    parent.heartbeat(12)
    run.settle()
    assert run.rows() == {0: [at(5), at(8)], 1: [at(8), at(10), at(12)]}
    assert (run.resolved(2), run.resolved(3)) == (at(12), at(12))


class _Restless:
    """A broken range with a version at every tenth key, of which a scan brings only a piece at a time."""

    def __init__(self, span: Span = PLAIN.span) -> None:
        self.broken = Broken(span=span)
        self.history = [row_of(8, number, "missed") for number in range(0, 200, 10)]
        self.scanned: list[KeyValue] = []
        self.broken.heal()

    @property
    def scan(self) -> Scan:
        """The scan that the range asked for last."""
        return [scan for scan in scans_in(self.broken.driven) if scan.range_id == RangeId(1)][-1]

    @property
    def waits(self) -> bool:
        """Whether the range waits."""
        return any(range_.range_id == RangeId(1) for range_ in self.broken.driven.processor.status().parked)

    def answer(self, end: bytes | None = None) -> None:
        """Answer the last request, up to a key."""
        scan = self.scan
        span = Span(scan.span.start, end or scan.span.end)
        rows = [row for row in self.history if span.contains(row.key)]
        wanted = [row for row in rows if (scan.after or ZERO) < row.timestamp <= scan.upto]
        self.scanned += wanted
        self.broken.range.scanned(scan, *wanted, span=span, last=end is None)
        self.broken.run()

    def split(self, second: float, number: int, child: int) -> None:
        """Write to key 0, then split."""
        self.history.append(row_of(second, 0, "anew"))
        self.broken.range.apply(PLAIN.put(second, 0, "anew"), close=9)
        self.broken.range.split(PLAIN.key(number), child, close=9)
        self.broken.run()

    def restart(self) -> None:
        """A new owner begins with what was committed."""
        results = self.broken.driven.results
        self.broken.driven = Driven.restored(self.broken.driven.state)
        self.broken.driven.results = results
        self.broken.run()


@pytest.mark.parametrize("restarts", [False, True])
def test_a_range_that_splits_again_and_again_while_it_is_scanned_scans_no_key_anew(restarts: bool) -> None:
    run = _Restless()
    for turn in range(1, 7):
        run.answer(PLAIN.key(10 * turn))
        run.split(20 + turn, 200 - 10 * turn, turn + 1)
        if restarts:
            run.restart()
        assert (run.scan.after, run.scan.span.start) == (at(6), PLAIN.key(10 * turn))
    requests = 0
    while run.waits:
        run.answer()
        requests += 1
        if restarts:
            run.restart()
    assert requests <= 3, "the keys that no scan came to, those of the last one, those of the others"
    kept = [row for row in run.history if row.key < PLAIN.key(140)]
    assert sorted(run.scanned) == sorted(kept), "every version was scanned for once"
    run.broken.range.heartbeat(40)
    run.broken.run()
    assert run.broken.driven.checkpoints[RangeId(1)].resolved == at(40)
    key_0 = [timestamp_of(row) for row in run.broken.driven.rows if row.key == b"[0]"]
    assert key_0 == [at(8), *(at(20 + turn) for turn in range(1, 7))]


def test_what_a_scan_was_left_with_stays_to_be_scanned_for() -> None:
    """The keys that it came to are complete up to where that scan went, and no further."""
    run = _Restless()
    run.answer(PLAIN.key(50))
    run.split(20, 150, 2)
    run.answer()
    assert (run.scan.after, run.scan.upto) == (at(8), at(20))
    assert run.scan.span == Span(PLAIN.span.start, PLAIN.key(50))
    run.answer(PLAIN.key(20))
    run.split(30, 140, 3)
    asked = []
    for _ in range(3):
        asked.append((run.scan.span, run.scan.after))
        run.answer()
    assert asked == [
        (Span(PLAIN.key(20), PLAIN.key(50)), at(8)),
        (Span(PLAIN.span.start, PLAIN.key(20)), at(20)),
        (Span(PLAIN.key(50), PLAIN.key(140)), at(20)),
    ]


def test_a_range_that_merges_while_it_is_scanned_scans_the_keys_that_came_in_from_the_start() -> None:
    low, high = PLAIN.split(150)
    run = _Restless(low)
    left, right = run.broken.range, run.broken.log.open_range(2, high)
    run.answer(PLAIN.key(50))
    left.merge(right, close=9)
    run.broken.run()
    asked = []
    while run.waits:
        asked.append((run.scan.span, run.scan.after))
        run.answer()
    assert asked == [
        (high, FEED.start),
        (Span(PLAIN.key(50), high.start), at(6)),
        (Span(low.start, PLAIN.key(50)), at(8)),
    ]


def test_a_range_that_ends_while_it_is_scanned_keeps_nothing_of_the_scan() -> None:
    broken = Broken()
    broken.heal()
    broken.range.end()
    broken.run()
    key = encode_key(RangeId(1))
    state = read_range(key, broken.driven.state[StateTable.RANGES, key]).state
    assert (state.status, state.scan) == (RangeStatus.ENDED, None)


def test_a_merge_into_a_hole_scans_the_keys_that_came_in_from_the_start() -> None:
    """What was resolved before the hole says nothing of the keys that the range had not then; of its own it
    does."""
    log = HandLog(partitions=2)
    log.describe(PLAIN)
    low, high = PLAIN.split(100)
    left, right = log.open_range(2, low), log.open_range(3, high)
    left.apply(PLAIN.put(5, 50, "left"), close=6)
    right.apply(PLAIN.put(3, 150, "right"), close=3)
    log.write_bytes(0, encode_key(RangeId(2)), b"\xff\xff\xff")
    left.index += 1
    left.merge(right, close=7)
    run = Partitions(log)
    run.read(0)
    (scan,) = scans_in(run.driven[0])
    assert (scan.after, scan.upto, scan.span) == (FEED.start, at(5), high)


def test_a_range_that_was_merged_away_in_a_hole_is_quarantined_no_more() -> None:
    log = HandLog(partitions=2)
    log.describe(PLAIN)
    low, high = PLAIN.split(100)
    left, right = log.open_range(2, low), log.open_range(3, high)
    right.apply(PLAIN.put(3, 150, "right"), close=3)
    log.write_bytes(1, encode_key(RangeId(3)), b"\xff\xff\xff")
    shadow = HandLog(partitions=2)
    lost_end = HandRange(shadow, RangeId(3), high)
    lost_end.index, lost_end.high = right.index + 2, 5
    left.merge(lost_end, close=7)
    run = Partitions(log)
    run.settle()
    assert [len(driven.processor.status().quarantined) for driven in run.driven] == [0, 0]
    assert [(scan.span, scan.after) for scan in scans_in(run.driven[0])] == [(high, at(3))]
