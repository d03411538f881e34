"""The queue before the step: order, batch size, and when the flow stops."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from tests.logs import Record
from tidegate.raftlog.entry import Offset
from tidegate.worker.commit.batch_queue import Batch, BatchQueue, Cut
from tidegate.worker.kafka.fetched import FetchedBatch


class Valve:
    """Remembers whether it is open."""

    def __init__(self) -> None:
        self.open = True

    def halt(self) -> None:
        self.open = False

    def proceed(self) -> None:
        self.open = True


def fetched(start: int, count: int) -> FetchedBatch:
    records = [Record(offset, None, None, 0) for offset in range(start, start + count)]
    return FetchedBatch("log", 0, start, start + count, start + count, records)


def waiting(sizes: Sequence[int], limit: int) -> BatchQueue:
    """A queue with batches of these sizes, one after the other from offset 0 on."""
    queue = BatchQueue(Valve(), batch_records=limit, queued_batches=100)
    end = 0
    for size in sizes:
        queue.put(fetched(end, size))
        end += size
    return queue


def test_a_cut_stays_in_its_place() -> None:
    queue = BatchQueue(Valve(), batch_records=100, queued_batches=4)
    queue.put(fetched(0, 2))
    queue.cut(10)
    queue.put(fetched(10, 2))
    assert queue.position == 0
    first = queue.take()
    assert isinstance(first, Batch)
    assert first.end == 2
    assert queue.position == 10
    assert queue.take() == Cut(Offset(10))
    last = queue.take()
    assert isinstance(last, Batch)
    assert [record.offset for record in last.records] == [10, 11]


def test_a_batch_without_records_moves_the_position() -> None:
    queue = BatchQueue(Valve(), batch_records=100, queued_batches=4)
    queue.put(fetched(0, 2))
    queue.put(FetchedBatch("log", 0, 2, 5, 5, ()))
    taken = queue.take()
    assert isinstance(taken, Batch)
    assert (len(taken.records), taken.end) == (2, 5)
    assert queue.position == 5


def test_the_valve_is_shut_when_full_and_opened_at_half() -> None:
    valve = Valve()
    queue = BatchQueue(valve, batch_records=1, queued_batches=4)
    for number in range(4):
        assert valve.open
        queue.put(fetched(number, 1))
    assert not valve.open
    queue.take()
    assert not valve.open
    queue.take()
    assert valve.open


@given(st.lists(st.integers(0, 7), min_size=1, max_size=20), st.integers(1, 10))
def test_batches_are_joined_up_to_the_limit_and_nothing_is_lost(sizes: list[int], limit: int) -> None:
    queue, end = waiting(sizes, limit), sum(sizes)
    offsets: list[int] = []
    while queue:
        batch = queue.take()
        assert isinstance(batch, Batch)
        assert len(batch.records) <= max(limit, *sizes)
        offsets += [record.offset for record in batch.records]
        assert batch.end == len(offsets)
    assert offsets == list(range(end))


@given(st.lists(st.integers(1, 7), min_size=1, max_size=12), st.lists(st.integers(1, 3), min_size=84))
def test_what_is_put_back_comes_next_and_nothing_is_lost(sizes: list[int], taken: list[int]) -> None:
    queue, end = waiting(sizes, limit=5), sum(sizes)
    offsets: list[int] = []
    while queue:
        batch = queue.take()
        assert isinstance(batch, Batch)
        count = taken.pop()
        offsets += [record.offset for record in batch.records[:count]]
        if count < len(batch.records):
            queue.put_back(Batch(batch.records[count:], batch.end))
        assert queue.position == len(offsets)
    assert offsets == list(range(end))


def test_the_valve_opens_behind_a_cut_that_was_the_last_to_wait() -> None:
    valve = Valve()
    queue = BatchQueue(valve, batch_records=1, queued_batches=1)
    queue.put(fetched(0, 1))
    queue.cut(10)
    queue.take()
    assert not valve.open
    queue.take()
    assert valve.open
