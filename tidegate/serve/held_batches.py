"""Counts the memory of batches that clients have not taken yet."""

from __future__ import annotations

from itertools import chain
from typing import Final

from tidegate.serve.kept_memory import KeptMemory
from tidegate.subscribe.subscription import SubscriptionBatch
from tidegate.subscribe.updates.row_size import values_bytes

#: A smaller batch is not counted. It is given even if there is no room.
COUNTED_BYTES: Final = 1024 * 1024
#: About how many bytes a row takes beside its values.
_ROW_BYTES: Final = 100


def count_batch(kept_memory: KeptMemory, batch: SubscriptionBatch) -> None:
    """Count a batch for as long as somebody has it. A batch that several clients get counts once.

    Values that the batch shares with a table in memory count too: the batch keeps them when the table changes
    its rows. Raises ``LimitExceeded`` if there is no room.
    """
    if not kept_memory.counts(batch):
        taken = values_bytes(chain.from_iterable(batch.rows)) + _ROW_BYTES * len(batch.rows)
        kept_memory.hold(batch, taken if taken >= COUNTED_BYTES else 0)
