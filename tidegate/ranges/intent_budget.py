"""Bounds the open transactions that a worker has in memory, and moves the others out of memory.

The worker has one budget, and each log partition that it holds has a share of it. One thread at a time uses
the queues of a partition; several threads may use those of different partitions.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import count
from typing import Final, NamedTuple

from tidegate.raftlog.entry import RangeId
from tidegate.ranges.intent_queue import IntentQueue
from tidegate.ranges.spilled_txns import SpilledTxns, SpillStore, forget_prefix

#: The bytes that an open transaction with an anchor key of 30 bytes takes in memory: the object, its item in
#: the heap, and its places in dictionaries and sets.
TXN_BYTES: Final = 700
_NUMBER_BYTES: Final = 8


class SpillCounts(NamedTuple):
    """The number of a partition's transactions outside memory, and the bytes that they take there."""

    transactions: int = 0
    bytes: int = 0


class IntentBudget:
    """The bound on open transactions in memory, over all partitions of a worker: ``memory_bytes`` in all."""

    def __init__(self, memory_bytes: int, store: SpillStore) -> None:
        self.store = store
        self._limit = max(1, memory_bytes // TXN_BYTES)
        self._partitions: dict[int, PartitionSpill] = {}
        self._numbers = count()

    def partition(self) -> PartitionSpill:
        """Return a new partition's part of the budget. It counts until it is closed."""
        number = next(self._numbers)
        spill = self._partitions[number] = PartitionSpill(self, number)
        return spill

    def left(self, number: int) -> None:
        """Note that a partition has closed its part."""
        self._partitions.pop(number, None)

    @property
    def exceeded(self) -> bool:
        """Whether more transactions are in memory than the budget allows."""
        return sum(spill.in_memory for spill in list(self._partitions.values())) > self._limit

    @property
    def share(self) -> int:
        """The number of transactions that one partition may have in memory while the budget is exceeded."""
        return self._limit // max(1, len(self._partitions))


class PartitionSpill:
    """One log partition's part of the budget.

    It moves transactions out of memory while there are too many.
    """

    def __init__(self, budget: IntentBudget, number: int) -> None:
        self._budget = budget
        self._number = number
        self._prefix = number.to_bytes(_NUMBER_BYTES, "big")
        self._queues: dict[RangeId, IntentQueue] = {}
        self._noted: dict[RangeId, int] = {}
        self._numbers = count()
        #: The number of transactions that are in memory, as of the last ``settle``.
        self.in_memory = 0

    @property
    def counts(self) -> SpillCounts:
        """The counts of the transactions that are outside memory."""
        queues = list(self._queues.values())
        return SpillCounts(sum(q.spilled for q in queues), sum(q.spill_bytes for q in queues))

    def settle(self, queues: Iterable[tuple[RangeId, IntentQueue]]) -> None:
        """Note the queues that have changed, and move transactions out when too many are in memory.

        It is called after a freeze: transactions with changes that are not frozen stay in memory.
        """
        for range_id, queue in queues:
            self._queues[range_id] = queue
            self._note(range_id, queue)
        if self._budget.exceeded and self.in_memory > self._budget.share:
            self._spill(self._budget.share - self._budget.share // 8)

    def close(self) -> None:
        """Forget all transactions outside memory. The queues cannot be used any more."""
        self._budget.left(self._number)
        if self.counts.transactions:
            forget_prefix(self._budget.store, self._prefix)
        self._queues = {}

    def _spill(self, target: int) -> None:
        """Move transactions out until ``target`` are in memory, or no more can go.

        Half of the largest queue goes first, then half of the next one.
        """
        moved = 1
        while self.in_memory > target and moved:
            moved = 0
            for range_id, queue in sorted(self._queues.items(), key=lambda item: -item[1].in_memory):
                if self.in_memory <= target:
                    return
                moved += queue.spill(max(1, queue.in_memory // 2), self._place)
                self._note(range_id, queue)

    def _place(self) -> SpilledTxns:
        number = next(self._numbers).to_bytes(_NUMBER_BYTES, "big")
        return SpilledTxns(self._budget.store, self._prefix + number)

    def _note(self, range_id: RangeId, queue: IntentQueue) -> None:
        self.in_memory += queue.in_memory - self._noted.get(range_id, 0)
        self._noted[range_id] = queue.in_memory
