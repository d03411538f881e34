"""Explains why a feed's high-water does not rise, or why it has no markers, if log partitions are not the
cause.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from tidegate.changefeed.definition.feed import Engine, FeedState
from tidegate.client.why.evidence import Evidence, FrontierEvidence
from tidegate.client.why.finding import Cause, Finding, duration
from tidegate.client.why.partition_findings import absent_partitions, troubles
from tidegate.client.why.range_findings import USUAL_LAG_MS
from tidegate.hlc import NANOS_PER_MS, Timestamp


def not_running(evidence: Evidence) -> list[Finding]:
    """Return the findings for a feed that has ended, or has not begun."""
    status, state = evidence.feed.status, evidence.feed.current_state
    reason = "" if state is None else state.error
    facts = {"status": status.value}
    if status is FeedState.FAILED:
        return [Finding(Cause.FEED, f"The feed has failed, and no marker comes any more: {reason}", facts)]
    if status is FeedState.SUCCEEDED:
        done = "The feed has succeeded: its scan is complete, and nothing comes after that."
        return [Finding(Cause.FEED, done, facts)]
    if status is FeedState.DROPPED:
        return [Finding(Cause.FEED, "The feed was dropped: no marker comes any more.", facts)]
    if evidence.feed.runs_on(Engine.BACKFILL):
        return [_backfilled(status.value, facts)]
    if evidence.feed.runs_on(Engine.SPARK):
        waits = reason or "the application's Spark query has to take it up (`tidegate spark changefeed`)"
        return [Finding(Cause.FEED, f"The feed is {status.value} on Spark: {waits}", facts)]
    waits = reason or "every log partition has to take it up, so each of them needs a worker that runs"
    pending = Finding(Cause.FEED, f"The feed is {status.value} and has no rows yet: {waits}", facts)
    return [pending, *troubles(evidence, evidence.workers.partitions), *absent_partitions(evidence)]


def _backfilled(status: str, facts: Mapping[str, Any]) -> Finding:
    told = (
        f"The feed is {status} in a backfill, which writes no marker before its end. Where none runs, start "
        "it again with the same statement (`tidegate spark backfill`)."
    )
    return Finding(Cause.FEED, told, facts)


def no_frontier(evidence: Evidence) -> Finding:
    """Return the finding for a feed whose frontier no worker has described."""
    if evidence.feed.runs_on(Engine.BACKFILL):
        return _backfilled(evidence.feed.status.value, {"engine": Engine.BACKFILL.value})
    if evidence.feed.runs_on(Engine.SPARK):
        told = "The feed runs on Spark, and workers know nothing of it: look at the log of its query."
        return Finding(Cause.FEED, told, {"engine": Engine.SPARK.value})
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


def markers(frontier: FrontierEvidence) -> Iterator[Finding]:
    """Yield findings that say what the feed's markers wait for, apart from the frontier."""
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
