"""One feed as the page of feeds shows it, and its form as JSON."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final

from tidegate.changefeed.definition.feed import LIVE
from tidegate.changefeed.lifecycle.jobs import FeedView
from tidegate.client.why.evidence import Evidence
from tidegate.client.why.explanation import Explanation, explain
from tidegate.client.why.finding import Finding, Keys
from tidegate.redaction import redacted

#: The most ranges of a feed that are shown, the slowest first.
_MOST_RANGES: Final = 5
#: The most findings of a feed that are shown after the first one.
_MOST_ALSO: Final = 5


@dataclass(frozen=True, slots=True)
class ShownRange:
    """A range that has keys of the feed's lowest span.

    ``resolved_lag_ms`` is how far the range's resolved timestamp is behind the clock, ``closed_lag_ms`` how
    far its closed timestamp is.
    """

    partition: int
    range_id: int
    generation: int
    state: str
    span: str
    resolved_lag_ms: int
    closed_lag_ms: int
    open_transactions: int

    def to_json(self) -> dict[str, Any]:
        """Return the members of its JSON object."""
        return {name: getattr(self, name) for name in self.__slots__}


@dataclass(frozen=True, slots=True)
class ShownFeed:
    """A feed at one moment.

    Attributes:
        feed: its id.
        epoch: its epoch; 0 before the first one. Two looks give a rate only if they saw the same epoch.
        status: its state, as ``tidegate feed list`` has it.
        engine: what runs it; empty where that is not known.
        tables: the names of its tables.
        high_water: the timestamp up to which its output is complete, as text; ``None`` before its initial
            scan is done.
        lag_ms: how far the high-water is behind the clock; ``None`` without a high-water.
        why: what holds it back, the main finding first; empty for a feed that is only listed.
        ranges: its slowest ranges; empty for a feed that is only listed.
        records: how many records its topics have had so far; ``None`` where that is not known.
        error: why nothing more is known of it; empty if there is no error.
    """

    feed: str
    epoch: int
    status: str
    engine: str
    tables: tuple[str, ...]
    high_water: str | None
    lag_ms: int | None
    why: tuple[Finding, ...] = ()
    ranges: tuple[ShownRange, ...] = ()
    records: int | None = None
    error: str = ""

    def to_json(self) -> dict[str, Any]:
        """Return the members of its JSON object, without rates."""
        return {
            "feed": self.feed,
            "status": self.status,
            "engine": self.engine,
            "tables": list(self.tables),
            "high_water": self.high_water,
            "lag_ms": self.lag_ms,
            "why": None if not self.why else _finding(self.why[0]),
            "also": [_finding(each) for each in self.why[1 : 1 + _MOST_ALSO]],
            "slowest_ranges": [each.to_json() for each in self.ranges],
            "error": redacted(self.error),
        }


def listed_feed(feed_id: str, feed: FeedView, now_ms: int, error: str = "") -> ShownFeed:
    """Return a feed with what the jobs topic says of it. Its workers are not asked."""
    definition, high_water = feed.definition, feed.high_water
    return ShownFeed(
        feed_id,
        feed.epoch or 0,
        feed.status.value,
        "" if definition is None else definition.engine.value,
        () if definition is None else tuple(map(str, definition.tables)),
        None if high_water is None else high_water.decimal(),
        None if high_water is None else now_ms - high_water.wall_ms,
        error=error,
    )


def explained_feed(evidence: Evidence, records: int | None = None) -> ShownFeed:
    """Return a feed with what its workers say, and with what ``tidegate why`` says of it."""
    feed, explanation = evidence.feed, explain(evidence)
    listed = listed_feed(evidence.feed_id, feed, evidence.now_ms)
    high_water = explanation.high_water
    return ShownFeed(
        listed.feed,
        listed.epoch,
        listed.status,
        listed.engine,
        listed.tables,
        None if high_water is None else high_water.decimal(),
        explanation.lag_ms,
        explanation.findings,
        tuple(islice(_slowest(evidence, explanation), _MOST_RANGES)),
        records,
    )


def _slowest(evidence: Evidence, explanation: Explanation) -> Iterator[ShownRange]:
    """Yield the ranges of the feed's lowest span, the slowest first."""
    if explanation.span is None:
        return
    state = evidence.feed.current_state
    keys = Keys(() if state is None else state.targets)
    found = ((number, facts) for number, ranges in evidence.ranges.items() for facts in ranges.slowest)
    for number, facts in sorted(found, key=lambda each: (each[1].resolved, each[1].range_id)):
        yield ShownRange(
            number,
            facts.range_id,
            facts.generation,
            facts.condition.value,
            "" if facts.span is None else keys.span(facts.span),
            evidence.now_ms - facts.resolved.wall_ms,
            evidence.now_ms - facts.closed.wall_ms,
            facts.open_transactions,
        )


def _finding(finding: Finding) -> Mapping[str, str]:
    return {"cause": finding.cause.value, "sentence": redacted(finding.sentence)}


def most_behind_first(feeds: Iterable[tuple[str, FeedView]]) -> list[tuple[str, FeedView]]:
    """Return feeds in the order in which they are asked for.

    Feeds that run come before the others, and a lower high-water comes before a higher one.
    """

    def place(item: tuple[str, FeedView]) -> tuple[bool, int, str]:
        high_water = item[1].high_water
        return item[1].status not in LIVE, 0 if high_water is None else high_water.wall, item[0]

    return sorted(feeds, key=place)
