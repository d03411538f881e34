"""Rows of one task to Kafka: idempotent, in order, without expiry; and a wait until all are acknowledged.

Spark's own Kafka sink has no column for the record time, which is part of what a row is.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Mapping
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException, Producer

from tidegate.client.row_delivery import ROW_DELIVERY
from tidegate.errors import DeliveryError
from tidegate.processor.batch import OutputRecord

_POLL_S: Final = 0.5
_TELL_AGAIN_S: Final = 10.0
#: So many times as long as without any acknowledgement is the end of a round waited for while some come.
_TRICKLES: Final = 6
_CONFIG: Final[Mapping[str, Any]] = {
    **ROW_DELIVERY,
    "delivery.report.only.error": True,  # a call for each row that went well would cost as much as the row
    "linger.ms": 100,  # nobody waits for a row before the end of the round, which does not wait for this
}

_log = logging.getLogger("tidegate.spark")


class SinkStalled(Exception):
    """A cluster does not acknowledge rows: nobody knows which of those since the last wait it has."""


class RowProducer:
    """A Python worker's producer for one cluster. After a ``DeliveryError`` it must not be used again.

    ``stall_s``: for so long it waits for any acknowledgement at all; without it for ever.
    """

    def __init__(self, config: Mapping[str, Any], stall_s: float | None = None) -> None:
        self._producer = Producer({**config, **_CONFIG, "error_cb": self._note_trouble})
        self._stall_s = stall_s
        self._servers = config["bootstrap.servers"]
        self._failed = ""
        self._trouble = ""
        self._tell_at = time.monotonic() + _TELL_AGAIN_S

    def send(self, rows: Iterable[OutputRecord]) -> None:
        """Hand rows over; waits for room. Raises ``DeliveryError`` for one that is not taken, ``SinkStalled``
        where there comes to be no room.
        """
        produce, delivered = self._producer.produce, self._delivered
        for topic, partition, key, value, timestamp_ms, headers in rows:
            waits_since = None
            while True:
                try:
                    produce(topic, value, key, partition, delivered, None, timestamp_ms, headers)
                    break
                except BufferError:
                    waits_since = waits_since or time.monotonic()
                    self._producer.poll(_POLL_S)
                    self._require_delivered()
                    self._require_followed(waits_since)
                    self._tell_of_waiting()
                except KafkaException as error:
                    raise _undelivered(topic, partition, key, error.args[0].str()) from None
        self._producer.poll(0)
        self._require_delivered()

    def acknowledge(self) -> None:
        """Wait until every row is acknowledged.

        Raises ``DeliveryError`` when one was refused, ``SinkStalled`` when no more of them are acknowledged,
        or too few in all.
        """
        began = moved_at = time.monotonic()
        least = len(self._producer)
        while waiting := self._producer.flush(_POLL_S):
            self._require_delivered()
            if waiting < least:
                least, moved_at = waiting, time.monotonic()
            self._require_followed(moved_at)
            self._require_followed(began, _TRICKLES)
            self._tell_of_waiting()
        self._require_delivered()
        self._tell_at = time.monotonic() + _TELL_AGAIN_S

    def abandon(self) -> None:
        """Throw away what is not acknowledged; nothing may be sent by it any more.

        What is on its way may still arrive: from the first of the rows on, in their order.
        """
        self._producer.purge(in_queue=True, in_flight=True, blocking=False)

    def _tell_of_waiting(self) -> None:
        if time.monotonic() > self._tell_at:
            self._tell_at = time.monotonic() + _TELL_AGAIN_S
            _log.warning(
                "%d rows wait for %s to acknowledge them, and the batch with them: %s",
                len(self._producer),
                self._servers,
                self._trouble or "it does not answer",
            )

    def _require_followed(self, since: float, times: int = 1) -> None:
        if self._stall_s is not None and time.monotonic() - since > times * self._stall_s:
            raise SinkStalled

    def _note_trouble(self, error: KafkaError) -> None:
        self._trouble = error.str()

    def _delivered(self, error: KafkaError | None, message: Any) -> None:
        if error is not None and not self._failed:
            self._failed = str(_undelivered(message.topic(), message.partition(), message.key(), error.str()))

    def _require_delivered(self) -> None:
        if self._failed:
            raise DeliveryError(self._failed)


def _undelivered(topic: str, partition: int, key: bytes | None, cause: str) -> DeliveryError:
    return DeliveryError(
        f"A row for {topic} partition {partition}, key {(key or b'').hex()}, could not be delivered: {cause}."
        " Nothing of the batch is acknowledged, and the query ends; its next start runs the batch again,"
        " whose rows are repeated as exact copies."
    )
