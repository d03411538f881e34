"""The interface that an engine of the contract has to have, and the reference engine, which is the first one
with it.

A third engine is one more class with ``run``, and one more parameter of the fixture ``outputs``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Protocol, TypeAlias

from tests.contract.known_schemas import register
from tests.logs import Record
from tidegate.changefeed.definition.feed import FeedId
from tidegate.changefeed.lifecycle.control import Activate
from tidegate.hlc import ResolvedTimestamp
from tidegate.processor.reference import Emitted, OutputPartition, ReferenceEngine

Log: TypeAlias = Sequence[Sequence[Record]]
Output: TypeAlias = Mapping[OutputPartition, Sequence[Emitted]]


@dataclass(frozen=True, slots=True)
class Task:
    """A whole log by partition, and the feeds that read it from its first record on.

    ``finals`` says how far each feed comes. An engine that cannot tell when it has read everything may stop
    there.
    """

    log: Log
    feeds: tuple[Activate, ...]
    finals: Mapping[FeedId, ResolvedTimestamp]


class Engine(Protocol):
    """An object that reads a log and writes feeds."""

    def run(self, task: Task) -> Output:
        """Process the log, and return everything that stands on the output topics then, in order."""


class InMemory:
    """The reference engine, in batches of ``batch`` records."""

    def __init__(self, batch: int) -> None:
        self._batch = batch

    def run(self, task: Task) -> Output:
        """See ``Engine``. Batches of all partitions take turns."""
        return run_reference(task.log, task.feeds, self._batch).output


def run_reference(log: Log, feeds: Sequence[Activate], batch: int) -> ReferenceEngine:
    """Return the reference engine after it has processed the whole log."""
    engine = ReferenceEngine(len(log), feeds, schema_id=register)
    for turn in zip_longest(*(_batches(records, batch) for records in log)):
        for partition, records in enumerate(turn):
            if records is not None:
                engine.step(partition, records)
    return engine


def _batches(records: Sequence[Record], size: int) -> list[Sequence[Record]]:
    return [records[first : first + size] for first in range(0, len(records), size)]
