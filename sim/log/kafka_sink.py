"""The raftlog topic as a sink: idempotent, gapless, and on the partition that the contract names."""

from __future__ import annotations

import time
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException, Producer

from tidegate.errors import DeliveryError

_CONFIG: Final = {
    "enable.idempotence": True,
    "enable.gapless.guarantee": True,
    "acks": "all",
    "allow.auto.create.topics": False,  # a deleted log must not come back without its beginning
    "message.timeout.ms": 0,  # no expiry: a record that expires before its successors leaves a gap
    "linger.ms": 5,
    "delivery.report.only.error": True,  # a callback for every record costs as much as sending it
    "compression.type": "lz4",
    "log_level": 3,  # errors only, since what librdkafka retries by itself needs no line
}
_POLL_EVERY: Final = 500  # records
_FULL_QUEUE_WAIT_S: Final = 0.1
_FLUSH_WAIT_S: Final = 1.0
_STALLED_S: Final = 60.0


class KafkaSink:
    """Writes log records to one topic: a sink of the simulated source, not a feed's sink.

    Raises ``DeliveryError`` as soon as a record is known to be lost.
    """

    def __init__(self, bootstrap: str, topic: str) -> None:
        self._topic = topic
        self._producer = Producer({**_CONFIG, "bootstrap.servers": bootstrap, "error_cb": self._on_error})
        self._failure: KafkaError | None = None
        self._appended = 0

    def append(self, partition: int, key: bytes, value: bytes, record_time_ms: int) -> None:
        """See ``LogSink``. Waits while the producer's queue is full."""
        while True:
            try:
                self._producer.produce(
                    self._topic, value, key, partition, self._on_delivery, timestamp=record_time_ms
                )
                break
            except BufferError:
                self._producer.poll(_FULL_QUEUE_WAIT_S)
                self._raise_failure()
            except KafkaException as error:
                raise DeliveryError(self._sentence(error.args[0])) from None
        self._appended += 1
        if self._appended % _POLL_EVERY == 0:
            self._producer.poll(0)
            self._raise_failure()

    def flush(self) -> None:
        """See ``LogSink``.

        Raises ``DeliveryError`` also when the broker acknowledges nothing for a minute.
        """
        moved = time.monotonic()
        left = len(self._producer)
        while left:
            now_left = self._producer.flush(_FLUSH_WAIT_S)
            self._raise_failure()
            if now_left < left:
                moved = time.monotonic()
            elif time.monotonic() - moved > _STALLED_S:
                raise DeliveryError(
                    f"{now_left} records for {self._topic} got no answer within {_STALLED_S:.0f} s: the log "
                    "ends before them; check the broker and start with empty topics"
                )
            left = now_left
        self._raise_failure()

    def close(self) -> None:
        """Close the producer, and drop the records that were not flushed."""
        self._producer.purge()
        # the producer holds our callbacks, and we hold it: the cycle would keep its threads alive
        del self._producer

    def _on_delivery(self, error: KafkaError | None, _: Any) -> None:
        if error is not None:
            self._failure = self._failure or error

    def _on_error(self, error: KafkaError) -> None:
        if error.fatal():
            self._failure = self._failure or error

    def _raise_failure(self) -> None:
        if self._failure is not None:
            raise DeliveryError(self._sentence(self._failure))

    def _sentence(self, error: KafkaError) -> str:
        return (
            f"A record for {self._topic} could not be delivered: {error.str()}. The log has a gap there; "
            "start the simulation again with empty topics"
        )
