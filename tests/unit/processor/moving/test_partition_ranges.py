"""The ranges of one log partition as its steps see them: what changed, what is asked for, what is behind."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tests.hand_log import HandLog
from tests.unit.processor.catchup.partition_parts import CHILD, HERE
from tests.unit.processor.driving import Driven
from tests.unit.processor.logs import PLAIN
from tests.unit.processor.moving.waiting_parts import claim_of, record
from tests.unit.processor.partitions import FEED
from tidegate.processor.batch import ExchangeRecord
from tidegate.processor.bounds import BOUNDS
from tidegate.processor.feeds.feed_table import PartitionFeeds
from tidegate.processor.feeds.row_reckoning import RowReckoning
from tidegate.processor.feeds.version_rows import PartitionRows
from tidegate.processor.moving.partition_ranges import PartitionRanges
from tidegate.processor.processor import PartitionProcessor
from tidegate.raftlog.entry import Offset, RangeId
from tidegate.ranges.range_state import RangeState
from tidegate.spans import Span


def _ranges() -> PartitionRanges:
    """The ranges of partition 0 of 2."""
    feeds = PartitionFeeds(0)
    reckoning = RowReckoning(PartitionRows(), feeds)
    return PartitionRanges(0, 2, feeds, None, None, None, None, BOUNDS, reckoning, 1 << 20)


def _ids(states: Sequence[RangeState]) -> list[RangeId]:
    return [state.range_id for state in states]


@pytest.mark.parametrize("waits", [True, False])
def test_of_the_touched_ranges_those_count_that_have_applied_all_entries(waits: bool) -> None:
    ranges = _ranges()
    for range_id in (HERE, CHILD):
        ranges.table.touch(range_id)
    if waits:
        ranges._backlogs.hold(CHILD, record(40))
    assert _ids([*ranges.touched]) == ([HERE] if waits else [HERE, CHILD])
    assert [ranges.has_backlog(range_id) for range_id in (HERE, CHILD)] == [False, waits]
    assert _ids([state for state, _ in ranges.backlogs]) == [CHILD] * waits


def test_a_range_that_has_read_everything_again_is_behind_only_if_it_has_a_backlog() -> None:
    ranges = _ranges()
    for range_id, behind in ((HERE, 40), (CHILD, 30), (RangeId(6), None)):
        ranges.table.touch(range_id).behind = None if behind is None else Offset(behind)
    ranges._backlogs.hold(CHILD, record(30))
    ranges.table.touched.clear()
    assert ranges.lowest_behind == 30
    ranges.catch_up()
    assert [state.behind for state in ranges] == [None, 30, None]
    assert [*ranges.table.touched] == [HERE], "its row is stored again"
    assert ranges.lowest_behind == 30


def test_claims_on_a_restored_range_are_answered_once_it_comes_to_their_index() -> None:
    log = HandLog(2)
    log.describe(PLAIN)
    parent = log.open_range(HERE, PLAIN.span)
    driven = Driven(PartitionProcessor(0, 2))
    driven.control(FEED)
    driven.run(log.partitions[0])
    claim = claim_of(RangeId(3), HERE, index=parent.index + 1, span=PLAIN.split(100)[1])
    driven.note(driven.processor.exchange([ExchangeRecord(Offset(0), claim)]))
    restored = Driven.restored(driven.state, 0, 2)
    parent.split(PLAIN.key(100), 3, close=4)
    restored.run(log.partitions[0][int(restored.processor.next_offset or 0) :])
    assert [message.claim for result in restored.results for message in result.exchanges] == [claim]  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("span", "asked"),
    [
        (Span(b"abcd", b"abce"), Span(b"abcd", b"abce")),
        (Span(b"abcdef", b"abcxyz"), Span(b"abcd", b"abcy")),
        (Span(b"abc", b"abcxy"), Span(b"abc", b"abcy")),
    ],
)
def test_a_scan_is_asked_for_with_bounds_that_fit_a_record(span: Span, asked: Span) -> None:
    """What is asked for has all that is wanted; rows beside it are passed over."""

    class _Short:
        key_bytes = 4

    ranges = _ranges()
    ranges._bounds = _Short()  # type: ignore[assignment]
    assert ranges._asked(span) == asked
