"""Backlogs of ranges that wait: what is still to be said of one that is forgotten."""

from __future__ import annotations

from tests.hand_log import FIRST_INDEX
from tests.logs import Record
from tidegate.processor.table.partition_backlogs import Backlogs
from tidegate.raftlog.entry import RaftIndex, RangeId
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
