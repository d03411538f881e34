"""Checkpoints as records: they round-trip, and large ones come in pieces that say the same."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.changefeed.definition.feed import FIRST_EPOCH, FeedId
from tidegate.errors import ForeignRecord
from tidegate.hlc import ResolvedTimestamp, Timestamp
from tidegate.processor.batch import ActiveFeed, PartitionCheckpoint, RangeCheckpoint
from tidegate.processor.bounds import RecordBounds
from tidegate.processor.checkpoint import (
    PartitionProgress,
    checkpoint_key,
    decode_checkpoint,
    decode_report,
    encode_checkpoint,
    merged,
    read_report_record,
    report_of,
    split_checkpoint,
)
from tidegate.raftlog.entry import Generation, Offset, RangeId
from tidegate.spans import Span

_FEEDS = (ActiveFeed(FeedId("a"), FIRST_EPOCH), ActiveFeed(FeedId("b"), FIRST_EPOCH))


def _range(number: int, wall: int, key: bytes = b"k") -> RangeCheckpoint:
    span = Span(key, key + b"\xff")
    return RangeCheckpoint(RangeId(number), Generation(3), span, ResolvedTimestamp(Timestamp(wall)))


@given(st.lists(st.builds(_range, st.integers(1, 2**62), st.integers(1, 2**62), st.binary(max_size=9))))
def test_a_checkpoint_round_trips(ranges: list[RangeCheckpoint]) -> None:
    ended = (RangeId(3), RangeId(2**62))
    checkpoint = PartitionCheckpoint(4, Offset(77), _FEEDS, tuple(ranges), 1_700_000_000_000, ended)
    assert decode_checkpoint(encode_checkpoint(checkpoint)) == checkpoint


def test_a_large_checkpoint_comes_in_pieces_that_say_the_same_and_fit_into_a_record() -> None:
    ranges = tuple(_range(number, number, b"x" * 50) for number in range(1, 40_001))
    whole = PartitionCheckpoint(4, Offset(77), _FEEDS, ranges, 99, (RangeId(8),))
    pieces = list(split_checkpoint(whole))
    assert [piece.ended for piece in pieces] == [(8,)] + [()] * (len(pieces) - 1)
    assert tuple(item for piece in pieces for item in piece.ranges) == ranges
    assert all((piece.feeds, piece.offset) == (_FEEDS, 77) for piece in pieces)
    assert max(len(encode_checkpoint(piece)) for piece in pieces) < 500_000


def test_a_checkpoint_for_more_feeds_than_a_record_names_says_all_to_each_of_them() -> None:
    bounds = RecordBounds(20_000)
    feeds = tuple(ActiveFeed(FeedId(f"feed-{number:020}"), FIRST_EPOCH) for number in range(300))
    ranges = tuple(_range(number, number, b"x" * 50) for number in range(1, 101))
    ended = tuple(map(RangeId, range(1_000, 2_000)))
    pieces = list(split_checkpoint(PartitionCheckpoint(4, Offset(77), feeds, ranges, 99, ended), bounds))
    assert max(len(encode_checkpoint(piece)) for piece in pieces) <= bounds.piece_bytes
    for feed in feeds:
        told = [piece for piece in pieces if feed in piece.feeds]
        assert tuple(item for piece in told for item in piece.ranges) == ranges
        assert tuple(range_id for piece in told for range_id in piece.ended) == ended


def test_a_checkpoint_without_ranges_stays_one_record() -> None:
    empty = PartitionCheckpoint(4, Offset(77), _FEEDS, ())
    assert list(split_checkpoint(empty)) == [empty]


_WIDE_FEEDS = tuple(ActiveFeed(FeedId(f"feed-{number}-{'x' * 98}"), FIRST_EPOCH) for number in range(9))


@pytest.mark.parametrize(
    ("ranges", "feeds", "ended", "pieces"),
    [
        (20, 4, 50, 1),
        (21, 1, 1, 2),
        (1, 5, 1, 2),
        (1, 1, 51, 2),
        (41, 1, 101, 3),
        (41, 9, 1, 9),
        (1, 9, 101, 9),
        (0, 9, 0, 3),
        (0, 0, 0, 1),
    ],
)
def test_a_piece_has_room_for_ranges_in_its_half_and_for_feeds_and_ended_ranges_in_a_quarter_each(
    ranges: int, feeds: int, ended: int, pieces: int
) -> None:
    """A range takes 40 bytes and its keys, a feed 20 bytes and its id, an ended range 10 bytes."""
    bounds = RecordBounds(4_000)
    spans = (Span(b"x" * 4 + bytes([number]), b"y" * 5) for number in range(ranges))
    items = (
        RangeCheckpoint(RangeId(2**62), Generation(2**62), span, ResolvedTimestamp(Timestamp(2**62)))
        for span in spans
    )
    gone = (RangeId(2**62),) * ended
    whole = PartitionCheckpoint(4, Offset(77), _WIDE_FEEDS[:feeds], tuple(items), 99, gone)
    found = list(split_checkpoint(whole, bounds))
    assert len(found) == pieces
    assert max(len(encode_checkpoint(piece)) for piece in found) <= bounds.piece_bytes


def test_a_range_that_takes_more_than_a_piece_stands_in_one_of_its_own() -> None:
    ranges = tuple(_range(number, number, b"x" * size) for number, size in ((1, 9), (2, 999), (3, 9)))
    whole = PartitionCheckpoint(4, Offset(77), _FEEDS, ranges)
    found = list(split_checkpoint(whole, RecordBounds(800)))
    assert [piece.ranges for piece in found] == [(item,) for item in ranges]


@given(st.lists(st.builds(_range, st.integers(1, 2**62), st.integers(1, 2**62), st.binary(max_size=9))))
def test_a_report_says_what_the_checkpoint_says(ranges: list[RangeCheckpoint]) -> None:
    checkpoint = PartitionCheckpoint(4, Offset(77), _FEEDS, tuple(ranges), 99, (RangeId(8),))
    report = decode_report(encode_checkpoint(checkpoint))
    claims = list(zip(report.range_ids, report.generations, strict=True))
    assert claims == [(item.range_id, item.generation) for item in ranges]
    assert (report.log_time_ms, report.ended) == (99, (8,))
    assert (report.partition, report.offset, report.feeds) == (4, 77, _FEEDS)
    spans = [Span(start, end) for start, end in zip(report.starts, report.ends, strict=True)]
    assert list(zip(spans, report.resolved, strict=True)) == [(item.span, item.resolved) for item in ranges]


def test_a_report_of_a_checkpoint_is_the_one_that_is_read_from_its_record() -> None:
    ranges = tuple(_range(number, number * 5, bytes([number])) for number in (1, 2))
    checkpoint = PartitionCheckpoint(4, Offset(77), _FEEDS, ranges, 99, (RangeId(8),), 55)
    assert report_of(checkpoint) == decode_report(encode_checkpoint(checkpoint))
    assert decode_checkpoint(encode_checkpoint(checkpoint)) == checkpoint


_NUMBERS = ("offset", "log_time_ms", "elapsed_ms")


@pytest.mark.parametrize(
    "wrong", ["nothing", "partition", "key", *_NUMBERS, "resolved", "empty", "backwards"]
)
def test_a_record_that_no_partition_can_have_written_is_foreign(wrong: str) -> None:
    partition = 5 if wrong == "partition" else 4
    ranges = [_range(1, 7), _range(2, -2 if wrong == "resolved" else -1, b"m"), _range(3, 7, b"n")]
    if wrong in ("empty", "backwards"):
        span = Span(b"m", b"m" if wrong == "empty" else b"l")
        ranges[1] = RangeCheckpoint(RangeId(2), Generation(3), span, ResolvedTimestamp(Timestamp(5)))
    checkpoint = PartitionCheckpoint(partition, Offset(-1), _FEEDS, tuple(ranges), -1, (), -1)
    if wrong in _NUMBERS:
        below: dict[str, Any] = {wrong: -2}
        checkpoint = replace(checkpoint, **below)
    key = checkpoint_key(3 if wrong == "key" else partition)
    value = encode_checkpoint(checkpoint)
    if wrong == "nothing":
        assert read_report_record(key, value, 5) == report_of(checkpoint)
    else:
        with pytest.raises(ForeignRecord):
            read_report_record(key, value, 5)
        if wrong not in ("partition", "key"):
            assert decode_report(value) == report_of(checkpoint)


def _report(partition: int, offset: int, walls: dict[bytes, int]) -> PartitionProgress:
    ranges = tuple(_range(1, wall, key) for key, wall in walls.items())
    return decode_report(encode_checkpoint(PartitionCheckpoint(partition, Offset(offset), _FEEDS, ranges)))


def _walls(report: PartitionProgress) -> dict[bytes, int]:
    return {start: at.wall for start, at in zip(report.starts, report.resolved, strict=True)}


def test_reports_of_one_partition_merge_into_the_highest_of_each_span() -> None:
    reports = [_report(1, 7, {b"a": 5, b"b": 9}), _report(2, 3, {b"c": 1}), _report(1, 6, {b"a": 8, b"b": 2})]
    first, second = merged(reports)
    assert (first.partition, first.offset, _walls(first)) == (1, 7, {b"a": 8, b"b": 9})
    assert second is reports[1]


def test_reports_for_other_feeds_or_epochs_are_not_merged() -> None:
    """Each holds for the feeds that it names, and for no other."""
    report = _report(1, 7, {b"a": 5})
    fewer = replace(report, feeds=_FEEDS[:1])
    assert merged([report, fewer]) == [report, fewer]
