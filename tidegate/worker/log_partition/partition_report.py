"""Makes the report of a log partition (``tidegate.worker.operations.report``)."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import replace

from tidegate.hlc import NANOS_PER_MS
from tidegate.processor.catchup.gap_scans import FeedGapStatus
from tidegate.processor.range_facts import RangeFacts
from tidegate.processor.status import ParkedRange, PartitionStatus
from tidegate.worker.commit.commit_loop import CommitLoop
from tidegate.worker.operations.report import (
    CATCHING_UP,
    WAITING,
    DeliveryReport,
    LaggingReport,
    ParkedReport,
    PartitionReport,
    QuarantineReport,
    RangeReport,
)
from tidegate.worker.output.outlet import OutletReport, OutletState


def running_report(
    commit_loop: CommitLoop, next_offset: int, log_end: int | None, restore_ms: int | None
) -> PartitionReport:
    """Report on a partition that is restored. ``next_offset`` is the log position after its last step."""
    running = commit_loop.running_step
    report = PartitionReport(
        commit_loop.status.partition,
        _state(commit_loop),
        next_offset=next_offset,
        lag_records=None if log_end is None else max(0, log_end - next_offset),
        inflight_rows=commit_loop.in_flight.rows,
        oldest_unacknowledged_ms=int(commit_loop.in_flight.oldest_s * 1000),
        step_ms=int(running.seconds * 1000),
        step_of=running.records,
        held_for=tuple(sorted(commit_loop.processor.held_for)),
        restore_ms=restore_ms,
    )
    return _with_status(report, commit_loop.status, commit_loop.outlets.report())


def _state(commit_loop: CommitLoop) -> str:
    if commit_loop.waiting:
        return WAITING
    return "held" if commit_loop.processor.held else "running"


def _with_status(
    report: PartitionReport, status: PartitionStatus, outlets: Sequence[OutletReport]
) -> PartitionReport:
    resolved = status.resolved
    now_ms = time.time_ns() // NANOS_PER_MS
    return replace(
        report,
        ranges=status.ranges,
        open_transactions=status.open_transactions,
        tracked_intents=status.tracked_intents,
        resolved=None if resolved is None else str(resolved),
        resolved_lag_ms=None if resolved is None else now_ms - resolved.wall_ms,
        closed_regressions=status.closed_regressions,
        refused_chunks=status.refused_chunks,
        backlog_entries=status.backlog_entries,
        log_time_ms=status.log_time_ms,
        spilled_transactions=status.spilled.transactions,
        spill_bytes=status.spilled.bytes,
        slowest=tuple(_slow(status.partition, item, now_ms) for item in status.slowest),
        parked=tuple(_parked(status, item) for item in status.parked),
        quarantined=tuple(
            QuarantineReport(status.partition, hole.range_id, hole.offset, str(hole.resolved), hole.cause)
            for hole in status.quarantined
        ),
        lagging=tuple(_lagging(status.partition, item) for item in status.with_gaps),
        deliveries=tuple(_deliveries(status, outlets)),
    )


def _lagging(partition: int, item: FeedGapStatus) -> LaggingReport:
    return LaggingReport(
        partition,
        item.feed_id,
        item.ranges,
        None if item.complete_to is None else str(item.complete_to),
        item.waiting,
        item.scans,
        item.held_bytes,
        None if item.reserve_ns is None else item.reserve_ns // NANOS_PER_MS,
        *(item.standing or ()),
    )


def _deliveries(status: PartitionStatus, outlets: Sequence[OutletReport]) -> Iterator[DeliveryReport]:
    """Yield a report for each feed that has had rows here, or has missing versions here."""
    with_gaps = {feed.feed_id for feed in status.with_gaps}
    known = {outlet.feed_id: outlet for outlet in outlets}
    for feed_id in sorted({*known, *with_gaps}):
        outlet = known.get(feed_id, OutletReport(feed_id))
        is_catching_up = feed_id in with_gaps and outlet.state is OutletState.LIVE
        state = CATCHING_UP if is_catching_up else outlet.state.value
        yield DeliveryReport(status.partition, feed_id, state, outlet.waiting_bytes, outlet.spool_bytes)


def _slow(partition: int, facts: RangeFacts, now_ms: int) -> RangeReport:
    return RangeReport(
        partition,
        facts.range_id,
        facts.generation,
        facts.condition.value,
        str(facts.resolved),
        now_ms - facts.resolved.wall_ms,
        now_ms - facts.closed.wall_ms,
        facts.open_transactions,
    )


def _parked(status: PartitionStatus, item: ParkedRange) -> ParkedReport:
    return ParkedReport(
        status.partition,
        item.range_id,
        item.condition.value,
        item.offset,
        item.entries,
        status.log_time_ms - item.since_ms,
        item.parents,
    )
