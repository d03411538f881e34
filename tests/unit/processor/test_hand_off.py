"""Splits and merges: a key's rows come out in order, and no checkpoint covers a row that was not written."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import permutations

import pytest

from tests.feeds import WITH_MARKERS, activation
from tests.hand_log import HandLog, HandRange, at, intent, txn
from tests.unit.processor.driving import Driven, range_of, rows_of, timestamp_of
from tests.unit.processor.logs import OTHER, PLAIN
from tidegate.changefeed.definition.options import InitialScan
from tidegate.changefeed.lifecycle.control import Activate, ControlMessage, Remove
from tidegate.hlc import Timestamp
from tidegate.processor import log_step
from tidegate.processor.batch import ExchangeRecord, OutputRecord
from tidegate.processor.config import ProcessorConfig
from tidegate.processor.moving.parking import HAND_OFF_LIMIT_MS
from tidegate.processor.processor import PartitionProcessor
from tidegate.raftlog.encode import encode_key, partition_of
from tidegate.raftlog.entry import (
    Entry,
    KeyValue,
    Offset,
    OpenIntent,
    RaftIndex,
    RangeEnd,
    RangeId,
    Snapshot,
    SnapshotReason,
    Trigger,
)
from tidegate.raftlog.request import Scan
from tidegate.ranges.claim_answer import HEIRS_MAX
from tidegate.ranges.handoff import Claim, Exchange, HandOff, receiver_of
from tidegate.ranges.range_state import RangeStatus
from tidegate.spans import Span

_FEED = activation([PLAIN.descriptor])
_MIDDLE, _UPPER = PLAIN.key(100), PLAIN.key(200)


class Partitions:
    """Processors of all partitions of a log, one feed, and the hand-off topic between them."""

    def __init__(self, log: HandLog, feed: Activate = _FEED) -> None:
        self.log = log
        count = len(log.partitions)
        self.driven = [Driven(PartitionProcessor(number, count)) for number in range(count)]
        for driven in self.driven:
            driven.control(feed)
        self.sent: list[list[Exchange]] = [[] for _ in range(count)]
        self.emitted: list[OutputRecord] = []

    def read(self, number: int, upto: int | None = None, batch: int = 10_000) -> None:
        """Step what partition ``number`` has not read, up to an offset."""
        driven = self.driven[number]
        start = int(driven.processor.next_offset or 0)
        records = self.log.partitions[number][start:upto]
        for result in driven.run(records, batch):
            self._note(number, result.exchanges)
        self._go_on(number)

    def exchange(self, number: int) -> None:
        """Give partition ``number`` everything that the hand-off topic has for it."""
        driven = self.driven[number]
        first = int(driven.processor.next_hand_off)
        records = [
            ExchangeRecord(Offset(offset), message)
            for offset, message in enumerate(self.sent[number])
            if offset >= first
        ]
        self._note(number, driven.note(driven.processor.exchange(records)).exchanges)
        self._go_on(number)

    def settle(self) -> None:
        """Read everything, and pass everything on, until nothing moves."""
        for number in range(len(self.driven)):
            self.read(number)
        for _ in range(8):
            for number in range(len(self.driven)):
                self.exchange(number)

    def restart(self, number: int) -> None:
        """A new owner begins with what was committed."""
        state = self.driven[number].state
        results = self.driven[number].results
        self.driven[number] = Driven.restored(state, number, len(self.driven))
        self.driven[number].results = results

    def _go_on(self, number: int) -> None:
        while self.driven[number].processor.ready:
            self._note(number, self.driven[number].step(()).exchanges)

    def _note(self, number: int, messages: Sequence[Exchange]) -> None:
        for message in messages:
            self.sent[partition_of(receiver_of(message), len(self.driven))].append(message)

    def rows(self) -> dict[int, list[Timestamp]]:
        """The timestamps that each partition emitted, in order."""
        return {number: list(map(timestamp_of, driven.rows)) for number, driven in enumerate(self.driven)}

    def causes(self) -> list[str]:
        """What operators would have read."""
        return [cause for driven in self.driven for cause in driven.causes]

    def resolved(self, range_id: int) -> Timestamp | None:
        """The last checkpoint of a range."""
        found = [
            driven.checkpoints[RangeId(range_id)].resolved
            for driven in self.driven
            if RangeId(range_id) in driven.checkpoints
        ]
        return max(found, default=None)

    def parked(self) -> list[tuple[int, tuple[RangeId, ...]]]:
        """The ranges that wait, and for whom."""
        return [
            (item.range_id, item.parents)
            for driven in self.driven
            for item in driven.processor.status().parked
        ]


def _split_log(partitions: int = 2) -> HandLog:
    """Range 2 (partition 0) splits off range 3 (partition 1), which writes a key that its parent wrote."""
    log = HandLog(partitions)
    log.describe(PLAIN)
    parent = log.open_range(2, PLAIN.span)
    parent.apply(PLAIN.put(5, 150, "parent"), close=4)
    child = parent.split(_MIDDLE, 3, close=6)
    child.apply(PLAIN.put(8, 150, "child"), close=7)
    parent.apply(PLAIN.put(9, 50, "parent"), close=8)
    return log


@pytest.mark.parametrize("batch", [1, 2, 99])
def test_a_child_emits_nothing_before_its_parent_has_handed_off(batch: int) -> None:
    run = Partitions(_split_log())
    run.read(1, batch=batch)
    assert run.rows() == {0: [], 1: []}
    assert run.parked() == [(3, (2,))]
    assert run.resolved(3) is None
    run.read(0, batch=batch)
    assert run.rows()[1] == []
    run.settle()
    assert run.rows() == {0: [at(5), at(9)], 1: [at(8)]}
    assert (run.resolved(2), run.resolved(3)) == (at(8), at(7))
    assert run.parked() == []
    assert run.causes() == []


def test_the_claim_may_come_before_or_after_the_parents_trigger() -> None:
    for order in ((0, 1), (1, 0)):
        run = Partitions(_split_log())
        for number in order:
            run.read(number)
        run.settle()
        assert run.rows() == {0: [at(5), at(9)], 1: [at(8)]}


@pytest.mark.parametrize("batch", [1, 3, 99])
def test_ranges_of_one_partition_hand_off_within_the_step(batch: int) -> None:
    run = Partitions(_split_log(1))
    run.read(0, batch=batch)
    assert sorted(run.rows()[0]) == [at(5), at(8), at(9)]
    assert run.sent == [[]]
    assert run.parked() == []


def test_a_child_whose_snapshot_stands_before_the_trigger_waits_in_its_own_partition_too() -> None:
    log = HandLog(1)
    log.describe(PLAIN)
    parent = log.open_range(2, PLAIN.span)
    parent.apply(PLAIN.put(5, 150, "parent"), close=4)
    early = HandLog(1)
    early.describe(PLAIN)
    begun = early.open_range(2, PLAIN.span)
    begun.apply(PLAIN.put(5, 150, "parent"), close=4)
    child = begun.split(_MIDDLE, 3, close=6)
    child.apply(PLAIN.put(8, 150, "child"), close=7)
    *head, trigger, left, born, write = early.partitions[0]
    order = [*head[:-1], born, write, head[-1], trigger, left]
    records = [record._replace(offset=offset) for offset, record in enumerate(order)]
    driven = Driven(PartitionProcessor(0, 1))
    driven.control(_FEED)
    driven.run(records, 1)
    assert list(map(timestamp_of, driven.rows)) == [at(5), at(8)]
    assert driven.processor.status().parked == ()


def _chain_log() -> HandLog:
    """2 splits off 3, 3 splits off 4, and 3 takes 4 back, each in a partition of its own."""
    log = HandLog(3)
    log.describe(PLAIN)
    first = log.open_range(2, PLAIN.span)
    first.apply(PLAIN.put(1, 250, "first"), close=1)
    second = first.split(_MIDDLE, 3, close=2)
    second.apply(PLAIN.put(3, 250, "second"), close=2)
    third = second.split(_UPPER, 4, close=4)
    third.apply(PLAIN.put(5, 250, "third"), close=4)
    second.merge(third, close=6)
    second.apply(PLAIN.put(7, 250, "merged"), close=7)
    return log


@pytest.mark.parametrize("order", list(permutations(range(3))))
@pytest.mark.parametrize("batch", [1, 99])
def test_a_chain_of_splits_and_merges_keeps_the_order_of_a_key(order: Sequence[int], batch: int) -> None:
    run = Partitions(_chain_log())
    for number in order:
        run.read(number, batch=batch)
    seen = [timestamp for _, timestamp in _in_time(run)]
    assert seen == sorted(seen)
    run.settle()
    assert [timestamp for _, timestamp in _in_time(run)] == [at(1), at(3), at(5), at(7)]
    assert run.resolved(3) == at(7)
    assert run.causes() == []


def _in_time(run: Partitions) -> Iterator[tuple[int, Timestamp]]:
    """Rows of all partitions by their timestamps: of one key, whose versions rise with each hand-off."""
    rows = [(range_of(row), timestamp_of(row)) for driven in run.driven for row in driven.rows]
    return iter(sorted(rows, key=lambda row: row[1]))


@pytest.mark.parametrize("cut", range(1, 8))
@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_a_restart_at_any_place_loses_nothing(cut: int, order: Sequence[int]) -> None:
    run = Partitions(_split_log())
    for number in order:
        run.read(number, upto=cut)
        run.restart(number)
    for number in order:
        run.exchange(number)
        run.restart(number)
        run.read(number, batch=1)
        run.restart(number)
    run.settle()
    assert {timestamp for rows in run.rows().values() for timestamp in rows} == {at(5), at(8), at(9)}
    assert (run.resolved(2), run.resolved(3)) == (at(8), at(7))
    assert run.causes() == []


def test_a_parked_range_is_read_again_from_its_snapshot() -> None:
    run = Partitions(_split_log())
    run.read(1)
    before = run.driven[1].processor.next_offset
    run.restart(1)
    after = run.driven[1].processor.next_offset
    assert before is not None
    assert after is not None
    assert after < before
    run.read(1)
    assert run.parked() == [(3, (2,))]


def test_nobody_waits_for_rows_that_no_feed_wants() -> None:
    late = activation([PLAIN.descriptor], start=at(6))
    run = Partitions(_split_log(), late)
    run.read(1)
    assert run.rows()[1] == [at(8)]
    assert run.parked() == []
    assert [type(message) for message in run.sent[0]] == [Claim]  # its parent may not learn of it otherwise


def _child_of(log: HandLog) -> HandRange:
    """Range 3 as `_split_log` leaves it."""
    child = HandRange(log, RangeId(3), Span(_MIDDLE, PLAIN.span.end))
    child.generation, child.index = 2, child.index + 1
    return child


def _scans_of(run: Partitions, number: int) -> list[Scan]:
    requests = [request for result in run.driven[number].results for request in result.requests]
    return [request for request in requests if isinstance(request, Scan)]


def beats(log: HandLog, ranges: Sequence[HandRange], first: int, last: int) -> None:
    """These ranges say every few seconds that time passes."""
    for seconds in range(first, last, 5):
        log.wait_for(at(seconds))
        for range_ in ranges:
            range_.heartbeat(seconds)


def test_a_parent_is_waited_for_as_long_as_its_partition_was_not_read() -> None:
    """However long that is: how far another partition is nobody here can know."""
    log = _split_log()
    child = _child_of(log)
    other = log.open_range(1, OTHER.span)
    run = Partitions(log)
    run.read(1)
    beats(log, [child, other], 10, 10 + 5 * HAND_OFF_LIMIT_MS // 1000)
    run.read(1, batch=10)
    assert _scans_of(run, 1) == []
    assert run.parked() == [(3, (2,))]
    assert len(run.sent[0]) == 1 + 5, "it claims again every ten minutes"
    run.settle()
    assert run.parked() == []
    assert run.rows() == {0: [at(5), at(9)], 1: [at(8)]}


@pytest.mark.parametrize("batch", [1, 10_000])
def test_a_parent_that_its_partition_does_not_come_to_is_scanned_for_in_the_end(batch: int) -> None:
    """The log of partition 0 has lost its beginning; it is read long after partition 1."""
    log = _split_log()
    others = [log.open_range(1, OTHER.span), log.open_range(4, OTHER.span), _child_of(log)]
    cut = len(log.partitions[0]) - 1
    beats(log, others, 10, 30 + 2 * HAND_OFF_LIMIT_MS // 1000)
    run = Partitions(log)
    run.read(1)
    run.driven[0].note(run.driven[0].processor.missing_below(Offset(cut)))
    run.exchange(0)
    middle = cut + (len(log.partitions[0]) - cut) // 3
    run.read(0, middle, batch)
    run.exchange(1)
    assert _scans_of(run, 1) == []
    run.read(0, batch=batch)
    run.exchange(1)
    run.read(1)
    (scan,) = _scans_of(run, 1)
    assert (scan.range_id, scan.upto, scan.after) == (3, at(5), _FEED.start)


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
    child = HandRange(log, RangeId(3), Span(_MIDDLE, PLAIN.span.end))
    child.generation = 2
    child.snapshot(reason=SnapshotReason.SPLIT, close=9 + ahead_s, high=8, parents=(lineage,))
    run = Partitions(log)
    run.settle()
    limit = HAND_OFF_LIMIT_MS // 1000
    for first, last in ((10, 20), (20, limit), (limit, limit + 200)):
        assert run.parked() == [(3, (2,))]
        beats(log, [*others, child], first, last)
        run.settle()
    (scan,) = _scans_of(run, 1)
    assert (scan.range_id, scan.after, scan.upto) == (3, at(6), at(8))


def _row(seconds: float, number: int, text: str) -> KeyValue:
    key, value = PLAIN.pair(number, text)
    return KeyValue(key, at(seconds), value)


class _LosesEnds(HandLog):
    """A log in which no RangeEnd arrives."""

    def write(self, entry: Entry, partition: int | None = None) -> None:
        if not isinstance(entry, RangeEnd):
            super().write(entry, partition)


def test_of_a_claim_that_comes_again_the_earliest_time_counts_that_it_has_told() -> None:
    run = Partitions(_split_log())
    claim = Claim(RangeId(3), RangeId(2), RaftIndex(500), Span(_MIDDLE, PLAIN.span.end))
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
        self.left, self.right = self.log.open_range(1, low), self.log.open_range(2, Span(rest.start, _UPPER))
        self.last = self.log.open_range(5, Span(_UPPER, rest.end))
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
        rows = [_row(5, 1, "a"), _row(8, 150, "c")]
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
    def lagging(self) -> list[str]:
        return [str(each.feed_id) for driven in self.run.driven for each in driven.processor.status().lagging]


@pytest.mark.parametrize("breaks", [False, True], ids=["heir is well", "heir comes out of a hole"])
def test_a_range_whose_end_is_lost_is_over_once_another_has_its_keys(breaks: bool) -> None:
    merged = _Merged(breaks=breaks)
    late = merged.begin()
    merged.go_on(20, 200)
    assert {scan.range_id for scan in merged.scans} == {1, 5}
    assert merged.lagging == []
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
    assert merged.lagging == ["late"]
    merged.go_on(400, 1_600)
    assert merged.lagging == []
    assert any("all of its keys since index" in cause for cause in merged.run.causes())


def test_waiting_for_the_last_entries_goes_on_over_restarts() -> None:
    merged = _Merged(loses_last=True)
    merged.begin()
    for now in range(20, 1_600, 400):
        merged.go_on(now, now + 400)
        restored = Driven.restored(merged.run.driven[2].state, 2, 3)
        restored.results = merged.run.driven[2].results
        merged.run.driven[2] = restored
    assert merged.lagging == []


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
        self.child = self.parent.split(_UPPER, 4 if merges else 3, close=7)
        if loses_last:
            self.parent.index += 2
        if merges:
            self.heir.merge(self.parent, close=8)
        if not loses_last:
            self.parent.snapshot(close=8, high=7)  # sent before the merge, it comes behind its claim
        self.run = Partitions(log)
        self.run.read(0, self.broken)
        self.run.read(1)
        self.run.exchange(0)

    def status(self) -> RangeStatus:
        """What range 2 is good for."""
        return self.run.driven[0].processor._state.ranges.table.states[RangeId(2)].status

    def heirs(self) -> list[RangeId]:
        """Whose claims range 2 remembers."""
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
        Claim(RangeId(101 + 2 * number), RangeId(2), RaftIndex(20 + number), Span(_UPPER, PLAIN.span.end))
        for number in range(HEIRS_MAX + 3)
    ]
    hidden.run.sent[0] += claims
    hidden.run.exchange(0)
    assert hidden.heirs() == [claim.child for claim in claims[-HEIRS_MAX:]]


class _NeededAgain:
    """Range 2 breaks behind 6 s. Its row of key 150 at 8 s cannot be read; then range 3 has its upper keys.

    Feed "f" begins at 5.5 s. Partition 0 has activated it before range 2 answers: "complete up to 6 s, and f
    lacks nothing". Partition 1, with range 3, hears of it later.
    """

    def __init__(self, first: Activate, *, chunks: int = 1) -> None:
        self.log = log = HandLog(2)
        log.describe(PLAIN, OTHER)
        self.parent = log.open_range(2, PLAIN.span)
        self.parent.apply(PLAIN.put(5, 150, "old"), close=6)
        broken = len(log.partitions[0])
        log.write_bytes(0, encode_key(RangeId(2)), b"\xff\xff")
        self.parent.index += 1
        self.child = HandRange(log, RangeId(3), Span(_MIDDLE, PLAIN.span.end))
        self.child.generation, self.child.high = 2, 8
        for chunk in range(chunks):
            self.child.snapshot(
                reason=SnapshotReason.SPLIT,
                close=9,
                high=8,
                parents=(self.parent.as_parent(),),
                chunk=chunk,
                chunks=chunks,
            )
        self.feed = activation(
            [PLAIN.descriptor], replace(WITH_MARKERS, cursor=at(5.5)), start=at(5.5), feed_id="f"
        )
        self.run = Partitions(log, first)
        self.run.read(1, len(log.partitions[1]) - (chunks - 1))
        self.run.read(0, broken)
        self.run.driven[0].control(self.feed)
        self.run.read(0)
        self.run.exchange(0)
        (answer,) = self.run.sent[1]
        assert isinstance(answer, HandOff)
        assert (answer.complete, answer.resolved) == (False, at(6))
        assert [lag.gaps for lag in answer.lags or () if lag.feed == "f"] == [()]

    def hand_off(self) -> None:
        """Partition 1 takes the answer up, and applies nothing yet."""
        driven = self.run.driven[1]
        (message,) = self.run.sent[1]
        driven.note(driven.processor.exchange([ExchangeRecord(Offset(0), message)]))

    def hear_of(self, *messages: ControlMessage) -> None:
        """Partition 1 takes up messages about feeds, in one step."""
        self.run.driven[1].control(*messages)

    def go_on(self) -> None:
        """The source answers everything that is asked for."""
        answered: set[int] = set()
        for now in range(12, 100, 20):
            self.log.wait_for(at(now + 2))
            self.child.heartbeat(now)
            self.run.read(1)
            for scan in _scans_of(self.run, 1):
                if scan.request_id not in answered and scan.range_id == 3:
                    answered.add(scan.request_id)
                    self.child.scanned(scan, *([_row(8, 150, "new")] if scan.span.contains(_ROW) else []))
        self.run.read(1)

    def require_complete(self) -> None:
        """Every marker of "f" is true, and they come to the end."""
        given: set[Timestamp] = set()
        resolved = at(0)
        for result in self.run.driven[1].results:
            given |= {timestamp_of(row) for row in rows_of(result, self.feed.feed_id)}
            checkpoint = result.checkpoint
            if checkpoint is None or self.feed.feed_id not in [each.feed_id for each in checkpoint.feeds]:
                continue
            for item in checkpoint.ranges:
                resolved = item.resolved
                assert resolved < at(8) or at(8) in given, "a marker covers a row that f was not given"
        assert resolved >= at(12)


_GONE = activation([PLAIN.descriptor], feed_id="g")
_ROW = PLAIN.key(150)


@pytest.mark.parametrize("steps", [1, 2], ids=["in one step", "in two"])
@pytest.mark.parametrize("answered", [True, False], ids=["while it scans", "while it waits for its parent"])
def test_a_range_that_was_let_go_on_waits_again_for_a_feed_that_comes_before_it_has_gone_on(
    answered: bool, steps: int
) -> None:
    case = _NeededAgain(_GONE)
    if answered:
        case.hand_off()
    forget = Remove(_GONE.feed_id, _GONE.definition.epoch)
    if steps == 1:
        case.hear_of(forget, case.feed)
    else:
        case.hear_of(forget)
        case.hear_of(case.feed)
    if not answered:
        case.hand_off()
    case.go_on()
    case.require_complete()


@pytest.mark.parametrize("scanned", [False, True], ids=["before its scan", "behind its scan"])
def test_a_feed_that_comes_when_a_range_has_its_answers_and_not_its_snapshot_is_given_what_they_lack(
    scanned: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Feed "g" begins at 7 s, so what is scanned for is not enough for "f"; or at 8 s, and lacks nothing."""
    start = at(7) if scanned else at(8)
    options = replace(WITH_MARKERS, initial_scan=InitialScan.YES) if not scanned else WITH_MARKERS
    first = activation([PLAIN.descriptor], options, start=start, feed_id="g")
    case = _NeededAgain(first)
    case.hand_off()
    if scanned:
        (scan,) = _scans_of(case.run, 1)
        case.child.scanned(scan, _row(8, 150, "new"))
        with monkeypatch.context() as patch:
            patch.setattr(log_step, "_DRAIN_MAX", 0)  # other ranges' backlogs have used up the step's room
            case.run.driven[1].step(
                case.log.partitions[1][int(case.run.driven[1].processor.next_offset or 0) :]
            )
    assert case.run.driven[1].processor.ready
    case.hear_of(case.feed)
    case.go_on()
    case.require_complete()


@pytest.mark.parametrize("detached", [False, True])
def test_a_feed_that_comes_between_two_chunks_of_a_snapshot_is_given_what_the_range_was_not_handed(
    detached: bool,
) -> None:
    """The range waited for nobody at the first chunk, and takes what it is told by the last one for true."""
    case = _NeededAgain(activation([OTHER.descriptor], feed_id="other"), chunks=2)
    assert case.run.parked() == []
    case.hand_off()
    driven = case.run.driven[1]
    if detached:
        rows = ((table, key, value) for (table, key), value in driven.state.items())
        driven.processor = PartitionProcessor.restore(1, 2, ProcessorConfig(detachable=True), rows)
    case.hear_of(case.feed)
    if detached:
        driven.note(driven.processor.detach(case.feed.feed_id, []))
        driven.note(driven.processor.resume(case.feed.feed_id))
    case.go_on()
    case.require_complete()


@pytest.mark.parametrize("breaks", [False, True])
def test_what_a_parent_said_for_a_snapshot_that_was_left_out_says_nothing_of_keys_that_left_and_came_back(
    breaks: bool,
) -> None:
    """Range 1 takes 3 over while it is in a hole, splits its keys off as range 2, and takes that over.

    Feed "f" lacks nothing that range 3 wrote, and everything of range 2, in whose partition it began later.
    """
    log = HandLog(3)
    log.describe(PLAIN)
    low, rest = PLAIN.split(100)
    heir, first = log.open_range(1, low), log.open_range(3, rest)
    heir.apply(PLAIN.put(2, 1, "heir"), close=3)
    first.apply(PLAIN.put(2, 150, "first"), close=3)
    log.write_bytes(1, encode_key(RangeId(1)), b"\xff\xff")
    heir.index += 1
    heir.merge(first, close=4)
    second = heir.split(_MIDDLE, 2, close=5)
    late = activation([PLAIN.descriptor], replace(WITH_MARKERS, cursor=at(1)), start=at(1), feed_id="f")
    run = Partitions(log, _GONE)
    for number in (0, 1):
        run.driven[number].control(late)
    run.read(1)
    assert [type(message) for message in run.sent[0]] == [Claim]
    assert run.parked() == []
    run.read(2)
    run.exchange(1)
    run.exchange(2)
    (scan,) = _scans_of(run, 2)
    second.scanned(scan, _row(2, 150, "first"))
    second.apply(PLAIN.put(6, 150, "second"), close=6)
    if breaks:
        log.write_bytes(2, encode_key(RangeId(2)), b"\xff\xff")
        second.index, second.high = second.index + 1, 7
    heir.merge(second, close=8)
    run.read(2)
    run.read(1)
    assert run.parked() == [(1, (2,))]
    for number in (0, 2) if breaks else (2, 0):
        run.read(number)
        run.exchange(number)
    run.driven[2].control(late)
    run.exchange(1)
    assert run.parked() == ([(1, ())] if breaks else [])
    heir.heartbeat(12)
    run.read(1)
    assert [(each.feed_id, each.complete_to) for each in run.driven[1].processor.status().lagging] == [
        ("f", at(1))
    ]


def test_what_a_parent_said_counts_for_the_scan_that_takes_the_place_of_the_first() -> None:
    """A feed that lacked nothing there is not scanned for from its start when the range's span changes."""
    case = _NeededAgain(_GONE)
    case.hear_of(case.feed)
    case.hand_off()
    (scan,) = _scans_of(case.run, 1)
    assert scan.after == at(6)
    case.child.split(_UPPER, 4, close=10)
    case.run.read(1)
    assert [each.after for each in _scans_of(case.run, 1)] == [at(6), at(6)]
    assert case.run.driven[1].processor.status().lagging == ()
    case.go_on()
    assert {each.after for each in _scans_of(case.run, 1)} == {at(6)}
    case.require_complete()


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
        if not _scans_of(run, 1):
            beats(log, [*others, heir], first, first + 100)
            run.settle()
    (scan,) = _scans_of(run, 1)
    assert (scan.range_id, scan.span, scan.after, scan.upto) == (1, rest, at(6), at(8))
    heir.scanned(scan, _row(8, 150, "lost"))
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
    middle, last = Span(rest.start, _UPPER), Span(_UPPER, rest.end)
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
    (first,) = _scans_of(run, 1)
    assert (first.span, first.after) == (last, _FEED.start)
    heir.scanned(first, _row(7, 250, "lost"))
    run.read(1)
    (_, second) = _scans_of(run, 1)
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
    (scan,) = _scans_of(run, 1)
    assert (scan.range_id, scan.span, scan.after, scan.upto) == (1, high, _FEED.start, at(8))
    left.scanned(scan, _row(8, 150, "right"))
    run.settle()
    assert run.resolved(1) == at(12)
    assert at(8) in run.rows()[1]


def test_a_row_of_a_child_below_what_its_parent_had_resolved_is_refused() -> None:
    log = HandLog(2)
    log.describe(PLAIN)
    parent = log.open_range(2, PLAIN.span)
    parent.apply(PLAIN.put(5, 150, "parent"), close=9)
    child = parent.split(_MIDDLE, 3, close=0)
    child.apply(PLAIN.put(8, 150, "child"), close=7)
    run = Partitions(log)
    run.settle()
    assert run.rows()[1] == []
    assert any("an earlier generation" in cause for cause in run.causes())


def test_a_range_that_waits_for_a_merge_hands_nothing_off_itself() -> None:
    """4 takes 5 over, and 3 takes 4 over with no command between: 3 has to wait for the rows of 5 as well."""
    log = HandLog(3)
    log.describe(PLAIN)
    first, rest = PLAIN.split(100)
    last = PLAIN.split(200)[1]
    heir, middle = log.open_range(3, first), log.open_range(4, Span(rest.start, last.start))
    right = log.open_range(5, last)
    right.apply(PLAIN.put(5, 250, "right"), close=4)
    middle.merge(right, close=6)
    heir.merge(middle, close=7)
    heir.apply(PLAIN.put(9, 250, "heir"), close=9)
    run = Partitions(log)
    for _ in range(3):
        for number in (0, 1):
            run.read(number)
            run.exchange(number)
    assert run.rows() == {0: [], 1: [], 2: []}
    assert run.resolved(3) is None
    run.settle()
    assert run.rows() == {0: [at(9)], 1: [], 2: [at(5)]}
    assert run.resolved(3) == at(9)


def test_what_one_parent_had_resolved_binds_none_of_the_others_keys() -> None:
    """The left range has an open intent below what the right one has resolved."""
    log = HandLog(2)
    log.describe(PLAIN)
    low, high = PLAIN.split(100)
    left, right = log.open_range(2, low), log.open_range(3, high)
    left.apply(intent(1, 5), close=9)
    right.apply(PLAIN.put(6, 150, "right"), close=9)
    left.merge(right, close=9, intents=[OpenIntent(txn(1), b"anchor", PLAIN.key(1), at(5))])
    left.apply(PLAIN.commit(1, 7, 1, "left"), close=10)
    run = Partitions(log)
    run.settle()
    assert run.rows() == {0: [at(7)], 1: [at(6)]}
    assert run.causes() == []


def test_a_state_that_waits_is_the_same_after_its_restart() -> None:
    run = Partitions(_split_log())
    run.read(1)
    restored = PartitionProcessor.restore(
        1, 2, ProcessorConfig(), ((table, key, value) for (table, key), value in run.driven[1].state.items())
    )
    assert restored.next_hand_off == run.driven[1].processor.next_hand_off


def test_a_range_takes_nothing_twice_that_is_touched_while_its_partition_reads_again() -> None:
    log = HandLog(2)
    log.describe(PLAIN)
    other = log.open_range(3, PLAIN.split(50)[0])
    left, right = log.open_range(5, Span(_MIDDLE, _UPPER)), log.open_range(6, Span(_UPPER, PLAIN.span.end))
    parent = log.open_range(2, Span(PLAIN.key(50), _MIDDLE))
    parent.apply(PLAIN.put(4, 60, "parent"), close=4)
    right.apply(PLAIN.put(4, 250, "right"), close=4)
    other.merge(parent, close=5)
    left.heartbeat(5)
    left.merge(right, close=6)
    left.apply(PLAIN.put(7, 250, "merged"), close=7)
    run = Partitions(log)
    run.read(1)
    assert run.parked() == [(3, (2,)), (5, (6,))]
    run.restart(1)
    run.read(0)
    run.exchange(0)
    run.read(1, upto=(run.driven[1].processor.next_offset or 0) + 1)
    run.exchange(1)
    run.settle()
    assert run.causes() == []
    assert run.resolved(5) == at(7)
