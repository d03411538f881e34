"""Records from topic to topic by the worker's clients and nothing else: what the clients cost.

``python -m bench.copy_through BOOTSTRAP SOURCE TARGET`` copies SOURCE to its present end, partition by
partition: aiokafka in, confluent-kafka out, with the settings that the worker's sink has. It prints when
it began to read (seconds since 1970) and the processor time that it took from there, in seconds.
"""

from __future__ import annotations

import asyncio
import sys
import threading
import time
from typing import Any, Final

from aiokafka import AIOKafkaConsumer, TopicPartition
from confluent_kafka import Producer

_BATCH_RECORDS: Final = 5_000
_SINK: Final = {
    "enable.idempotence": True,
    "enable.gapless.guarantee": True,
    "acks": "all",
    "linger.ms": 5,
    "batch.size": 1_000_000,
    "batch.num.messages": 10_000,
    "compression.type": "lz4",
    "queue.buffering.max.messages": 500_000,
}


def _delivered(error: Any, _: Any) -> None:
    if error is not None:
        raise SystemExit(f"a record was not delivered: {error.str()}")


async def copy(bootstrap: str, source: str, target: str) -> tuple[float, float]:
    """Copy ``source`` as it is now. Return when reading began, and the processor time from then on, in
    seconds."""
    producer = Producer({**_SINK, "bootstrap.servers": bootstrap})
    done = threading.Event()
    poller = threading.Thread(target=_poll, args=(producer, done))
    poller.start()
    consumer = AIOKafkaConsumer(
        bootstrap_servers=bootstrap, enable_auto_commit=False, auto_offset_reset="earliest"
    )
    await consumer.start()
    try:
        places = [TopicPartition(source, n) for n in await _partitions(consumer, source)]
        consumer.assign(places)
        ends = await consumer.end_offsets(places)
        began_s, begin = time.time(), time.process_time()
        while any([await consumer.position(place) < ends[place] for place in places]):
            fetched = await consumer.getmany(timeout_ms=200, max_records=_BATCH_RECORDS)
            for records in fetched.values():
                await _send(producer, target, records)
        await asyncio.get_running_loop().run_in_executor(None, producer.flush)
        return began_s, time.process_time() - begin
    finally:
        await consumer.stop()
        done.set()
        poller.join()


async def _partitions(consumer: AIOKafkaConsumer, topic: str) -> set[int]:
    consumer.subscribe([topic])
    await consumer.getmany(timeout_ms=0)
    partitions: set[int] = consumer.partitions_for_topic(topic)
    consumer.unsubscribe()
    return partitions


async def _send(producer: Producer, target: str, records: list[Any]) -> None:
    for record in records:
        while True:
            try:
                headers = list(record.headers)
                producer.produce(
                    target, record.value, record.key, record.partition, _delivered, headers=headers
                )
                break
            except BufferError:
                await asyncio.sleep(0.01)


def _poll(producer: Producer, done: threading.Event) -> None:
    while not done.is_set():
        producer.poll(0.05)


if __name__ == "__main__":
    print(*asyncio.run(copy(*sys.argv[1:])))
