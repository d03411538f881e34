"""One fetch of one partition: the unit in which the worker reads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tidegate.processor.batch import LogRecord


@dataclass(frozen=True, slots=True)
class FetchedBatch:
    """Records of one partition, and the span of offsets that they were read from.

    ``start`` is the consumer's position before the fetch, and ``end`` the one after it. So the ``end`` of a
    batch is the ``start`` of the next one, even if compaction or transactions left offsets out. Example: a
    batch from 10 to 20 may have records at 11 and 14 alone, and the next one starts at 20.
    ``partition_end`` is the end of the partition as the broker told it.
    """

    topic: str
    partition: int
    start: int
    end: int
    partition_end: int
    records: Sequence[LogRecord]
