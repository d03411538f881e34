"""The two stages of a batch that the broker has a part in: producing its rows, and its transaction."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Sequence
from typing import Final, NamedTuple

from bench.stages import Pass, StageTime
from bench.topics import BenchTopics
from bench.workload import OUTPUT_PARTITIONS, BenchLog
from tidegate.client.kafka.transaction import Record
from tidegate.processor.batch import OutputRecord, StateChange
from tidegate.worker.kafka.transaction import WorkerTransactionalProducer
from tidegate.worker.output.barrier import Barrier
from tidegate.worker.output.row_producer import SharedRowProducer
from tidegate.worker.process.settings import Settings

_QUEUE_FULL_S: Final = 0.01


class CommitTime(NamedTuple):
    """One batch's transaction: how many state rows it takes, and how long until it is committed."""

    state_rows: float
    ms: float
    us_per_row: float


def produce_time(log: BenchLog, done: Pass, topics: BenchTopics) -> StageTime:
    """Return the processor time that this process takes until all rows are acknowledged. librdkafka's threads
    are included."""
    prefix = f"bench-{uuid.uuid4().hex[:8]}-"
    for table in log.tables:
        topics.create(prefix + table.name, OUTPUT_PARTITIONS)
    sink = SharedRowProducer(Settings(bootstrap_servers=topics.bootstrap))
    begin = time.process_time()
    for rows in done.outputs:
        asyncio.run(_acknowledged(sink, [row._replace(topic=prefix + row.topic) for row in rows]))
    spent_us = (time.process_time() - begin) * 1e6
    sink.close()
    return StageTime("produce", spent_us / log.rows, spent_us / max(done.ops, 1))


async def _acknowledged(sink: SharedRowProducer, rows: Sequence[OutputRecord]) -> None:
    barrier = Barrier(len(rows), asyncio.get_running_loop())
    sent = sink.send(rows, barrier)
    while sent < len(rows):
        await asyncio.sleep(_QUEUE_FULL_S)
        sent = sink.send(rows, barrier, sent)
    await barrier.acknowledged


def commit_time(log: BenchLog, done: Pass, topics: BenchTopics) -> CommitTime:
    """Measure the transactions of the batches' state rows, one after the other, as the worker does them."""
    topic = f"bench-{uuid.uuid4().hex[:8]}-changelog"
    topics.create(topic, 1)
    producer = WorkerTransactionalProducer(Settings(bootstrap_servers=topics.bootstrap), f"{topic}-writer")
    producer.open()
    producer.commit(_records(topic, done.changes[0]))  # the first one also makes the producer known
    begin = time.monotonic()
    for changes in done.changes:
        producer.commit(_records(topic, changes))
    took_s = time.monotonic() - begin
    producer.close()
    commits, rows = len(done.changes), sum(map(len, done.changes))
    return CommitTime(rows / commits, took_s / commits * 1e3, took_s / log.rows * 1e6)


def _records(topic: str, changes: Sequence[StateChange]) -> list[Record]:
    return [Record(topic, 0, change.key, change.value) for change in changes]
