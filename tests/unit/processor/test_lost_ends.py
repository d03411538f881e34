"""Splits and merges of ranges whose last entries are lost: who is waited for, and what is scanned for."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.feeds import WITH_MARKERS, activation
from tests.hand_log import HandLog, HandRange, at
from tests.unit.processor.driving import Driven
from tests.unit.processor.logs import OTHER, PLAIN
from tests.unit.processor.partitions import (
    FEED,
    MIDDLE,
    UPPER,
    Partitions,
    beats,
    row_of,
    scans_of,
    split_log,
)
from tidegate.changefeed.definition.options import InitialScan
from tidegate.changefeed.lifecycle.control import Activate
from tidegate.processor.moving.parking import HAND_OFF_LIMIT_MS
from tidegate.raftlog.encode import encode_key
from tidegate.raftlog.entry import (
    Entry,
    Offset,
    RaftIndex,
    RangeEnd,
    RangeId,
    Snapshot,
    SnapshotReason,
    Trigger,
)
from tidegate.raftlog.request import Scan
from tidegate.ranges.claim_answer import HEIRS_MAX
from tidegate.ranges.handoff import Claim
from tidegate.ranges.range_state import RangeStatus
from tidegate.spans import Span


@pytest.mark.parametrize("ahead_s", [0, 3_600], ids=["", "the child's clock is ahead"])
def test_a_child_whose_parent_has_lost_its_last_entries_scans_from_where_the_parent_is_complete(
    ahead_s: int,
) -> None:
    log = HandLog(2)
    log.describe(PLAIN)
    others = [log.open_range(1, OTHER.span), log.open_range(4, OTHER.span)]
    parent = log.open_range(2, PLAIN.span)
    parent.apply(PLAIN.put(5, 150, "parent"), close=6)
    parent.high = 8  # a version that is lost with the entries up to the split
    parent.index += 2
    lineage = parent.as_parent()
    child = HandRange(log, RangeId(3), Span(MIDDLE, PLAIN.span.end))
    child.generation = 2
    child.snapshot(reason=SnapshotReason.SPLIT, close=9 + ahead_s, high=8, parents=(lineage,))
    run = Partitions(log)
    run.settle()
    limit = HAND_OFF_LIMIT_MS // 1000
    for first, last in ((10, 20), (20, limit), (limit, limit + 200)):
        assert run.parked() == [(3, (2,))]
        beats(log, [*others, child], first, last)
        run.settle()
    (scan,) = scans_of(run, 1)
    assert (scan.range_id, scan.after, scan.upto) == (3, at(6), at(8))


class _LosesEnds(HandLog):
    """A log in which no RangeEnd arrives."""

    def write(self, entry: Entry, partition: int | None = None) -> None:
        if not isinstance(entry, RangeEnd):
            super().write(entry, partition)


def test_of_a_claim_that_comes_again_the_earliest_time_counts_that_it_has_told() -> None:
    run = Partitions(split_log())
    claim = Claim(RangeId(3), RangeId(2), RaftIndex(500), Span(MIDDLE, PLAIN.span.end))
    for told_ms, kept_ms in ((0, 0), (9_000, 9_000), (5_000, 5_000), (0, 5_000), (10**15, 5_000)):
        run.sent[0].append(replace(claim, told_ms=told_ms))
        run.exchange(0)
        state = run.driven[0].processor._state.ranges.table.states[RangeId(2)]
        assert [each.told_ms for each in state.claims] == [kept_ms]


class _Merged:
    """Range 1 took over range 2, whose end was lost, while nobody watched. Partition 2 has 2 and 5."""

    def __init__(self, *, breaks: bool = False, loses_last: bool = False) -> None:
        self.log = _LosesEnds(3)
        self.log.describe(PLAIN, OTHER)
        low, rest = PLAIN.split(100)
        self.left, self.right = self.log.open_range(1, low), self.log.open_range(2, Span(rest.start, UPPER))
        self.last = self.log.open_range(5, Span(UPPER, rest.end))
        self.left.apply(PLAIN.put(5, 1, "a"), close=6)
        self.right.apply(PLAIN.put(5, 150, "b"), close=6)
        if breaks:
            self.log.write_bytes(1, encode_key(RangeId(1)), b"\xff\xff")
            self.left.index += 1
        if loses_last:
            self.right.index += 1
        self.left.merge(self.right, close=7)
        self.left.apply(PLAIN.put(8, 150, "c"), close=9)
        self.run = Partitions(self.log, activation([OTHER.descriptor], feed_id="other"))
        self.run.settle()
        self.answered = 0

    def begin(self) -> Activate:
        """A feed with an initial scan begins."""
        options = replace(WITH_MARKERS, initial_scan=InitialScan.YES)
        late = activation([PLAIN.descriptor], options, start=at(9), feed_id="late")
        for driven in self.run.driven:
            driven.control(late)
        return late

    def go_on(self, seconds: int, upto: int) -> None:
        """Time passes, and the source answers for the ranges that it has."""
        rows = [row_of(5, 1, "a"), row_of(8, 150, "c")]
        for now in range(seconds, upto, 20):
            self.log.wait_for(at(now))
            self.left.heartbeat(now)
            self.last.heartbeat(now)
            scans = self.scans
            for scan in scans[self.answered :]:
                found = [
                    each for each in rows if scan.span.contains(each.key) and each.timestamp <= scan.upto
                ]
                if scan.range_id != self.right.id:
                    (self.left if scan.range_id == self.left.id else self.last).scanned(scan, *found)
            self.answered = len(scans)
            self.run.settle()

    @property
    def scans(self) -> list[Scan]:
        results = [result for driven in self.run.driven for result in driven.results]
        return [each for result in results for each in result.requests if isinstance(each, Scan)]

    @property
    def with_gaps(self) -> list[str]:
        return [
            str(each.feed_id) for driven in self.run.driven for each in driven.processor.status().with_gaps
        ]


@pytest.mark.parametrize("breaks", [False, True], ids=["heir is well", "heir comes out of a hole"])
def test_a_range_whose_end_is_lost_is_over_once_another_has_its_keys(breaks: bool) -> None:
    merged = _Merged(breaks=breaks)
    late = merged.begin()
    merged.go_on(20, 200)
    assert {scan.range_id for scan in merged.scans} == {1, 5}
    assert merged.with_gaps == []
    named = {
        item.range_id
        for driven in merged.run.driven
        for result in driven.results
        if result.checkpoint is not None
        if any(active.feed_id == late.feed_id for active in result.checkpoint.feeds)
        for item in result.checkpoint.ranges
    }
    assert named == {1, 5}


def test_a_range_whose_last_entries_are_lost_is_over_once_it_was_waited_for() -> None:
    merged = _Merged(loses_last=True)
    merged.begin()
    merged.go_on(20, 400)
    assert merged.with_gaps == ["late"]
    merged.go_on(400, 1_600)
    assert merged.with_gaps == []
    assert any("all of its keys since index" in cause for cause in merged.run.causes())


def test_waiting_for_the_last_entries_goes_on_over_restarts() -> None:
    merged = _Merged(loses_last=True)
    merged.begin()
    for now in range(20, 1_600, 400):
        merged.go_on(now, now + 400)
        restored = Driven.restored(merged.run.driven[2].state, 2, 3)
        restored.results = merged.run.driven[2].results
        merged.run.driven[2] = restored
    assert merged.with_gaps == []


class _Hidden:
    """Range 2 (partition 0) breaks, splits off range 4, and range 1 takes the rest over; its end is lost.

    Range 1's claim comes when range 2 is in its hole, and looks as if it were for a part of its keys.
    """

    def __init__(self, *, merges: bool = True, loses_last: bool = False) -> None:
        self.log = log = _LosesEnds(2)
        log.describe(PLAIN, OTHER)
        low, rest = PLAIN.split(100)
        self.others = [log.open_range(3, OTHER.span), log.open_range(6, OTHER.span)] if loses_last else []
        self.heir, self.parent = log.open_range(1, low), log.open_range(2, rest)
        self.heir.apply(PLAIN.put(5, 1, "a"), close=6)
        self.parent.apply(PLAIN.put(5, 150, "b"), close=6)
        log.write_bytes(0, encode_key(RangeId(2)), b"\xff\xff")
        self.parent.index += 1
        self.broken = len(log.partitions[0])
        self.child = self.parent.split(UPPER, 4 if merges else 3, close=7)
        if loses_last:
            self.parent.index += 2
        if merges:
            self.heir.merge(self.parent, close=8)
        if not loses_last:
            self.parent.snapshot(close=8, high=7)  # sent before the merge, it comes after its claim
        self.run = Partitions(log)
        self.run.read(0, self.broken)
        self.run.read(1)
        self.run.exchange(0)

    def status(self) -> RangeStatus:
        """Return what range 2 is good for."""
        return self.run.driven[0].processor._state.ranges.table.states[RangeId(2)].status

    def heirs(self) -> list[RangeId]:
        """Return whose claims range 2 remembers."""
        state = self.run.driven[0].processor._state.ranges.table.states[RangeId(2)]
        return [claim.child for claim in state.heirs]


@pytest.mark.parametrize("restarts", [False, True])
def test_a_claim_that_was_answered_out_of_a_hole_is_remembered_until_the_range_knows_its_keys(
    restarts: bool,
) -> None:
    hidden = _Hidden()
    assert (hidden.status(), hidden.heirs()) == (RangeStatus.QUARANTINED, [1])
    if restarts:
        hidden.run.restart(0)
    hidden.run.settle()
    assert (hidden.status(), hidden.heirs()) == (RangeStatus.ENDED, [])


def test_a_remembered_claim_is_waited_for_no_longer_than_others_when_the_last_entries_are_lost() -> None:
    hidden = _Hidden(loses_last=True)
    hidden.run.settle()
    limit = HAND_OFF_LIMIT_MS // 1000
    for first in range(10, 2 * limit, 100):
        if first < limit:
            assert (hidden.status(), hidden.heirs()) == (RangeStatus.LIVE, [1])
        beats(hidden.log, [*hidden.others, hidden.heir], first, first + 100)
        hidden.run.settle()
    assert (hidden.status(), hidden.heirs()) == (RangeStatus.ENDED, [])
    assert not [each for each in hidden.run.driven[0].processor.status().quarantined if each.range_id == 2]


def test_a_range_that_another_has_taken_over_ends_when_the_log_that_had_its_end_is_cut() -> None:
    """No record of it comes any more, so the cut itself has to end it."""
    hidden = _Hidden(loses_last=True)
    hidden.run.settle()
    assert (hidden.status(), hidden.heirs()) == (RangeStatus.LIVE, [1])
    driven = hidden.run.driven[0]
    driven.note(driven.processor.missing_below(Offset(len(hidden.log.partitions[0]) + 5)))
    assert (hidden.status(), hidden.heirs()) == (RangeStatus.ENDED, [])
    hidden.run.restart(0)
    assert (hidden.status(), hidden.heirs()) == (RangeStatus.ENDED, [])


class _LosesSnapshots(HandLog):
    """A log in which the Snapshot is lost with which range 2 goes on after its split."""

    def write(self, entry: Entry, partition: int | None = None) -> None:
        if not (isinstance(entry, Snapshot) and (entry.range_id, entry.generation) == (2, 2)):
            super().write(entry, partition)


def test_a_range_in_a_hole_is_not_given_up_whoever_has_claimed_keys_of_it() -> None:
    """It is not complete to where a claim says: its next Snapshot heals it."""
    log = _LosesSnapshots(2)
    log.describe(PLAIN, OTHER)
    _, rest = PLAIN.split(100)
    parent = log.open_range(2, rest)
    others = [log.open_range(3, OTHER.span), log.open_range(6, OTHER.span)]
    parent.apply(PLAIN.put(5, 150, "b"), close=6)
    log.write_bytes(0, encode_key(RangeId(2)), b"\xff\xff")
    parent.index += 1
    child = parent.split(UPPER, 5, close=7)
    run = Partitions(log)
    run.settle()
    state = run.driven[0].processor._state.ranges.table.states[RangeId(2)]
    limit = HAND_OFF_LIMIT_MS // 1000
    for first in range(10, 2 * limit, 100):
        assert (state.status, [claim.child for claim in state.heirs]) == (RangeStatus.QUARANTINED, [5])
        assert state.claimed_since_ms is None
        beats(log, [*others, child], first, first + 100)
        run.settle()


def test_a_range_that_goes_on_behind_a_claim_for_a_part_of_its_keys_forgets_it() -> None:
    hidden = _Hidden(merges=False)
    assert hidden.heirs() == [3]
    hidden.parent.apply(PLAIN.put(9, 110, "on"), close=10)
    hidden.run.settle()
    assert (hidden.status(), hidden.heirs()) == (RangeStatus.LIVE, [])
    assert hidden.run.rows()[0][-1] == at(9)


def test_only_the_last_claims_on_a_range_in_a_hole_are_remembered() -> None:
    hidden = _Hidden(merges=False)
    claims = [
        Claim(RangeId(101 + 2 * number), RangeId(2), RaftIndex(20 + number), Span(UPPER, PLAIN.span.end))
        for number in range(HEIRS_MAX + 3)
    ]
    hidden.run.sent[0] += claims
    hidden.run.exchange(0)
    assert hidden.heirs() == [claim.child for claim in claims[-HEIRS_MAX:]]


@pytest.mark.parametrize("breaks", [True, False], ids=["its parent broke", "its parent's end is lost"])
def test_a_range_that_was_merged_away_is_complete_up_to_where_its_log_was_followed(breaks: bool) -> None:
    """The store has removed versions up to 4 s. The feed begins before that, and misses nothing of them."""
    log = _LosesEnds(2)
    log.describe(PLAIN, OTHER)
    low, rest = PLAIN.split(100)
    others = [log.open_range(3, OTHER.span), log.open_range(6, OTHER.span)]
    heir, parent = log.open_range(1, low), log.open_range(2, rest)
    heir.apply(PLAIN.put(5, 1, "heir"), close=6)
    parent.apply(PLAIN.put(5, 150, "parent"), close=6)
    if breaks:
        log.write_bytes(0, encode_key(RangeId(2)), b"\xff\xff")
    parent.index += 1
    parents = (heir.as_parent()._replace(last_index=RaftIndex(heir.index + 1)), parent.as_parent())
    heir.apply(trigger=Trigger.MERGE, close=9)
    heir.span, heir.generation = PLAIN.span, 2
    heir.snapshot(reason=SnapshotReason.MERGE, close=9, high=8, gc=4, parents=parents)
    feed = activation([PLAIN.descriptor], start=at(0))
    run = Partitions(log, feed)
    run.settle()
    for first in range(10, 1_500, 100):
        if not scans_of(run, 1):
            beats(log, [*others, heir], first, first + 100)
            run.settle()
    (scan,) = scans_of(run, 1)
    assert (scan.range_id, scan.span, scan.after, scan.upto) == (1, rest, at(6), at(8))
    heir.scanned(scan, row_of(8, 150, "lost"))
    heir.heartbeat(2_000)
    run.settle()
    assert run.parked() == []
    assert run.rows()[1] == [at(5), at(8)]
    assert all(driven.processor.is_active(feed.feed_id) for driven in run.driven)


def test_keys_that_a_parent_came_to_have_in_its_hole_are_complete_to_nothing() -> None:
    """Range 2 takes 4 over where nobody can read it, and 1 takes 2 over: it speaks of what it had before."""
    log = HandLog(2)
    log.describe(PLAIN)
    low, rest = PLAIN.split(100)
    middle, last = Span(rest.start, UPPER), Span(UPPER, rest.end)
    heir, parent, lost = log.open_range(1, low), log.open_range(2, middle), log.open_range(4, last)
    parent.apply(PLAIN.put(5, 150, "parent"), close=6)
    lost.apply(PLAIN.put(7, 250, "lost"), close=6)
    log.write_bytes(0, encode_key(RangeId(2)), b"\xff\xff")
    parent.index, parent.generation, parent.span, parent.high = parent.index + 1, 2, rest, 7
    parents = (heir.as_parent()._replace(last_index=RaftIndex(heir.index + 1)), parent.as_parent())
    heir.apply(trigger=Trigger.MERGE, close=9)
    heir.span, heir.generation = PLAIN.span, 3
    heir.snapshot(reason=SnapshotReason.MERGE, close=9, high=8, parents=parents)
    run = Partitions(log)
    run.settle()
    (first,) = scans_of(run, 1)
    assert (first.span, first.after) == (last, FEED.start)
    heir.scanned(first, row_of(7, 250, "lost"))
    run.read(1)
    (_, second) = scans_of(run, 1)
    assert (second.span, second.after) == (middle, at(6))


class _LosesMerges(HandLog):
    """A log in which no Snapshot behind a merge arrives."""

    def write(self, entry: Entry, partition: int | None = None) -> None:
        if not (isinstance(entry, Snapshot) and entry.reason is SnapshotReason.MERGE):
            super().write(entry, partition)


def test_a_periodic_snapshot_does_not_stand_for_the_one_of_a_merge_that_is_lost() -> None:
    """It says nothing of parents, so nobody is waited for: what range 2 wrote has to be scanned for."""
    log = _LosesMerges(2)
    log.describe(PLAIN)
    low, high = PLAIN.split(100)
    left, right = log.open_range(1, low), log.open_range(2, high)
    left.apply(PLAIN.put(5, 1, "left"), close=6)
    right.apply(PLAIN.put(8, 150, "right"), close=6)
    left.merge(right, close=9)
    left.snapshot(close=12, high=8)
    run = Partitions(log)
    run.read(1)
    assert run.resolved(1) is None or run.resolved(1) == at(0)
    (scan,) = scans_of(run, 1)
    assert (scan.range_id, scan.span, scan.after, scan.upto) == (1, high, FEED.start, at(8))
    left.scanned(scan, row_of(8, 150, "right"))
    run.settle()
    assert run.resolved(1) == at(12)
    assert at(8) in run.rows()[1]
