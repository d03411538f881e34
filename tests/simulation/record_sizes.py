"""Checks the records that a simulated partition commits: their size, and the feeds that they name."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from tests.feeds import WITH_MARKERS, activation
from tests.hand_log import HandTable, at
from tests.simulation.feed_judge import BrokenPromise
from tidegate.changefeed.definition.options import InitialScan
from tidegate.changefeed.lifecycle.control import Activate
from tidegate.processor.batch import StateTable, StepResult
from tidegate.processor.bounds import RecordBounds
from tidegate.processor.checkpoint import encode_checkpoint, split_checkpoint
from tidegate.processor.processor import PartitionProcessor
from tidegate.processor.state.exchange_codec import encode_exchange
from tidegate.raftlog.request import encode_request
from tidegate.ranges import range_state
from tidegate.ranges.range_state import RangeStatus

_ELSEWHERE: Final = HandTable.of(9_000, "elsewhere")
#: What the ids of bystanders begin with.
BYSTANDER: Final = "bystander"


def bystanders(count: int) -> Iterator[Activate]:
    """Feeds of a table that no range of the log has; they begin with a scan, so that they could lag."""
    options = replace(WITH_MARKERS, initial_scan=InitialScan.YES)
    for number in range(count):
        yield activation([_ELSEWHERE.descriptor], options, start=at(1), feed_id=f"{BYSTANDER}-{number:04}")


def require_small(result: StepResult, bounds: RecordBounds) -> None:
    """Raise ``BrokenPromise`` for a record that is larger than its bound, or for a range whose record names a
    feed that watches none of the range's keys.
    """
    for kind, key, value in _records(result, bounds):
        if len(key) + len(value) > bounds.record_bytes:
            raise BrokenPromise(f"a record of {kind} has {len(value)} bytes: {key.hex()}")
        if kind in (StateTable.RANGES.value, "hand-off") and BYSTANDER.encode() in value:
            raise BrokenPromise(f"a record of {kind} names feeds that watch none of its keys: {key.hex()}")


def require_no_old_promises(processor: PartitionProcessor) -> None:
    """Raise ``BrokenPromise`` for a promise that a range still has after the time for which promises are
    kept."""
    for state in processor._ranges:
        kept_from = state.resolver.closed.wall - range_state.PROMISE_KEPT_NS
        if state.status is RangeStatus.LIVE and any(each.closed_wall < kept_from for each in state.promises):
            raise BrokenPromise(f"range {state.range_id} keeps promises from before {kept_from}")


def _records(result: StepResult, bounds: RecordBounds) -> Iterator[tuple[str, bytes, bytes]]:
    for table, key, value in result.changes:
        yield table.value, key, value or b""
    for message in result.exchanges:
        yield "hand-off", *encode_exchange(message, bounds)
    for request in result.requests:
        yield "request", *encode_request(request)
    for ack in result.acks:
        yield "answer", b"", ack.to_bytes()
    if result.checkpoint is not None:
        for piece in split_checkpoint(result.checkpoint, bounds):
            yield "checkpoint", b"", encode_checkpoint(piece)
