"""Explains why a feed's high-water stands still: the first thing that would have to change.

The feed's frontier names its lowest span. The lowest range with keys in that span holds the frontier back,
unless some keys of the span belong to no range. A partition that stands still holds all of its ranges back.
If every range is above the timestamp that the frontier has for the span, something between ranges and
frontier is at fault.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

from tidegate.changefeed.definition.feed import LIVE, Engine
from tidegate.client.why.evidence import Evidence, FrontierEvidence
from tidegate.client.why.feed_findings import markers, no_frontier, not_running
from tidegate.client.why.finding import SEVERAL, Cause, Finding, Keys
from tidegate.client.why.foreign_findings import with_foreign
from tidegate.client.why.lag_findings import held_findings, lag_findings
from tidegate.client.why.partition_findings import silent_workers, troubles, unseen
from tidegate.client.why.range_findings import USUAL_LAG_MS, RangeFindings
from tidegate.hlc import NANOS_PER_MS, Timestamp
from tidegate.processor.range_facts import Condition, RangeFacts
from tidegate.processor.status import RangeSpan
from tidegate.spans import Span


@dataclass(frozen=True, slots=True)
class Explanation:
    """The reasons why a feed's high-water does not rise. The first of ``findings`` is the answer.

    ``span`` is the lowest span of the feed, and ``span_text`` the same in words. They are ``None`` and empty
    if it is not known.
    """

    feed_id: str
    status: str
    high_water: Timestamp | None
    lag_ms: int | None
    span: Span | None
    span_text: str
    findings: tuple[Finding, ...]

    @property
    def answer(self) -> Finding:
        """The finding that has to change first, before the feed can go on."""
        return self.findings[0]

    def to_json(self) -> dict[str, Any]:
        """Return the form for ``--format json``."""
        span = self.span
        return {
            "feed": self.feed_id,
            "status": self.status,
            "high_water": None if self.high_water is None else str(self.high_water),
            "lag_ms": self.lag_ms,
            "span": None if span is None else {"start": span.start.hex(), "end": span.end.hex()},
            "span_text": self.span_text,
            "answer": self.answer.to_json(),
            "also": [finding.to_json() for finding in self.findings[1:]],
        }


def explain(evidence: Evidence) -> Explanation:
    """Return the answer to "why is resolved stuck?". There always is one."""
    feed, frontier = evidence.feed, evidence.workers.frontier
    state = feed.current_state
    keys = Keys(() if state is None else state.targets)
    high_water = frontier.high_water if frontier is not None else feed.high_water
    span = None if frontier is None or frontier.span.start >= frontier.span.end else frontier.span
    return Explanation(
        evidence.feed_id,
        feed.status.value,
        high_water,
        None if high_water is None else evidence.now_ms - high_water.wall_ms,
        span,
        "" if span is None else keys.span(span),
        tuple(with_foreign(evidence, _findings(evidence, keys))),
    )


def _findings(evidence: Evidence, keys: Keys) -> list[Finding]:
    if evidence.feed.status not in LIVE:
        return not_running(evidence)
    return [*held_findings(evidence), *_running_findings(evidence, keys)]


def _running_findings(evidence: Evidence, keys: Keys) -> list[Finding]:
    if not evidence.feed.runs_on(Engine.WORKERS):
        return [no_frontier(evidence)]
    frontier, lags = evidence.workers.frontier, lag_findings(evidence)
    if frontier is None:
        return [no_frontier(evidence), *lags, *silent_workers(evidence)]
    holding = _Span(evidence, frontier, keys).findings()
    pending = list(markers(frontier))
    if lags:
        # When a feed has missing versions its frontier knows less than the ranges: that is no finding of its
        # own.
        known = (Cause.FRONTIER, Cause.NOTHING)
        others = [finding for finding in holding if finding.cause not in known]
        return [*lags, *others, *pending]
    if holding[0].cause is Cause.NOTHING and pending:
        return [*pending, *holding[1:]]
    return [*holding, *pending]


class _Span:
    """The frontier's lowest span, and the ranges that have its keys."""

    def __init__(self, evidence: Evidence, frontier: FrontierEvidence, keys: Keys) -> None:
        self._evidence = evidence
        self._frontier = frontier
        self._keys = keys
        self._spans = sorted(
            (item for found in evidence.ranges.values() for item in found.spans), key=lambda item: item.span
        )
        self._facts = sorted(
            ((number, facts) for number, found in evidence.ranges.items() for facts in found.slowest),
            key=lambda item: (item[1].resolved, item[1].range_id),
        )

    def findings(self) -> list[Finding]:
        """Return the findings that hold the span back, the most important first. The result is never
        empty."""
        slow = [item for item in self._facts if item[1].resolved <= self._frontier.resolved]
        found = [*self._missing(), *self._ranges(slow)] or self._between()
        holding = [finding for finding in found if finding.cause is not Cause.NOTHING]
        held = list(self._held())
        return [*held, *(holding or ([] if held else found)), *(() if held else self._overlaps())]

    # ---- keys that no range has

    def _missing(self) -> Iterator[Finding]:
        gaps = self._gaps()
        if not gaps or not all(found.complete for found in self._evidence.ranges.values()):
            return
        unknown = list(unseen(self._evidence))
        yield from unknown
        if unknown:
            return
        named = "; ".join(self._keys.span(gap) for gap in gaps[:SEVERAL])
        more = f" and {len(gaps) - SEVERAL} more" if len(gaps) > SEVERAL else ""
        count = self._evidence.workers.log_partitions
        behind = [each for each in self._evidence.workers.partitions if each.lag_records]
        hint = (
            f"Log partition {behind[0].partition} has {behind[0].lag_records} records to read, and a range "
            "with them may come there. Otherwise"
            if behind
            else "Every partition is read to its end:"
        )
        yield Finding(
            Cause.UNCOVERED,
            f"Keys {named}{more} were reported by nobody: no range in any of the {count} log partitions has "
            f"them, and no marker passes {self._frontier.resolved} before one does. {hint} no range of "
            "the source has these keys; have it write a Snapshot of the range that they belong to.",
            {"gaps": [{"start": gap.start.hex(), "end": gap.end.hex()} for gap in gaps[:SEVERAL]]},
        )

    def _gaps(self) -> list[Span]:
        """Return the parts of the span that no range has."""
        span, gaps = self._frontier.span, []
        position = span.start
        for item in self._spans:
            if item.span.start > position:
                gaps.append(Span(position, min(item.span.start, span.end)))
            position = max(position, item.span.end)
        if position < span.end:
            gaps.append(Span(position, span.end))
        return gaps

    # ---- ranges that are not further than the frontier

    def _ranges(self, slow: list[tuple[int, RangeFacts]]) -> Iterator[Finding]:
        if not slow:
            return
        number, facts = min(slow, key=_seriousness)
        partition = self._evidence.partition(number)
        if partition is None:  # the partition has moved between two questions
            return
        if facts.condition is Condition.LIVE:
            yield from troubles(self._evidence, [partition])
        found = RangeFindings(self._evidence, partition, self._keys).of(facts)
        yield found
        others = [each.range_id for _, each in slow if each.range_id != facts.range_id]
        if others and found.cause is not Cause.NOTHING:
            named = ", ".join(map(str, others[:SEVERAL]))
            yield Finding(
                found.cause,
                f"Ranges {named}{' and others' if len(others) > SEVERAL else ''} are not further either.",
                {"ranges": others},
            )

    # ---- ranges that are further than the frontier

    def _between(self) -> list[Finding]:
        """Return the findings for the case that every range is above the frontier.

        Then the progress of the ranges is on its way to the frontier, or is held up.
        """
        partitions = [each for number in self._numbers() if (each := self._evidence.partition(number))]
        standing = list(troubles(self._evidence, partitions))
        if standing or not self._facts or not partitions:
            return standing or [*unseen(self._evidence)] or [self._behind(self._frontier.resolved)]
        number, facts = self._facts[0]
        partition = self._evidence.partition(number)
        behind_ms = (facts.resolved.wall - self._frontier.resolved.wall) // NANOS_PER_MS
        if behind_ms > USUAL_LAG_MS or partition is None:
            return [self._behind(facts.resolved)]
        return [RangeFindings(self._evidence, partition, self._keys).of(facts)]

    def _numbers(self) -> list[int]:
        return sorted({number for number, _ in self._facts})

    def _behind(self, resolved: Timestamp) -> Finding:
        frontier = self._frontier
        return Finding(
            Cause.FRONTIER,
            f"The frontier is behind: the ranges {self._keys.span(frontier.span)} are resolved up to "
            f"{resolved}, and the worker {frontier.worker} knows of {frontier.resolved}. Their checkpoints "
            "are on the topic of checkpoints, or come with the next batch; if that does not change, look at "
            "the log of that worker.",
            {"worker": frontier.worker, "resolved": str(resolved)},
        )

    # ---- keys that several ranges have

    def _held(self) -> Iterator[Finding]:
        """Yield findings for overlaps whose keys the frontier itself holds back."""
        overlaps = self._evidence.workers.overlaps
        held = ((each, each.span.intersect(self._frontier.span)) for each in overlaps)
        for overlap, common in islice((item for item in held if item[1] is not None), SEVERAL):
            assert common is not None
            pairs = zip(overlap.ranges, overlap.generations, strict=True)
            named = [f"{range_id} (generation {generation})" for range_id, generation in pairs]
            if overlap.others:
                named.append(f"{overlap.others} others")
            who = (
                f"Ranges {' and '.join(named)} have the keys {self._keys.span(common)} at once"
                if len(named) > 1
                else f"Range {named[0]} has the keys {self._keys.span(common)}, and so had another at once, "
                "which may have given them to a range that nobody has told of so far"
            )
            yield Finding(
                Cause.OVERLAP,
                f"{who}, so nothing that they say of these counts, and no marker passes "
                f"{self._frontier.resolved}. The source's set of ranges overlaps there: have it write the "
                "RangeEnd of the range that is wrong.",
                {"ranges": list(overlap.ranges), "start": common.start.hex(), "end": common.end.hex()},
            )

    def _overlaps(self) -> Iterator[Finding]:
        live = (item for item in self._spans if item.live)
        both = [(one, other) for one, other in _neighbours(live) if one.span.overlaps(other.span)]
        for one, other in both[:SEVERAL]:
            common = one.span.intersect(other.span)
            assert common is not None
            yield Finding(
                Cause.OVERLAP,
                f"Ranges {one.range_id} (generation {one.generation}) and {other.range_id} (generation "
                f"{other.generation}) both have the keys {self._keys.span(common)}. That passes when one of "
                "them has not come to its split or merge yet; if it stays, the source's set of ranges "
                "overlaps there, and the frontier holds these keys once both have told of them.",
                {
                    "ranges": [one.range_id, other.range_id],
                    "start": common.start.hex(),
                    "end": common.end.hex(),
                },
            )


def _neighbours(spans: Iterable[RangeSpan]) -> Iterator[tuple[RangeSpan, RangeSpan]]:
    """Yield each range together with that range before it whose span ends last. ``spans`` are in order."""
    furthest: list[RangeSpan] = []
    for item in spans:
        if furthest:
            yield furthest[0], item
        if not furthest or item.span.end > furthest[0].span.end:
            furthest = [item]


def _seriousness(item: tuple[int, RangeFacts]) -> tuple[bool, bool, Timestamp, int]:
    """Return a sort key: live ranges and those that apply a backlog come last, and parked ranges just before
    them. Within these three groups the lowest ranges come first."""
    _, facts = item
    waits = facts.condition in (Condition.LIVE, Condition.CATCHING_UP)
    return waits, facts.condition is Condition.PARKED, facts.resolved, facts.range_id
