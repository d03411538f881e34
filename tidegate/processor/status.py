"""The status of a log partition and of its ranges, for operators."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from heapq import nsmallest
from typing import Any, Final, NamedTuple

from tidegate.changefeed.definition.stored_fields import (
    MAX_UINT64,
    flag,
    hexadecimal,
    items,
    plain_items,
    whole,
)
from tidegate.hlc import ResolvedTimestamp
from tidegate.processor.catchup.gap_scans import FeedGapStatus
from tidegate.processor.moving.partition_ranges import PartitionRanges
from tidegate.processor.push_policy import LastPush, Pusher
from tidegate.processor.range_facts import Condition, Json, OpenTxn, RangeFacts, ScanFacts
from tidegate.raftlog.entry import Generation, Offset, RangeId
from tidegate.ranges.backlog import Backlog
from tidegate.ranges.intent_budget import SpillCounts
from tidegate.ranges.range_state import RangeState, RangeStatus
from tidegate.ranges.scan import RangeScan
from tidegate.rows.table_key import without_tenant
from tidegate.spans import Span

_SLOWEST_COUNT: Final = 10
_NONE: Final = SpillCounts()
_SPAN_MEMBERS: Final = ("range_id", "generation", "live", "start", "end")
#: The most ranges whose spans are told when an operator asks about a span.
_SPANS_MAX: Final = 10_000


@dataclass(frozen=True, slots=True)
class QuarantinedRange:
    """A quarantined range: it is complete up to ``resolved``, and the ``cause`` stands at ``offset``."""

    range_id: RangeId
    resolved: ResolvedTimestamp
    offset: Offset
    cause: str


@dataclass(frozen=True, slots=True)
class ParkedRange:
    """A parked range: it waits for hand-offs of ``parents`` (PARKED) or, with no parents, a scan (HEALING).

    ``offset`` is where its backlog of ``entries`` begins. ``since_ms`` is the log time since which it waits.
    """

    range_id: RangeId
    offset: Offset
    entries: int
    since_ms: int
    parents: tuple[RangeId, ...]
    condition: Condition


@dataclass(frozen=True, slots=True)
class PartitionStatus:
    """The status of a log partition.

    ``tracked_intents`` counts the open intents of its open transactions. ``slowest`` has the live ranges with
    the lowest resolved timestamps, and ``resolved`` is the lowest of these. ``backlog_entries`` counts the
    entries of all backlogs, of parked ranges and others. ``log_time_ms`` is log time
    (docs/protocols/log-time.md). ``spilled`` counts the open transactions that are not in memory.
    ``with_gaps`` has the feeds with gaps, which checkpoints do not name. ``refused_chunks`` counts the
    ScanChunks that were refused.
    """

    partition: int
    offset: Offset
    ranges: int
    open_transactions: int
    tracked_intents: int
    resolved: ResolvedTimestamp | None
    slowest: tuple[RangeFacts, ...]
    closed_regressions: int
    quarantined: tuple[QuarantinedRange, ...]
    parked: tuple[ParkedRange, ...]
    backlog_entries: int = 0
    log_time_ms: int = 0
    spilled: SpillCounts = _NONE
    with_gaps: tuple[FeedGapStatus, ...] = ()
    refused_chunks: int = 0


class RangeSpan(NamedTuple):
    """The keys of a range. If it is not ``live`` they are the keys that it had, or will have."""

    range_id: RangeId
    generation: Generation
    live: bool
    span: Span


@dataclass(frozen=True, slots=True)
class RangesIn:
    """The ranges of a partition that have keys of a span.

    ``slowest`` has those with the lowest resolved timestamps. ``spans`` has the spans of all of them. If it
    is not ``complete``, it has only ``_SPANS_MAX`` of them.
    """

    slowest: tuple[RangeFacts, ...]
    spans: tuple[RangeSpan, ...]
    complete: bool

    def to_json(self) -> dict[str, Any]:
        """Return the ranges as JSON, with keys in hexadecimal."""
        return {
            "slowest": [facts.to_json() for facts in self.slowest],
            "spans": [[*item[:3], item.span.start.hex(), item.span.end.hex()] for item in self.spans],
            "complete": self.complete,
        }

    @classmethod
    def from_json(cls, row: Json) -> RangesIn:
        """Return the ranges that ``to_json`` wrote.

        Raises ``KeyError``, ``TypeError`` or ``ValueError`` for anything else.
        """
        return cls(
            tuple(map(RangeFacts.from_json, items(row, "slowest"))),
            tuple(map(_range_span, items(row, "spans"))),
            complete=flag(row, "complete"),
        )


def _range_span(row: object) -> RangeSpan:
    """Return a span from its JSON form: ``[range id, generation, live, start, end]``."""
    named = dict(zip(_SPAN_MEMBERS, plain_items(row, "a span"), strict=True))
    return RangeSpan(
        RangeId(whole(named, "range_id")),
        Generation(whole(named, "generation", high=MAX_UINT64)),
        live=flag(named, "live"),
        span=Span(hexadecimal(named, "start"), hexadecimal(named, "end")),
    )


class StatusReader:
    """Reads the status of a partition and its ranges.

    It changes nothing and locks nothing, so it may be used only between two steps.
    """

    def __init__(self, ranges: PartitionRanges, pusher: Pusher) -> None:
        self._ranges = ranges
        self._clock = ranges.table.clock
        self._pusher = pusher

    def partition(self, offset: Offset) -> PartitionStatus:
        """Return counts, quarantines and parked ranges of the partition, which is at position ``offset``."""
        live = [state for state in self._ranges if state.status is RangeStatus.LIVE]
        slowest = nsmallest(_SLOWEST_COUNT, live, key=_progress)
        backlogs = dict(self._backlogs())
        return PartitionStatus(
            self._ranges.partition,
            offset,
            len(self._ranges),
            sum(len(state.resolver.queue) for state in live),
            sum(state.resolver.queue.intents for state in live),
            slowest[0].resolved if slowest else None,
            tuple(self._facts(state, backlogs.get(state.range_id)) for state in slowest),
            sum(state.closed_regressions for state in self._ranges),
            tuple(
                QuarantinedRange(state.range_id, hole.resolved, hole.offset, hole.cause)
                for state in self._ranges
                if (hole := state.quarantine) is not None and state.status is RangeStatus.QUARANTINED
            ),
            tuple(self._parked(state, backlog) for state, backlog in self._ranges.backlogs if backlog.parked),
            sum(len(backlog.queue) for backlog in backlogs.values()),
            self._clock.time_ms,
            _NONE if self._ranges.table.spill is None else self._ranges.table.spill.counts,
            self._ranges.catch_ups.status(),
            sum(state.refused_chunks for state in self._ranges),
        )

    def ranges_in(self, span: Span) -> RangesIn:
        """Describe the ranges that have keys of ``span`` (without a tenant prefix) and have not ended.

        Only the slowest are described in full, and at most ``_SPANS_MAX`` get their spans.
        """
        backlogs = dict(self._backlogs())
        found = []
        for state in self._ranges:
            own = _span_of(state, backlogs.get(state.range_id))
            if own is not None and state.status is not RangeStatus.ENDED and own.overlaps(span):
                found.append((state, own))
        slowest = nsmallest(_SLOWEST_COUNT, (state for state, _ in found), key=_progress)
        spans = (
            RangeSpan(state.range_id, state.generation, self._is_live(state, backlogs), own)
            for state, own in found[:_SPANS_MAX]
        )
        return RangesIn(
            tuple(self._facts(state, backlogs.get(state.range_id)) for state in slowest),
            tuple(sorted(spans, key=lambda item: item.span)),
            complete=len(found) <= _SPANS_MAX,
        )

    def _is_live(self, state: RangeState, backlogs: Mapping[RangeId, Backlog]) -> bool:
        return _condition(state, backlogs.get(state.range_id)) is Condition.LIVE

    def _backlogs(self) -> Iterator[tuple[RangeId, Backlog]]:
        return ((state.range_id, backlog) for state, backlog in self._ranges.backlogs)

    def _facts(self, state: RangeState, backlog: Backlog | None) -> RangeFacts:
        parked = backlog is not None and backlog.parked
        hole = state.quarantine
        oldest = state.resolver.queue.oldest() if state.resolver.initialised else None
        return RangeFacts(
            state.range_id,
            state.generation,
            _condition(state, backlog),
            _span_of(state, backlog),
            state.resolved,
            state.resolver.closed,
            len(state.resolver.queue),
            offset=_offset(state, backlog),
            cause="" if hole is None else hole.cause,
            entries=0 if backlog is None else len(backlog.queue),
            since_ms=self._clock.when(backlog.since_ms) if backlog is not None and parked else None,
            parents=() if backlog is None else _parents(backlog),
            scan=None if backlog is None or backlog.scan is None else self._scan(backlog.scan),
            txn=None
            if oldest is None
            else OpenTxn(
                oldest.txn_id, oldest.anchor_key, oldest.min_timestamp, oldest.timestamp, oldest.refs
            ),
            push=self._push(state),
        )

    def _push(self, state: RangeState) -> LastPush | None:
        push = self._pusher.last(state)
        return None if push is None else replace(push, asked_ms=self._clock.when(push.asked_ms))

    def _parked(self, state: RangeState, backlog: Backlog) -> ParkedRange:
        return ParkedRange(
            state.range_id,
            backlog.start,
            len(backlog.queue),
            self._clock.when(backlog.since_ms),
            _parents(backlog),
            _condition(state, backlog),
        )

    def _scan(self, scan: RangeScan) -> ScanFacts:
        span = without_tenant(scan.span)
        next_key = without_tenant(Span(scan.next_key, scan.span.end)).start if not scan.done else span.end
        return ScanFacts(span, next_key, scan.after, scan.upto, self._clock.when(scan.asked_ms))


def _progress(state: RangeState) -> tuple[ResolvedTimestamp, RangeId]:
    return state.resolved, state.range_id


def _condition(state: RangeState, backlog: Backlog | None) -> Condition:
    if state.status is RangeStatus.ENDED:
        return Condition.ENDED
    if backlog is not None and backlog.parked:
        return Condition.HEALING if backlog.scan is not None else Condition.PARKED
    if state.status is RangeStatus.QUARANTINED:
        return Condition.QUARANTINED
    if backlog is not None or state.behind is not None:
        return Condition.CATCHING_UP
    if state.status is RangeStatus.UNINITIALISED:
        return Condition.STARTING
    return Condition.LIVE if state.checkpointable else Condition.CHANGING


def _span_of(state: RangeState, backlog: Backlog | None) -> Span | None:
    """Return the keys that a range has, or will have with the snapshot that it waits for or has begun."""
    if backlog is not None and backlog.parked:
        return without_tenant(backlog.head.span)
    if state.span is None:
        return without_tenant(state.chunks[0].span) if state.chunks else None
    return without_tenant(state.span)


def _offset(state: RangeState, backlog: Backlog | None) -> Offset | None:
    if state.quarantine is not None:
        return state.quarantine.offset
    return backlog.start if backlog is not None and len(backlog.queue) else state.behind


def _parents(backlog: Backlog) -> tuple[RangeId, ...]:
    return tuple(sorted(claim.parent for claim in backlog.missing))
