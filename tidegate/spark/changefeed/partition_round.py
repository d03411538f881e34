"""A task of Spark in a round: runs its log partitions, one after the other.

A task that runs again, or twice at the same time, begins with the same states, is told the same, and reads
the same records, so it writes exact copies of the same rows. But it may detach other feeds than
the first attempt. So each attempt stores files of its own, which its answers name.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from itertools import groupby
from operator import itemgetter

import pyarrow as pa

from tidegate.errors import QueryEnded, TidegateError, TopologyError
from tidegate.processor.batch import LogRecord
from tidegate.processor.containment import StepBroke
from tidegate.spark.changefeed.query import Query
from tidegate.spark.changefeed.rounds import Instructions, Round
from tidegate.spark.changefeed.row_producer import FeedRefused
from tidegate.spark.changefeed.task.answers import Answer, as_arrow
from tidegate.spark.changefeed.task.log_records import RecordReader
from tidegate.spark.changefeed.task.partition_task import PartitionTask
from tidegate.spark.platform.faults import fault_to_bytes
from tidegate.spark.platform.python_worker import settle_process
from tidegate.spark.platform.task_clock import TaskClock

_log = logging.getLogger("tidegate.spark")


def run_partitions(
    query: Query, round_: Round, heads: Mapping[int, str], batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Run one partition after the other: ``batches`` hold their records, in the columns ``TASK_COLUMNS``.

    All records of a partition stand together, in the order of the log. An Arrow batch may hold the end of one
    partition and the beginning of the next. If more records of a partition come after those of another one,
    the answer is a fault: the state that the first answer names would not have them.
    """
    reader, done = RecordReader(batches), set[int]()
    for partition, found in groupby(reader, itemgetter(0)):
        records = (each for _, each in found)
        if partition in done:
            yield as_arrow([Answer(partition, "fault", fault_to_bytes(_in_two_parts(partition)))])
            continue
        done.add(partition)
        yield _answers(query, round_, heads, partition, records, reader.clock)
        reader.clock = TaskClock()


def _in_two_parts(partition: int) -> QueryEnded:
    return QueryEnded(
        f"Spark gave a task the records of log partition {partition} in two parts, which tidegate does not "
        "expect of any version. The batch is not done, and its next run writes the same rows. Use a version "
        "of Spark that docs/spark.md names."
    )


def run_told(
    partitions: Sequence[int],
    query: Query,
    round_: Round,
    heads: Mapping[int, str],
    batches: Iterable[pa.RecordBatch],
    ends: Mapping[int, int] | None = None,
) -> Iterator[pa.RecordBatch]:
    """Run the tasks of partitions to which Spark gives no records.

    ``batches`` hold the indexes of the partitions in ``partitions``. With ``ends`` each task reads its
    records from Kafka itself, up to the offset that ``ends`` has for its partition.
    """
    ends = ends or {}
    for batch in batches:
        for index in batch.column(0).to_pylist():
            partition = partitions[index]
            yield _answers(query, round_, heads, partition, (), TaskClock(), ends.get(partition))


def _answers(
    query: Query,
    round_: Round,
    heads: Mapping[int, str],
    partition: int,
    records: Iterable[list[LogRecord]],
    clock: TaskClock,
    up_to: int | None = None,
) -> pa.RecordBatch:
    """Run the whole task of a partition and return its answers.

    A fault is an answer too: after an exception Spark would only try the same again, without a pause.
    """
    try:
        _require_partition(query, partition)
        settle_process()
        with closing(PartitionTask(query, round_, partition, heads.get(partition, ""), clock)) as task:
            task.tell(round_.instructions.get(partition, Instructions()))
            for each in records:
                task.step(each)
            if up_to is not None:
                task.step_up_to(up_to)
            clock.lap("read")
            answers = task.finish()
    except FeedRefused as refused:
        kind = "doubted" if refused.is_doubted else "refused"
        answers = [Answer(partition, kind, json.dumps([refused.feed_id, str(refused)]).encode())]
    except StepBroke as broke:
        _log.exception("partition %d: a step broke, and is run again more carefully", partition)
        answers = [Answer(partition, "broke", broke.to_bytes())]
    except TidegateError as fault:
        answers = [Answer(partition, "fault", fault_to_bytes(fault))]
    for _ in records:  # Spark wants its records to be read
        pass
    return as_arrow(answers)


def _require_partition(query: Query, partition: int) -> None:
    if partition >= query.partitions:
        raise TopologyError(
            f"The log {query.log} has a partition {partition} now, and had {query.partitions} partitions "
            "when the query began: ranges are found by that number, so it cannot change under an "
            "application. Nothing of the batch is acknowledged. Start another application on a new "
            "checkpoint directory."
        )
