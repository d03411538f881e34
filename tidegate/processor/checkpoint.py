"""Checkpoints as they travel from partitions to the frontier."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from tidegate.changefeed.feed import FeedEpoch, FeedId
from tidegate.hlc import ResolvedTimestamp, Timestamp
from tidegate.processor import state_pb2 as pb
from tidegate.processor.batch import ActiveFeed, PartitionCheckpoint, RangeCheckpoint
from tidegate.processor.stored import pack, unpack
from tidegate.raftlog.entry import Generation, Offset, RangeId
from tidegate.spans import Span

_PIECE_BYTES: Final = 256 << 10
_RANGE_BYTES: Final = 40  # of a range's checkpoint, without its keys


def encode_checkpoint(checkpoint: PartitionCheckpoint) -> bytes:
    """The value of a checkpoint record."""
    message = pb.Checkpoint(partition=checkpoint.partition, offset=checkpoint.offset)
    for feed in checkpoint.feeds:
        message.feeds.add(feed_id=feed.feed_id, epoch=feed.epoch)
    for item in checkpoint.ranges:
        message.ranges.add(
            range_id=item.range_id,
            generation=item.generation,
            start=item.span.start,
            end=item.span.end,
            resolved_wall=item.resolved.wall,
        )
    return pack(message)


def split_checkpoint(checkpoint: PartitionCheckpoint) -> Iterator[PartitionCheckpoint]:
    """The checkpoint in pieces that fit into a record each; every one of them holds by itself."""
    piece: list[RangeCheckpoint] = []
    room = _PIECE_BYTES
    for item in checkpoint.ranges:
        size = _RANGE_BYTES + len(item.span.start) + len(item.span.end)
        if piece and size > room:
            yield replace(checkpoint, ranges=tuple(piece))
            piece, room = [], _PIECE_BYTES
        piece.append(item)
        room -= size
    yield replace(checkpoint, ranges=tuple(piece))


def decode_checkpoint(value: bytes) -> PartitionCheckpoint:
    """The checkpoint of a record value. Raises ``StateError`` for anything else."""
    message = unpack(pb.Checkpoint, value, "a checkpoint record")
    return PartitionCheckpoint(
        message.partition,
        Offset(message.offset),
        tuple(ActiveFeed(FeedId(feed.feed_id), FeedEpoch(feed.epoch)) for feed in message.feeds),
        tuple(
            RangeCheckpoint(
                RangeId(item.range_id),
                Generation(item.generation),
                Span(item.start, item.end),
                ResolvedTimestamp(Timestamp(item.resolved_wall, 0)),
            )
            for item in message.ranges
        ),
    )
