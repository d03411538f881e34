"""Counts the memory of batches that clients have not taken yet."""

from __future__ import annotations

from itertools import chain
from typing import Final

from tidegate.serve.kept_memory import KeptMemory
from tidegate.subscribe.subscription import SubscriptionBatch
from tidegate.subscribe.updates.row_size import values_bytes

#: Smaller batches count for nothing, and are given however much others take.
COUNTED_BYTES: Final = 1024 * 1024
#: The bytes that a row takes beside its values, about.
_ROW_BYTES: Final = 100


def count_batch(kept_memory: KeptMemory, batch: SubscriptionBatch) -> None:
    """Count a batch for as long as somebody has it. One that several clients get counts once.

    Values that it shares with a table in memory count too: it keeps them when the table goes on. Raises
    ``LimitExceeded`` if there is no room.
    """
    if not kept_memory.counts(batch):
        taken = values_bytes(chain.from_iterable(batch.rows)) + _ROW_BYTES * len(batch.rows)
        kept_memory.hold(batch, taken if taken >= COUNTED_BYTES else 0)
