"""Tests what a producer that comes to its end leaves to the next one: step R6 of
docs/protocols/refused-rows.md.

Each key has a partition of its own, which answers at its own pace, so batches are acknowledged in any order.
A commit is judged by what a crash would leave at that moment.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from tempfile import mkdtemp
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.logs import Record
from tests.unit.worker.commit.judged_commits import Kafka, Owner, in_a_loop, offset_of, row_of, settle
from tidegate.changefeed.definition.feed import FeedId
from tidegate.processor.batch import OutputRecord, StepResult
from tidegate.worker.kafka.fetched import FetchedBatch
from tidegate.worker.output.barrier import Barrier
from tidegate.worker.output.outlet import Outlet, OutletLimits
from tidegate.worker.output.row_writer import RowWriter

_A: Final = FeedId("a")
_B: Final = FeedId("b")
_PARTITIONS: Final = 3  # as many as the stand-in of the processor has keys

_Lane = tuple[str, bytes]


@dataclass
class _Producer:
    """A producer for all feeds of the cluster. It has its rows by topic and key, in order."""

    cluster: _Cluster
    is_over: bool = False
    is_held: bool = False
    lanes: dict[_Lane, deque[tuple[OutputRecord, Barrier]]] = field(default_factory=dict)

    def send(self, rows: Sequence[OutputRecord], barrier: Barrier, first: int = 0) -> int:
        assert not self.is_over, "rows are given to a producer that is over"
        for row in rows[first:]:
            self.lanes.setdefault((row.topic, row.key), deque()).append((row, barrier))
        return len(rows)

    def answer(self, lane: _Lane, rows: int = 1_000) -> None:
        """The broker answers for the oldest rows of a partition."""
        queue = self.lanes.get(lane, deque())
        for _ in range(min(rows, len(queue))):
            row, barrier = queue.popleft()
            self.cluster.sinks[FeedId(row.topic)].topic.append(row)
            barrier.row_acknowledged()

    def come_to_the_end(self) -> None:
        """Some of its rows have come to their partitions, without an answer; then it is over."""
        for queue in self.lanes.values():
            for row, _ in list(queue)[: self.cluster.rng.randint(0, len(queue))]:
                self.cluster.sinks[FeedId(row.topic)].topic.append(row)
        self.lanes.clear()
        self.is_over = True

    def under_way(self, feed_id: FeedId) -> set[int]:
        """The offsets of the feed's rows that are not answered."""
        return {
            offset_of(row) for (topic, _), queue in self.lanes.items() for row, _ in queue if topic == feed_id
        }


class _Cluster(Kafka):
    """Both feeds write to it by one producer."""

    def __init__(self, seed: int = 0) -> None:
        super().__init__(_A, _B)
        self.rng = Random(seed)
        self.producer = _Producer(self)

    def sink_of(self, feed_id: FeedId) -> RowWriter:
        if self.producer.is_over:
            self.producer = _Producer(self)
        return self.producer

    def answer_all(self) -> None:
        for lane in list(self.producer.lanes):
            self.producer.answer(lane)

    def old_keys(self) -> list[tuple[FeedId, bytes]]:
        """The keys whose last record is not their newest version."""
        return [
            (feed_id, key)
            for feed_id, sink in self.sinks.items()
            for key, last in {row.key: offset_of(row) for row in sink.topic}.items()
            if last != max(offset_of(row) for row in sink.topic if row.key == key)
        ]

    def _judge(self, results: Sequence[StepResult]) -> None:
        super()._judge(results)
        for feed_id in self.sinks:
            gap = self.gap(feed_id)
            complete = self.position + 1 if gap is None else gap
            early = {offset for offset in self.producer.under_way(feed_id) if offset < complete}
            assert not early, f"rows of {feed_id} up to {complete} are committed, and under way: {early}"


async def _queue_batch(owner: Owner, records: int) -> None:
    """One batch of so many records, which have a row of each feed."""
    if not records:
        return
    first, end = owner.next, owner.next + records
    batch = [Record(offset, None, None, 0) for offset in range(first, end)]
    owner.next = end
    owner.kafka.log_end = max(owner.kafka.log_end, end)
    owner.commit_loop.queue_batch(FetchedBatch("log", 0, first, end, end, batch))
    await settle()


async def _until_quiet(owner: Owner, cluster: _Cluster) -> None:
    for _ in range(6):
        cluster.answer_all()
        await owner.passes(2)


def test_what_is_acknowledged_behind_a_batch_that_is_not_is_written_again_with_it(tmp_path: Path) -> None:
    """Else ``a=1`` of the batch would come after ``a=2``, and stay the last record of its key."""

    async def scenario() -> None:
        cluster = _Cluster()
        owner = Owner(cluster, tmp_path)
        await _queue_batch(owner, 2)  # keys 0 and 1
        await _queue_batch(owner, 2)  # keys 2 and 0
        for key in (b"0", b"2"):
            cluster.producer.answer((_A, key))
            cluster.producer.answer((_B, key))
        await settle()
        cluster.producer.come_to_the_end()
        await _until_quiet(owner, cluster)
        assert cluster.old_keys() == []
        assert cluster.position == 3
        await owner.commit_loop.drain()

    in_a_loop(scenario)


def test_a_batch_that_was_acknowledged_is_not_committed_before_its_copies_are_there(tmp_path: Path) -> None:
    async def scenario() -> None:
        cluster = _Cluster()
        owner = Owner(cluster, tmp_path)
        await _queue_batch(owner, 1)  # key 0
        await _queue_batch(owner, 1)  # key 1
        cluster.producer.answer((_A, b"1"))
        cluster.producer.answer((_B, b"1"))
        await settle()
        cluster.producer.come_to_the_end()
        await owner.passes(1)
        cluster.producer.answer((_A, b"0"))
        cluster.producer.answer((_B, b"0"))
        await settle()
        assert cluster.position == 0
        cluster.answer_all()
        await settle()
        assert cluster.position == 1
        await owner.commit_loop.drain()

    in_a_loop(scenario)


def test_an_acknowledgement_that_the_loop_has_not_heard_of_yet_does_not_count_for_copies(
    tmp_path: Path,
) -> None:
    """The producer ends, and its rows are given to the next one, before the loop has turned."""

    async def scenario() -> None:
        sinks = [_Producer(_Cluster()), _Producer(_Cluster())]
        opened = iter(sinks)
        limits = OutletLimits(tmp_path, 1 << 20, 1 << 20, 5.0, 5.0)
        outlet = Outlet(_A, lambda: next(opened), limits, lambda: None)
        barriers = [outlet.barrier(1) for _ in range(3)]
        for offset, barrier in enumerate(barriers):
            outlet.queue_rows([row_of(_A, offset)], barrier)
        outlet.hand_over()
        sinks[0].answer((_A, b"0"))
        sinks[0].answer((_A, b"2"))
        sinks[0].come_to_the_end()
        outlet.hand_over()
        await settle()
        assert [barrier.acknowledged.done() for barrier in barriers] == [True, False, False]
        assert sinks[1].under_way(_A) == {1, 2}

    in_a_loop(scenario)


@pytest.mark.long
@given(st.integers(0, 1 << 32), st.sampled_from([0, 500, 1 << 20]), st.integers(1, 6))
def test_whenever_producers_end_the_last_record_of_a_key_is_its_newest_and_no_commit_is_early(
    seed: int, spool_bytes: int, inflight: int
) -> None:
    """Each transaction is judged as it is committed."""

    async def scenario() -> None:
        rng, cluster = Random(seed), _Cluster(seed)
        owner = Owner(cluster, Path(mkdtemp()), spool_bytes, inflight=inflight)
        for _ in range(rng.randint(1, 4)):
            owner = await _live_through(owner, cluster, rng)
        await _queue_batch(owner, cluster.log_end - owner.next)
        for _ in range(20):
            await _until_quiet(owner, cluster)
        assert cluster.position == owner.next - 1, "the partition stands still"
        assert cluster.old_keys() == []
        for feed_id, sink in cluster.sinks.items():
            assert set(sink.offsets) == set(range(owner.next))
            assert cluster.named(feed_id) == owner.next - 1
            assert all(offsets == sorted(offsets) for offsets in sink.first_seen().values())
        await owner.commit_loop.drain()

    in_a_loop(scenario)


async def _live_through(owner: Owner, cluster: _Cluster, rng: Random) -> Owner:
    """Some batches, of which one partition does not answer, and what comes in between."""
    silent = b"%d" % rng.randrange(_PARTITIONS)
    for _ in range(rng.randint(1, 4)):
        await _queue_batch(owner, rng.choice([1, 1, 2, 4]))
        if rng.random() < 0.8:
            for lane in [lane for lane in cluster.producer.lanes if lane[1] != silent]:
                cluster.producer.answer(lane, rng.choice([1, 1_000, 1_000]))
            await settle()
    (what,) = rng.choices(["end", "passes", "quiet", "let go", "die"], [8, 2, 1, 1, 1])
    match what:
        case "end":
            cluster.producer.come_to_the_end()
            await settle()
        case "passes":
            await owner.passes(rng.choice([1, 2, 10]))
        case "quiet":
            await _until_quiet(owner, cluster)
        case "let go":
            draining = asyncio.ensure_future(owner.commit_loop.drain())
            for _ in range(30):
                cluster.answer_all()
                await owner.passes(2)
            assert draining.done()
            return Owner(cluster, owner.directory, owner.spool_bytes, inflight=owner.inflight)
        case "die":
            await owner.die()
            cluster.producer.come_to_the_end()
            return Owner(cluster, owner.directory, owner.spool_bytes, inflight=owner.inflight)
    return owner
