"""Markers on a topic of their own count once the rows that they speak of were read."""

from __future__ import annotations

import pytest

from tests.unit.subscribe.gate.records import ONE, OTHER, gate, row, shown
from tidegate.changefeed.encoding.resolved_topic import offset_marker_value
from tidegate.errors import MarkerFell, UnreadableRow
from tidegate.hlc import ResolvedTimestamp, Timestamp
from tidegate.subscribe.gate.feed_record import FeedPartition, FeedRecord
from tidegate.subscribe.gate.side_markers import SideMarkers

MARKERS = FeedPartition("resolved", 0)


def side_marker(offset: int, wall: int, **ends: int) -> FeedRecord:
    """A marker that names the ends of topics."""
    return FeedRecord(offset, None, offset_marker_value(ResolvedTimestamp(Timestamp(wall)), ends))


def test_a_marker_waits_until_the_rows_below_its_offset_were_read() -> None:
    rows = gate(ONE)
    side = SideMarkers("resolved", [ONE], rows)
    side.add_record(MARKERS, side_marker(4, 9, t=2, other=7))
    rows.add_record(ONE, row(0, 1, 5))
    side.reach(ONE, 1)
    assert rows.open() is None
    rows.add_record(ONE, row(1, 2, 6))
    side.reach(ONE, 2)
    assert shown(rows.open()) == [(5, b"[1]"), (6, b"[2]")]


def test_a_marker_whose_rows_were_read_counts_at_once() -> None:
    rows = gate(ONE)
    side = SideMarkers("resolved", [ONE], rows)
    rows.add_record(ONE, row(0, 1, 5))
    side.add_record(MARKERS, side_marker(0, 9, t=1))
    assert shown(rows.open()) == [(5, b"[1]")]


def test_a_position_that_was_told_before_the_marker_counts() -> None:
    rows = gate(ONE)
    side = SideMarkers("resolved", [ONE], rows)
    side.reach(ONE, 7)
    side.add_record(MARKERS, side_marker(0, 9, t=7))
    assert shown(rows.open()) == []


def test_each_partition_has_its_own() -> None:
    rows = gate(ONE, OTHER)
    side = SideMarkers("resolved", [ONE, OTHER], rows)
    side.add_record(MARKERS, side_marker(0, 9, t=0))
    assert rows.open() is None
    side.add_record(FeedPartition("resolved", 1), side_marker(0, 8, t=0))
    assert shown(rows.open()) == []
    assert rows.delivered == Timestamp(8)


def test_what_a_resume_has_to_read_again() -> None:
    rows = gate(ONE, OTHER)
    side = SideMarkers("resolved", [ONE, OTHER], rows)
    side.add_record(MARKERS, side_marker(3, 9, t=0))
    side.add_record(MARKERS, side_marker(4, 10, t=5))
    side.add_record(FeedPartition("resolved", 1), side_marker(6, 10, t=0))
    rows.open()
    assert rows.delivered == Timestamp(9)
    assert rows.offsets() == {ONE: 0, OTHER: 0}
    assert side.offsets() == {MARKERS: 4, FeedPartition("resolved", 1): 6}


def test_rows_that_were_delivered_are_not_read_again_for_a_marker_aside() -> None:
    rows = gate(ONE, OTHER)
    side = SideMarkers("resolved", [ONE, OTHER], rows)
    for offset in range(3):
        rows.add_record(ONE, row(offset, offset, 5))
    side.add_record(MARKERS, side_marker(0, 9, t=3))
    side.add_record(FeedPartition("resolved", 1), side_marker(0, 6, t=0))
    rows.open()
    assert rows.offsets() == {ONE: 3, OTHER: 0}


def test_markers_that_fall_and_what_is_no_marker_are_refused() -> None:
    rows = gate(ONE)
    side = SideMarkers("resolved", [ONE], rows)
    side.add_record(MARKERS, side_marker(0, 9, t=0))
    with pytest.raises(MarkerFell):
        side.add_record(MARKERS, side_marker(1, 8, t=0))
    with pytest.raises(UnreadableRow):
        side.add_record(MARKERS, FeedRecord(2, None, b"{}"))
