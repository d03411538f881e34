"""Why a feed's high-water stands where it stands: the first thing that would have to change.

The feed's frontier names its lowest span. Of the ranges that have keys there the least far one holds the
frontier back, unless keys of it belong to no range at all; a partition that stands still holds all of its
ranges back; and when every range is further than the frontier knows, what lies between them is at fault.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from tidegate.changefeed.feed import FeedState
from tidegate.client.evidence import Evidence, FrontierEvidence, PartitionEvidence
from tidegate.client.finding import SEVERAL, Cause, Finding, Keys, duration
from tidegate.client.lag_findings import lag_findings
from tidegate.client.range_findings import USUAL_LAG_MS, RangeFindings, owner_text
from tidegate.hlc import NANOS_PER_MS, Timestamp
from tidegate.processor.range_facts import Condition, RangeFacts
from tidegate.processor.status import RangeSpan
from tidegate.spans import Span

_UNACKNOWLEDGED_MS: Final = 5_000  # younger rows are on their way


@dataclass(frozen=True, slots=True)
class Explanation:
    """``findings`` begin with the answer. ``span_text`` is the span that is lowest, empty without one."""

    feed_id: str
    status: str
    high_water: Timestamp | None
    lag_ms: int | None
    span: Span | None
    span_text: str
    findings: tuple[Finding, ...]

    @property
    def answer(self) -> Finding:
        """What would have to change first."""
        return self.findings[0]

    def to_json(self) -> dict[str, Any]:
        """For ``--format json``."""
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
    """The answer to "why is resolved stuck?"; there always is one."""
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
        tuple(_findings(evidence, keys)),
    )


def _findings(evidence: Evidence, keys: Keys) -> list[Finding]:
    if evidence.feed.status not in (FeedState.RUNNING, FeedState.STARTING):
        return _not_running(evidence)
    frontier, lags = evidence.workers.frontier, lag_findings(evidence)
    if frontier is None:
        return [_no_frontier(evidence), *lags, *_silent(evidence)]
    holding = _Span(evidence, frontier, keys).findings()
    markers = list(_markers(frontier))
    if lags:
        # A frontier that knows less than the ranges is what a feed that lags looks like from there.
        known = (Cause.FRONTIER, Cause.NOTHING)
        others = [finding for finding in holding if finding.cause not in known]
        return [*lags, *others, *markers]
    if holding[0].cause is Cause.NOTHING and markers:
        return [*markers, *holding[1:]]
    return [*holding, *markers]


class _Span:
    """The frontier's lowest span, and who has its keys."""

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
        """What holds the span back, the most telling first; never empty."""
        slow = [item for item in self._facts if item[1].resolved <= self._frontier.resolved]
        found = [*self._missing(), *self._ranges(slow)] or self._between()
        holding = [finding for finding in found if finding.cause is not Cause.NOTHING]
        return [*(holding or found), *self._overlaps()]

    # ---- keys that no range has

    def _missing(self) -> Iterator[Finding]:
        gaps = self._gaps()
        if not gaps or not all(found.complete for found in self._evidence.ranges.values()):
            return
        unseen = list(_unseen(self._evidence))
        yield from unseen
        if unseen:
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
            f"them, and no marker passes {self._frontier.resolved} before one does. {hint} the source's set "
            "of ranges has a hole there; have it write a Snapshot of the range that these keys belong to.",
            {"gaps": [{"start": gap.start.hex(), "end": gap.end.hex()} for gap in gaps[:SEVERAL]]},
        )

    def _gaps(self) -> list[Span]:
        """The parts of the span that no range has."""
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
        if partition is None:  # it has moved between two questions
            return
        if facts.condition is Condition.LIVE:
            yield from _trouble(self._evidence, partition)
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
        """Every range is above what the frontier has: it is on its way, or held up on the way."""
        partitions = [each for number in self._numbers() if (each := self._evidence.partition(number))]
        troubles = list(_troubles(self._evidence, partitions))
        if troubles or not self._facts or not partitions:
            return troubles or [*_unseen(self._evidence)] or [self._behind(self._frontier.resolved)]
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
                "overlaps there, and what the frontier knows of these keys is what the further one says.",
                {
                    "ranges": [one.range_id, other.range_id],
                    "start": common.start.hex(),
                    "end": common.end.hex(),
                },
            )


def _neighbours(spans: Iterable[RangeSpan]) -> Iterator[tuple[RangeSpan, RangeSpan]]:
    """Each range, with the one before it that reaches furthest."""
    furthest: list[RangeSpan] = []
    for item in spans:
        if furthest:
            yield furthest[0], item
        if not furthest or item.span.end > furthest[0].span.end:
            furthest = [item]


def _seriousness(item: tuple[int, RangeFacts]) -> tuple[bool, bool, Timestamp, int]:
    """What does not pass by itself comes first, then whatever is least far."""
    _, facts = item
    waits = facts.condition in (Condition.LIVE, Condition.CATCHING_UP)
    return waits, facts.condition is Condition.PARKED, facts.resolved, facts.range_id


# ---- partitions


def _troubles(evidence: Evidence, partitions: Iterable[PartitionEvidence]) -> Iterator[Finding]:
    for partition in partitions:
        yield from _trouble(evidence, partition)


def _trouble(evidence: Evidence, partition: PartitionEvidence) -> Iterator[Finding]:
    """Why a log partition stands still, whatever its ranges do."""
    name = f"Log partition {partition.partition}"
    facts = {
        "partition": partition.partition,
        "offset": partition.next_offset,
        "state": partition.state,
        "worker": partition.worker,
    }
    if partition.state == "restoring":
        yield Finding(
            Cause.RESTORING,
            f"{name} is being restored from the changelogs by the worker {partition.worker}: it goes on by "
            "itself.",
            facts,
        )
    elif partition.state == "waiting":
        waits = [wait for wait in evidence.workers.registries if wait.worker == partition.worker]
        told = "; ".join(f"{each.registry} for feed {each.feed} ({each.cause})" for each in waits[:SEVERAL])
        yield Finding(
            Cause.REGISTRY,
            f"{name} waits at offset {partition.next_offset} with a batch for a schema registry: "
            f"{told or 'it has not answered yet'}. Nothing is lost; bring the registry back, or drop the "
            "feed.",
            {**facts, "waiting_ms": max((each.waiting_ms for each in waits), default=0)},
        )
    elif partition.held_for:
        yield Finding(
            Cause.HELD,
            f"{name} is held at offset {partition.next_offset} for the start of the new feed "
            f"{', '.join(partition.held_for)}: every log partition has to answer first, which takes a "
            "moment; after 300 s it goes on without that feed.",
            {**facts, "held_for": list(partition.held_for)},
        )
    if partition.oldest_unacknowledged_ms > _UNACKNOWLEDGED_MS:
        yield Finding(
            Cause.SINK,
            f"{name} waits for the sink: {partition.inflight_rows} rows are not acknowledged, the oldest for "
            f"{duration(partition.oldest_unacknowledged_ms)}. Check that the brokers of the output topics "
            "run and have room; rows do not expire.",
            {**facts, "oldest_unacknowledged_ms": partition.oldest_unacknowledged_ms},
        )
    reading_ms = evidence.now_ms - partition.log_time_ms
    if partition.state == "running" and partition.lag_records and reading_ms > USUAL_LAG_MS:
        yield Finding(
            Cause.READING,
            f"{name} is read {partition.lag_records} records behind its end, {duration(reading_ms)} behind "
            "the present: the worker is slower than the log, or catches up. Start more workers if that "
            "grows.",
            {**facts, "lag_records": partition.lag_records},
        )


def _unseen(evidence: Evidence) -> Iterator[Finding]:
    """The log partitions of which nothing is known."""
    restoring = [each for each in evidence.workers.partitions if each.state == "restoring"]
    yield from _troubles(evidence, restoring)
    yield from _absent(evidence)


def _absent(evidence: Evidence) -> Iterator[Finding]:
    absent = [n for n in range(evidence.workers.log_partitions) if evidence.partition(n) is None]
    if absent:
        told = ", ".join(f"{number} is {owner_text(evidence, number)}" for number in absent[:SEVERAL])
        yield Finding(
            Cause.WORKERS,
            f"Log partition {told}{' and so on' if len(absent) > SEVERAL else ''}: what it has of the span "
            "is not known. Start a worker for it, or name the one that has it by --url.",
            {"partitions": absent},
        )
        yield from _silent(evidence)


def _silent(evidence: Evidence) -> Iterator[Finding]:
    for sentence in evidence.workers.silent:
        yield Finding(Cause.WORKERS, sentence)


# ---- the feed itself


def _not_running(evidence: Evidence) -> list[Finding]:
    status, state = evidence.feed.status, evidence.feed.current_state
    reason = "" if state is None else state.error
    facts = {"status": status.value}
    if status is FeedState.FAILED:
        return [Finding(Cause.FEED, f"The feed has failed, and nothing comes any more: {reason}", facts)]
    if status is FeedState.SUCCEEDED:
        done = "The feed has succeeded: its scan is complete, and nothing comes after that."
        return [Finding(Cause.FEED, done, facts)]
    if status is FeedState.DROPPED:
        return [Finding(Cause.FEED, "The feed was dropped: nothing comes any more.", facts)]
    waits = reason or "every log partition has to take it up, so each of them needs a worker that runs"
    pending = Finding(Cause.FEED, f"The feed is {status.value} and has no rows yet: {waits}", facts)
    return [pending, *_troubles(evidence, evidence.workers.partitions), *_absent(evidence)]


def _no_frontier(evidence: Evidence) -> Finding:
    place = evidence.frontier_place
    facts: dict[str, Any] = {} if place is None else {"topic": place.topic, "partition": place.partition}
    owner = None if place is None else evidence.owner(place)
    if owner is not None:
        sentence = (
            f"The feed's frontier is kept by the worker {owner}, which was not asked, or has only begun: "
            "name it by --url."
        )
    elif place is None or evidence.members is None:
        sentence = "None of the workers that were asked keeps the feed's frontier: name the others by --url."
    else:
        sentence = (
            f"No worker keeps the feed's frontier, so nothing moves its high-water: partition "
            f"{place.partition} of {place.topic} has no owner. Start a worker."
        )
    return Finding(Cause.WORKERS, sentence, facts)


def _markers(frontier: FrontierEvidence) -> Iterator[Finding]:
    """What markers wait for above the frontier."""
    high_water, persisted = frontier.high_water, frontier.persisted
    if high_water is None:
        return
    if persisted is not None and _ms(high_water, persisted) > USUAL_LAG_MS:
        yield Finding(
            Cause.FRONTIER,
            f"The high-water is {high_water}, but {persisted} is what is durable, and no marker "
            f"passes that: the transactions of the worker {frontier.worker} do not commit. Look at its log.",
            {"persisted": str(persisted)},
        )
    interval_ms, marker = frontier.resolved_interval_ms, frontier.marker
    facts = {"marker": None if marker is None else str(marker), "resolved_interval_ms": interval_ms}
    if interval_ms is None:
        yield Finding(
            Cause.MARKERS, "The feed has no option resolved, so it writes no markers at all.", facts
        )
    elif frontier.markers_wait:
        yield Finding(
            Cause.MARKERS,
            f"Rows go on, but markers wait: {frontier.markers_wait}. The last one is {marker}.",
            facts,
        )
    elif marker is not None and interval_ms > USUAL_LAG_MS and _ms(high_water, marker) < interval_ms:
        yield Finding(
            Cause.MARKERS,
            f"The last marker is {marker}; the next one is due once the high-water is "
            f"resolved={duration(interval_ms)} above that, in "
            f"{duration(interval_ms - _ms(high_water, marker))} of log time.",
            facts,
        )


def _ms(above: Timestamp, below: Timestamp) -> int:
    return (above.wall - below.wall) // NANOS_PER_MS
