"""Fetched batches of one partition that wait for their step, in the order of the log."""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from tidegate.processor.batch import LogRecord
from tidegate.processor.step_size import fitting
from tidegate.raftlog.entry import Offset
from tidegate.worker.kafka.fetched import FetchedBatch


class Valve(Protocol):
    """Stops and starts the partition's flow; see ``tidegate.worker.kafka.intake.Intake``."""

    def halt(self) -> None: ...
    def proceed(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Cut:
    """The news that the log begins at ``log_start``: records that were to be read before it are deleted."""

    log_start: Offset


@dataclass(frozen=True, slots=True)
class Batch:
    """Records for one step, and the log position behind them."""

    records: Sequence[LogRecord]
    end: int


class BatchQueue:
    """The fetched batches of a partition that wait for their step, first in, first out.

    Its size is bounded by ``valve``. The queue shuts the valve when ``queued_batches`` wait, and opens it
    again when at most half as many wait. Records up to the offset ``alone_to`` are taken one by one.
    """

    def __init__(self, valve: Valve, batch_records: int, queued_batches: int, alone_to: int = -1) -> None:
        self._valve = valve
        self._batch_records = batch_records
        self._queued_batches = queued_batches
        self._alone_to = alone_to
        self._waiting: deque[FetchedBatch | Cut] = deque()
        self._received = 0

    def __bool__(self) -> bool:
        return bool(self._waiting)

    @property
    def position(self) -> int:
        """The log position of the next batch or cut to be taken."""
        if not self._waiting:
            return self._received
        first = self._waiting[0]
        return first.log_start if isinstance(first, Cut) else first.start

    def put(self, batch: FetchedBatch) -> None:
        """Add a batch; one without records still moves the position."""
        self._received = batch.end
        self._waiting.append(batch)
        if len(self._waiting) >= self._queued_batches:
            self._valve.halt()

    def cut(self, log_start: int) -> None:
        """Queue the news that the log begins at ``log_start``, above what was received so far."""
        self._received = log_start
        self._waiting.append(Cut(Offset(log_start)))

    def take(self, log_bytes: int = sys.maxsize) -> Batch | Cut:
        """Take the next cut, or the records for the next step.

        Small batches are joined while they have at most ``batch_records`` records and ``log_bytes`` of values
        together. A batch with more bytes is taken in several steps.
        """
        taken = self._take(log_bytes)
        if len(self._waiting) <= self._queued_batches // 2:
            self._valve.proceed()
        return taken

    def _take(self, log_bytes: int) -> Batch | Cut:
        first = self._waiting.popleft()
        if isinstance(first, Cut):
            return first
        if first.start <= self._alone_to:
            return self._take_some(first, 1)
        count = fitting(first.records, log_bytes)
        if count < len(first.records):
            return self._take_some(first, count)
        records, end = first.records, first.end
        while self._waiting and self._fits(self._waiting[0], records, log_bytes):
            batch = self._waiting.popleft()
            assert isinstance(batch, FetchedBatch)
            records, end = [*records, *batch.records], batch.end
        return Batch(records, end)

    def _take_some(self, batch: FetchedBatch, count: int) -> Batch:
        """Take the first records of a batch. The others come first in the queue."""
        if len(batch.records) <= count:
            return Batch(batch.records, batch.end)
        rest = batch.records[count:]
        self._waiting.appendleft(replace(batch, start=rest[0].offset, records=rest))
        return Batch(batch.records[:count], rest[0].offset)

    def _fits(self, waiting: FetchedBatch | Cut, records: Sequence[LogRecord], log_bytes: int) -> bool:
        if not isinstance(waiting, FetchedBatch):
            return False
        count = len(records) + len(waiting.records)
        return count <= self._batch_records and fitting([*records, *waiting.records], log_bytes) == count
