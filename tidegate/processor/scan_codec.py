"""The scan that a range waits for, as part of its row."""

from __future__ import annotations

from tidegate.hlc import Timestamp
from tidegate.processor import state_pb2 as pb
from tidegate.raftlog.entry import Offset, RangeId
from tidegate.rangefeed.scan import RangeScan
from tidegate.spans import Span


def scan_message(scan: RangeScan) -> pb.Scan:
    """A scan, and how far it has come."""
    return pb.Scan(
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
        lacking=scan.lacking,
    )


def read_scan(range_id: RangeId, message: pb.Scan) -> RangeScan:
    """The scan of a message."""
    scan = RangeScan(
        range_id,
        Offset(message.snapshot_offset),
        Span(message.start, message.end),
        Timestamp(message.after_wall, message.after_logical),
        Timestamp(message.upto_wall, message.upto_logical),
        with_prev=message.with_prev,
    )
    scan.next_key, scan.request_id, scan.asked_ms = message.next_key, message.request_id, message.asked_ms
    scan.first_request_id, scan.lacking = message.first_request_id, message.lacking
    return scan
