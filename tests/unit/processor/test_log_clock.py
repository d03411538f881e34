"""Log time: what two ranges have shown, whatever single records say; and what elapses of it."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.feeds import activation
from tests.hand_log import BASE_S, HandLog, HandRange, at, closed, intent
from tests.unit.processor.driving import Driven, active, fold
from tests.unit.processor.logs import OTHER, PLAIN
from tidegate.hlc import NANOS_PER_SECOND
from tidegate.processor.batch import StateTable
from tidegate.processor.log_clock import (
    ABOVE_CLOSED_MS,
    BACK_MS,
    HEARINGS,
    LEAD_MS,
    STEP_MS,
    ClockState,
    LogClock,
    Voice,
)
from tidegate.processor.processor import PartitionProcessor
from tidegate.processor.state.position_hash import POSITION_KEY
from tidegate.processor.state.state_codec import Position, position_row, read_position
from tidegate.raftlog.encode import encode_entry, encode_key
from tidegate.raftlog.entry import Generation, Heartbeat, RaftIndex, RangeId
from tidegate.raftlog.request import Push

_A, _B, _C = RangeId(1), RangeId(2), RangeId(3)
_HOUR = 3_600_000
_START = 10**9


def _hear(clock: LogClock, range_id: RangeId, time_ms: int) -> None:
    """A record of a source that closes three seconds behind the present."""
    clock.hear(range_id, time_ms, time_ms - 3_000)


def _running(*ranges: RangeId) -> LogClock:
    """A clock that has heard these ranges, and stands at ``_START``."""
    clock = LogClock()
    for range_id in ranges:
        _hear(clock, range_id, _START)
    assert clock.time_ms == clock.shown_ms == _START
    return clock


def _let_pass(clock: LogClock, ranges: Iterable[RangeId], upto_ms: int, step_ms: int = 5_000) -> None:
    """Each of the ranges is heard every few seconds."""
    names = list(ranges)
    for now_ms in [*range(clock.time_ms + step_ms, upto_ms, step_ms), upto_ms]:
        for range_id in names:
            _hear(clock, range_id, now_ms)


def _read(clock: LogClock, batch: list[tuple[RangeId, int]]) -> None:
    """Hear of a batch what the clock wants to hear."""
    for range_id, time_ms in batch:
        if clock.wants(time_ms):
            _hear(clock, range_id, time_ms)


# ---- single records and single ranges


@pytest.mark.parametrize("ranges", [(_A,), (_A, _B)], ids=["alone", "with another"])
@pytest.mark.parametrize("ahead_ms", [60_000, _HOUR, 10**12])
def test_a_record_counts_for_as_much_as_its_range_has_closed_and_a_little(
    ranges: tuple[RangeId, ...], ahead_ms: int
) -> None:
    clock = _running(*ranges)
    clock.hear(_A, _START + ahead_ms, _START - 3_000)
    assert clock.time_ms <= _START - 3_000 + ABOVE_CLOSED_MS
    assert clock.elapsed_ms - LogClock().elapsed_ms <= ABOVE_CLOSED_MS
    _let_pass(clock, ranges, _START + 20_000)
    assert clock.time_ms == clock.shown_ms == _START + 20_000


def test_a_range_whose_clock_is_ahead_moves_log_time_by_little_while_another_is_heard() -> None:
    clock = _running(_A, _B)
    for now_ms in range(_START, _START + 600_000, 5_000):
        for ahead_ms in range(0, 4_000, 500):
            _hear(clock, _A, now_ms + ahead_ms + _HOUR)
        _hear(clock, _B, now_ms)
        assert clock.shown_ms == now_ms
        assert clock.time_ms == now_ms + LEAD_MS
    assert clock.elapsed_ms < 620_000


def test_a_range_that_has_closed_nothing_shows_nothing() -> None:
    clock = LogClock()
    clock.hear(_A, _START, 0)
    assert clock.time_ms == 0
    _hear(clock, _B, _START)
    clock.hear(_A, _START + _HOUR, 0)
    assert clock.time_ms == _START


# ---- ranges that are heard no more


def test_who_is_heard_alone_is_not_held_by_those_that_have_fallen_silent() -> None:
    clock = _running(_A, _B)
    _let_pass(clock, [_A], _START + HEARINGS * 5_000 + 5_000)
    assert clock.time_ms == clock.shown_ms == _START + HEARINGS * 5_000 + 5_000


def test_a_range_that_has_ended_is_not_waited_for() -> None:
    clock = _running(_A, _B)
    clock.forget(_B)
    _hear(clock, _A, _START + 20_000)
    assert clock.shown_ms == _START + 20_000


def test_what_ranges_showed_last_before_they_ended_holds_log_time_no_longer_than_others_are_heard() -> None:
    clock = _running(_A, _B, _C)
    for range_id in (_A, _B):
        _hear(clock, range_id, _START + _HOUR)
    assert clock.time_ms == _START + _HOUR
    for number in range(HEARINGS + 1):
        _hear(clock, _C, _START + 5_000 * number)
    assert clock.time_ms == _START + 5_000 * HEARINGS


def test_of_many_ranges_those_that_show_most_count() -> None:
    clock = _running(*map(RangeId, range(1, 100)))
    for now_ms in range(_START + 1_000, _START + 60_000, 1_000):
        late = [(RangeId(range_id), now_ms - 40_000) for range_id in range(10, 100)]
        _read(clock, [(RangeId(range_id), now_ms) for range_id in range(1, 10)] + late)
        assert clock.time_ms == now_ms
    assert len(clock.state().voices) <= 16  # and as many that fell silent: what they say again is no news


def test_record_times_that_flutter_let_nobody_be_taken_for_silent() -> None:
    clock = _running(_A, _B)
    _hear(clock, _C, _START + _HOUR)
    for number in range(3 * HEARINGS):
        clock.hear(_C, _START + _HOUR + number % 2 * 1_500 + number, _START + _HOUR - 3_000)
    assert clock.shown_ms == _START
    assert clock.time_ms == _START + LEAD_MS


def test_many_ranges_that_come_one_after_the_other_let_nobody_be_taken_for_silent() -> None:
    """What a node sends late, of ranges that are not known any more, is no news each time."""
    clock = _running(*map(RangeId, range(1, 9)))
    _hear(clock, RangeId(999), _START + _HOUR)
    for number in range(40 * HEARINGS):
        _hear(clock, RangeId(1_000 + number % 50), _START - 2_000 + number % 50)
    _hear(clock, RangeId(999), _START + _HOUR + 1_000)
    assert clock.shown_ms == _START
    assert len(clock.state().voices) <= 16


def test_ranges_that_died_with_their_clocks_ahead_are_silent_once_the_many_others_were_heard() -> None:
    dead, others = [*map(RangeId, range(1, 9))], [*map(RangeId, range(100, 120))]
    clock = _running(*dead)
    for range_id in dead:
        _hear(clock, range_id, _START + _HOUR)
    for second in range(2 * HEARINGS):
        for range_id in others:
            _hear(clock, range_id, _START + second * 1_000)
    assert clock.time_ms == _START + (2 * HEARINGS - 1) * 1_000


@pytest.mark.parametrize("right", [1, 3, 20])
@pytest.mark.parametrize("wrong", [2, 8, 9, 100])
@pytest.mark.parametrize("write_on", [False, True], ids=["silent", "write on"])
def test_a_node_whose_clock_was_ahead_holds_log_time_no_longer_than_others_are_heard(
    wrong: int, right: int, write_on: bool
) -> None:
    """Its ranges close nothing more, for what they have closed does not fall."""
    node, others = range(1_000, 1_000 + wrong), [RangeId(number) for number in range(1, right + 1)]
    clock = _running(*others)
    for second in range(60):
        now_ms = _START + 1_000 * second
        _read(clock, [(RangeId(number), now_ms + _HOUR) for number in node])
        _read(clock, [(range_id, now_ms) for range_id in others])
    assert clock.time_ms >= _START + _HOUR
    before, closed_ms = clock.elapsed_ms, clock.closed_ms
    for second in range(60, 60 + 600 // right + 120):
        now_ms = _START + 1_000 * second
        for number in node if write_on else ():
            if clock.wants(now_ms):
                clock.hear(RangeId(number), now_ms, closed_ms, rose=False)
        _read(clock, [(range_id, now_ms) for range_id in others])
    assert now_ms - 2 * LEAD_MS <= clock.shown_ms <= now_ms
    assert clock.time_ms <= now_ms + LEAD_MS
    assert clock.elapsed_ms > before


def test_what_many_ranges_send_late_beside_one_that_is_ahead_lets_log_time_follow_it_by_little() -> None:
    """Those that are waited for fall silent by it, all at once; who is heard then is not the one ahead."""
    known, late = [*map(RangeId, range(1, 9))], [*map(RangeId, range(100, 140))]
    clock = _running(*known, *late)
    now_ms = _START + 600_000
    for range_id in known[1:]:
        _hear(clock, range_id, now_ms)
    for number in range(20 * len(late)):
        if number % 10 == 0:
            _hear(clock, _A, now_ms + _HOUR + 1_000 * number)
        _hear(clock, late[number % len(late)], _START + 500 * number)
        assert clock.time_ms <= now_ms + LEAD_MS


@given(
    st.lists(
        st.tuples(st.integers(1, 30), st.integers(0, 3_000), st.sampled_from([0, 0, 0, 400, 9_000, 600_000])),
        max_size=300,
    )
)
def test_one_range_that_is_ahead_moves_log_time_by_little_beside_any_that_are_heard(
    history: list[tuple[int, int, int]],
) -> None:
    """Up to thirty ranges come in any order, some of them late; one more is an hour ahead."""
    clock, now_ms = _running(_A), _START
    for number, (range_id, passes_ms, late_ms) in enumerate(history):
        now_ms += passes_ms
        _hear(clock, RangeId(range_id), now_ms - late_ms)
        if number % (HEARINGS // 2) == 0:
            _hear(clock, RangeId(99), now_ms + _HOUR)
        assert clock.shown_ms <= now_ms
        assert clock.time_ms <= now_ms + LEAD_MS


def test_pushes_go_by_the_present_beside_a_range_that_writes_and_closes_nothing() -> None:
    clock = _running(_A, _B)
    for second in range(1, 300):
        _hear(clock, _A, _START + second * 1_000)
        clock.hear(_B, _START + second * 1_000, _START - 3_000)
        if second > HEARINGS:
            assert clock.shown_ms == _START + second * 1_000
            assert clock.closed_ms == _START + second * 1_000 - 3_000


def test_a_range_that_closes_again_is_waited_for_again() -> None:
    clock = _running(_A, _B)
    _let_pass(clock, [_A], _START + _HOUR)
    assert clock.shown_ms == _START + _HOUR
    _hear(clock, _B, _START + 1_000)
    assert clock.shown_ms == _START + 1_000


def test_what_two_have_closed_is_no_more_than_the_second_of_them_says() -> None:
    clock = _running(_A, _B)
    _hear(clock, _A, _START + _HOUR)
    assert clock.closed_ms == _START - 3_000
    clock.forget(_B)
    _hear(clock, _A, _START + _HOUR + 1_000)
    assert clock.closed_ms == _START + _HOUR - 2_000


# ---- pauses, and clocks that are set


def test_a_pause_of_the_source_elapses_for_half_a_minute_and_log_time_goes_on_with_two_ranges() -> None:
    clock = _running(_A, _B)
    before = clock.elapsed_ms
    _hear(clock, _A, _START + _HOUR)
    assert clock.time_ms == _START + LEAD_MS
    _hear(clock, _B, _START + _HOUR)
    assert clock.time_ms == clock.shown_ms == _START + _HOUR
    assert clock.elapsed_ms - before <= LEAD_MS + STEP_MS
    _let_pass(clock, [_A, _B], _START + _HOUR + 60_000)
    assert clock.elapsed_ms - before >= 60_000


def test_time_passes_as_the_source_writes_it() -> None:
    clock = _running(_A, _B)
    before = clock.elapsed_ms
    _let_pass(clock, [_A, _B], _START + 600_000)
    assert clock.elapsed_ms - before == 600_000


def test_a_clock_that_was_wrong_and_goes_back_lets_nothing_wait_for_it() -> None:
    clock = _running(_A, _B)
    before = clock.elapsed_ms
    for range_id in (_A, _B):
        clock.hear(range_id, _START + _HOUR, _START + _HOUR - 3_000)
    assert clock.time_ms == _START + _HOUR
    now_ms = _START
    for _ in range(2 * HEARINGS):
        now_ms += 5_000
        for range_id in (_A, _B):
            clock.hear(range_id, now_ms, 0)
    assert clock.time_ms == now_ms
    _let_pass(clock, [_A, _B], now_ms + 60_000)
    elapsed = clock.elapsed_ms - before
    assert 60_000 <= elapsed <= STEP_MS + LEAD_MS + 5_000 * 2 * HEARINGS + 60_000


def test_a_clock_that_flutters_lets_no_time_elapse_twice() -> None:
    clock = _running(_A, _B)
    before = clock.elapsed_ms
    for number in range(100):
        for range_id in (_A, _B):
            _hear(clock, range_id, _START + (BACK_MS - 1 if number % 2 else 0))
    assert clock.elapsed_ms - before == BACK_MS - 1


# ---- any history

_HISTORIES = st.lists(
    st.tuples(
        st.sampled_from([_A, _B, _C]),
        st.sampled_from([0, 1, 400, 5_000, 60_000, -20_000]),
        st.sampled_from([0, 0, 0, 2_000, 31_000, _HOUR, -_HOUR, 10**12]),
    ),
    max_size=60,
)


@given(_HISTORIES)
def test_record_times_alone_never_move_log_time_beyond_what_is_closed(
    history: list[tuple[RangeId, int, int]],
) -> None:
    """Time passes, or is set back; each record may be stamped wrongly, and closed timestamps are right."""
    clock, now_ms, highest_ms, elapsed_ms = LogClock(), _START, 0, 1
    for range_id, passes_ms, wrong_ms in history:
        now_ms += passes_ms
        highest_ms = max(highest_ms, now_ms)
        clock.hear(range_id, now_ms + wrong_ms, now_ms - 3_000)
        assert clock.shown_ms <= clock.time_ms <= highest_ms - 3_000 + ABOVE_CLOSED_MS
        assert elapsed_ms <= clock.elapsed_ms <= elapsed_ms + STEP_MS
        elapsed_ms = clock.elapsed_ms


def test_everything_that_a_clock_knows_is_stored() -> None:
    voices = (Voice(_A, 1, 2, 3, 4), Voice(_B, 5, 6, 7, 8))
    clock = ClockState(9, 10, 11, 12, 13, voices, 14, 15)
    position = Position(clock=clock)
    stored = read_position(position_row(position).value or b"").clock
    assert stored == clock


@given(_HISTORIES, st.integers(0, 60))
def test_a_clock_that_was_stored_goes_on_as_before(history: list[tuple[RangeId, int, int]], cut: int) -> None:
    clock, now_ms = LogClock(), _START
    for number, (range_id, passes_ms, wrong_ms) in enumerate(history):
        now_ms += passes_ms
        if number == cut:
            stored, clock = clock.state(), LogClock()
            clock.restore(stored)
            assert clock.state() == stored
        clock.hear(range_id, now_ms + wrong_ms, now_ms + wrong_ms // 2)
    whole, now_ms = LogClock(), _START
    for range_id, passes_ms, wrong_ms in history:
        now_ms += passes_ms
        whole.hear(range_id, now_ms + wrong_ms, now_ms + wrong_ms // 2)
    assert clock.state() == whole.state()
    if history:
        assert (clock.time_ms, clock.shown_ms) == (whole.time_ms, whole.shown_ms)


# ---- in a partition


def _beat(range_: HandRange, close: float, *, stamped: float) -> tuple[bytes, bytes, int]:
    """A heartbeat that is stamped with a time of its own."""
    beat = Heartbeat(range_.id, Generation(range_.generation), closed(close), RaftIndex(range_.index))
    return encode_key(range_.id), encode_entry(beat), int((BASE_S + stamped) * 1_000)


def _log_time(driven: Driven) -> float:
    return driven.processor.status().log_time_ms / 1_000 - BASE_S


def test_stray_unreadable_and_broadcast_records_say_nothing_of_the_time() -> None:
    log = HandLog(partitions=3)
    log.describe(PLAIN)
    here, elsewhere = log.open_range(3, PLAIN.span), log.open_range(1, OTHER.span)
    here.heartbeat(5)
    late = (BASE_S + 9_000) * 1_000
    key, value, _ = _beat(elsewhere, 9_000, stamped=9_000)
    log.write_bytes(0, key, value, late)
    log.write_bytes(0, encode_key(here.id), b"\xff\xff", late)
    log.write_bytes(0, None, b"\xff", late)
    driven = Driven(PartitionProcessor(0, 3))
    driven.run(log.partitions[0], 1)
    assert _log_time(driven) <= 5 + ABOVE_CLOSED_MS / 1_000


@pytest.mark.parametrize("jump_s", [60, 3_600, 10**9])
def test_a_record_that_is_ahead_pushes_no_young_transaction(jump_s: int) -> None:
    log = HandLog(partitions=1)
    log.describe(PLAIN)
    one = log.open_range(1, PLAIN.span)
    one.apply(PLAIN.put(5, 1, "x"), close=5)
    log.write_bytes(0, *_beat(one, 5, stamped=jump_s))
    one.apply(intent(7, 6))
    log.wait_for(at(7))
    one.heartbeat(5.5)
    driven = active(activation([PLAIN.descriptor]))
    driven.run(log.partitions[0], 1)
    assert not [each for result in driven.results for each in result.requests]


def test_no_push_is_to_a_time_that_the_source_has_not_shown() -> None:
    log = HandLog(partitions=1)
    log.describe(PLAIN, OTHER)
    one, other = log.open_range(1, PLAIN.span), log.open_range(2, OTHER.span)
    one.apply(intent(7, 6))
    for seconds in range(7, 60):
        log.wait_for(at(seconds))
        one.heartbeat(seconds - 3)
        log.write_bytes(0, *_beat(other, seconds + 3_600, stamped=seconds + 3_600))
    driven = active(activation([PLAIN.descriptor]))
    pushes = [
        (request, int(result.offset or 0))
        for result in driven.run(log.partitions[0], 1)
        for request in result.requests
        if isinstance(request, Push)
    ]
    assert pushes
    for push, offset in pushes:
        written = max(
            record.timestamp for record in log.partitions[0][: offset + 1] if record.key == encode_key(one.id)
        )
        assert push.push_to.wall_ms <= written


@pytest.mark.parametrize("ahead_s", [2, 60, 3_600])
def test_no_push_of_a_range_that_is_alone_is_above_what_it_has_closed(ahead_s: int) -> None:
    log = HandLog(partitions=1)
    log.describe(PLAIN)
    one = log.open_range(1, PLAIN.span)
    one.apply(intent(7, 6))
    for seconds in range(7, 60):
        log.write_bytes(0, *_beat(one, seconds - 3, stamped=seconds + ahead_s))
    driven = active(activation([PLAIN.descriptor]))
    pushes = [
        (request, int(result.offset or 0))
        for result in driven.run(log.partitions[0], 1)
        for request in result.requests
        if isinstance(request, Push)
    ]
    assert pushes
    first = len(log.partitions[0]) - (60 - 7)
    for push, offset in pushes:
        assert push.push_to == at(7 - 3 + offset - first)


def test_a_range_that_begins_is_heard_at_once_beside_one_whose_clock_is_ahead() -> None:
    log = HandLog(partitions=1)
    log.describe(PLAIN, OTHER)
    ahead = log.open_range(2, OTHER.span)
    for seconds in range(7, 20):
        log.write_bytes(0, *_beat(ahead, seconds + 3_600, stamped=seconds + 3_600))
    log.wait_for(at(20))
    one = log.open_range(1, PLAIN.span, close=17)
    one.apply(intent(7, 19))
    driven = active(activation([PLAIN.descriptor]))
    driven.run(log.partitions[0], 1)
    assert not [each for result in driven.results for each in result.requests]
    assert _log_time(driven) <= 20 + LEAD_MS / 1_000


def test_a_state_of_before_whose_log_time_is_far_ahead_makes_nothing_wait() -> None:
    log = HandLog(partitions=1)
    log.describe(PLAIN, OTHER)
    one, other = log.open_range(1, PLAIN.span), log.open_range(2, OTHER.span)
    one.heartbeat(5)
    other.heartbeat(5)
    before = active(activation([PLAIN.descriptor]))
    before.run(log.partitions[0])
    position = read_position(before.state[StateTable.RANGES, POSITION_KEY])
    position.clock, position.log_time_ms = None, 10**15
    restored = Driven.restored(fold(before.state, [position_row(position)]))
    assert _log_time(restored) <= 5 + ABOVE_CLOSED_MS / 1_000
    one.apply(intent(7, 6))
    for seconds in range(7, 40):
        log.wait_for(at(seconds))
        for each in (one, other):
            each.heartbeat(seconds - 3)
    restored.run(log.partitions[0][int(restored.processor.next_offset or 0) :], 1)
    pushed = [
        push.push_to for result in restored.results for push in result.requests if isinstance(push, Push)
    ]
    assert pushed
    assert max(pushed).wall <= (BASE_S + 40) * NANOS_PER_SECOND


def test_a_restart_forgets_nothing_of_the_time() -> None:
    log = HandLog(partitions=1)
    log.describe(PLAIN)
    one = log.open_range(1, PLAIN.span)
    driven = active(activation([PLAIN.descriptor]))
    for seconds in range(5, 600, 5):
        log.wait_for(at(seconds))
        one.heartbeat(seconds)
        driven.run(log.partitions[0][int(driven.processor.next_offset or 0) :])
        driven = Driven.restored(driven.state)
    whole = active(activation([PLAIN.descriptor]))
    whole.run(log.partitions[0], 1)
    assert driven.processor.status().log_time_ms == whole.processor.status().log_time_ms
    then, now = (read_position(each.state[StateTable.RANGES, POSITION_KEY]).clock for each in (driven, whole))
    assert then is not None
    assert now is not None
    assert then == now


def test_a_range_that_writes_and_closes_nothing_is_not_waited_for() -> None:
    """It shows no time however often it is read, so it cannot hold what the others show."""
    clock = _running(_A, _B, _C)
    for second in range(1, 200):
        for range_id in (_A, _C):
            _hear(clock, range_id, _START + second * 1_000)
        clock.hear(_B, _START + second * 1_000, _START - 3_000)
    assert clock.time_ms == _START + 199_000
    pair = _running(_A, _B)
    for second in range(1, 200):
        _hear(pair, _A, _START + second * 1_000)
        pair.hear(_B, _START + second * 1_000, _START - 3_000)
    assert pair.elapsed_ms > 100_000, "waits go on beside it"
