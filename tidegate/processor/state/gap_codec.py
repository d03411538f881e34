"""Encodes and decodes the gaps of feeds, as parts of stored rows and of hand-offs."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import starmap

from tidegate.hlc import Timestamp
from tidegate.processor.state import state_pb2 as pb
from tidegate.ranges.gap import Gap, Gaps, ToldGaps
from tidegate.spans import Span


def gaps_message(feed: str, gaps: Gaps) -> pb.Lag:
    """Return the stored message of one feed's gaps."""
    return pb.Lag(feed_id=feed, gaps=map(gap_message, gaps))


def read_gaps(message: pb.Lag) -> ToldGaps:
    """Return one feed's gaps of a stored message."""
    return ToldGaps(message.feed_id, tuple(map(read_gap, message.gaps)))


def told_gaps_message(told: Iterable[ToldGaps] | None) -> pb.Lags | None:
    """Return the stored message of the gaps of feeds; ``None`` when nobody knows them."""
    return None if told is None else pb.Lags(lags=starmap(gaps_message, told))


def read_told_gaps(message: pb.HandOff | pb.Hole | pb.Promise) -> tuple[ToldGaps, ...] | None:
    """Return the gaps of feeds that a stored message tells; ``None`` when nobody knows them."""
    return tuple(map(read_gaps, message.lags.lags)) if message.HasField("lags") else None


def gaps_by_feed(messages: Iterable[pb.Lag]) -> dict[str, Gaps]:
    """Return the gaps in a range, by feed."""
    return dict(map(read_gaps, messages))


def gap_message(gap: Gap) -> pb.Gap:
    """Return the stored message of a gap."""
    message = pb.Gap(start=gap.span.start, end=gap.span.end)
    if gap.complete_to is not None:
        message.complete_wall, message.complete_logical = gap.complete_to
    return message


def read_gap(message: pb.Gap) -> Gap:
    """Return the gap of a stored message."""
    complete_to = None
    if message.HasField("complete_wall"):
        complete_to = Timestamp(message.complete_wall, message.complete_logical)
    return Gap(Span(message.start, message.end), complete_to)
