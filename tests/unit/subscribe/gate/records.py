"""Records of one topic, written by hand."""

from __future__ import annotations

from tidegate.changefeed.definition.options import Envelope
from tidegate.changefeed.encoding.json_decoder import JsonDecoder
from tidegate.hlc import Timestamp
from tidegate.subscribe.gate.feed_record import FeedPartition, FeedRecord
from tidegate.subscribe.gate.row_gate import GateOpening, GateStart, RowGate

ONE, OTHER = FeedPartition("t", 0), FeedPartition("t", 1)


def gate(
    *partitions: FeedPartition,
    start: GateStart | None = None,
    versions_kept: int = 100,
    envelope: Envelope = Envelope.WRAPPED,
) -> RowGate:
    """A gate over partitions of the topic ``t``."""
    return RowGate({"t": JsonDecoder(envelope)}, partitions or (ONE, OTHER), start, versions_kept)


def row(offset: int, key: int, wall: int, value: int = 0, logical: int = 0) -> FeedRecord:
    """A row ``{"id": key, "v": value}`` at (wall, logical)."""
    updated = Timestamp(wall, logical).decimal()
    after = f'{{"id": {key}, "v": {value}}}'
    return FeedRecord(offset, f"[{key}]".encode(), f'{{"after": {after}, "updated": "{updated}"}}'.encode())


def marker(offset: int, wall: int) -> FeedRecord:
    """A marker at (wall, 0)."""
    return FeedRecord(offset, None, f'{{"resolved":"{Timestamp(wall).decimal()}"}}'.encode())


def shown(opening: GateOpening | None) -> list[tuple[int, bytes]] | None:
    """Wall time and key of the versions of an opening."""
    return None if opening is None else [(version.updated.wall, version.key) for version in opening.versions]
