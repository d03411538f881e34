"""Log time: what two ranges have shown, whatever single records say; and what elapses of it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.processor.log_clock import (
    ABOVE_CLOSED_MS,
    BACK_MS,
    BELOW_MAX,
    HEARINGS,
    LEAD_MS,
    SETTLED_MS,
    STEP_MS,
    ClockState,
    LogClock,
    Voice,
)
from tidegate.processor.state.state_codec import Position, position_row, read_position
from tidegate.raftlog.entry import RangeId

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


# ---- the numbers of docs/protocols/log-time.md: what happens at a border, and beside it

_KNOWN: Final = 8  # so many ranges that are waited for are known, and as many silent ones
_UNKNOWN: Final = RangeId(99)
_SECOND: Final = 1_000


def _hear_often(clock: LogClock, range_id: RangeId, times: int) -> None:
    """One range is heard so many times, a second later each time."""
    first = max(voice.shown_ms for voice in clock.state().voices)
    for number in range(1, times + 1):
        _hear(clock, range_id, first + number * _SECOND)


def _known(clock: LogClock) -> set[int]:
    return {int(voice.range_id) for voice in clock.state().voices}


def test_a_new_clock_has_heard_nothing_and_its_elapsed_time_is_not_zero() -> None:
    """Zero stands for a time that is not known."""
    assert LogClock().state() == ClockState(elapsed_ms=1)


@pytest.mark.parametrize("time_ms", [_START, _START + 1, _START + 2])
@pytest.mark.parametrize(
    ("below_ms", "one_in"),
    [(0, 32), (BACK_MS - 1, 32), (BACK_MS, 5), (_HOUR, 5)],
    ids=["at log time", "below", "far below", "an hour below"],
)
def test_of_the_records_that_are_not_above_log_time_some_are_looked_at(
    below_ms: int, one_in: int, time_ms: int
) -> None:
    """The time of a record that was looked at decides how soon the next one is."""
    clock = LogClock()
    _hear(clock, _A, time_ms + below_ms)
    looked_at = [number for number in range(200) if clock.wants(time_ms)]
    assert looked_at == [*range(one_in - 1, 200, one_in - time_ms % 3)]
    assert clock.wants(time_ms + below_ms + 1)


@pytest.mark.parametrize(("times", "silent"), [(HEARINGS - 1, False), (HEARINGS, True)])
def test_a_range_is_silent_when_others_were_heard_so_often(times: int, silent: bool) -> None:
    clock = _running(_A, _B)
    _hear_often(clock, _A, times)
    assert clock.shown_ms == (_START + times * _SECOND if silent else _START)


@pytest.mark.parametrize(("more_ms", "heard"), [(_SECOND - 1, 0), (_SECOND, 1)])
def test_a_range_is_heard_when_it_has_closed_a_second_more(more_ms: int, heard: int) -> None:
    clock = _running(_A, _B)
    before = clock.state().hearings
    _hear(clock, _A, _START + more_ms)
    assert clock.state().hearings == before + heard


def test_log_time_stays_while_all_ranges_that_are_left_are_silent() -> None:
    clock = _running(_A, _B)
    _hear_often(clock, _A, HEARINGS)
    clock.forget(_A)
    before = clock.reading()
    _hear(clock, _B, _START + 1)
    assert clock.reading()[:3] == before[:3]
    _hear(clock, _B, _START + _HOUR)
    assert clock.time_ms == _START + _HOUR


# ---- set back


@pytest.mark.parametrize(("back_ms", "fell"), [(BACK_MS - 1, False), (BACK_MS, True)])
def test_a_clock_has_gone_back_when_it_falls_by_ten_seconds(back_ms: int, fell: bool) -> None:
    clock = _running(_A)
    clock.hear(_A, _START - back_ms, 0)
    assert clock.state().fell_at == (_START - back_ms if fell else None)


def test_a_clock_that_came_back_and_falls_again_is_believed_after_as_long_a_time() -> None:
    clock = _running(_A)
    elapsed_ms = clock.elapsed_ms
    fallen = _START - _HOUR
    for time_ms in (fallen, fallen + SETTLED_MS - 1, _START - BACK_MS + 1, fallen + SETTLED_MS):
        clock.hear(_A, time_ms, 0)
    clock.hear(_A, fallen + 2 * SETTLED_MS - 1, 0)
    assert clock.elapsed_ms == elapsed_ms
    clock.hear(_A, fallen + 2 * SETTLED_MS, 0)
    assert clock.elapsed_ms == elapsed_ms
    clock.hear(_A, fallen + 2 * SETTLED_MS + 7, 0)
    assert clock.elapsed_ms == elapsed_ms + 7


@pytest.mark.parametrize(("passes_ms", "counts_ms"), [(STEP_MS, STEP_MS), (STEP_MS + 1, STEP_MS)])
def test_half_a_minute_elapses_at_most_between_two_looks(passes_ms: int, counts_ms: int) -> None:
    clock = _running(_A)
    before = clock.elapsed_ms
    _hear(clock, _A, _START + passes_ms)
    assert clock.elapsed_ms == before + counts_ms


# ---- which ranges are known


def test_of_the_ranges_that_are_waited_for_those_with_the_highest_times_are_known() -> None:
    clock = LogClock()
    for number in range(1, _KNOWN + 1):
        _hear(clock, RangeId(number), _START + number)
        assert _known(clock) == {*range(1, number + 1)}
    _hear(clock, RangeId(100), _START + 100)
    assert _known(clock) == {*range(2, _KNOWN + 1), 100}
    _hear(clock, RangeId(101), _START)
    assert _known(clock) == {*range(2, _KNOWN + 1), 100}


def test_of_the_silent_ranges_those_heard_last_are_known() -> None:
    clock = _running(*map(RangeId, range(1, _KNOWN + 1)))
    for number in range(2, _KNOWN + 1):
        _hear(clock, RangeId(number), _START + number * _SECOND)
    _hear_often(clock, _A, HEARINGS)
    assert _known(clock) == {*range(1, _KNOWN + 1)}
    later = range(11, 10 + _KNOWN)
    for number in later:
        _hear(clock, RangeId(number), clock.time_ms)
    _hear_often(clock, _A, HEARINGS)
    assert _known(clock) == {1, _KNOWN, *later}


# ---- the unknown range


def _with_unknown() -> LogClock:
    """A clock that knows as many ranges as it can, and has heard one that it does not know."""
    clock = _running(*map(RangeId, range(1, _KNOWN + 1)))
    _hear(clock, _UNKNOWN, _START - _HOUR)
    assert _UNKNOWN not in _known(clock)
    return clock


@pytest.mark.parametrize(("more_ms", "heard"), [(-1, 0), (_SECOND - 1, 0), (_SECOND, 1), (_SECOND + 1, 1)])
def test_the_unknown_range_is_heard_when_it_has_closed_a_second_more(more_ms: int, heard: int) -> None:
    clock = _with_unknown()
    before = clock.state()
    _hear(clock, RangeId(_UNKNOWN + 1), _START - _HOUR + more_ms)
    after = clock.state()
    assert after.hearings == before.hearings + heard
    assert after.others_ms == before.others_ms + heard * more_ms
    assert after.voices == before.voices


@pytest.mark.parametrize("less_ms", [_SECOND, _SECOND + 1, _HOUR])
def test_what_the_unknown_range_has_closed_is_forgotten_when_many_records_in_a_row_are_below(
    less_ms: int,
) -> None:
    clock = _with_unknown()
    time_ms, others_ms = _START - _HOUR, clock.state().others_ms
    for _ in range(3):
        for _ in range(BELOW_MAX - 1):
            _hear(clock, _UNKNOWN, time_ms - less_ms)
            assert clock.state().others_ms == others_ms
        time_ms, others_ms = time_ms - less_ms, others_ms - less_ms
        _hear(clock, _UNKNOWN, time_ms)
        assert clock.state().others_ms == others_ms


@pytest.mark.parametrize("more_ms", [-_SECOND + 1, 0, _SECOND - 1])
def test_a_record_of_the_unknown_range_that_is_not_below_begins_the_count_anew(more_ms: int) -> None:
    clock = _with_unknown()
    others_ms, time_ms = clock.state().others_ms, _START - _HOUR
    for _ in range(2):
        for _ in range(BELOW_MAX - 1):
            _hear(clock, _UNKNOWN, time_ms - _SECOND)
        _hear(clock, _UNKNOWN, time_ms + more_ms)
    assert clock.state().others_ms == others_ms


def test_the_range_by_which_a_known_one_falls_silent_is_known_from_then_on() -> None:
    clock = _with_unknown()
    for number in range(2, _KNOWN + 1):
        _hear(clock, RangeId(number), _START + _SECOND)  # all but one were heard since
    heard = clock.state().hearings
    for number in range(1, HEARINGS - heard):
        _hear(clock, _UNKNOWN, _START - _HOUR + number * _SECOND)
        assert _UNKNOWN not in _known(clock)
    time_ms = _START - _HOUR + HEARINGS * _SECOND
    _hear(clock, _UNKNOWN, time_ms)
    closed_ms = time_ms - 3_000
    state = clock.state()
    assert state.hearings == HEARINGS
    assert state.voices[-1] == Voice(_UNKNOWN, time_ms, closed_ms, closed_ms, HEARINGS)


# ---- what an earlier version stored


def test_a_time_of_an_earlier_version_counts_as_elapsed_and_up_to_what_any_range_has_closed() -> None:
    clock = LogClock()
    clock.guess(_START, [_START - _HOUR, _START - 2 * _HOUR])
    assert clock.elapsed_ms == _START, "its scans stored the record times of their requests"
    assert clock.time_ms == _START - _HOUR + ABOVE_CLOSED_MS


def test_a_time_of_an_earlier_version_counts_alone_if_nothing_was_closed() -> None:
    clock = LogClock()
    clock.guess(_START, [])
    assert clock.time_ms == _START
    assert clock.elapsed_ms == _START


def test_a_range_counts_for_five_seconds_above_the_second_one() -> None:
    clock = _running(_A, _B)
    for ahead_ms in (LEAD_MS, LEAD_MS + 1):
        _hear(clock, _A, _START + ahead_ms)
        assert (clock.shown_ms, clock.time_ms) == (_START, _START + LEAD_MS)
