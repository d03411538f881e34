"""Batches that clients have not taken count, and small ones do not."""

from __future__ import annotations

import gc

import pytest

from tidegate.errors import LimitExceeded
from tidegate.hlc import Timestamp
from tidegate.serve.held_batches import COUNTED_BYTES, count_batch
from tidegate.serve.kept_memory import KeptMemory
from tidegate.subscribe.subscription import SubscriptionBatch
from tidegate.subscribe.updates.frontier import Frontier


def batch_of(row_bytes: int) -> SubscriptionBatch:
    return SubscriptionBatch(Frontier(Timestamp(1)), ((1, "a" * row_bytes),), True, None, False)


def test_a_batch_counts_once_and_until_nobody_has_it() -> None:
    kept_memory = KeptMemory(2 * COUNTED_BYTES)
    batch = batch_of(COUNTED_BYTES)
    for _ in range(3):
        count_batch(kept_memory, batch)
    assert COUNTED_BYTES < kept_memory.taken < COUNTED_BYTES + 1_000
    with pytest.raises(LimitExceeded, match="batches that clients have not taken"):
        count_batch(kept_memory, batch_of(COUNTED_BYTES))
    del batch
    gc.collect()
    count_batch(kept_memory, batch_of(COUNTED_BYTES))


def test_a_small_batch_is_given_however_much_others_take() -> None:
    kept_memory = KeptMemory(2 * COUNTED_BYTES)
    large, small = batch_of(COUNTED_BYTES), [batch_of(COUNTED_BYTES // 2) for _ in range(10)]
    count_batch(kept_memory, large)
    for each in small:
        count_batch(kept_memory, each)
    assert kept_memory.counts(small[0])
