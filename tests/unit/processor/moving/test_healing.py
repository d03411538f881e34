"""Holes end: the next snapshot and a scan bring back what was missed, in order, and markers go on."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.feeds import activation
from tests.hand_log import HandLog, HandRange, at
from tests.unit.processor.driving import Driven, active, timestamp_of
from tests.unit.processor.logs import OTHER, PLAIN
from tests.unit.processor.table.test_quarantine import BREAKAGES, Breakage
from tests.unit.processor.test_hand_off import Partitions
from tidegate.changefeed.definition.feed import FeedId
from tidegate.changefeed.definition.options import Envelope
from tidegate.changefeed.lifecycle.control import Remove
from tidegate.hlc import ZERO
from tidegate.processor.batch import StateTable
from tidegate.processor.state.state_codec import read_range
from tidegate.raftlog.encode import encode_key
from tidegate.raftlog.entry import KeyValue, Offset, RangeId
from tidegate.raftlog.request import Scan
from tidegate.ranges.range_state import RangeStatus
from tidegate.ranges.scan import SCAN_REPEAT_MS
from tidegate.spans import Span

_FEED = activation([PLAIN.descriptor])
_MIDDLE = PLAIN.key(100)


def _row(seconds: float, number: int, text: str) -> KeyValue:
    key, value = PLAIN.pair(number, text)
    return KeyValue(key, at(seconds), value)


def _scans(driven: Driven) -> list[Scan]:
    requests = (request for result in driven.results for request in result.requests)
    return [request for request in requests if isinstance(request, Scan)]


class _Broken:
    """A range that breaks behind its row of second 5, closed up to 6, and misses one of second 8."""

    def __init__(self, breakage: Breakage | None = None, span: Span = PLAIN.span) -> None:
        self.log = HandLog(partitions=1)
        self.log.describe(PLAIN)
        self.range = self.log.open_range(1, span)
        self.range.apply(PLAIN.put(5, 1, "before"), close=6)
        if breakage is None:
            self.log.write_bytes(0, encode_key(RangeId(1)), b"\xff\xff\xff")
            self.range.index += 1
        else:
            breakage(self.log, self.range)
        self.driven = active(_FEED)

    def run(self, batch: int = 10_000) -> None:
        start = int(self.driven.processor.next_offset or 0)
        self.driven.run(self.log.partitions[0][start:], batch)
        while self.driven.processor.ready:
            self.driven.step(())

    def heal(self) -> Scan:
        """Write the snapshot that heals, and return what is asked for then."""
        self.range.snapshot(close=9, high=8)
        self.range.apply(PLAIN.put(10, 1, "after"), close=9)
        self.run()
        return _scans(self.driven)[-1]

    def beat_at(self, seconds: float) -> None:
        """Let so much time have passed, and the source go on as it does."""
        self.log.wait_for(at(seconds))
        self.range.heartbeat(seconds)
        self.run()

    @property
    def times(self) -> list[object]:
        return list(map(timestamp_of, self.driven.rows))

    @property
    def quarantined(self) -> bool:
        return bool(self.driven.processor.status().quarantined)


@pytest.mark.parametrize("batch", [1, 2, 99])
@pytest.mark.parametrize("what", sorted(BREAKAGES.keys() - {"raft snapshot"}))
def test_every_kind_of_hole_is_healed(what: str, batch: int) -> None:
    low, _ = PLAIN.split(100)
    broken = _Broken(BREAKAGES[what][0], low)
    broken.range.snapshot(close=9, high=8)
    broken.range.apply(PLAIN.put(10, 1, "after"), close=9)
    broken.run(batch)
    assert broken.times == [at(5)]
    scan = _scans(broken.driven)[-1]
    assert (scan.after, scan.upto, scan.span, scan.all_versions) == (at(6), at(8), low, True)
    broken.range.scanned(scan, _row(8, 1, "missed"))
    broken.range.heartbeat(12)
    broken.run(batch)
    assert broken.times == [at(5), at(8), at(10)]
    assert not broken.quarantined
    assert broken.driven.checkpoints[RangeId(1)].resolved == at(12)


def test_a_raft_snapshot_begins_the_healing_of_what_it_skipped() -> None:
    broken = _Broken(BREAKAGES["raft snapshot"][0])
    broken.range.apply(PLAIN.put(10, 1, "after"), close=9)
    broken.run()
    (scan,) = _scans(broken.driven)
    assert (scan.after, scan.upto) == (at(6), at(7))
    broken.range.scanned(scan, _row(7, 1, "missed"))
    broken.run()
    assert broken.times == [at(5), at(7), at(10)]


def test_no_checkpoint_rises_before_the_scan_is_done() -> None:
    broken = _Broken()
    scan = broken.heal()
    low = Span(PLAIN.span.start, _MIDDLE)
    broken.range.scanned(scan, _row(8, 1, "missed"), span=low, last=False)
    broken.range.heartbeat(12)
    broken.run()
    assert broken.times == [at(5), at(8)]
    assert broken.driven.checkpoints[RangeId(1)].resolved == at(6)
    broken.range.scanned(scan, _row(7, 100, "missed too"), span=Span(_MIDDLE, PLAIN.span.end))
    broken.run()
    assert broken.times == [at(5), at(8), at(7), at(10)]
    assert broken.driven.checkpoints[RangeId(1)].resolved == at(12)


def test_chunks_out_of_order_are_asked_for_again() -> None:
    broken = _Broken()
    scan = broken.heal()
    broken.range.scanned(scan, _row(7, 100, "missed too"), span=Span(_MIDDLE, PLAIN.span.end))
    broken.run()
    again = _scans(broken.driven)[-1]
    assert again.request_id != scan.request_id
    assert again.span == PLAIN.span
    assert broken.times == [at(5)]
    broken.range.scanned(again, _row(8, 1, "missed"), _row(7, 100, "missed too"))
    broken.run()
    assert broken.times == [at(5), at(8), at(7), at(10)]


def test_a_last_chunk_that_ends_too_early_has_the_rest_asked_for() -> None:
    broken = _Broken()
    scan = broken.heal()
    broken.range.scanned(scan, _row(8, 1, "missed"), span=Span(PLAIN.span.start, _MIDDLE))
    broken.run()
    rest = _scans(broken.driven)[-1]
    assert rest.span == Span(_MIDDLE, PLAIN.span.end)
    broken.range.scanned(rest)
    broken.run()
    assert broken.times == [at(5), at(8), at(10)]
    assert not broken.quarantined


def test_a_chunk_twice_brings_its_rows_once() -> None:
    broken = _Broken()
    scan = broken.heal()
    low = Span(PLAIN.span.start, _MIDDLE)
    for _ in range(2):
        broken.range.scanned(scan, _row(8, 1, "missed"), span=low, last=False)
    broken.run()
    assert broken.times == [at(5), at(8)]


def test_a_scan_without_an_answer_is_asked_for_again() -> None:
    broken = _Broken()
    scan = broken.heal()
    broken.range.heartbeat(10)
    broken.run()
    broken.beat_at(10 + SCAN_REPEAT_MS / 1000 - 1)
    assert _scans(broken.driven) == [scan]
    broken.beat_at(10 + SCAN_REPEAT_MS / 1000 + 1)
    again = _scans(broken.driven)[-1]
    assert again == scan._replace(request_id=again.request_id)
    assert again.request_id != scan.request_id


def test_an_answer_to_an_earlier_request_counts_however_late_it_comes() -> None:
    broken = _Broken()
    scan = broken.heal()
    for minutes in (1, 2, 3):
        broken.beat_at(60 * minutes)
    assert len(_scans(broken.driven)) > 2
    broken.range.scanned(scan, _row(8, 1, "missed"))
    broken.run()
    assert broken.times == [at(5), at(8), at(10)]


def test_an_answer_to_another_scan_does_not_count() -> None:
    broken = _Broken()
    scan = broken.heal()
    broken.range.scanned(scan._replace(request_id=scan.request_id + 1), _row(8, 1, "of another"))
    broken.range.scanned(scan._replace(after=at(7)), _row(8, 1, "of a later one"))
    broken.run()
    assert broken.times == [at(5)]


def test_what_the_store_removes_while_it_is_scanned_for_fails_the_feeds_that_miss_it() -> None:
    broken = _Broken()
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
    child = HandRange(log, RangeId(3), Span(_MIDDLE, PLAIN.span.end))
    child.generation = 2
    child.snapshot(close=9, high=8, gc=7, parents=(parent.as_parent(),))
    run = Partitions(log)
    run.read(1)
    run.read(0)
    run.exchange(0)
    exchanged = len(run.driven[1].results)
    run.exchange(1)
    result = run.driven[1].results[exchanged]
    assert [ack.feed_id for ack in result.acks] == [_FEED.feed_id]


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
    (scan, *_) = _scans(run.driven[0])
    assert (scan.span, scan.after) == (high, at(3))
    left.scanned(scan, _row(5, 150, "lost"))
    run.settle()
    assert run.parked() == []
    assert run.rows() == {0: [at(5)], 1: [at(3)]}


def test_a_range_that_falls_silent_while_it_waits_is_left() -> None:
    """Its end was not seen; nobody shall read the log again from where it stands, for ever."""
    broken = _Broken()
    broken.heal()
    other = broken.log.open_range(9, OTHER.span)
    for seconds in range(15, 1_200, 5):
        broken.log.wait_for(at(seconds))
        other.heartbeat(seconds)
    broken.run(1)
    asked = len(_scans(broken.driven))
    assert broken.driven.processor.status().parked == ()
    restored = Driven.restored(broken.driven.state).processor
    assert restored.next_offset == broken.driven.processor.next_offset == len(broken.log.partitions[0])
    broken.run()
    assert len(_scans(broken.driven)) == asked
    scan = broken.heal()
    broken.range.scanned(scan, _row(8, 1, "missed"))
    broken.run()
    assert broken.times == [at(5), at(8), at(10)]


@pytest.mark.parametrize("seconds", [6, 9])
def test_an_answer_with_a_row_that_was_not_asked_for_is_refused(seconds: int) -> None:
    """Its time may be wrong, and the row one that is missing."""
    broken = _Broken()
    scan = broken.heal()
    broken.range.scanned(scan, _row(seconds, 2, "not asked for"), _row(8, 1, "missed"))
    broken.run()
    assert broken.times == [at(5)]
    assert any("as was asked" in cause for cause in broken.driven.causes)


def test_rows_of_a_scan_come_out_in_the_order_of_their_timestamps() -> None:
    broken = _Broken()
    scan = broken.heal()
    broken.range.scanned(scan, _row(8, 1, "second"), _row(7, 1, "first"))
    broken.run()
    assert broken.times == [at(5), at(7), at(8), at(10)]


def test_what_no_feed_misses_is_not_scanned() -> None:
    broken = _Broken()
    broken.driven = active(replace(_FEED, start=at(8)))
    broken.range.snapshot(close=9, high=8)
    broken.range.apply(PLAIN.put(10, 1, "after"), close=9)
    broken.run()
    assert _scans(broken.driven) == []
    assert broken.times == [at(10)]
    assert not broken.quarantined


def test_a_hole_in_which_nothing_was_written_loses_nothing_whatever_the_store_has_removed() -> None:
    broken = _Broken()
    broken.range.snapshot(close=90, high=5, gc=50)
    broken.range.heartbeat(95)
    broken.run()
    assert _scans(broken.driven) == []
    assert broken.driven.causes == broken.driven.causes[:1], "the feed goes on"
    assert broken.driven.checkpoints[RangeId(1)].resolved == at(95)


def test_a_hole_whose_versions_the_store_has_removed_fails_the_feeds_that_miss_them() -> None:
    broken = _Broken()
    broken.driven.control(activation([PLAIN.descriptor], start=at(50), feed_id="later"))
    broken.range.snapshot(close=90, high=80, gc=50)
    broken.run()
    (scan,) = _scans(broken.driven)
    assert scan.after == at(50)
    _, cause = broken.driven.causes
    assert "feed feed failed" in cause
    assert f"above {at(6)}" in cause
    assert f"GC threshold {at(50)}" in cause


def test_a_feed_that_shows_previous_values_has_them_scanned_too() -> None:
    options = replace(_FEED.definition.options, diff=True, envelope=Envelope.WRAPPED)
    broken = _Broken()
    broken.driven = active(activation([PLAIN.descriptor], options, start=at(5)))
    assert broken.heal().with_prev


@pytest.mark.parametrize("chunks", [1, 2])
@pytest.mark.parametrize("restarts", range(5))
def test_a_restart_at_any_place_goes_on_with_the_scan(restarts: int, chunks: int) -> None:
    broken = _Broken()
    scan = broken.heal()
    spans = [PLAIN.span] if chunks == 1 else [Span(PLAIN.span.start, _MIDDLE), Span(_MIDDLE, PLAIN.span.end)]
    rows = [_row(8, 1, "missed"), _row(7, 100, "missed too")]
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
    assert [request.request_id for request in _scans(restored)] == [scan.request_id]


def test_a_hole_that_hides_a_split_is_healed_on_both_sides() -> None:
    log = HandLog(partitions=2)
    log.describe(PLAIN)
    parent = log.open_range(2, PLAIN.span)
    parent.apply(PLAIN.put(5, 150, "before"), close=6)
    shadow = HandLog(partitions=2)
    hidden = HandRange(shadow, RangeId(2), PLAIN.span)
    hidden.index, hidden.high = parent.index, parent.high
    hidden.apply(PLAIN.put(8, 150, "lost"), PLAIN.put(8, 50, "lost"))
    hidden.split(_MIDDLE, 3, close=9)
    child = HandRange(log, RangeId(3), Span(_MIDDLE, PLAIN.span.end))
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
    scans = {scan.range_id: scan for driven in run.driven for scan in _scans(driven)}
    assert {number: (scan.after, scan.span) for number, scan in scans.items()} == {
        2: (at(6), parent.span),
        3: (at(6), child.span),
    }
    parent.scanned(scans[RangeId(2)], _row(8, 50, "lost"))
    child.scanned(scans[RangeId(3)], _row(8, 150, "lost"))
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
    child = parent.split(_MIDDLE, 3, close=11)
    child.apply(PLAIN.put(12, 150, "child"), close=12)
    run.settle()
    first, second = _scans(run.driven[0])
    (third,) = _scans(run.driven[1])
    assert (first.span, second.span, second.upto) == (PLAIN.span, parent.span, at(10))
    assert (third.after, third.upto) == (at(6), at(10))
    parent.scanned(first, _row(8, 1, "for the first"))
    parent.scanned(second, _row(8, 50, "missed"))
    child.scanned(third, _row(8, 150, "missed"), _row(10, 150, "after"))
    parent.heartbeat(12)
    run.settle()
    assert run.rows() == {0: [at(5), at(8)], 1: [at(8), at(10), at(12)]}
    assert (run.resolved(2), run.resolved(3)) == (at(12), at(12))


class _Restless:
    """A broken range with a version at every tenth key, of which a scan brings only a piece at a time."""

    def __init__(self, span: Span = PLAIN.span) -> None:
        self.broken = _Broken(span=span)
        self.history = [_row(8, number, "missed") for number in range(0, 200, 10)]
        self.scanned: list[KeyValue] = []
        self.broken.heal()

    @property
    def scan(self) -> Scan:
        """What the range last asked for."""
        return [scan for scan in _scans(self.broken.driven) if scan.range_id == RangeId(1)][-1]

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
        self.history.append(_row(second, 0, "anew"))
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
        (high, _FEED.start),
        (Span(PLAIN.key(50), high.start), at(6)),
        (Span(low.start, PLAIN.key(50)), at(8)),
    ]


def test_a_range_that_ends_while_it_is_scanned_keeps_nothing_of_the_scan() -> None:
    broken = _Broken()
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
    (scan,) = _scans(run.driven[0])
    assert (scan.after, scan.upto, scan.span) == (_FEED.start, at(5), high)


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
    assert [(scan.span, scan.after) for scan in _scans(run.driven[0])] == [(high, at(3))]


def test_a_cut_log_is_healed_by_the_next_snapshots() -> None:
    broken = _Broken(lambda log, broken: None)
    broken.run()
    next_offset = broken.driven.processor.next_offset
    assert next_offset is not None
    for _ in range(3):
        broken.range.heartbeat(6)
    broken.driven.note(broken.driven.processor.missing_below(Offset(next_offset + 3)))
    assert broken.quarantined
    broken.range.index += 2
    scan = broken.heal()
    broken.range.scanned(scan, _row(8, 1, "missed"))
    broken.run()
    assert broken.times == [at(5), at(8), at(10)]


def test_a_range_waits_no_more_for_a_feed_that_is_gone() -> None:
    other = replace(_FEED, start=at(8), definition=replace(_FEED.definition, id=FeedId("late")))
    broken = _Broken()
    broken.driven.control(other)
    broken.heal()
    assert [range_.range_id for range_ in broken.driven.processor.status().parked] == [1]
    broken.driven.control(Remove(_FEED.feed_id, _FEED.definition.epoch))
    broken.driven.step(())
    broken.run()
    assert broken.driven.processor.status().parked == ()
    assert not broken.quarantined
    assert timestamp_of(broken.driven.rows[-1]) == at(10)
