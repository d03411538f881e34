"""Checkpoints on their way from log partitions to frontiers: as records, and as reports read from records."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from operator import lt
from typing import Final, TypeVar, cast

from tidegate.changefeed.definition.feed import FeedEpoch, FeedId
from tidegate.errors import ForeignRecord
from tidegate.hlc import ResolvedTimestamp, Timestamp
from tidegate.processor.batch import ActiveFeed, PartitionCheckpoint, RangeCheckpoint
from tidegate.processor.bounds import BOUNDS, RecordBounds
from tidegate.processor.state import state_pb2 as pb
from tidegate.processor.state.stored_frame import pack, unpack_record
from tidegate.raftlog.entry import Generation, Offset, RangeId
from tidegate.spans import Span

_WHAT: Final = "a checkpoint record"
_KEY_BYTES: Final = 4
_RANGE_BYTES: Final = 40  # what a range's checkpoint takes in a record, besides its keys
_FEED_BYTES: Final = 20  # what a feed takes, besides its id
_ENDED_BYTES: Final = 10  # what a range that has ended takes

ItemT = TypeVar("ItemT")


@dataclass(frozen=True, slots=True)
class PartitionProgress:
    """A report of a log partition to frontiers: how far each span is resolved, and for which feeds.

    It is made of one checkpoint or of several. ``offset`` is the log position that it reflects. Spans are in
    columns of equal length: 100,000 ranges report 33,000 spans in a second, and an object for each span would
    cost more than all else that is done with it. The ranges (``range_ids``, ``generations``), the log times
    and the ``ended`` ranges are for ``RangeClaims``; merged reports have no ranges any more.
    """

    partition: int
    offset: Offset
    feeds: tuple[ActiveFeed, ...]
    starts: Sequence[bytes]
    ends: Sequence[bytes]
    resolved: Sequence[ResolvedTimestamp]
    range_ids: Sequence[RangeId] = ()
    generations: Sequence[Generation] = ()
    log_time_ms: int = 0
    ended: Sequence[RangeId] = ()
    elapsed_ms: int = 0


def encode_checkpoint(checkpoint: PartitionCheckpoint) -> bytes:
    """Return the value of a checkpoint's record."""
    message = pb.Checkpoint(
        partition=checkpoint.partition,
        offset=checkpoint.offset,
        log_time_ms=checkpoint.log_time_ms,
        ended=checkpoint.ended,
        elapsed_ms=checkpoint.elapsed_ms,
    )
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


def split_checkpoint(
    checkpoint: PartitionCheckpoint, bounds: RecordBounds = BOUNDS
) -> Iterator[PartitionCheckpoint]:
    """Yield the checkpoint in pieces that each fit into a record.

    A piece is a checkpoint of its own, for the feeds that it names. If not all feeds fit into one piece, the
    ranges are written once for each group of feeds.
    """
    room = bounds.piece_bytes // 4
    ranges = list(_filled(checkpoint.ranges, _range_bytes, 2 * room))
    ended = list(_filled(checkpoint.ended, lambda _: _ENDED_BYTES, room))
    for feeds in _filled(checkpoint.feeds, lambda feed: _FEED_BYTES + len(feed.feed_id), room):
        for part, gone in zip_longest(ranges, ended, fillvalue=()):
            yield replace(checkpoint, feeds=feeds, ranges=part, ended=gone)


def _range_bytes(item: RangeCheckpoint) -> int:
    return _RANGE_BYTES + len(item.span.start) + len(item.span.end)


def _filled(
    items: Sequence[ItemT], size_of: Callable[[ItemT], int], room: int
) -> Iterator[tuple[ItemT, ...]]:
    """Yield the items in order, in pieces: each piece has as many of them as fit into ``room``.

    There is at least one piece, which may be empty. A piece has at least one item even if that does not fit.
    """
    piece: list[ItemT] = []
    left = room
    for item in items:
        size = size_of(item)
        if piece and size > left:
            yield tuple(piece)
            piece, left = [], room
        piece.append(item)
        left -= size
    yield tuple(piece)


def decode_checkpoint(value: bytes) -> PartitionCheckpoint:
    """Return the checkpoint of a record's value.

    Raises ``StateError`` for a newer version, and ``ForeignRecord`` for a value that tidegate did not write.
    """
    message = unpack_record(pb.Checkpoint, value, _WHAT)
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
        message.log_time_ms,
        tuple(map(RangeId, message.ended)),
        message.elapsed_ms,
    )


def report_of(checkpoint: PartitionCheckpoint) -> PartitionProgress:
    """Return the report that `decode_report` would read from the checkpoint's record, without the bytes."""
    ranges = checkpoint.ranges
    return PartitionProgress(
        checkpoint.partition,
        checkpoint.offset,
        checkpoint.feeds,
        [item.span.start for item in ranges],
        [item.span.end for item in ranges],
        [item.resolved for item in ranges],
        [item.range_id for item in ranges],
        [item.generation for item in ranges],
        checkpoint.log_time_ms,
        checkpoint.ended,
        checkpoint.elapsed_ms,
    )


def decode_report(value: bytes) -> PartitionProgress:
    """Return the report of a record's value, for frontiers. Raises the same errors as `decode_checkpoint`."""
    message = unpack_record(pb.Checkpoint, value, _WHAT)
    ranges = list(message.ranges)
    walls = [item.resolved_wall for item in ranges]
    timestamps = {wall: ResolvedTimestamp(Timestamp(wall)) for wall in set(walls)}
    return PartitionProgress(
        message.partition,
        Offset(message.offset),
        tuple(ActiveFeed(FeedId(feed.feed_id), FeedEpoch(feed.epoch)) for feed in message.feeds),
        [item.start for item in ranges],
        [item.end for item in ranges],
        [timestamps[wall] for wall in walls],
        cast("list[RangeId]", [item.range_id for item in ranges]),
        cast("list[Generation]", [item.generation for item in ranges]),
        message.log_time_ms,
        tuple(map(RangeId, message.ended)),
        message.elapsed_ms,
    )


def checkpoint_key(partition: int) -> bytes:
    """Return the key of a log partition's checkpoint records."""
    return partition.to_bytes(_KEY_BYTES, "big")


def read_report_record(key: bytes | None, value: bytes, partitions: int) -> PartitionProgress:
    """Return the report of a record, after a check that one of ``partitions`` log partitions wrote it.

    Raises the same errors as `decode_report`. A wrong key, partition, time or span is a ``ForeignRecord``
    too.
    """
    report = decode_report(value)
    walls = [timestamp.wall for timestamp in report.resolved]
    if report.partition >= partitions or key != checkpoint_key(report.partition):
        raise ForeignRecord(f"{_WHAT} of log partition {report.partition} has another key, or no partition")
    if min((report.offset, report.log_time_ms, report.elapsed_ms, *walls)) < -1 or not all(
        map(lt, report.starts, report.ends)
    ):
        raise ForeignRecord(f"{_WHAT} has a time or keys that cannot be: tidegate did not write it")
    return report


def merged(reports: Iterable[PartitionProgress]) -> list[PartitionProgress]:
    """Merge the reports of each partition that hold for the same feeds into one.

    A span gets the highest timestamp of all of them. The order of reports does not matter to a frontier, so
    it is not kept.
    """
    sources: dict[tuple[int, tuple[ActiveFeed, ...]], list[PartitionProgress]] = {}
    for report in reports:
        sources.setdefault((report.partition, report.feeds), []).append(report)
    return [alike[0] if len(alike) == 1 else _merged(alike) for alike in sources.values()]


def _merged(alike: Sequence[PartitionProgress]) -> PartitionProgress:
    spans: dict[tuple[bytes, bytes], ResolvedTimestamp] = {}
    for report in alike:
        for start, end, resolved in zip(report.starts, report.ends, report.resolved, strict=True):
            known = spans.get((start, end))
            if known is None or resolved > known:
                spans[start, end] = resolved
    return replace(
        alike[0],
        offset=max(report.offset for report in alike),
        starts=[start for start, _ in spans],
        ends=[end for _, end in spans],
        resolved=list(spans.values()),
        range_ids=(),
        generations=(),
        ended=(),
    )
