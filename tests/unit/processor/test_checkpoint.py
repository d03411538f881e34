"""Checkpoints as records: they round-trip, and large ones come in pieces that say the same."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tidegate.changefeed.feed import FIRST_EPOCH, FeedId
from tidegate.hlc import ResolvedTimestamp, Timestamp
from tidegate.processor.batch import ActiveFeed, PartitionCheckpoint, RangeCheckpoint
from tidegate.processor.checkpoint import decode_checkpoint, encode_checkpoint, split_checkpoint
from tidegate.raftlog.entry import Generation, Offset, RangeId
from tidegate.spans import Span

_FEEDS = (ActiveFeed(FeedId("a"), FIRST_EPOCH), ActiveFeed(FeedId("b"), FIRST_EPOCH))


def _range(number: int, wall: int, key: bytes = b"k") -> RangeCheckpoint:
    span = Span(key, key + b"\xff")
    return RangeCheckpoint(RangeId(number), Generation(3), span, ResolvedTimestamp(Timestamp(wall)))


@given(st.lists(st.builds(_range, st.integers(1, 2**62), st.integers(1, 2**62), st.binary(max_size=9))))
def test_a_checkpoint_round_trips(ranges: list[RangeCheckpoint]) -> None:
    checkpoint = PartitionCheckpoint(4, Offset(77), _FEEDS, tuple(ranges))
    assert decode_checkpoint(encode_checkpoint(checkpoint)) == checkpoint


def test_a_large_checkpoint_comes_in_pieces_that_say_the_same_and_fit_into_a_record() -> None:
    ranges = tuple(_range(number, number, b"x" * 50) for number in range(1, 40_001))
    whole = PartitionCheckpoint(4, Offset(77), _FEEDS, ranges)
    pieces = list(split_checkpoint(whole))
    assert tuple(item for piece in pieces for item in piece.ranges) == ranges
    assert all((piece.feeds, piece.offset) == (_FEEDS, 77) for piece in pieces)
    assert max(len(encode_checkpoint(piece)) for piece in pieces) < 500_000


def test_a_checkpoint_without_ranges_stays_one_record() -> None:
    empty = PartitionCheckpoint(4, Offset(77), _FEEDS, ())
    assert list(split_checkpoint(empty)) == [empty]
