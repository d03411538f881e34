"""Ranges that wait: which of them a hand-off still reaches, and how long they have waited."""

from __future__ import annotations

import re

import pytest

from tests.feeds import activation
from tests.hand_log import HandLog, at
from tests.unit.processor.catchup.partition_parts import CHILD, ELSEWHERE, LOW, hand_off
from tests.unit.processor.driving import Driven, timestamp_of
from tests.unit.processor.logs import OTHER, PLAIN
from tests.unit.processor.moving.waiting_parts import WaitingParts, claim_of, head, record
from tidegate.hlc import ResolvedTimestamp
from tidegate.processor.batch import ExchangeRecord, StateTable
from tidegate.processor.bounds import HAND_OFFS_MAX
from tidegate.processor.config import ProcessorConfig
from tidegate.processor.moving.parking import HAND_OFF_LIMIT_MS
from tidegate.processor.processor import PartitionProcessor
from tidegate.processor.state.state_codec import read_range
from tidegate.processor.table.silence import SILENT_MS
from tidegate.raftlog.encode import encode_key
from tidegate.raftlog.entry import Generation, KeyValue, Offset, RaftIndex, RangeId
from tidegate.raftlog.request import Scan
from tidegate.ranges.gap import ToldGaps
from tidegate.ranges.handoff import Claim, Exchange, HandOff
from tidegate.ranges.range_state import RangeState, RangeStatus
from tidegate.ranges.scan import RangeScan, ScanPart
from tidegate.spans import Span

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


# ---- part by part


def _lives(parts: WaitingParts, range_id: RangeId = CHILD, index: int = 10) -> RangeState:
    state = parts.range(range_id)
    state.applied, state.generation = RaftIndex(index), Generation(1)
    return state


@pytest.mark.parametrize(("generation", "sent"), [(1, False), (2, True)])
def test_a_range_that_has_ended_sends_the_claims_of_later_generations_alone(
    generation: int, sent: bool
) -> None:
    """An heir may have ended it before its log came to the snapshot, and its parents may not know yet."""
    parts = WaitingParts()
    state = _lives(parts)
    state.end()
    assert not parts.parking.parks(state, head(ELSEWHERE, generation=generation), record(50))
    assert parts.sent() == [claim_of()] * sent


def test_a_snapshot_ends_the_memory_of_claims_at_lower_indexes() -> None:
    parts = WaitingParts()
    state = _lives(parts)
    state.awaits_snapshot = True
    state.heirs = tuple(claim_of(index=index) for index in (9, 10, 11))
    parts.parking.parks(state, head(), record(50))
    assert [each.last_index for each in state.heirs] == [10, 11]


def test_a_snapshot_that_skips_entries_quarantines_its_range_which_claims_and_waits_for_nobody() -> None:
    parts = WaitingParts()
    parts.feed("late", cursor=1)
    state = _lives(parts)
    assert parts.parking.parks(state, head(ELSEWHERE, index=20), record(50)), "it scans"
    assert state.status is RangeStatus.QUARANTINED
    assert parts.backlogs[CHILD].missing == frozenset()
    assert parts.sent() == [claim_of()], "what waits for this range may depend on its parents"


def test_of_the_hand_offs_that_came_those_count_that_the_snapshot_tells_of() -> None:
    parts = WaitingParts()
    state = _lives(parts)
    state.awaits_snapshot = True
    counts, other = hand_off(ELSEWHERE, 5), hand_off(RangeId(7), 5)
    state.hand_offs = {each.claim: each for each in (counts, other)}
    parts.parking.parks(state, head(ELSEWHERE), record(50))
    assert state.hand_offs == {counts.claim: counts}
    assert parts.sent() == []


@pytest.mark.parametrize(
    ("is_behind", "begins", "expected"),
    [(False, True, (1_000_000, 1_000_000)), (True, True, (70, 80)), (True, False, (1_000_000, 90))],
)
def test_only_a_wait_that_was_stored_goes_on_from_what_was_stored(
    is_behind: bool, begins: bool, expected: tuple[int, int]
) -> None:
    parts = WaitingParts()
    parts.feed("late", cursor=1)
    state = _lives(parts)
    state.awaits_snapshot, state.waits_since_ms, state.heard_ms = True, 70, 80
    state.behind = Offset(40) if is_behind else None
    if not begins:
        parts.backlogs.hold(CHILD, record(40)).heard_ms = 90
    assert parts.parking.parks(state, head(ELSEWHERE), record(50))
    backlog = parts.backlogs[CHILD]
    assert (backlog.since_ms, backlog.heard_ms, backlog.asked_ms) == (*expected, 1_000_000)


@pytest.mark.parametrize(
    ("others", "is_missing", "is_there", "is_kept"),
    [
        (HAND_OFFS_MAX - 1, False, False, True),
        (HAND_OFFS_MAX, False, False, False),
        (HAND_OFFS_MAX, True, False, True),
        (HAND_OFFS_MAX - 1, False, True, True),
    ],
)
def test_a_range_keeps_so_many_early_hand_offs_and_all_that_it_waits_for(
    others: int, is_missing: bool, is_there: bool, is_kept: bool
) -> None:
    parts = WaitingParts()
    state = parts.table.touch(CHILD)
    early = [hand_off(RangeId(101 + 2 * number), 5) for number in range(others)]
    state.hand_offs = {each.claim: each for each in early}
    given = hand_off(ELSEWHERE, 5)
    if is_there:
        state.hand_offs[given.claim] = given._replace(complete=False)
    if is_missing:
        parts.parked(state, given.claim, claim_of(parent=RangeId(7))).head = head(ELSEWHERE)
    parts.exchanges.receive(given)
    assert (state.hand_offs.get(given.claim) == given) is is_kept
    assert len(state.hand_offs) == others + is_kept


def test_a_hand_off_that_a_range_does_not_wait_for_any_more_changes_nothing_of_its_backlog() -> None:
    parts = WaitingParts()
    state = _lives(parts)
    backlog = parts.parked(state, claim_of(), claim_of(parent=RangeId(7)))
    backlog.head = head(ELSEWHERE, RangeId(7))
    state.awaits_snapshot = True
    parts.parking.release_unneeded()  # no feed
    parts.exchanges.receive(hand_off(ELSEWHERE, 5))
    assert (backlog.parked, parts.backlogs.ready, state.scan) == (False, True, None)


def test_claims_of_snapshots_that_were_left_out_are_sent() -> None:
    parts = WaitingParts()
    backlog = parts.parked(_lives(parts), claim_of(parent=RangeId(7)))
    backlog.skipped = [claim_of()]
    assert not parts.parking.settle()
    assert parts.sent() == [claim_of()]


def test_a_range_that_a_claim_ends_while_it_waits_is_left() -> None:
    parts = WaitingParts()
    state = _lives(parts)
    state.quarantine_at(Offset(40), "broken", state.resolved)
    parts.parked(state)
    parts.exchanges.receive(claim_of(RangeId(3), CHILD, index=20))
    assert parts.parking.settle()
    assert (state.status, CHILD in parts.backlogs) == (RangeStatus.ENDED, False)


@pytest.mark.parametrize("status", [RangeStatus.LIVE, RangeStatus.QUARANTINED, RangeStatus.ENDED])
def test_a_silent_range_is_left_and_its_claims_are_sent_and_nothing_else(status: RangeStatus) -> None:
    parts = WaitingParts()
    state = _lives(parts)
    if status is RangeStatus.QUARANTINED:
        state.quarantine_at(Offset(40), "broken", state.resolved)
    state.status, state.behind = status, Offset(40)
    backlog = parts.parked(state, claim_of(parent=RangeId(7)))
    state.scan = backlog.scan = RangeScan(
        CHILD, Offset(40), PLAIN.span, [ScanPart(PLAIN.span, at(1))], at(5), with_prev=False
    )
    backlog.note_claims(Offset(45), [claim_of()])
    parts.elapse(SILENT_MS - 1)
    backlog.asked_ms = parts.clock.elapsed_ms
    assert [each.range_id for each in parts.due()] == [CHILD]
    parts.elapse(1)
    backlog.asked_ms = 0
    assert parts.due() == []
    assert (CHILD in parts.backlogs, bool(state.scan)) == (False, False)
    assert parts.sent() == [claim_of()]
    ended = status is RangeStatus.ENDED
    assert state.status is (status if ended else RangeStatus.QUARANTINED)
    assert state.behind == (Offset(40) if ended else None)
    assert ["it fell silent while it waited" in cause for cause in parts.causes()] == [True] * (not ended)


def test_claims_without_an_answer_are_sent_again_each_ten_minutes() -> None:
    parts = WaitingParts()
    backlog = parts.parked(_lives(parts), claim_of())
    sent: list[int] = []
    for minute in range(1, 31):
        backlog.heard_ms = parts.clock.elapsed_ms
        parts.elapse(60_000 - 1)
        parts.due()
        assert parts.sent() == []
        parts.elapse(1)
        parts.due()
        sent += [minute] * len(parts.sent())
    assert sent == [10, 20, 30]


@pytest.mark.parametrize(
    ("bound", "left"),
    [(6_600, []), (6_599, [RangeId(6)]), (3_400, [RangeId(6)]), (3_399, [RangeId(4), RangeId(6)])],
)
def test_of_backlogs_that_are_too_large_together_the_largest_are_left(
    bound: int, left: list[RangeId]
) -> None:
    parts = WaitingParts(bound)
    for number, range_id in enumerate((CHILD, RangeId(6), RangeId(4))):
        backlog = parts.parked(
            _lives(parts, range_id), claim_of(range_id), size=(1_000, 3_000, 2_000)[number]
        )
        assert backlog.held_bytes == 200 + (1_000, 3_000, 2_000)[number]
    parts.due(read=Offset(49))
    assert len(list(parts.backlogs.items())) == 3, "the log is still read again"
    parts.due()
    assert sorted({CHILD, RangeId(4), RangeId(6)}.difference(parts.backlogs._backlogs)) == left


def _claimed(parts: WaitingParts, told: float, span: Span = LOW) -> RangeState:
    """A range with a claim on it at an index that its log has not come to."""
    state = _lives(parts)
    parts.table.touch(CHILD).claims.add(claim_of(RangeId(3), CHILD, index=20, told=told, span=span))
    parts.exchanges.restore(state)
    return state


@pytest.mark.parametrize(
    ("told", "status", "waits", "is_behind", "counts"),
    [
        (10_000, RangeStatus.LIVE, False, False, True),
        (10_000, RangeStatus.UNINITIALISED, False, False, True),
        (10_001, RangeStatus.LIVE, False, False, False),
        (10_000, RangeStatus.QUARANTINED, False, False, False),
        (10_000, RangeStatus.LIVE, True, False, False),
        (10_000, RangeStatus.LIVE, False, True, False),
        (10_000, RangeStatus.LIVE, True, True, False),
    ],
)
def test_the_last_entries_of_a_range_are_waited_for_if_it_has_none_to_apply(
    told: float, status: RangeStatus, waits: bool, is_behind: bool, counts: bool
) -> None:
    parts = WaitingParts()
    state = _claimed(parts, told)
    state.status, state.behind = status, Offset(40) if is_behind else None
    if waits:
        parts.parked(state, claim_of())
    parts.due()
    assert state.claimed_since_ms == (1_000_000 if counts else None)


@pytest.mark.parametrize(
    ("told", "slower_ms", "limit_ms"),
    [
        (10_000, 0, HAND_OFF_LIMIT_MS),
        (9_000, 0, HAND_OFF_LIMIT_MS),
        (10_000, 5_000, HAND_OFF_LIMIT_MS + 5_000),
        (10_000, -5_000, HAND_OFF_LIMIT_MS),
    ],
)
def test_a_claim_is_answered_as_lost_ten_minutes_after_its_time_and_after_that_was_found(
    told: float, slower_ms: int, limit_ms: int
) -> None:
    """Elapsed log time may be slower than log time, if the source pauses, or faster, if its clock falls."""
    parts = WaitingParts()
    state = _claimed(parts, told)
    parts.due()
    parts.clock.elapsed_ms -= slower_ms
    parts.elapse(limit_ms - 1)
    parts.due()
    assert parts.sent() == []
    parts.elapse(1)
    parts.due()
    (answer,) = parts.sent()
    assert isinstance(answer, HandOff)
    assert (answer.complete, answer.span) == (False, PLAIN.span)
    assert (state.status, state.claims, state.claimed_since_ms) == (RangeStatus.LIVE, set(), None)


def test_a_range_is_over_if_its_last_entries_are_lost_and_another_has_all_of_its_keys() -> None:
    parts = WaitingParts()
    state = _claimed(parts, 10_000, PLAIN.span)
    parts.due()
    parts.elapse(HAND_OFF_LIMIT_MS)
    parts.due()
    (cause,) = parts.causes()
    assert "range 3 has all of its keys since index 20" in cause
    assert parts.sent() == [], "it is answered out of the hole"
    assert parts.parking.settle()
    assert (state.status, len(parts.sent())) == (RangeStatus.ENDED, 1)
