"""Encodes and decodes the scan that a range waits for, as part of the range's row."""

from __future__ import annotations

from collections.abc import Iterator

from tidegate.hlc import Timestamp
from tidegate.processor.state import state_pb2 as pb
from tidegate.raftlog.entry import Offset, RangeId
from tidegate.ranges.scan import RangeScan, ScanPart
from tidegate.spans import Span


def scan_message(scan: RangeScan) -> pb.Scan:
    """Return the stored message of a scan, with how far it has come."""
    message = pb.Scan(
        snapshot_offset=scan.snapshot_offset,
        start=scan.span.start,
        end=scan.span.end,
        after_wall=scan.after.wall,
        after_logical=scan.after.logical,
        upto_wall=scan.upto.wall,
        upto_logical=scan.upto.logical,
        with_prev=scan.with_prev,
        next_key=scan.next_key,
        request_id=scan.request_id,
        asked_ms=scan.asked_ms,
        first_request_id=scan.first_request_id,
        lacking=scan.ask_now,
    )
    if scan.parts and scan.parts[0].span.end != scan.span.end:
        message.part_end = scan.parts[0].span.end
    for (start, end), after in scan.parts[1:]:
        message.later.add(start=start, end=end, after_wall=after.wall, after_logical=after.logical)
    return message


def read_scan(range_id: RangeId, message: pb.Scan) -> RangeScan:
    """Return the scan of a stored message."""
    scan = RangeScan(
        range_id,
        Offset(message.snapshot_offset),
        Span(message.start, message.end),
        list(_parts(message)),
        Timestamp(message.upto_wall, message.upto_logical),
        with_prev=message.with_prev,
    )
    scan.request_id, scan.asked_ms = message.request_id, message.asked_ms
    scan.first_request_id, scan.ask_now = message.first_request_id, message.lacking
    return scan


def _parts(message: pb.Scan) -> Iterator[ScanPart]:
    if message.next_key < message.end:
        first = Span(message.next_key, message.part_end or message.end)
        yield ScanPart(first, Timestamp(message.after_wall, message.after_logical))
    for part in message.later:
        yield ScanPart(Span(part.start, part.end), Timestamp(part.after_wall, part.after_logical))
