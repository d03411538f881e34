"""The scans by which feeds catch up: what each brings, what it holds meanwhile, and which begins when."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.hand_log import at
from tests.unit.processor.catchup.late_ranges import LateRanges, first_row, key_of
from tests.unit.processor.late_feed import LATE, kv, late_feed
from tests.unit.processor.logs import PLAIN
from tidegate.changefeed.definition.feed import FeedId
from tidegate.changefeed.definition.options import InitialScan
from tidegate.changefeed.lifecycle.control import Activate
from tidegate.hlc import Timestamp
from tidegate.processor.catchup.gap_scans import CatchUpLimits
from tidegate.processor.table.silence import SILENT_MS
from tidegate.raftlog.entry import RangeId, Trigger
from tidegate.spans import Span

_SILENT_S = SILENT_MS // 1000


def test_the_first_key_that_no_chunk_has_covered_waits_for_its_chunk() -> None:
    late = LateRanges(1)
    late.answer(1, first_row(1), span=Span(PLAIN.span.start, key_of(50)), last=False)
    late.ranges[0].apply(PLAIN.put(3, 50, "held"), PLAIN.put(3, 49, "covered"), close=2)
    late.run()
    assert late.times() == [at(1), at(3)]
    late.answer(1, kv(1, 50, "before"), span=Span(key_of(50), PLAIN.span.end))
    assert late.times() == [at(1), at(3), at(1), at(3)]
    assert not late.statuses


def test_the_first_key_behind_a_gap_does_not_wait() -> None:
    late = LateRanges(2)
    late.answer(2, first_row(2))
    left, right = late.ranges
    left.merge(right, close=4)
    left.apply(PLAIN.put(5, 100, "five"), close=4)
    late.run()
    assert late.times() == [at(1), at(5)]
    assert late.scans[-1].span == Span(PLAIN.span.start, key_of(100))


# ---- how much is held


def _held(late: LateRanges, *numbers: int) -> tuple[int, int]:
    """The bytes that scans hold of these rows of second 3, and those of rows that will be made of them."""
    for number in numbers:
        late.ranges[number // 100].apply(PLAIN.put(3, number, "held"), close=2)
        late.run()
    return late.held_bytes, sum(
        each.held_row_bytes for each in late.driven.processor._ranges.catch_ups._scans.values()
    )


@pytest.mark.parametrize("of", ["held_bytes", "held_row_bytes"])
def test_scans_hold_as_many_bytes_as_the_bound_and_not_one_more(of: str) -> None:
    both = dict(zip(("held_bytes", "held_row_bytes"), _held(LateRanges(1), 1), strict=True))
    within, beyond = (CatchUpLimits(**{of: both[of] - less}) for less in (0, 1))
    assert _held(LateRanges(1, within), 1)[0] > 0
    assert _held(LateRanges(1, beyond), 1) == (0, 0)


@pytest.mark.parametrize("of", ["held_bytes", "held_row_bytes"])
def test_of_several_scans_the_one_that_holds_most_drops_what_it_holds(of: str) -> None:
    names = "held_bytes", "held_row_bytes"
    one, three = (
        dict(zip(names, _held(LateRanges(2), *numbers), strict=True)) for numbers in ((101,), (1, 2, 3))
    )
    late = LateRanges(2, CatchUpLimits(**{of: three[of]}))
    assert dict(zip(names, _held(late, 1, 2, 3, 101), strict=True)) == one
    late.answer(1, first_row(1))
    late.answer(2, first_row(2))
    assert late.times() == [at(1), at(1), at(3)]
    assert (late.scans[-1].range_id, late.scans[-1].after, late.scans[-1].upto) == (1, at(1), at(3))


# ---- which scans are under way


def _in_halves(message: Activate) -> LateRanges:
    """Of range 1 rows have come for the lower half alone: up to second 1, or to the start of an initial scan.

    Versions above that were not held.
    """
    late = LateRanges(2, CatchUpLimits(held_bytes=1), message)
    late.ranges[0].apply(PLAIN.put(3, 1, "not held"), close=2)
    late.answer(1, span=Span(PLAIN.span.start, key_of(50)), last=False)
    return late


@pytest.mark.parametrize(
    ("message", "after"),
    [(late_feed(cursor=0.5), at(0.5)), (late_feed(scan=InitialScan.YES, start=2), None)],
    ids=["cursor", "initial scan"],
)
def test_the_least_complete_gap_of_a_range_comes_first(message: Activate, after: Timestamp | None) -> None:
    late = _in_halves(message)
    late.restart()
    scan = next(each for each in reversed(late.scans) if each.range_id == 1)
    assert (scan.range_id, scan.span, scan.after) == (1, Span(key_of(50), key_of(100)), after)


def test_an_answer_to_a_request_of_the_same_moment_takes_no_place() -> None:
    late = LateRanges(5, CatchUpLimits(scans=2))
    late.answer(2, first_row(2))
    late.elapse(100)
    assert late.under_way == 2


def test_the_more_scans_there_may_be_the_more_may_stand() -> None:
    late = LateRanges(11, CatchUpLimits(scans=2))
    for number in range(1, 6):
        assert late.under_way == 2 * number
        for _ in range(2):
            for each in late.ranges:
                each.heartbeat(2)
            late.run()
            late.elapse(_SILENT_S / 2)


def test_a_scan_gives_its_place_once_a_later_request_was_answered() -> None:
    late = LateRanges(5, CatchUpLimits(scans=2))
    assert late.asked == [1, 2]
    late.elapse(10)
    late.answer(2, first_row(2))
    assert late.asked == [1, 2, 3]
    late.elapse(20)
    late.answer(3, first_row(3))
    late.elapse(29.999)
    assert late.under_way == 2
    late.elapse(0.001)
    assert late.under_way == 3, "range 1 has not answered for 60 s"


def test_an_answer_to_an_earlier_request_takes_no_place_away() -> None:
    late = LateRanges(6, CatchUpLimits(scans=3))
    late.elapse(10)
    late.answer(2, first_row(2))
    late.elapse(10)
    late.answer(4, first_row(4))
    late.answer(3, first_row(3))
    assert late.asked == [1, 2, 3, 4, 5, 6]
    late.elapse(40)
    assert late.under_way == 3


def test_feeds_take_turns() -> None:
    late = LateRanges(4, CatchUpLimits(scans=1))
    late.begin_another("other")
    turns = []
    for _ in range(8):
        turns.append(next(each.feed_id for each in late.statuses.values() if each.scans))
        late.answer(late.asked[-1], first_row(late.asked[-1]))
    assert turns == [LATE, *[LATE, "other"] * 3, "other"]
    assert not late.statuses


# ---- versions that the source has removed


@pytest.mark.parametrize(
    ("gc", "told"),
    [(0.5, None), (0.75, 0.5), (1, 0.5), (2, 1)],
    ids=["at a gap", "above one gap", "above one, at the other", "above both"],
)
def test_a_feed_fails_if_any_of_its_gaps_begins_below_what_the_source_has_removed(
    gc: float, told: float | None
) -> None:
    late = _in_halves(late_feed(cursor=0.5))
    late.ranges[0].snapshot(close=2, high=3, gc=gc)
    late.run()
    causes = [cause for cause in late.driven.causes if f"GC threshold {at(gc)}" in cause]
    assert [str(at(told or 0)) in cause for cause in causes] == [True] * (told is not None)


def test_an_answer_from_which_the_source_may_have_removed_versions_is_not_taken() -> None:
    late = LateRanges(1)
    late.ranges[0].snapshot(close=2, high=1, gc=0.75)
    late.answer(1, first_row(1))
    assert late.times() == []


def test_what_the_source_has_removed_is_not_asked_for() -> None:
    late = LateRanges(1, message=late_feed(cursor=2))
    late.ranges[0].snapshot(close=2, high=1, gc=2)
    late.run()
    earlier = late_feed(cursor=0.5)
    late.begin(replace(earlier, definition=replace(earlier.definition, id=FeedId("earlier"))))
    assert any(f"above {at(0.5)}" in cause for cause in late.driven.causes)
    assert late.scans == []


# ---- ranges that nobody reads


def test_a_range_is_not_left_for_its_silence_while_no_feed_waits_for_it() -> None:
    late = LateRanges(1)
    late.ranges[0].apply(close=2, trigger=Trigger.SPLIT)  # it cannot be scanned before its next snapshot
    late.run()
    late.driven.note(late.driven.processor.detach(LATE, []))
    late.elapse(2 * _SILENT_S)
    assert late.left() == []
    late.driven.note(late.driven.processor.resume(LATE))
    assert late.left() == [1]


def test_a_range_that_feeds_wait_for_is_left_for_its_silence() -> None:
    late = LateRanges(1)
    late.elapse(_SILENT_S - 1)
    assert late.left() == []
    late.elapse(1)
    assert late.left() == [1]


def test_a_range_is_left_only_when_it_was_asked_for_a_minute() -> None:
    late = LateRanges(2, CatchUpLimits(scans=1))
    late.elapse(_SILENT_S - 20)
    late.answer(1, first_row(1))
    late.elapse(59.999)
    assert late.left() == []
    late.elapse(0.001)
    assert late.left() == [2]


def test_a_range_that_an_earlier_version_stored_is_left_later() -> None:
    """That version did not store when a record of the range was read last."""
    late = LateRanges(1)
    late.driven.processor._ranges.table.touch(RangeId(1)).heard_ms = None
    late.elapse(59)
    late.elapse(1)
    late.elapse(_SILENT_S - 1)
    assert late.left() == []
    late.elapse(1)
    assert late.left() == [1]


# ---- what an operator sees


@pytest.mark.parametrize(
    ("message", "lowest", "reserve_s"),
    [(late_feed(cursor=0.5), at(0.5), 0.1), (late_feed(scan=InitialScan.YES, start=2), None, 1.1)],
    ids=["cursor", "initial scan"],
)
def test_the_least_complete_gap_and_the_smallest_reserve_are_told(
    message: Activate, lowest: Timestamp | None, reserve_s: float
) -> None:
    late = _in_halves(message)
    late.answer(1, span=Span(key_of(50), key_of(100)))
    late.ranges[0].snapshot(close=2, high=3, gc=0.9)
    late.ranges[1].snapshot(close=2, high=1, gc=0.25)
    late.run()
    status = late.statuses[LATE]
    assert (status.ranges, status.complete_to, status.waiting) == (2, lowest, 2)
    assert status.reserve_ns == round(reserve_s * 1_000_000_000)


def test_the_scan_is_told_that_has_stood_for_the_longest_time() -> None:
    late = LateRanges(3, CatchUpLimits(scans=2))
    late.elapse(5)
    late.answer(1, first_row(1))
    late.elapse(3)
    standing = late.statuses[LATE].standing
    assert standing is not None
    assert (standing.range_id, standing.waits_ms) == (2, 8_000)
    assert standing.request_id == late.scans[1].request_id
