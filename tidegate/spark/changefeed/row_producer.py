"""Writes rows of one task to Kafka: idempotent, in order and without expiry; waits until all are
acknowledged.

Spark's own Kafka sink has no column for the record time, which is part of a row.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any, Final, NoReturn

from confluent_kafka import KafkaError, KafkaException, Producer

from tidegate.changefeed.definition.feed import FeedId
from tidegate.client.kafka.cluster_watch import ClusterWatch
from tidegate.client.kafka.delivery_report import begin_report
from tidegate.client.kafka.record_limit import LIMIT_OF_SPARK
from tidegate.client.kafka.row_delivery import ROW_DELIVERY
from tidegate.client.kafka.row_refusal import refusal_of, reported_refusal, row_broke
from tidegate.client.kafka.transaction import is_fatal
from tidegate.errors import BrokerUnavailable, RowDoubted, RowRefused, SettingsError
from tidegate.processor.batch import OutputRecord

_POLL_S: Final = 0.5
_TELL_AGAIN_S: Final = 10.0
_ASK_S: Final = 5.0
#: The time that the reports of thrown-away rows may take; they come immediately.
_LET_GO_S: Final = 5.0
#: At the end of a round a cluster that acknowledges only a few rows is waited for ``_TRICKLES * stall_s``.
_TRICKLES: Final = 6
_CONFIG: Final[Mapping[str, Any]] = {
    **ROW_DELIVERY,
    "delivery.report.only.error": True,  # a call for each delivered row would cost as much as the row
    "message.max.bytes": LIMIT_OF_SPARK.max_bytes,
    "linger.ms": 100,  # nobody waits for a single row, and the end of a round flushes immediately
}

_log = logging.getLogger("tidegate.spark")


class SinkStalled(Exception):
    """A cluster does not acknowledge rows. It is unknown which rows since the last wait it has."""


class FeedRefused(Exception):
    """A row of feed ``feed_id`` is refused. The feed has to fail, unless ``is_doubted`` is true.

    In that case another producer may still deliver the row.
    """

    def __init__(self, feed_id: FeedId, refusal: RowRefused) -> None:
        super().__init__(str(refusal))
        self.feed_id = feed_id
        self.refusal = refusal

    @property
    def is_doubted(self) -> bool:
        """Whether the rows have to be written again before the feed fails (step R4b)."""
        return isinstance(self.refusal, RowDoubted)


class RowProducer:
    """A Python worker's row producer for one cluster.

    It must not be used again once it has raised ``FeedRefused`` or ``BrokerUnavailable``. ``stall_s`` is how
    many seconds it waits without any acknowledgement; with ``None`` it waits without limit. ``watched`` says
    that the address may later mean another cluster (docs/protocols/sink-addresses.md). Raises
    ``SettingsError`` for settings that the client refuses, such as a certificate that it cannot read.
    """

    def __init__(
        self, config: Mapping[str, Any], stall_s: float | None = None, *, watched: bool = False
    ) -> None:
        self._watch = ClusterWatch(logging.getLogger("tidegate.kafka"))
        self._topic = ""
        listening = {"logger": self._watch} if watched else {}
        self._servers = config["bootstrap.servers"]
        try:
            self._producer = Producer({**config, **_CONFIG, **listening, "error_cb": self._note_trouble})
        except KafkaException as error:
            raise SettingsError(
                f"The settings for Kafka at {self._servers} cannot be used: {error.args[0].str()}."
            ) from None
        self._stall_s = stall_s
        self._refused: FeedRefused | None = None
        self._undelivered = ""  # why a row was not delivered, if the row is not at fault
        self._trouble = ""
        self._tell_at = time.monotonic() + _TELL_AGAIN_S

    def cluster_id(self, topic: str) -> str:
        """Return the id of the cluster at the address. The question names ``topic``.

        Call it before anything is sent. From then on another cluster at the address is noticed. Raises
        ``SinkStalled`` when the cluster does not answer, or has changed.
        """
        self._topic = topic
        self._require_same()
        return self._watch.cluster_id

    def send(self, feed_id: FeedId, rows: Iterable[OutputRecord]) -> None:
        """Hand rows to the client; wait while it has no room.

        Raises ``FeedRefused`` for a row that is refused or doubted, and ``SinkStalled`` when no room comes.
        Raises ``BrokerUnavailable`` when the producer has come to its end or a row is not delivered, and no
        row is at fault.
        """
        produce, delivered = self._producer.produce, partial(self._delivered, feed_id)
        for topic, partition, key, value, timestamp_ms, headers in rows:
            waits_since = None
            while True:
                try:
                    produce(topic, value, key, partition, delivered, None, timestamp_ms, headers)
                    break
                except BufferError:
                    waits_since = waits_since or time.monotonic()
                    self._serve(self._producer.poll, _POLL_S)
                    self._require_delivered()
                    self._require_followed(waits_since)
                    self._tell_of_waiting()
                except KafkaException as failure:
                    error: KafkaError = failure.args[0]
                    if is_fatal(error):
                        self._come_to_the_end(error.str())
                    refusal = refusal_of(topic, partition, key, value, error, LIMIT_OF_SPARK)
                    if refusal is None:
                        self._come_to_the_end(error.str())
                    self._refuse(feed_id, refusal)
                    self._require_taken()
                except Exception as unforeseen:
                    refusal = row_broke(topic, partition, key, value, unforeseen)
                    raise FeedRefused(feed_id, refusal) from None
        self._serve(self._producer.poll, 0)
        self._require_delivered()

    def acknowledge(self) -> None:
        """Wait until every row is acknowledged.

        Raises as ``send`` does. Raises ``SinkStalled`` when no row is acknowledged for ``stall_s`` seconds,
        or when some row is not acknowledged within six times as many.
        """
        began = moved_at = time.monotonic()
        least = len(self._producer)
        while waiting := self._serve(self._producer.flush, _POLL_S):
            self._require_delivered()
            if waiting < least:
                least, moved_at = waiting, time.monotonic()
            self._require_followed(moved_at)
            self._require_followed(began, _TRICKLES)
            self._tell_of_waiting()
        self._require_delivered()
        if self._topic:
            self._require_same()
        self._tell_at = time.monotonic() + _TELL_AGAIN_S

    def abandon(self) -> None:
        """Throw away the rows that are not acknowledged. Nothing may be sent by this producer any more.

        Rows on their way may still arrive: the first of them, in order, up to some row.
        """
        self._producer.purge()
        # each row keeps the client and its threads alive until it is reported
        give_up_at = time.monotonic() + _LET_GO_S
        while len(self._producer) and time.monotonic() < give_up_at:
            with suppress(KafkaException, SystemError):  # how it ended is known
                self._producer.poll(_POLL_S)

    def _tell_of_waiting(self) -> None:
        if time.monotonic() > self._tell_at:
            self._tell_at = time.monotonic() + _TELL_AGAIN_S
            _log.warning(  # the client counts an error that it has not told yet, such as a refused connection
                "Up to %d rows wait for %s to acknowledge them, and the batch with them: %s",
                len(self._producer),
                self._servers,
                self._trouble or "it does not answer",
            )

    def _require_followed(self, since: float, times: int = 1) -> None:
        if self._stall_s is not None and time.monotonic() - since > times * self._stall_s:
            raise SinkStalled

    def _require_same(self) -> None:
        """Raise ``SinkStalled`` unless the address still means the same cluster.

        Acknowledgements and refusals do not say which cluster they come from, so the cluster is asked for
        after them.
        """
        if not self._watch.is_the_same(self._producer, self._topic, _ASK_S):
            raise SinkStalled

    def _note_trouble(self, error: KafkaError) -> None:
        self._trouble = error.str()

    def _serve(self, call: Callable[[float], int], seconds: float) -> int:
        """Call a function of the client that serves delivery reports; raise what has ended the producer."""
        try:
            return call(seconds)
        # the client may lose the error that it was about to raise
        except (KafkaException, SystemError) as failure:
            return self._come_to_the_end(str(failure))

    def _come_to_the_end(self, cause: str) -> NoReturn:
        """Raise why the producer has ended: ``FeedRefused`` for a row at fault, or ``BrokerUnavailable``.

        This is step R5.

        Purging gives a delivery report for each row, which may tell of a row at fault.
        """
        self._producer.purge()
        while len(self._producer):
            with suppress(KafkaException, SystemError):
                self._producer.poll(_POLL_S)
        self._require_taken()
        raise BrokerUnavailable(
            f"The row producer for {self._servers} came to its end: {cause}. Its rows are written "
            "again by another one."
        )

    def _delivered(self, feed_id: FeedId, error: KafkaError | None, message: Any) -> None:
        begin_report()
        if error is None:
            return
        if (refusal := reported_refusal(error, message)) is not None:
            self._refuse(feed_id, refusal)
        elif not self._undelivered:
            where = f"{message.topic()} partition {message.partition()}"
            self._undelivered = f"a row for {where} was not delivered: {error.str()}"

    def _refuse(self, feed_id: FeedId, refusal: RowRefused) -> None:
        """Note the first refusal. A final refusal takes the place of a doubt."""
        if self._refused is None or (self._refused.is_doubted and not isinstance(refusal, RowDoubted)):
            self._refused = FeedRefused(feed_id, refusal)

    def _require_delivered(self) -> None:
        """Raise when a delivery report told of an error; the client itself does not raise for each of
        them.
        """
        self._require_taken()
        if self._undelivered:
            self._come_to_the_end(self._undelivered)

    def _require_taken(self) -> None:
        """Raise the refusal that was noted, if any.

        It counts only if surely no other cluster has made it (steps 4b and 4c). If that is not sure,
        ``SinkStalled`` is raised: a later producer writes the row again, and is refused again.
        """
        if self._refused is not None and self._topic:
            self._require_same()
        if self._watch.has_changed:
            raise SinkStalled
        if self._refused is not None:
            raise self._refused
