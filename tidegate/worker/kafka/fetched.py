"""One fetch of one partition: the unit in which the worker reads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tidegate.processor.batch import LogRecord


@dataclass(frozen=True, slots=True)
class FetchedBatch:
    """Records of one partition, and the stretch of offsets that they were read from.

    ``start`` is the consumer's position before the fetch and ``end`` the one after it, so that batches
    which belong together meet: ``end`` of one is ``start`` of the next, whatever offsets compaction or
    transactions left out between records. ``highwater`` is the end of the partition as the broker told.
    """

    topic: str
    partition: int
    start: int
    end: int
    highwater: int
    records: Sequence[LogRecord]
