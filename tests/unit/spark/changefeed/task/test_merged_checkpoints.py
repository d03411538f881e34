"""Checkpoints that a task has merged say to frontiers what all of them say."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from random import Random
from typing import Final

import pytest

from tidegate.changefeed.definition.feed import FIRST_EPOCH, FeedId
from tidegate.changefeed.lifecycle.frontier import FeedFrontier
from tidegate.hlc import NANOS_PER_MS, ZERO, ResolvedTimestamp, Timestamp
from tidegate.processor.batch import ActiveFeed, PartitionCheckpoint, RangeCheckpoint, StepResult
from tidegate.processor.checkpoint import encode_checkpoint, report_of
from tidegate.processor.range_claims import RangeClaims
from tidegate.raftlog.entry import Generation, Offset, RangeId
from tidegate.spans import Span
from tidegate.spark.changefeed.task.answers import RoundAnswers
from tidegate.spark.changefeed.task.merged_checkpoints import MergedCheckpoints

_FEED: Final = ActiveFeed(FeedId("feed"), FIRST_EPOCH)
_LATER: Final = ActiveFeed(FeedId("later"), FIRST_EPOCH)
_PARTITIONS: Final = 2
_KEYS: Final = 1 << 16
_ROUNDS: Final = 12


@dataclass(slots=True)
class _Range:
    range_id: RangeId
    generation: int
    start: int
    end: int
    resolved_ms: int
    partition: int

    def checkpoint(self) -> RangeCheckpoint:
        span = Span(self.start.to_bytes(3, "big"), self.end.to_bytes(3, "big"))
        resolved = ResolvedTimestamp(Timestamp(self.resolved_ms * NANOS_PER_MS))
        return RangeCheckpoint(self.range_id, Generation(self.generation), span, resolved)


class _Store:
    """Ranges that beat, split and merge; each step of a partition is a checkpoint of those that moved.

    With ``strays`` a range that splits may go on beside its successors, slowly, which no store may do.
    """

    def __init__(self, seed: int, *, strays: bool = False) -> None:
        self.rng = Random(seed)
        self._strays = strays
        self._pace_ms = 400 if strays else 5  # an overlap shows when a range is seconds behind its time
        self.stray: list[_Range] = []
        self.now_ms = 1_000
        self.feeds: tuple[ActiveFeed, ...] = (_FEED,)
        self._ranges = [_Range(RangeId(1), 1, 0, _KEYS, 0, 0)]
        self._ids = 1
        self._offset = 0

    def round(self) -> list[list[PartitionCheckpoint]]:
        """The checkpoints of the steps of each partition."""
        steps: list[list[PartitionCheckpoint]] = [[] for _ in range(_PARTITIONS)]
        for _ in range(self.rng.randint(1, 8)):
            touched: list[dict[RangeId, RangeCheckpoint]] = [{} for _ in range(_PARTITIONS)]
            ended: list[list[RangeId]] = [[] for _ in range(_PARTITIONS)]
            for _ in range(self.rng.randint(1, 12)):
                self.now_ms += self.rng.randint(0, self._pace_ms)
                self._happen(touched, ended)
            self._offset += 1
            for number in range(_PARTITIONS):
                if touched[number] or ended[number]:
                    moved = tuple(touched[number].values())
                    steps[number].append(self._step(number, moved, tuple(ended[number])))
        return steps

    def _step(
        self, number: int, moved: tuple[RangeCheckpoint, ...], ended: tuple[RangeId, ...]
    ) -> PartitionCheckpoint:
        if self.rng.random() < 0.05:
            self.feeds = (_FEED,) if len(self.feeds) == 2 else (_FEED, _LATER)
        now = self.now_ms
        return PartitionCheckpoint(number, Offset(self._offset), self.feeds, moved, now, ended, now)

    def _happen(
        self, touched: Sequence[dict[RangeId, RangeCheckpoint]], ended: Sequence[list[RangeId]]
    ) -> None:
        rng, ranges = self.rng, self._ranges
        if self.stray and rng.random() < 0.1:
            slow = rng.choice(self.stray)
            slow.resolved_ms = rng.randint(slow.resolved_ms, max(slow.resolved_ms, self.now_ms - 1_000))
            touched[slow.partition][slow.range_id] = slow.checkpoint()
            return
        at = rng.randrange(len(ranges))
        one, chance = ranges[at], rng.random()
        if chance < 0.05 and one.end - one.start > 1:
            middle = rng.randint(one.start + 1, one.end - 1)
            if self._strays and rng.random() < 0.5:
                self._ids += 1
                self.stray.append(one)
                one = ranges[at] = replace(
                    one, range_id=RangeId(self._ids), partition=self._ids % _PARTITIONS
                )
            self._ids += 1
            one.generation += 1
            right = replace(one, range_id=RangeId(self._ids), start=middle, partition=self._ids % _PARTITIONS)
            one.end = middle
            ranges.insert(at + 1, right)
        elif chance < 0.08 and at + 1 < len(ranges):
            right = ranges.pop(at + 1)
            one.generation = max(one.generation, right.generation) + 1
            one.end = right.end
            one.resolved_ms = min(one.resolved_ms, right.resolved_ms)
            touched[right.partition].pop(right.range_id, None)
            ended[right.partition].append(right.range_id)
        elif one.resolved_ms < self.now_ms:
            one.resolved_ms = rng.randint(one.resolved_ms + 1, self.now_ms)
            touched[one.partition][one.range_id] = one.checkpoint()


class _Driver:
    """A driver that takes checkpoints."""

    def __init__(self) -> None:
        self.claims = RangeClaims()
        self.frontiers = {
            feed: FeedFrontier([Span(b"", b"\xff")], ZERO, 0) for feed in (_FEED.feed_id, _LATER.feed_id)
        }

    def count(self, checkpoints: Iterable[PartitionCheckpoint]) -> None:
        """Count the checkpoints of a round in, as `QueryFeeds.note_answers` does."""
        for report in self.claims.count([report_of(checkpoint) for checkpoint in checkpoints]):
            for feed in report.feeds:
                self.frontiers[feed.feed_id].apply_columns(
                    report.partition, report.offset, report.starts, report.ends, report.resolved
                )

    def knows(self) -> object:
        frontiers = {
            feed: (list(each.spans.entries()), dict(each.positions), each.high_water)
            for feed, each in self.frontiers.items()
        }
        return frontiers, self.claims._claims, self.claims.overlaps


def _merged(checkpoints: Iterable[PartitionCheckpoint]) -> list[PartitionCheckpoint]:
    merged = MergedCheckpoints()
    for checkpoint in checkpoints:
        merged.add(checkpoint)
    return merged.take_out()


@pytest.mark.parametrize("seed", range(40))
def test_a_driver_knows_the_same(seed: int) -> None:
    store, every, few = _Store(seed), _Driver(), _Driver()
    for _ in range(_ROUNDS):
        steps = store.round()
        every.count([each for partition in steps for each in partition])
        few.count([each for partition in steps for each in _merged(partition)])
        assert few.knows() == every.knows(), f"seed {seed}"
    assert every.claims.overlaps == ()


@pytest.mark.sampled(4)
@pytest.mark.parametrize("seed", range(40))
def test_keys_that_several_ranges_have_are_held_as_they_are_without_merging(seed: int) -> None:
    store, every, few = _Store(seed, strays=True), _Driver(), _Driver()
    for _ in range(_ROUNDS):
        steps = store.round()
        every.count([each for partition in steps for each in partition])
        few.count([each for partition in steps for each in _merged(partition)])
        for feed in (_FEED.feed_id, _LATER.feed_id):
            assert few.frontiers[feed].high_water <= every.frontiers[feed].high_water, f"seed {seed}"
        assert bool(few.claims.overlaps) == bool(every.claims.overlaps), f"seed {seed}"


def test_strays_are_found() -> None:
    def held(seed: int) -> bool:
        store, driver = _Store(seed, strays=True), _Driver()
        for _ in range(_ROUNDS):
            driver.count([each for partition in store.round() for each in _merged(partition)])
        return bool(driver.claims.overlaps)

    assert sum(held(seed) for seed in range(40)) > 4


@pytest.mark.parametrize("seed", range(10))
def test_a_claim_is_told_twice_at_most_for_the_same_feeds(seed: int) -> None:
    store = _Store(seed)
    for _ in range(_ROUNDS):
        for steps in store.round():
            merged = _merged(steps)
            told = Counter(
                (each.feeds, item.range_id, item.generation, item.span)
                for each in merged
                for item in each.ranges
            )
            turns = 1 + sum(one.feeds != other.feeds for one, other in pairwise(steps))
            assert max(told.values(), default=0) <= 2 * turns
            given = [item for each in steps for item in each.ranges]
            assert {item.range_id: item for each in merged for item in each.ranges} == {
                item.range_id: item for item in given
            }, "the last word of each range"


def test_the_answer_of_many_ranges_does_not_grow_with_the_log() -> None:
    """100,000 ranges of a partition that moved in each of many steps: two words of each, however many."""
    ranges = 100_000
    spans = [Span(n.to_bytes(8, "big"), (n + 1).to_bytes(8, "big")) for n in range(ranges)]

    def steps(count: int) -> Iterable[PartitionCheckpoint]:
        for step in range(count):
            at = ResolvedTimestamp(Timestamp((1_000 + step) * NANOS_PER_MS))
            moved = tuple(
                RangeCheckpoint(RangeId(n), Generation(1), span, at) for n, span in enumerate(spans)
            )
            yield PartitionCheckpoint(0, Offset(step), (_FEED,), moved, 1_000 + step)

    def answered(count: int) -> int:
        answers = RoundAnswers(0, whole_checkpoints_only=False)
        for step in steps(count):
            answers.keep(StepResult(step.offset, checkpoint=step))
            answers.let_go()
        answers.say_checkpoints()
        return sum(len(answer.body) for answer in answers.said)

    whole = len(encode_checkpoint(next(iter(steps(1)))))
    assert answered(1) == whole
    assert answered(2) == answered(6) <= 2 * whole + 100
    assert whole < 60 * ranges
