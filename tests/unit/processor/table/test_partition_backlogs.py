"""Backlogs of ranges that wait: whose turn it is, and what is still to be said of one that is forgotten."""

from __future__ import annotations

from tests.hand_log import FIRST_INDEX
from tests.logs import Record
from tidegate.processor.table.partition_backlogs import Backlogs
from tidegate.raftlog.entry import Offset, RaftIndex, RangeId
from tidegate.ranges.backlog import MemoryQueue, RawEntry
from tidegate.ranges.handoff import Claim
from tidegate.spans import Span

_RANGE, _OTHER = RangeId(3), RangeId(5)


def _claim(parent: int) -> Claim:
    return Claim(_RANGE, RangeId(parent), RaftIndex(FIRST_INDEX), Span(b"a", b"z"))


def test_claims_that_a_backlog_left_out_are_sent_once_also_when_it_is_forgotten_meanwhile() -> None:
    backlogs = Backlogs(None)
    for range_id in (_RANGE, _OTHER):
        backlogs.hold(range_id, Record(7, b"", b"", 0)).skipped = [_claim(range_id + 1)]
    backlogs.drop(_RANGE)
    assert sorted(backlogs.take_skipped()) == [_claim(_RANGE + 1), _claim(_OTHER + 1)]
    backlogs.drop(_OTHER)
    assert backlogs.take_skipped() == []


class _Queue(MemoryQueue):
    """A queue that notes whether it was closed."""

    closed = False

    def close(self) -> None:
        super().close()
        self.closed = True


def _record(offset: int) -> Record:
    return Record(offset, b"key", b"value", 5)


def _ready(*range_ids: RangeId) -> Backlogs:
    backlogs = Backlogs(None)
    for range_id in range_ids:
        backlogs.hold(range_id, _record(7))
        backlogs.let_go_on(range_id)
    return backlogs


def test_ready_backlogs_are_applied_in_turns() -> None:
    third = RangeId(7)
    backlogs = _ready(_RANGE, _OTHER, third)
    turns = [_RANGE, _OTHER, third]
    assert [backlogs.next_ready() for _ in range(6)] == turns * 2
    backlogs.hold(_OTHER, _record(9))
    assert [backlogs.next_ready() for _ in range(4)] == [_RANGE, third] * 2
    for range_id in (_RANGE, third):
        assert backlogs.ready
        backlogs.drop(range_id)
    assert not backlogs.ready
    backlogs.clear(_OTHER)
    assert backlogs.next_ready() == _OTHER


def _applied(backlogs: Backlogs, entry_bytes: int) -> bool:
    """Whether backlogs come first after so many bytes of them were applied."""
    backlogs.note_applied(entry_bytes)
    return backlogs.come_first


def test_ready_backlogs_come_first_until_twice_as_much_was_taken_out_as_was_put_in() -> None:
    backlogs = _ready(_RANGE)
    assert not backlogs.come_first
    backlogs.note_put_off(_RANGE, 10)
    assert [_applied(backlogs, each) for each in (0, 19, 1, 5)] == [True, True, False, False]
    backlogs.note_put_off(_RANGE, 1)  # what was taken out beyond that does not count for what comes later
    assert [_applied(backlogs, each) for each in (0, 1, 1)] == [True, True, False]


def test_no_backlog_comes_first_while_none_is_ready() -> None:
    backlogs = _ready(_RANGE)
    backlogs.note_put_off(_RANGE, 10)
    backlogs.hold(_RANGE, _record(9))
    assert not backlogs.come_first


def test_what_is_put_into_a_backlog_that_waits_is_not_taken_out_first() -> None:
    backlogs = _ready(_OTHER)
    backlogs.hold(_RANGE, _record(7))
    backlogs.note_put_off(_RANGE, 10)
    assert not backlogs.come_first
    assert backlogs.ready


def test_a_range_has_one_backlog_which_begins_with_the_record_that_it_was_held_at() -> None:
    queues: dict[RangeId, _Queue] = {}

    def queue(range_id: RangeId) -> _Queue:
        queues[range_id] = _Queue()
        return queues[range_id]

    backlogs = Backlogs(queue)
    backlog = backlogs.hold(_RANGE, _record(7))
    assert backlogs.hold(_RANGE, _record(9)) is backlog is backlogs[_RANGE] is backlogs.get(_RANGE)
    assert [*backlogs.items()] == [(_RANGE, backlog)]
    assert (len(backlog.queue), backlog.queue.first()) == (1, RawEntry(7, b"key", b"value", 5))
    assert (_RANGE in backlogs, _OTHER in backlogs) == (True, False)
    assert backlogs.get(_OTHER) is None
    backlogs.drop(_RANGE)
    assert queues[_RANGE].closed
    assert _RANGE not in backlogs


def test_a_range_whose_wait_has_ended_waits_for_nothing() -> None:
    backlogs = Backlogs(None)
    backlog = backlogs.hold(_RANGE, _record(7))
    backlog.missing, backlog.waits_at = frozenset([_claim(4)]), Offset(7)
    backlogs.clear(_RANGE)
    assert (backlog.missing, backlog.parked) == (frozenset(), False)


def test_claims_that_a_backlog_left_out_are_sent_once() -> None:
    backlogs = Backlogs(None)
    backlogs.hold(_RANGE, _record(7)).skipped = [_claim(4)]
    assert backlogs.take_skipped() == [_claim(4)]
    assert backlogs.take_skipped() == []
