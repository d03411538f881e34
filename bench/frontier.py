"""Measures the frontier: processor time for each range's checkpoint, from the bytes of its record on.

Checkpoints come as the worker's partitions publish them: every range once in three seconds, at a time of its
own, in records of a batch each. Ranges that stand side by side are of different partitions, so neighbours
come to equal timestamps and part again all the time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from random import Random
from time import process_time_ns
from typing import Final, NamedTuple

from bench.workload import bench_feed
from tidegate.changefeed.definition.feed import FeedId
from tidegate.changefeed.lifecycle.frontier import FeedFrontier
from tidegate.hlc import NANOS_PER_MS, NANOS_PER_SECOND, ResolvedTimestamp, Timestamp
from tidegate.processor.batch import ActiveFeed, PartitionCheckpoint, RangeCheckpoint
from tidegate.processor.checkpoint import PartitionProgress, decode_report, encode_checkpoint
from tidegate.raftlog.entry import Generation, Offset, RangeId
from tidegate.spans import Span, SpanFrontier
from tidegate.worker.markers.checkpoint_routes import CheckpointRoutes

_ROUND_S: Final = 3.0
_ROUNDS: Final = 4
_TICKS: Final = 30  # of a round: at each tick the agent takes one batch of the topic, of all partitions
_PARTITIONS: Final = 16
_BEGIN: Final = 1_767_225_600 * NANOS_PER_SECOND
_CLOSED_EVERY_NS: Final = 200 * NANOS_PER_MS  # stores close timestamps together: many ranges get the same
_TABLE: Final = b"\xf0\x89"
_DISJOINT: Final = (1, 4, 16, 64, 256, 1_024, 4_096, 16_384)
_FORWARDS: Final = 50_000
_DEFINITION: Final = bench_feed(()).definition


class FrontierCost(NamedTuple):
    """``us`` is the time for one range's checkpoint and all feeds. ``core`` is the share of one processor
    core that this takes when each range has a checkpoint every 3 s."""

    case: str
    ranges: int
    feeds: int
    us: float
    core: float


class ForwardCost(NamedTuple):
    """Microseconds to forward one of ``spans`` disjoint spans, or a random piece of one, and to look at the
    minimum.
    """

    spans: int
    own_us: float
    piece_us: float


@dataclass(slots=True)
class MovingRanges:
    """Ranges that cover a table. ``moves`` of them split or merge with each tick."""

    count: int
    moves: int
    rng: Random
    starts: list[int] = field(default_factory=list)
    generations: dict[int, int] = field(default_factory=dict)  # by starts
    ended: list[int] = field(default_factory=list)  # since the last tick, by starts

    def __post_init__(self) -> None:
        self.starts = [2 * number for number in range(self.count)]
        self.generations = dict.fromkeys(self.starts, 1)

    def tick(self, tick: int, feeds: Sequence[ActiveFeed]) -> list[bytes]:
        """Return the records of the ranges whose turn it is."""
        now = _BEGIN + int(tick * _ROUND_S / _TICKS * NANOS_PER_SECOND)
        self._move()
        ranges: list[list[RangeCheckpoint]] = [[] for _ in range(_PARTITIONS)]
        for place, number in enumerate(self.starts):
            if number // 2 % _TICKS != tick % _TICKS:
                continue
            wall = now - now % _CLOSED_EVERY_NS if self.rng.random() < 0.5 else now - place % 9_973
            resolved = ResolvedTimestamp(Timestamp(wall))
            generation = Generation(self.generations[number])
            checkpoint = RangeCheckpoint(RangeId(number + 1), generation, self._span(place), resolved)
            ranges[number // 2 % _PARTITIONS].append(checkpoint)
        ended, self.ended = [RangeId(number + 1) for number in self.ended], []
        log_time_ms = now // NANOS_PER_MS
        return [
            encode_checkpoint(
                PartitionCheckpoint(
                    number,
                    Offset(tick),
                    tuple(feeds),
                    tuple(found),
                    log_time_ms,
                    tuple(each for each in ended if (each - 1) // 2 % _PARTITIONS == number),
                )
            )
            for number, found in enumerate(ranges)
        ]

    def _move(self) -> None:
        for _ in range(self.moves):
            place = self.rng.randrange(1, len(self.starts) - 1)
            start = self.starts[place]
            if start % 2:
                del self.starts[place]
                self.ended.append(start)
                self._raise(self.starts[place - 1], self.generations[start])
            elif self.starts[place + 1] > start + 1:
                self.starts.insert(place + 1, start + 1)
                self._raise(start, self.generations.get(start + 1, 0))
                self.generations[start + 1] = self.generations[start]

    def _raise(self, start: int, other: int) -> None:
        self.generations[start] = max(self.generations[start], other) + 1

    def _span(self, place: int) -> Span:
        end = self.starts[place + 1] if place + 1 < len(self.starts) else 2 * self.count
        return Span(_key(self.starts[place]), _key(end))


def _key(number: int) -> bytes:
    return _TABLE + number.to_bytes(5, "big") + b"\x88"


def frontier_costs(seed: int, ranges: int = 100_000) -> Iterator[FrontierCost]:
    """Measure the cases at ``ranges`` ranges."""
    whole = [Span(_key(0), _key(2 * ranges))]
    tenths = [Span(_key(2 * ranges * n // 10), _key(2 * ranges * (n + 1) // 10)) for n in range(10)]
    for case, spans, moves in (
        ("one feed on all ranges", whole, 0),
        ("the same, 100 splits and merges a second", whole, 10),
        ("ten feeds on a tenth each", tenths, 0),
        ("ten feeds on all ranges", whole * 10, 0),
    ):
        us = _cost(spans, MovingRanges(ranges, moves, Random(seed)))
        yield FrontierCost(case, ranges, len(spans), us, us * ranges / _ROUND_S / 1e6)


class _BenchFeed:
    """A feed's publisher that writes nothing."""

    def __init__(self, number: int, span: Span) -> None:
        self.definition = replace(_DEFINITION, id=FeedId(f"feed-{number}"))
        self.frontier: FeedFrontier | None = FeedFrontier([span], Timestamp(_BEGIN - NANOS_PER_SECOND), 0)

    def apply(self, report: PartitionProgress) -> None:
        """Take a report into the frontier (step M1)."""
        assert self.frontier is not None
        columns = (report.starts, report.ends, report.resolved)
        if self.frontier.apply_columns(report.partition, report.offset, *columns):
            marker = self.frontier.due_marker()
            if marker is not None:
                self.frontier.marked(marker)


def _cost(spans: Sequence[Span], ranges: MovingRanges) -> float:
    """Return the microseconds for each range's checkpoint once every range was seen; the best of several
    rounds."""
    routes: CheckpointRoutes[_BenchFeed] = CheckpointRoutes(lambda _: False)
    for number, span in enumerate(spans):
        routes.begin(_BenchFeed(number, span))
    feeds = [ActiveFeed(feed.definition.id, feed.definition.epoch) for feed in routes.receivers.values()]
    rounds: list[float] = []
    for number in range(_ROUNDS):
        took = reported = 0
        for tick in range(number * _TICKS, (number + 1) * _TICKS):
            records = ranges.tick(tick, feeds)
            begin = process_time_ns()
            reports = [decode_report(record) for record in records]
            routes.deliver(reports)
            took += process_time_ns() - begin
            reported += sum(len(report.starts) for report in reports)
        rounds.append(took / reported / 1e3)
    return min(rounds[1:])


def forward_costs(seed: int, forwards: int = _FORWARDS) -> Iterator[ForwardCost]:
    """Measure as CockroachDB's ``BenchmarkFrontier`` does: 1 to 16,384 disjoint spans, of which random ones
    are forwarded."""
    for count in _DISJOINT:
        rng = Random(seed)
        spans = [Span(_key(4 * number), _key(4 * number + 3)) for number in range(count)]
        own = [rng.choice(spans) for _ in range(forwards)]
        yield ForwardCost(count, _forward(spans, own), _forward(spans, [_piece(rng, count) for _ in own]))


def _piece(rng: Random, count: int) -> Span:
    first = 4 * rng.randrange(count)
    start, end = sorted(rng.sample(range(4), 2))
    return Span(_key(first + start), _key(first + end))


def _forward(spans: Sequence[Span], forwarded: Sequence[Span]) -> float:
    frontier = SpanFrontier(spans, Timestamp(_BEGIN))
    begin = process_time_ns()
    for step, span in enumerate(forwarded):
        frontier.forward(span, Timestamp(_BEGIN + step * NANOS_PER_MS))
    return (process_time_ns() - begin) / len(forwarded) / 1e3
