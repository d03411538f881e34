"""Batches over a log that is there as a whole, whose tasks run in this process."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import pyarrow as pa

from tests.logs import Record
from tidegate.spark.changefeed.batch_driver import BatchDriver
from tidegate.spark.changefeed.ledger import Account
from tidegate.spark.changefeed.partition_round import run_partitions, run_told
from tidegate.spark.changefeed.rounds import Round
from tidegate.spark.changefeed.task.answers import Answer
from tidegate.spark.changefeed.task.log_records import TASK_COLUMNS

_ARROW_RECORDS: Final = 500


class InProcess(BatchDriver):
    """Tasks run here; the records are lists by partition."""

    def _run(self, round_: Round, records: Any, account: Account, due: frozenset[int] | None) -> list[Answer]:
        answers: list[Answer] = []
        if round_.records:
            for number, new in records.items():
                if due is not None and number not in due:
                    continue
                batches = [_batch(number, new[at : at + _ARROW_RECORDS]) for at in _firsts(new)]
                found = run_partitions(self._query, round_, account.heads, batches)
                answers += [Answer(**row) for batch in found for row in batch.to_pylist()]
            return answers
        told = sorted(round_.instructions if due is None else due)
        for index in range(len(told)):
            ids = pa.RecordBatch.from_pydict({"id": [index]})
            found = run_told(told, self._query, round_, account.heads, [ids])
            answers += [Answer(**row) for batch in found for row in batch.to_pylist()]
        return answers


def _firsts(records: Sequence[Record]) -> range:
    return range(0, len(records), _ARROW_RECORDS)


def _batch(number: int, records: Sequence[Record]) -> pa.RecordBatch:
    rows = [
        {"partition": number, "offset": each.offset, "timestamp_ms": each.timestamp}
        | {"key": each.key, "value": each.value}
        for each in records
    ]
    return pa.RecordBatch.from_pylist(rows).select(list(TASK_COLUMNS))
