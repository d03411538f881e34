"""One budget for the transactions of all partitions: who is above it gives some out of memory."""

from __future__ import annotations

from tests.unit.ranges.spill_memory import MemorySpill
from tidegate.hlc import Timestamp
from tidegate.raftlog.entry import RangeId, TxnId
from tidegate.ranges.intent_budget import TXN_BYTES, IntentBudget, PartitionSpill, SpillCounts
from tidegate.ranges.intent_queue import IntentQueue


def queue_of(count: int, *, frozen: bool = True) -> IntentQueue:
    """A queue of ``count`` transactions."""
    queue = IntentQueue(allow_negative=False)
    for number in range(count):
        at = Timestamp(1 + number)
        queue.increment(TxnId(number.to_bytes(16, "big")), b"a", at, at)
    if frozen:
        for txn in queue:
            queue.stored_as(txn, 1)
        queue.changed.clear()
    return queue


def settled(spill: PartitionSpill, *queues: IntentQueue) -> list[int]:
    """Return what the queues have in memory once they are settled as ranges 1, 2, 3, ..."""
    spill.settle((RangeId(number), queue) for number, queue in enumerate(queues, 1))
    return [queue.in_memory for queue in queues]


def test_within_the_budget_everything_stays_in_memory() -> None:
    spill = IntentBudget(100 * TXN_BYTES, MemorySpill()).partition()
    assert settled(spill, queue_of(40), queue_of(60)) == [40, 60]
    assert spill.counts == SpillCounts(0, 0)


def test_above_it_the_largest_queues_give_until_an_eighth_is_free() -> None:
    spill = IntentBudget(800 * TXN_BYTES, MemorySpill()).partition()
    assert settled(spill, queue_of(600), queue_of(300), queue_of(10)) == [300, 300, 10]
    assert spill.in_memory == 610
    assert spill.counts.transactions == 300
    assert spill.counts.bytes > 300 * 100


def test_a_budget_smaller_than_the_oldest_of_each_queue_takes_what_it_can() -> None:
    spill = IntentBudget(1, MemorySpill()).partition()
    assert settled(spill, queue_of(50), queue_of(70)) == [1, 1]


def test_what_is_not_frozen_is_no_reason_to_try_for_ever() -> None:
    spill = IntentBudget(TXN_BYTES, MemorySpill()).partition()
    assert settled(spill, queue_of(50, frozen=False)) == [50]


def test_a_partition_within_its_share_gives_nothing_for_another() -> None:
    budget = IntentBudget(100 * TXN_BYTES, MemorySpill())
    small, large = budget.partition(), budget.partition()
    assert settled(small, queue_of(40)) == [40]
    (left,) = settled(large, queue_of(90))
    assert left <= 50
    assert settled(small, queue_of(45)) == [45]


def test_no_partition_gives_before_all_together_have_too_much() -> None:
    budget = IntentBudget(100 * TXN_BYTES, MemorySpill())
    large, small = budget.partition(), budget.partition()
    queue = queue_of(60)
    assert settled(large, queue) == [60]
    assert settled(small, queue_of(40)) == [40]
    assert settled(large, queue) == [60]
    assert settled(small, queue_of(41)) == [41]
    assert budget.exceeded
    assert settled(large, queue) == [30]


def test_a_partition_with_exactly_its_share_gives_nothing() -> None:
    budget = IntentBudget(100 * TXN_BYTES, MemorySpill())
    first, second = budget.partition(), budget.partition()
    queue = queue_of(50)
    settled(first, queue)
    second.in_memory = 90
    assert settled(first, queue) == [50]


def test_the_queues_give_one_after_the_other_until_an_eighth_is_free_and_no_more() -> None:
    spill = IntentBudget(800 * TXN_BYTES, MemorySpill()).partition()
    left = settled(spill, *(queue_of(10) for _ in range(90)))
    assert (spill.in_memory, left.count(5), left.count(10)) == (700, 40, 50)
    few = IntentBudget(8 * TXN_BYTES, MemorySpill()).partition()
    assert settled(few, queue_of(3), queue_of(3), queue_of(3)) == [2, 2, 3]


def test_however_small_the_budget_one_transaction_has_room() -> None:
    assert IntentBudget(1, MemorySpill()).share == 1


def test_a_partition_that_is_closed_leaves_its_share_and_nothing_beyond_memory() -> None:
    store = MemorySpill()
    budget = IntentBudget(100 * TXN_BYTES, store)
    first, second = budget.partition(), budget.partition()
    settled(first, queue_of(200))
    settled(second, queue_of(200))
    of_second = second.counts
    first.close()
    assert first.counts == SpillCounts(0, 0)
    assert sum(len(key) + len(value) for key, value in store.rows.items()) == of_second.bytes
    assert budget.share == 100
    second.close()
    assert not store.rows


def test_a_queue_that_replaces_another_takes_its_place_in_the_account() -> None:
    spill = IntentBudget(1000 * TXN_BYTES, MemorySpill()).partition()
    settled(spill, queue_of(500))
    assert settled(spill, queue_of(20)) == [20]
    assert spill.in_memory == 20
