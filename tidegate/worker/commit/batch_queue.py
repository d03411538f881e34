"""Fetched batches of one partition that wait for their step, in the order of the log."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from tidegate.processor.batch import LogRecord
from tidegate.raftlog.entry import Offset
from tidegate.worker.kafka.fetched import FetchedBatch


class Valve(Protocol):
    """Stops and starts the partition's flow; see ``tidegate.worker.kafka.intake.Intake``."""

    def halt(self) -> None: ...
    def proceed(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Cut:
    """The news that the log begins at ``log_start``: unread records below that offset are deleted."""

    log_start: Offset


@dataclass(frozen=True, slots=True)
class Batch:
    """Records for one step, and the log position after them."""

    records: Sequence[LogRecord]
    end: int


class BatchQueue:
    """The fetched batches of a partition that wait for their step, first in, first out.

    Its size is bounded by ``valve``. The queue shuts the valve when ``queued_batches`` wait, and opens it
    again when at most half as many wait. Records at or below the offset ``alone_to`` are taken one by one.
    """

    def __init__(self, valve: Valve, batch_records: int, queued_batches: int, alone_to: int = -1) -> None:
        self._valve = valve
        self._batch_records = batch_records
        self._queued_batches = queued_batches
        self._alone_to = alone_to
        self._waiting: deque[FetchedBatch | Batch | Cut] = deque()
        self._received = 0

    def __bool__(self) -> bool:
        return bool(self._waiting)

    @property
    def position(self) -> int:
        """The log position of the next batch or cut to be taken."""
        if not self._waiting:
            return self._received
        match self._waiting[0]:
            case Cut(log_start):
                return log_start
            case Batch(records):
                return records[0].offset
            case fetched:
                return fetched.start

    def put(self, batch: FetchedBatch) -> None:
        """Add a batch; one without records still moves the position."""
        self._received = batch.end
        self._waiting.append(batch)
        if len(self._waiting) >= self._queued_batches:
            self._valve.halt()

    def cut(self, log_start: int) -> None:
        """Queue the news that the log begins at ``log_start``, above all offsets that were received."""
        self._received = log_start
        self._waiting.append(Cut(Offset(log_start)))

    def take(self) -> Batch | Cut:
        """Take the next cut, or the records for the next step.

        Small batches are joined while they have at most ``batch_records`` records together.
        """
        taken = self._take_joined()
        if len(self._waiting) <= self._queued_batches // 2:
            self._valve.proceed()
        return taken

    def put_back(self, rest: Batch) -> None:
        """Put back the records of a batch that its step has not taken. The next step gets them."""
        self._waiting.appendleft(rest)

    def _take_joined(self) -> Batch | Cut:
        first = self._waiting.popleft()
        if isinstance(first, Cut | Batch):
            return first
        if first.start <= self._alone_to:
            return self._take_one(first)
        records, end = first.records, first.end
        while self._waiting and self._fits(self._waiting[0], len(records)):
            batch = self._waiting.popleft()
            assert isinstance(batch, FetchedBatch)
            records, end = [*records, *batch.records], batch.end
        return Batch(records, end)

    def _take_one(self, batch: FetchedBatch) -> Batch:
        if len(batch.records) <= 1:
            return Batch(batch.records, batch.end)
        rest = batch.records[1:]
        self._waiting.appendleft(replace(batch, start=rest[0].offset, records=rest))
        return Batch(batch.records[:1], rest[0].offset)

    def _fits(self, waiting: FetchedBatch | Batch | Cut, taken: int) -> bool:
        return isinstance(waiting, FetchedBatch) and taken + len(waiting.records) <= self._batch_records
