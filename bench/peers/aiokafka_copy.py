"""A raw copy by aiokafka, both ways: ``python -m bench.peers.aiokafka_copy`` runs it.

Records go out in batches that it builds itself, which is the fastest way that aiokafka documents. It keeps no
state and changes nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Sequence
from typing import Any, Final

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

from bench.peers.peer_task import PeerTask

_BATCH_RECORDS: Final = 5_000
_BATCH_BYTES: Final = 1_000_000
_SESSION_MS: Final = (
    45_000  # as long as other clients': the bench suspends the process while it fills the topic
)


async def copy(task: PeerTask) -> None:
    """Copy until it is stopped."""
    producer = AIOKafkaProducer(
        bootstrap_servers=task.bootstrap,
        enable_idempotence=True,
        compression_type="lz4",
        max_batch_size=_BATCH_BYTES,
        max_request_size=8 * _BATCH_BYTES,
    )
    consumer = AIOKafkaConsumer(
        task.source,
        bootstrap_servers=task.bootstrap,
        group_id=task.name,
        enable_auto_commit=False,
        auto_offset_reset="earliest",
        session_timeout_ms=_SESSION_MS,
    )
    async with producer, consumer:
        sent: list[Awaitable[Any]] = []
        while True:
            fetched = await consumer.getmany(timeout_ms=100, max_records=_BATCH_RECORDS)
            delivered, sent = sent, []
            for place, records in fetched.items():
                sent += [await each for each in _batches(producer, task.target, place.partition, records)]
            await asyncio.gather(*delivered)  # those of the round before, so that one is on its way


def _batches(
    producer: AIOKafkaProducer, target: str, partition: int, records: Sequence[Any]
) -> list[Awaitable[Any]]:
    """Start to send the records, in as many batches as they fill."""
    batch, sends = producer.create_batch(), []
    for record in records:
        if batch.append(key=record.key, value=record.value, timestamp=record.timestamp) is None:
            sends.append(producer.send_batch(batch, target, partition=partition))
            batch = producer.create_batch()
            batch.append(key=record.key, value=record.value, timestamp=record.timestamp)
    return [*sends, producer.send_batch(batch, target, partition=partition)]


if __name__ == "__main__":
    asyncio.run(copy(PeerTask.of()))
