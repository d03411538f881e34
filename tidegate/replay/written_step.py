"""A step of a log partition, with all that it begins with."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeAlias

from tidegate.changefeed.lifecycle.control import Activate
from tidegate.processor.batch import ControlRecord, ExchangeRecord, LogRecord, StateTable, StepResult
from tidegate.processor.config import ProcessorConfig
from tidegate.processor.processor import PartitionProcessor
from tidegate.raftlog.entry import Offset

#: Rows of state by table and key.
StateRows: TypeAlias = dict[tuple[StateTable, bytes], bytes]

_BATCH: Final = 1_000


class StepRecord(NamedTuple):
    """A record of the log, as a step takes it; ``timestamp`` is its record time in milliseconds."""

    offset: int
    key: bytes | None
    value: bytes | None
    timestamp: int


@dataclass(frozen=True, slots=True)
class WrittenStep:
    """A step of log partition ``partition`` of ``partitions``.

    ``rows`` is the partition's state before the step. ``records`` begin at the first offset that a processor
    with this state reads. Records below ``first`` were taken before the step; they are read again for ranges
    that have a backlog. The step takes the records from ``first`` on.
    """

    partition: int
    partitions: int
    first: int
    rows: StateRows
    records: tuple[StepRecord, ...]

    def processor(self, config: ProcessorConfig) -> PartitionProcessor:
        """Return a processor with the state before the step. Raises ``StateError`` for rows that do not
        belong together.
        """
        rows = [(table, key, value) for (table, key), value in self.rows.items()]
        if not rows:
            return PartitionProcessor(self.partition, self.partitions, config)
        return PartitionProcessor.restore(self.partition, self.partitions, config, rows)


class StateBefore:
    """The state of a log partition, moved on by Python to the place where a step begins.

    It starts with ``rows``, the state that an application has stored. Without rows it is built from the log.
    Other batches of the same log would give the same state, except for the offsets that rows of state name.
    """

    def __init__(self, partition: int, partitions: int, rows: StateRows | None = None) -> None:
        self.rows: StateRows = dict(rows or {})
        self._partition, self._partitions = partition, partitions
        self._processor = WrittenStep(partition, partitions, 0, self.rows, ()).processor(ProcessorConfig())

    @property
    def next_offset(self) -> int:
        """The offset of the log at which reading goes on."""
        return int(self._processor.next_offset or 0)

    @property
    def reached(self) -> int:
        """The offset after the last record that the state has taken."""
        return int(self._processor.to_read_again.stop)

    def begin(self, feeds: Sequence[Activate], exchanges: Sequence[ExchangeRecord]) -> None:
        """Take up feeds, and claims and hand-offs of ranges in other partitions."""
        self._note(self._processor.control([ControlRecord(Offset(n), feed) for n, feed in enumerate(feeds)]))
        self._note(self._processor.exchange(exchanges))

    def read(self, records: Iterable[LogRecord], on_batch: Callable[[int], object] = lambda _: None) -> None:
        """Take the next records of the log. After every ``_BATCH`` records ``on_batch`` is called with the
        offset of the last one.

        Raises ``StepBroke`` for a record that breaks the step.
        """
        batch: list[LogRecord] = []
        for record in records:
            batch.append(record)
            if len(batch) == _BATCH:
                self._step(batch)
                on_batch(batch[-1].offset)
                batch = []
        self._step(batch)

    def _step(self, records: Sequence[LogRecord]) -> None:
        while True:
            result = self._processor.step_some(records)
            self._note(result)
            records = records[result.taken :]
            if not records and not self._processor.ready:
                return

    def _note(self, result: StepResult) -> None:
        for table, key, value in result.changes:
            if value is None:
                self.rows.pop((table, key), None)
            else:
                self.rows[table, key] = value

    def reads_from(self) -> int:
        """Return the first offset that a processor with this state reads. If a range has a backlog, this is
        lower than ``next_offset``.
        """
        again = WrittenStep(self._partition, self._partitions, 0, self.rows, ()).processor(ProcessorConfig())
        return int(again.next_offset or 0)
