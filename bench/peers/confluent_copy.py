"""A raw copy by confluent-kafka, both ways: ``python -m bench.peers.confluent_copy`` runs it.

It copies rows as tidegate wrote them. It keeps no state and changes nothing.
"""

from __future__ import annotations

from typing import Any, Final

from confluent_kafka import Consumer, Producer

from bench.peers.peer_task import PRODUCER, PeerTask

_BATCH_RECORDS: Final = 10_000


def main() -> None:
    """Copy until it is stopped."""
    task = PeerTask.of()
    producer = Producer({**PRODUCER, "bootstrap.servers": task.bootstrap})
    consumer = Consumer(
        {
            "bootstrap.servers": task.bootstrap,
            "group.id": task.name,
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
        }
    )
    consumer.subscribe([task.source])
    while True:
        for message in consumer.consume(_BATCH_RECORDS, timeout=0.1):
            if message.error() is None:
                _send(producer, task.target, message)
        producer.poll(0)


def _send(producer: Producer, target: str, message: Any) -> None:
    while True:
        try:
            producer.produce(target, message.value(), message.key(), message.partition())
            break
        except BufferError:
            producer.poll(0.01)


if __name__ == "__main__":
    main()
