"""Ranges that wait: which of them a hand-off still reaches, and how long they have waited."""

from __future__ import annotations

import re

import pytest

from tests.feeds import activation
from tests.hand_log import HandLog, at
from tests.unit.processor.driving import Driven, timestamp_of
from tests.unit.processor.logs import OTHER, PLAIN
from tidegate.hlc import ResolvedTimestamp
from tidegate.processor.batch import ExchangeRecord, StateTable
from tidegate.processor.config import ProcessorConfig
from tidegate.processor.processor import PartitionProcessor
from tidegate.processor.state.state_codec import read_range
from tidegate.raftlog.encode import encode_key
from tidegate.raftlog.entry import KeyValue, Offset, RangeId
from tidegate.raftlog.request import Scan
from tidegate.ranges.gap import ToldGaps
from tidegate.ranges.handoff import Claim, Exchange, HandOff
from tidegate.ranges.range_state import RangeState

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
    """The parent's answer: every row is out, and the feed misses none."""
    told = (ToldGaps(str(_FEED.feed_id), ()),)
    return HandOff(claim, ResolvedTimestamp(at(seconds)), complete=True, span=claim.span, told_gaps=told)


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
    """After a restart the range stands after its trigger, and has no backlog until it reads the snapshot."""
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


# ---- how long a range has waited, and been silent


class _Healing:
    """Range 1 of one partition waits for a scan; range 2 is well, or waits too."""

    def __init__(self, config: ProcessorConfig | None = None, *, both: bool = False) -> None:
        self._config = config or ProcessorConfig()
        self.log = HandLog(partitions=1)
        self.log.describe(PLAIN, OTHER)
        self.range = self.log.open_range(1, PLAIN.span)
        self.other = self.log.open_range(2, OTHER.span)
        self.range.apply(PLAIN.put(5, 1, "before"), close=6)
        for number, broken in enumerate((self.range, self.other)[: 1 + both], 1):
            self.log.write_bytes(0, encode_key(RangeId(number)), b"\xff\xff\xff")
            broken.index += 1
            broken.snapshot(close=9, high=8)
        self.driven = Driven(PartitionProcessor(0, 1, self._config))
        self.driven.control(activation([PLAIN.descriptor, OTHER.descriptor]) if both else _FEED)
        self.now_s = 20

    def run(self, batch: int = 10) -> None:
        position = int(self.driven.processor.next_offset or 0)
        self.driven.run(self.log.partitions[0][position:], batch)

    def let_pass(self, seconds: int, *, silent: bool = False) -> None:
        """Both ranges, or the other one alone, write a heartbeat every five seconds."""
        for now_s in range(self.now_s, self.now_s + seconds, 5):
            self.log.wait_for(at(now_s))
            self.other.heartbeat(now_s)
            if not silent:
                self.range.heartbeat(now_s)
        self.now_s += seconds
        self.run()

    def restart(self) -> None:
        results = self.driven.results
        self.driven = Driven.restored(self.driven.state, config=self._config)
        self.driven.results = results

    def answer(self, *versions: KeyValue) -> None:
        """The source answers what was asked for last: with the row that was missed, and with these."""
        scans = [each for result in self.driven.results for each in result.requests if isinstance(each, Scan)]
        key, value = PLAIN.pair(1, "missed")
        self.range.scanned(scans[-1], KeyValue(key, at(8), value), *versions)
        self.run()
        while self.driven.processor.ready:
            self.driven.step(())

    @property
    def is_left(self) -> bool:
        return not self.driven.processor.status().parked


@pytest.mark.parametrize("batch", [1, 10, 10_000])
def test_a_range_that_is_heard_is_not_left_after_a_restart_however_long_it_has_waited(batch: int) -> None:
    healing = _Healing()
    healing.let_pass(1_500)
    healing.restart()
    healing.run(batch)
    healing.let_pass(100)
    assert not healing.is_left
    healing.answer()
    assert list(map(timestamp_of, healing.driven.rows)) == [at(5), at(8)]


@pytest.mark.parametrize("own_first", [True, False])
def test_a_pause_of_the_source_is_no_silence_of_one_range(own_first: bool) -> None:
    healing = _Healing()
    healing.run()
    healing.log.wait_for(at(4_000))
    for each in (healing.range, healing.other) if own_first else (healing.other, healing.range):
        each.heartbeat(4_000)
        healing.run(1)
        assert not healing.is_left
    healing.answer()
    assert list(map(timestamp_of, healing.driven.rows)) == [at(5), at(8)]


def test_chunks_count_as_heard() -> None:
    healing = _Healing()
    healing.run()
    for _ in range(8):
        healing.let_pass(400, silent=True)
        scan = next(
            each
            for result in reversed(healing.driven.results)
            for each in result.requests
            if isinstance(each, Scan)
        )
        healing.range.scanned(scan._replace(request_id=0), last=False)  # of another request
    assert not healing.is_left


@pytest.mark.parametrize("restarts", [0, 1, 4])
def test_silence_goes_on_over_restarts_from_what_was_read(restarts: int) -> None:
    healing = _Healing()
    healing.let_pass(100)
    for _ in range(restarts):
        healing.restart()
        healing.let_pass(200, silent=True)
    healing.let_pass(800 - 200 * restarts, silent=True)
    assert not healing.is_left
    healing.let_pass(400, silent=True)
    assert healing.is_left


# ---- how large backlogs may be


@pytest.mark.parametrize("restarts", [False, True])
def test_a_range_whose_backlog_is_too_large_is_quarantined_and_heals_with_its_next_snapshot(
    restarts: bool,
) -> None:
    healing = _Healing(ProcessorConfig(backlog_bytes=20_000))
    for second in range(20, 60):
        healing.range.apply(PLAIN.put(second, second, "x" * 200), close=second)
    healing.other.apply(OTHER.put(60, 1, "other"), close=60)
    healing.run()
    waits = healing.driven.processor.status().parked
    assert [each.range_id for each in waits] == [1]  # about 400 bytes each
    for second in range(61, 81):
        healing.range.apply(PLAIN.put(second, second, "x" * 200), close=second)
        if restarts and second == 65:
            healing.run()
            healing.restart()
    healing.run()
    assert healing.is_left
    (cause,) = (each for each in healing.driven.causes if "waited" in each)
    assert re.search(r"range 1 stays quarantined .*: \d+ bytes of its log were kept while it waited", cause)
    assert healing.driven.processor.status().backlog_entries == 0
    healing.range.snapshot(close=81, high=80)
    healing.run()
    healing.answer(*(_version(second) for second in (*range(20, 60), *range(61, 81))))
    assert list(map(timestamp_of, healing.driven.rows)) == [
        at(second) for second in (5, 8, *range(20, 60), *range(61, 81))
    ]
    assert healing.driven.checkpoints[RangeId(1)].resolved == at(81)


def _version(second: int) -> KeyValue:
    key, value = PLAIN.pair(second, "x" * 200)
    return KeyValue(key, at(second), value)


def test_of_several_ranges_that_wait_those_with_the_largest_backlogs_are_left() -> None:
    healing = _Healing(ProcessorConfig(backlog_bytes=20_000), both=True)
    for second in range(20, 60):
        healing.range.apply(PLAIN.put(second, second, "x" * 400), close=second)
        healing.other.apply(OTHER.put(second, second, "o"), close=second)
    healing.run()
    assert [parked.range_id for parked in healing.driven.processor.status().parked] == [2]


def test_a_pause_of_the_source_is_no_waiting_for_a_hand_off() -> None:
    log = _splits()
    other = log.open_range(5, OTHER.span)
    driven = _waiting_child(log)
    log.wait_for(at(5_000))
    other.heartbeat(5_000)
    other.heartbeat(5_001)
    driven.run(log.partitions[1][int(driven.processor.next_offset or 0) :], 1)
    assert [parked.parents for parked in driven.processor.status().parked] == [(_PARENT,)]


def test_how_long_a_range_waits_for_a_hand_off_is_known_over_restarts() -> None:
    log = _splits()
    other = log.open_range(5, OTHER.span)
    driven = _waiting_child(log)
    for seconds in range(10, 800, 5):
        log.wait_for(at(seconds))
        other.heartbeat(seconds)
        if seconds % 100 == 0:
            driven.run(log.partitions[1][int(driven.processor.next_offset or 0) :])
            driven = Driven.restored(driven.state, 1, 2)
    driven.run(log.partitions[1][int(driven.processor.next_offset or 0) :])
    (parked,) = driven.processor.status().parked
    assert (parked.range_id, parked.parents) == (_CHILD, (_PARENT,))
    assert driven.processor.status().log_time_ms - parked.since_ms > 600_000


def test_a_log_that_has_lost_what_only_the_waiting_range_had_to_read_again_is_a_hole_of_that_range() -> None:
    log = _splits()
    log.describe(OTHER)
    log.open_range(5, OTHER.span).apply(close=8)
    passed = len(log.partitions[1])
    driven = Driven.restored(_waiting_child(log).state, 1, 2)
    assert (driven.processor.next_offset or 0) < passed
    driven.note(driven.processor.missing_below(Offset(passed)))
    assert [quarantined.range_id for quarantined in driven.processor.status().quarantined] == [_CHILD]


def test_an_unreadable_record_that_is_read_again_is_no_hole_of_a_range_that_had_passed_it() -> None:
    """Range 5 begins to wait right behind the record; only range 3 has it in front again after a restart."""
    log = HandLog(2)
    log.describe(PLAIN)
    low, high = PLAIN.split(100)
    first, second = log.open_range(_PARENT, low), log.open_range(4, high)
    first.apply(PLAIN.put(1, 60, "first"))
    second.apply(PLAIN.put(1, 160, "second"))
    first.split(PLAIN.key(50), _CHILD, close=2)
    log.write_bytes(1, None, b"?")
    second.split(PLAIN.key(150), 5, close=3)
    driven = Driven.restored(_waiting_child(log).state, 1, 2)
    driven.run(log.partitions[1][driven.processor.next_offset or 0 :])
    assert [(parked.range_id, parked.entries) for parked in driven.processor.status().parked] == [
        (3, 2),
        (5, 1),
    ]
    assert driven.processor.status().quarantined == ()
