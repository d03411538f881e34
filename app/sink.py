"""Rows to Kafka: idempotent producers without expiry, and a barrier that counts one batch's deliveries.

``Producer.flush`` would wait for every batch and hide errors: with one record refused it returns 0. The
barrier is told of each row's delivery instead, and a failure ends the process (docs/delivery.md).
"""

from __future__ import annotations

import asyncio
import math
import threading
import time
from collections.abc import Sequence
from typing import Any, Final

import structlog
from confluent_kafka import KafkaError, KafkaException

from app.clients import librdkafka_config
from app.ending import end_process
from app.machine import REAL, Machine
from app.metrics import SINK_TROUBLES
from app.settings import Settings
from tidegate.client.row_delivery import ROW_DELIVERY
from tidegate.client.transaction import Record, is_fatal, refused
from tidegate.errors import DeliveryError
from tidegate.processor.batch import OutputRecord

_POLL_S: Final = 0.05
_CLOSE_S: Final = 5.0
_TELL_AGAIN_S: Final = 10.0

_GIVEN_UP: Final = (KafkaError._PURGE_QUEUE, KafkaError._PURGE_INFLIGHT)  # noqa: SLF001 - its public codes

_log = structlog.get_logger("tidegate.sink")


class Barrier:
    """Counts the acknowledgements of a batch's rows of one feed; ``acknowledged`` is done with the last one.

    ``delivered`` is called by the sinks' threads, everything else by the loop's or that of the steps.
    """

    __slots__ = ("_left", "_lock", "_loop", "acknowledged")

    def __init__(self, rows: int, loop: asyncio.AbstractEventLoop) -> None:
        self.acknowledged: asyncio.Future[None] = loop.create_future()
        self._left = rows
        self._loop = loop
        self._lock = threading.Lock()  # the sink's thread counts, and whoever gives rows up
        if not rows:
            self.acknowledged.set_result(None)

    @property
    def left(self) -> int:
        """How many rows are not acknowledged."""
        return self._left

    def forget(self, rows: int) -> None:
        """So many rows will not be handed to a sink; any thread may say so."""
        with self._lock:
            self._left -= rows
            last = rows > 0 and not self._left
        if last:
            self._loop.call_soon_threadsafe(self._open)

    def delivered(self, error: KafkaError | None, message: Any) -> None:
        """Count one row, or end the process when it was not delivered.

        Rows that are given up where the sink is closed are those of detached feeds: nobody waits for them.
        """
        if error is not None:
            if error.code() in _GIVEN_UP:
                return
            end_process(
                DeliveryError(
                    f"A row for {message.topic()} partition {message.partition()}, key "
                    f"{(message.key() or b'').hex()}, could not be delivered: {error.str()}. Nothing of its "
                    "batch is acknowledged; the next worker writes the batch again"
                )
            )
        with self._lock:
            self._left -= 1
            last = not self._left
        if last:
            self._loop.call_soon_threadsafe(self._open)

    def _open(self) -> None:
        if not self.acknowledged.done():
            self.acknowledged.set_result(None)


class Sink:
    """One producer for all feeds that write to one cluster."""

    def __init__(self, settings: Settings, machine: Machine = REAL) -> None:
        self._limit = settings.max_record_bytes
        self._producer = machine.producer(
            {
                **librdkafka_config(settings),
                **ROW_DELIVERY,
                "linger.ms": settings.linger_ms,
                "compression.type": settings.compression,
                "message.max.bytes": settings.max_record_bytes,
                "error_cb": _Troubles(settings.bootstrap_servers),
            }
        )
        self._closed = threading.Event()
        self._poller = machine.background(self._poll, "sink-deliveries")

    def send(self, rows: Sequence[OutputRecord], barrier: Barrier, first: int = 0) -> int:
        """Hand rows to the producer from index ``first`` on.

        Returns the index of the first row that had no place in the producer's queue: call again with it
        after a while. Raises ``DeliveryError`` for a row that the producer does not take, such as one
        above ``max_record_bytes``.
        """
        produce, delivered = self._producer.produce, barrier.delivered
        for index in range(first, len(rows)):
            topic, partition, key, value, timestamp_ms, headers = rows[index]
            try:
                produce(topic, value, key, partition, delivered, None, timestamp_ms, headers)
            except BufferError:
                return index
            except KafkaException as error:
                if is_fatal(error.args[0]):
                    raise _undeliverable(error.args[0]) from None
                raise refused(Record(topic, partition, key, value), self._limit, error) from None
        return len(rows)

    def pending(self) -> int:
        """Rows that are not acknowledged."""
        return len(self._producer)

    def close(self) -> None:
        """Stop; rows that are still in the queue are given up."""
        self._closed.set()
        self._poller.join()
        self._producer.purge()
        self._producer.flush(_CLOSE_S)

    def _poll(self) -> None:
        try:
            while not self._closed.is_set():
                self._producer.poll(_POLL_S)
        except KafkaException as error:
            end_process(_undeliverable(error.args[0]))
        except BaseException as error:  # nobody else would see it
            end_process(error)


class _Troubles:
    """What librdkafka complains of, ten times a second while brokers are away: counted, and told at times."""

    def __init__(self, servers: str) -> None:
        self._servers = servers
        self._tell_at = -math.inf

    def __call__(self, error: KafkaError) -> None:
        SINK_TROUBLES.labels(self._servers).inc()
        if time.monotonic() >= self._tell_at:
            self._tell_at = time.monotonic() + _TELL_AGAIN_S
            _log.warning("Kafka is in trouble", sink=self._servers, cause=error.str())


def _undeliverable(error: KafkaError) -> DeliveryError:
    """Comes instead of delivery reports where going on would leave a gap; it names the topic."""
    return DeliveryError(
        f"Rows could not be delivered: {error.str()}. Nothing of their batches is acknowledged; the next "
        "worker writes them again"
    )
