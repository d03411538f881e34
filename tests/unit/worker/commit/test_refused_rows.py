"""Rows that no repetition delivers: docs/protocols/refused-rows.md, steps R1 to R6.

Two feeds share a producer, as feeds of one cluster do. The processor is the stand-in of the slow sinks, and
each transaction is judged as it is committed.
"""

from __future__ import annotations

import asyncio
import enum
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from tempfile import mkdtemp
from typing import Final

import pytest
from confluent_kafka import KafkaError
from hypothesis import example, given
from hypothesis import strategies as st

import tidegate.worker.output.barrier
from tests.unit.worker.commit.judged_commits import Kafka, Owner, Sink, in_a_loop, settle
from tidegate.changefeed.definition.feed import FeedEpoch, FeedId
from tidegate.changefeed.lifecycle.control import Failed, Remove
from tidegate.client.kafka.record_limit import RecordLimit, limit_of_workers
from tidegate.client.kafka.row_refusal import row_refused
from tidegate.errors import RowDoubted, RowRefused
from tidegate.processor.batch import OutputRecord
from tidegate.worker.output.barrier import Barrier
from tidegate.worker.output.row_writer import RowWriter

_A: Final = FeedId("a")
_B: Final = FeedId("b")
_TOO_LARGE: Final = KafkaError(KafkaError.MSG_SIZE_TOO_LARGE, "too large")
_GONE: Final = KafkaError(KafkaError._UNKNOWN_PARTITION, "gone")
_FATAL: Final = KafkaError(KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER, "fatal")


class How(enum.Enum):
    """The way in which a row is refused: at the call, by the broker, which ends the producer, or for want of
    its topic. A doubted row ends the producer as well; one that is doubted once is delivered the next time.
    """

    AT_THE_CALL = "at the call"
    BY_THE_BROKER = "by the broker"
    FOR_WANT_OF_ITS_TOPIC = "for want of its topic"
    DOUBTED = "with an answer that may pass"
    DOUBTED_ONCE = "with an answer that passes"


#: The ways that fail a feed. A feed may be stalled before a row of it is doubted for the fifth time.
_FAIL: Final = [how for how in How if how is not How.DOUBTED_ONCE]
_ANY_TIME: Final = [how for how in How if how is not How.DOUBTED]


@pytest.fixture(autouse=True)
def _refused_by_the_fifth_producer_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tidegate.worker.output.barrier, "DOUBTED_FOR_S", 0.0)


def _refusal(row: OutputRecord, error: KafkaError, limit: RecordLimit | None = None) -> RowRefused:
    return row_refused(row.topic, row.partition, row.key, row.value, error, limit)


@dataclass
class _Producer:
    """A producer for all feeds of the cluster. It has its rows by topic, in order."""

    cluster: _Cluster
    is_over: bool = False
    is_held: bool = False
    ends: bool = False
    queues: dict[str, deque[tuple[OutputRecord, Barrier]]] = field(default_factory=dict)
    #: Topics with a row that the broker did not take. A gapless producer writes no row behind it.
    gaps: set[str] = field(default_factory=set)

    def send(self, rows: Sequence[OutputRecord], barrier: Barrier, first: int = 0) -> int:
        assert not self.is_over, "rows are given to a producer that is over"
        for number in range(first, len(rows)):
            row = rows[number]
            if self.ends:
                return number
            if self.cluster.refuses(row) is How.AT_THE_CALL:
                barrier.row_refused(_refusal(row, _TOO_LARGE, limit_of_workers(10)))
                return number
            self.queues.setdefault(row.topic, deque()).append((row, barrier))
        return len(rows)

    def answer(self, topic: str, rows: int) -> None:
        """The broker answers for the oldest rows of a topic."""
        queue = self.queues.get(topic, deque())
        for _ in range(min(rows, len(queue))):
            row, barrier = queue.popleft()
            match self.cluster.refuses(row):
                case None:
                    self.cluster.sinks[FeedId(topic)].topic.append(row)
                    barrier.row_acknowledged()
                case How.BY_THE_BROKER:
                    self._end_at(topic)
                    barrier.row_refused(_refusal(row, _TOO_LARGE))
                    return
                case How.DOUBTED | How.DOUBTED_ONCE as how:
                    self._end_at(topic)
                    barrier.row_refused(RowDoubted("an odd answer"))
                    if how is How.DOUBTED_ONCE:
                        self.cluster.pass_over(row)
                    return
                case _:
                    barrier.row_refused(_refusal(row, _GONE))

    def _end_at(self, topic: str) -> None:
        self.ends = True
        self.gaps.add(topic)

    def come_to_the_end(self) -> None:
        """Some of its rows have come to their topics, and no answer of them; then it is over."""
        self.ends = True
        for topic, queue in self.queues.items():
            written = 0 if topic in self.gaps else self.cluster.rng.randint(0, len(queue))
            for number, (row, _) in enumerate(queue):
                if number < written and self.cluster.refuses(row) is None:
                    self.cluster.sinks[FeedId(topic)].topic.append(row)
                else:
                    written = 0
        self.queues.clear()
        self.is_over = True


class _Cluster(Kafka):
    """Both feeds write to it; of a refused row is known which it is."""

    def __init__(self, seed: int = 0) -> None:
        super().__init__(_A, _B)
        self.rng = Random(seed)
        self.refused: dict[tuple[str, int], How] = {}
        self.producer = _Producer(self)

    def sink_of(self, feed_id: FeedId) -> RowWriter:
        if self.producer.is_over:
            self.producer = _Producer(self)
        return self.producer

    def refuses(self, row: OutputRecord) -> How | None:
        return self.refused.get((row.topic, int(row.value or b"")))

    def pass_over(self, row: OutputRecord) -> None:
        """Take the row from now on."""
        del self.refused[row.topic, int(row.value or b"")]

    def answer_all(self) -> None:
        for topic in (_A, _B):
            self.producer.answer(topic, 1_000)
        if self.producer.ends and not self.producer.is_over:
            self.producer.come_to_the_end()

    @property
    def failures(self) -> list[str]:
        acks = (ack for group in self.transactions for one in group for ack in one.acks)
        return [ack.feed_id for ack in acks if isinstance(ack, Failed)]


async def _until_quiet(owner: Owner, cluster: _Cluster) -> None:
    for _ in range(6):
        cluster.answer_all()
        await owner.passes(2)


async def _die(owner: Owner, cluster: _Cluster) -> Owner:
    await owner.die()
    cluster.producer.come_to_the_end()
    return Owner(cluster, owner.directory, owner.spool_bytes, inflight=owner.inflight)


def _in_order(sink: Sink) -> bool:
    return all(offsets == sorted(offsets) for offsets in sink.first_seen().values())


@pytest.mark.parametrize("how", _FAIL)
def test_a_refused_row_fails_its_feed_and_no_other_and_nothing_behind_it_is_promised(
    tmp_path: Path, how: How
) -> None:
    async def scenario() -> None:
        cluster = _Cluster()
        cluster.refused[_B, 4] = how
        owner = Owner(cluster, tmp_path)
        await owner.queue_records(3)
        await _until_quiet(owner, cluster)
        await owner.queue_records(6)
        await _until_quiet(owner, cluster)
        assert cluster.failures == [_B]
        assert _B.encode() not in cluster.state
        assert 2 <= cluster.named(_B) <= 3
        assert set(cluster.sinks[_A].offsets) == set(range(9))
        assert cluster.named(_A) == 8
        assert _in_order(cluster.sinks[_A])
        await owner.commit_loop.drain()

    in_a_loop(scenario)


def test_rows_that_a_broker_doubts_for_a_while_are_delivered_in_order_and_fail_no_feed(
    tmp_path: Path,
) -> None:
    async def scenario() -> None:
        cluster = _Cluster()
        cluster.refused |= {(feed_id, number): How.DOUBTED_ONCE for feed_id in (_A, _B) for number in (0, 2)}
        owner = Owner(cluster, tmp_path)
        await owner.queue_records(4)
        for _ in range(3):
            await _until_quiet(owner, cluster)
        assert (cluster.failures, cluster.position) == ([], 3)
        assert all(set(sink.offsets) == set(range(4)) and _in_order(sink) for sink in cluster.sinks.values())
        await owner.commit_loop.drain()

    in_a_loop(scenario)


def test_the_failure_is_committed_with_the_batch_that_lacks_the_row_and_not_behind_it(tmp_path: Path) -> None:
    async def scenario() -> None:
        cluster = _Cluster()
        cluster.refused[_B, 0] = How.FOR_WANT_OF_ITS_TOPIC
        owner = Owner(cluster, tmp_path)
        await owner.queue_records(3)
        await _until_quiet(owner, cluster)
        group = next(group for group in cluster.transactions if any(one.outputs.get(_B) for one in group))
        assert [ack.feed_id for one in group for ack in one.acks] == [_B]
        await owner.commit_loop.drain()

    in_a_loop(scenario)


def test_a_crash_between_the_refusal_and_the_commit_leaves_the_feed_as_it_was(tmp_path: Path) -> None:
    """What is refused is asked for again: whoever has made room for it meanwhile has lost nothing."""

    async def scenario() -> None:
        cluster = _Cluster()
        cluster.refused[_B, 1] = How.BY_THE_BROKER
        owner = Owner(cluster, tmp_path)
        await owner.queue_records(3)
        cluster.producer.answer(_B, 1_000)
        owner = await _die(owner, cluster)
        cluster.refused.clear()
        await owner.queue_records(3 - owner.next)
        await _until_quiet(owner, cluster)
        assert cluster.failures == []
        assert all(set(sink.offsets) == {0, 1, 2} and _in_order(sink) for sink in cluster.sinks.values())
        await owner.commit_loop.drain()

    in_a_loop(scenario)


def test_rows_of_other_feeds_that_the_ended_producer_had_are_written_again_in_order(tmp_path: Path) -> None:
    async def scenario() -> None:
        cluster = _Cluster()
        owner = Owner(cluster, tmp_path)
        await owner.queue_records(3)
        cluster.producer.answer(_A, 1)
        cluster.producer.come_to_the_end()
        await _until_quiet(owner, cluster)
        assert cluster.failures == []
        assert all(set(sink.offsets) == {0, 1, 2} and _in_order(sink) for sink in cluster.sinks.values())
        assert cluster.position == 2
        await owner.commit_loop.drain()

    in_a_loop(scenario)


@pytest.mark.parametrize("answers", [True, False])
def test_a_producer_may_end_with_rows_of_a_feed_that_was_removed(tmp_path: Path, *, answers: bool) -> None:
    """They are written again, or given up after a while; the other feed goes on."""

    async def scenario() -> None:
        cluster = _Cluster()
        owner = Owner(cluster, tmp_path, inflight=9)
        await owner.queue_records(3)
        await owner.tell(Remove(_B, FeedEpoch(1)))
        assert list(owner.processor.feeds) == [_A]
        cluster.producer.come_to_the_end()
        await owner.passes(1)
        for _ in range(12):
            cluster.producer.answer(_A, 1_000)
            cluster.producer.answer(_B, 1_000 if answers else 0)
            await owner.passes(1)
        await owner.queue_records(2)
        cluster.producer.answer(_A, 1_000)
        await owner.passes(1)
        assert not answers or set(cluster.sinks[_B].offsets) == {0, 1, 2}
        assert set(cluster.sinks[_A].offsets) == set(range(5))
        assert all(_in_order(sink) for sink in cluster.sinks.values())
        assert (cluster.position, cluster.named(_A)) == (4, 4)
        assert _B.encode() not in cluster.state
        assert [report.feed_id for report in owner.commit_loop.outlets.report()] == [_A]
        await owner.commit_loop.drain()

    in_a_loop(scenario)


def test_a_detached_feed_fails_too_when_its_topic_turns_out_to_be_gone(tmp_path: Path) -> None:
    """Kafka tells so after half a minute only; its sink has stood still for as long."""

    async def scenario() -> None:
        cluster = _Cluster()
        cluster.refused[_B, 0] = How.FOR_WANT_OF_ITS_TOPIC
        owner = Owner(cluster, tmp_path)
        await owner.queue_records(3)
        cluster.producer.answer(_A, 1_000)
        await owner.passes(30)
        assert cluster.position == 2
        assert cluster.failures == []
        await _until_quiet(owner, cluster)
        assert cluster.failures == [_B]
        await owner.commit_loop.drain()

    in_a_loop(scenario)


def test_letting_go_of_a_partition_fails_the_feed_first(tmp_path: Path) -> None:
    async def scenario() -> None:
        cluster = _Cluster()
        cluster.refused[_B, 1] = How.AT_THE_CALL
        owner = Owner(cluster, tmp_path)
        await owner.queue_records(1)
        draining = asyncio.ensure_future(owner.commit_loop.drain())
        await _until_quiet(owner, cluster)
        await draining
        successor = Owner(cluster, tmp_path)
        await successor.queue_records(3)
        letting_go = asyncio.ensure_future(successor.commit_loop.drain())
        await _until_quiet(successor, cluster)
        await letting_go
        assert cluster.failures in ([_B], [])
        assert cluster.named(_B) <= 0

    in_a_loop(scenario)


_EVENTS: Final = st.lists(
    st.one_of(
        st.tuples(st.just("queue_records"), st.integers(1, 4)),
        st.tuples(st.sampled_from([_A, _B]), st.integers(1, 5)),
        st.tuples(st.just("passes"), st.sampled_from([1, 2, 4, 10])),
        st.tuples(st.sampled_from(["die", "the producer ends", "let go"]), st.just(0)),
    ),
    max_size=30,
)
_REFUSED: Final = st.dictionaries(
    st.tuples(st.sampled_from([_A, _B]), st.integers(0, 12)), st.sampled_from(_ANY_TIME), max_size=3
)


@pytest.mark.long
@example([], {(_A, 0): How.AT_THE_CALL, (_B, 0): How.AT_THE_CALL}, 0, 1, 0)
@example(
    [*(("queue_records", number) for number in (1, 3, 3, 4)), ("passes", 10), ("queue_records", 2)],
    {(_A, 1): How.AT_THE_CALL, (_A, 0): How.DOUBTED_ONCE, (_B, 11): How.DOUBTED_ONCE},
    0,
    1,
    4,
)
@given(_EVENTS, _REFUSED, st.sampled_from([0, 500, 1 << 20]), st.integers(1, 4), st.integers(0, 9))
def test_whatever_is_refused_in_whatever_order_no_marker_lies_and_no_other_feed_lacks_a_row(
    events: list[tuple[str, int]],
    refused: dict[tuple[str, int], How],
    spool_bytes: int,
    inflight: int,
    seed: int,
) -> None:
    """Each transaction is judged as it is committed."""

    async def scenario() -> None:
        directory, cluster = Path(mkdtemp()), _Cluster(seed)
        cluster.refused = dict(refused)
        owner = Owner(cluster, directory, spool_bytes, inflight=inflight)
        for what, number in events:
            owner = await _act(owner, cluster, what, number)
        await owner.queue_records(max(0, cluster.log_end - owner.next) + 2)
        for _ in range(20):
            await _until_quiet(owner, cluster)
        end = owner.next
        assert cluster.position == end - 1, "the partition stands still"
        for feed_id, sink in cluster.sinks.items():
            assert _in_order(sink), "a key is reordered"
            fails = (place for place, how in refused.items() if how is not How.DOUBTED_ONCE)
            if any(feed == feed_id and offset < end for feed, offset in fails):
                assert feed_id in cluster.failures
            else:
                assert set(sink.offsets) == set(range(end))
                assert cluster.named(feed_id) == end - 1
        await owner.commit_loop.drain()

    in_a_loop(scenario)


async def _act(owner: Owner, cluster: _Cluster, what: str, number: int) -> Owner:
    match what:
        case "queue_records":
            await owner.queue_records(number)
        case "passes":
            await owner.passes(number)
        case "the producer ends":
            cluster.producer.come_to_the_end()
            await settle()
        case "let go":
            draining = asyncio.ensure_future(owner.commit_loop.drain())
            for _ in range(30):
                cluster.answer_all()
                await owner.passes(2)
            assert draining.done()
            return Owner(cluster, owner.directory, owner.spool_bytes, inflight=owner.inflight)
        case "die":
            return await _die(owner, cluster)
        case _:
            cluster.producer.answer(what, number)
            if cluster.producer.ends:
                cluster.producer.come_to_the_end()
            await settle()
    return owner
