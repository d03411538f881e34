"""Rounds of one log partition, whose tasks run in this process without Spark."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Final

import pyarrow as pa

from tests.destinations import DESTINATIONS
from tests.logs import Record
from tidegate.client.kafka.connection import KafkaConnection
from tidegate.processor.config import ProcessorConfig
from tidegate.spark.changefeed.partition_round import run_partitions, run_told
from tidegate.spark.changefeed.query import Query
from tidegate.spark.changefeed.rounds import Instructions, Round, RoundId
from tidegate.spark.changefeed.task.answers import Answer
from tidegate.spark.changefeed.task.log_records import TASK_COLUMNS

#: Nobody listens there.
NOBODY: Final = "127.0.0.1:1"


class Tasks:
    """Runs the rounds of partition 0, each from the state that the one before it left."""

    def __init__(self, query: Query, head: str = "") -> None:
        self.query = query
        self.head = head
        self._number = 0
        self._of_batch = 0

    def in_one_batch(self) -> None:
        """The next round is one more of the same batch, on another Python worker."""
        self._of_batch += 1
        self.query = replace(self.query, id=f"{self.query.id}, another")

    def run(self, records: Iterable[Record], partition: int = 0, at: RoundId | None = None) -> list[Answer]:
        """A round of records: that of the next batch, unless ``at`` says which."""
        rows = [
            {"partition": partition, "offset": each.offset, "timestamp_ms": each.timestamp}
            | {"key": each.key, "value": each.value}
            for each in records
        ]
        batches = [pa.RecordBatch.from_pylist(rows).select(list(TASK_COLUMNS))]
        return self._round(
            lambda query, round_, heads: run_partitions(query, round_, heads, batches),
            Round(at or self._next, records=True),
        )

    def tell(self, instructions: dict[int, Instructions], at: RoundId | None = None) -> list[Answer]:
        """A round without records: that of the next batch, unless ``at`` says which."""
        (partition,) = instructions
        batches = [pa.RecordBatch.from_pydict({"id": [0]})]
        return self._round(
            lambda query, round_, heads: run_told([partition], query, round_, heads, batches),
            Round(at or self._next, instructions=instructions),
        )

    def read(self, end: int, at: RoundId | None = None) -> list[Answer]:
        """A round of records that the task reads from Kafka itself, up to the offset ``end``."""
        batches = [pa.RecordBatch.from_pydict({"id": [0]})]
        return self._round(
            lambda query, round_, heads: run_told([0], query, round_, heads, batches, {0: end}),
            Round(at or self._next, records=True),
        )

    @property
    def _next(self) -> RoundId:
        self._number += not self._of_batch
        number, self._of_batch = self._of_batch, 0
        return RoundId(self._number, number)

    def _round(self, task: Callable[..., Iterator[pa.RecordBatch]], round_: Round) -> list[Answer]:
        answers = [
            Answer(**row) for batch in task(self.query, round_, {0: self.head}) for row in batch.to_pylist()
        ]
        for answer in answers:
            if answer.kind == "head":
                self.head = answer.body.decode()
        return answers


def tasks_on(bootstrap: str, log: str, root: Path) -> Tasks:
    """Tasks of a query on a log of one partition, with its state below ``root``."""
    connection = KafkaConnection(
        bootstrap, timeout_s=1 if bootstrap == NOBODY else 30, destinations=DESTINATIONS
    )
    return Tasks(Query(str(root), connection, log, 1, root.as_uri(), ProcessorConfig()))
