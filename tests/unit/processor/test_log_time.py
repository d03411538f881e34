"""Log time of a partition, as its records show it; and what goes by it."""

from __future__ import annotations

import pytest

from tests.feeds import activation
from tests.hand_log import BASE_S, HandLog, HandRange, at, closed, intent
from tests.unit.processor.driving import Driven, active, fold
from tests.unit.processor.logs import OTHER, PLAIN
from tidegate.hlc import NANOS_PER_SECOND
from tidegate.processor.batch import StateTable
from tidegate.processor.log_clock import ABOVE_CLOSED_MS, LEAD_MS
from tidegate.processor.processor import PartitionProcessor
from tidegate.processor.state.position_hash import POSITION_KEY
from tidegate.processor.state.state_codec import position_row, read_position
from tidegate.raftlog.encode import encode_entry, encode_key
from tidegate.raftlog.entry import Generation, Heartbeat, RaftIndex
from tidegate.raftlog.request import Push


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


def _pushes(log: HandLog) -> list[tuple[Push, int]]:
    """The pushes that a feed of the log asks for, each with the offset at which it is asked for."""
    return [
        (request, int(result.offset or 0))
        for result in active(activation([PLAIN.descriptor])).run(log.partitions[0], 1)
        for request in result.requests
        if isinstance(request, Push)
    ]


def test_no_push_is_to_a_time_that_the_source_has_not_shown() -> None:
    log = HandLog(partitions=1)
    log.describe(PLAIN, OTHER)
    one, other = log.open_range(1, PLAIN.span), log.open_range(2, OTHER.span)
    one.apply(intent(7, 6))
    for seconds in range(7, 60):
        log.wait_for(at(seconds))
        one.heartbeat(seconds - 3)
        log.write_bytes(0, *_beat(other, seconds + 3_600, stamped=seconds + 3_600))
    pushes = _pushes(log)
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
    pushes = _pushes(log)
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
