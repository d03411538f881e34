"""Segments wait until the minimum is above the marker that they begin with."""

from __future__ import annotations

from tidegate.hlc import Timestamp
from tidegate.subscribe.gate.row_chunk import RowChunk, int_column
from tidegate.subscribe.gate.segment_queue import SegmentQueue


def test_a_segment_waits_while_the_minimum_is_at_the_marker_before_it() -> None:
    queue = SegmentQueue()
    queue.add(_chunk(11, 12))
    queue.end(Timestamp(10))
    assert queue.take_below(Timestamp(10)) == []
    assert _walls(queue.take_below(Timestamp(11))) == [11, 12]
    assert queue.rows == 0


def test_the_open_segment_waits_whatever_the_minimum_is() -> None:
    queue = SegmentQueue()
    queue.add(_chunk(11))
    assert queue.take_below(Timestamp(20)) == []
    assert queue.rows == 1


def test_the_first_offset_is_that_of_the_oldest_row() -> None:
    queue = SegmentQueue()
    assert queue.first_offset() is None
    queue.add(_chunk(11))
    queue.end(Timestamp(10))
    queue.add(_chunk(21))
    assert queue.first_offset() == 11
    queue.take_below(Timestamp(15))
    assert queue.first_offset() == 21


def test_all_rows_can_be_taken_at_once() -> None:
    queue = SegmentQueue()
    queue.add(_chunk(11))
    queue.end(Timestamp(10))
    queue.add(_chunk(21, 22))
    assert _walls(queue.take_all()) == [11, 21, 22]
    assert (queue.rows, queue.take_all(), queue.take_below(Timestamp(99))) == (0, [], [])


def _chunk(*walls: int) -> RowChunk:
    """Rows whose offsets are their walls."""
    column = int_column(walls)
    none = [None] * len(walls)
    return RowChunk(column, column, int_column([0] * len(walls)), [b"[1]"] * len(walls), [*none], [*none], 0)


def _walls(chunks: list[RowChunk]) -> list[int]:
    return [int(wall) for chunk in chunks for wall in chunk.walls]
