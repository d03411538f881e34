"""Runs the tasks of a pass as one Spark job, in which each partition is a task of its own."""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Final

import pyarrow as pa
from pyspark.sql import SparkSession

from tidegate.errors import RetryError
from tidegate.spark.platform.task_failures import TASK_FAILURES, words_of
from tidegate.spark.warehouse.load_pass import RunTasks
from tidegate.spark.warehouse.partition_task import LoadTask, PartitionAnswer, load_partition

_ANSWER_SCHEMA: Final = "answer binary"
_ANSWER: Final = pa.schema([("answer", pa.binary())])


def spark_tasks(session: SparkSession) -> RunTasks:
    """Return a function that runs tasks in ``session``.

    Spark runs a failed task again as often as it is set to. Raises ``RetryError`` for a task that goes on
    failing.
    """
    return partial(_run, session)


def _run(session: SparkSession, tasks: Sequence[LoadTask]) -> list[PartitionAnswer]:
    session.sparkContext.setJobDescription(f"tidegate load of {len(tasks)} partitions")
    frame = session.range(0, len(tasks), 1, len(tasks))
    try:
        rows = frame.mapInArrow(partial(_load, tuple(tasks)), _ANSWER_SCHEMA).collect()
    except TASK_FAILURES as error:
        raise RetryError(
            f"A task of the load has failed as often as Spark tries: {words_of(error)} The tables stay"
            " as they are."
        ) from None
    return [pickle.loads(bytes(answer)) for (answer,) in rows]  # noqa: S301 - of our own tasks


def _load(tasks: Sequence[LoadTask], batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Run the task whose index ``batches`` hold. Spark returns the answer of the attempt that succeeded."""
    for batch in batches:
        answers = [pickle.dumps(load_partition(tasks[index])) for index in batch.column(0).to_pylist()]
        yield pa.RecordBatch.from_arrays([pa.array(answers, pa.binary())], schema=_ANSWER)
