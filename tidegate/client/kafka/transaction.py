"""A transactional producer: all records of a commit become readable together, and one writer writes at a
time.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, NamedTuple, TypeAlias

from confluent_kafka import KafkaError, KafkaException, Producer

from tidegate.client.kafka.cluster_watch import ClusterWatch
from tidegate.client.kafka.delivery_report import begin_report
from tidegate.client.kafka.row_refusal import is_for_good, is_of_the_producer, is_too_large, marker_refused
from tidegate.delivery.marker_records import OutgoingMarker
from tidegate.errors import DeliveryError, ProducerFenced, RecordRefused

#: The coordinator aborts a transaction that is open for longer than this. So a broker may be away for this
#: long in the middle of a transaction before the worker has to start again. The value is below the broker's
#: transaction.max.timeout.ms.
TRANSACTION_TIMEOUT_MS: Final = 300_000
_CALL_S: Final = 5.0  # one attempt of a call that is repeated
_BACKOFF_S: Final = 0.5
_FENCED: Final = (KafkaError._FENCED, KafkaError.INVALID_PRODUCER_EPOCH)  # noqa: SLF001 - its name
_ATTEMPTS_MAX: Final = 5  # attempts at a whole transaction that the coordinator wants aborted
#: The pause before the first repetition of a transaction of which a broker did not take a record. Each next
#: pause is twice as long.
_ANSWERED_PAUSE_S: Final = 0.5

_log = logging.getLogger("tidegate.transaction")


class Record(NamedTuple):
    """A record of an internal or output topic; ``value`` ``None`` makes it a tombstone."""

    topic: str
    partition: int
    key: bytes | None
    value: bytes | None
    timestamp_ms: int = 0  # 0: now
    headers: Sequence[tuple[str, bytes]] = ()


def sent(markers: Iterable[OutgoingMarker]) -> list[Record]:
    """Return markers as the records that a transaction writes."""
    return [Record(topic, partition, None, value) for topic, partition, value in markers]


def transactional(transactional_id: str, limit_bytes: int) -> Mapping[str, Any]:
    """Return librdkafka's settings for a transactional producer; records may have up to ``limit_bytes``."""
    return {
        "transactional.id": transactional_id,
        "transaction.timeout.ms": TRANSACTION_TIMEOUT_MS,
        "linger.ms": 0,  # a commit flushes at once; waiting for more only adds to it
        "message.max.bytes": limit_bytes,
    }


#: A broker's answers that are about the transaction, and not about one of its records.
_OF_TRANSACTIONS: Final = frozenset(
    {
        KafkaError.INVALID_TXN_STATE,
        KafkaError.CONCURRENT_TRANSACTIONS,
        KafkaError.TRANSACTION_COORDINATOR_FENCED,
        KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
        KafkaError.NOT_COORDINATOR,
    }
)
#: Topic, partition and error.
_Answer: TypeAlias = tuple[str, int, KafkaError]


class TransactionalProducer:
    """Commits records under one ``transactional.id``. Every method blocks. One thread at a time may use it.

    ``producer`` is librdkafka's, configured with ``transactional``; nobody else may use it. ``watch`` is its
    logger, if its address may come to mean another cluster.
    """

    def __init__(
        self,
        producer: Producer,
        transactional_id: str,
        limit_bytes: int,
        watch: ClusterWatch | None = None,
    ) -> None:
        self._id = transactional_id
        self._watch = watch or ClusterWatch(_log)
        self._limit = limit_bytes
        self._failed: KafkaError | None = None
        self._refusal: RecordRefused | None = None
        #: The answer with which a broker did not take a record of the last attempt.
        self._answer: _Answer | None = None
        self._given_up = threading.Event()
        self._producer = producer
        self._has_opened = False
        #: Whether a transaction was begun and, as far as is known, has not ended.
        self.is_amid = False

    def open(self) -> None:
        """Fence every earlier writer of this id, and end the transaction that it left open (step O1).

        Waits for the broker without limit. Raises ``DeliveryError`` when the broker refuses, and
        ``GivenUpError`` after ``give_up``, as ``commit`` does.
        """
        self._require_wanted()
        self._insist("init_transactions", lambda: self._producer.init_transactions(_CALL_S))
        self._has_opened = True

    def commit(self, records: Sequence[Record], *, insist: bool = True) -> dict[tuple[str, int], int]:
        """Write ``records`` and commit them (steps 5 and 6); repeat without limit while the broker is away.

        Returns, for each topic and partition, the offset after the last of these records. Before the first
        attempt it aborts a transaction that an exception left open.

        Raises ``DeliveryError`` when this writer is fenced, a record is refused, or the coordinator keeps
        aborting: nothing was committed then, and the process must end. Without ``insist`` it raises
        ``RecordRefused`` as soon as a topic refuses a record permanently, or when a broker has refused a
        record in each of five attempts. The pauses between such attempts become longer, since the broker's
        trouble may pass. After ``RecordRefused`` the producer can go on.
        """
        self._require_wanted()
        self.abort_left()
        answers: list[_Answer | None] = []
        for attempt in range(_ATTEMPTS_MAX):
            try:
                ends = self._write(records)
                self._finish()
            except _AbortedError as aborted:
                cause = str(aborted)
            else:
                return ends
            _log.warning("a transaction of %s is repeated (%d): %s", self._id, attempt + 1, cause)
            self._abort()
            if self._refusal is not None and not insist:
                raise self._refusal
            answers.append(self._answer)
            if self._answer is not None and not insist:
                self._given_up.wait(_ANSWERED_PAUSE_S * 2**attempt if attempt + 1 < _ATTEMPTS_MAX else 0.0)
                self._require_wanted()
        refused_by = [answer for answer in answers if answer is not None]
        if len(refused_by) == _ATTEMPTS_MAX and not insist:
            raise marker_refused(*refused_by[-1])
        raise DeliveryError(
            f"The transaction coordinator aborted {_ATTEMPTS_MAX} transactions of {self._id} in a row; "
            "nothing of them is visible. The worker ends, its successor repeats them; see the broker's log"
        )

    def abort_left(self) -> None:
        """Abort the transaction that an exception left open, if there is one. Raises ``DeliveryError``.

        Records that were given to the client go out first. If the client aborted while it still tells the
        coordinator which partitions take part, the coordinator would know of no transaction, and refuse.
        """
        if self.is_amid:
            self._insist("flush", self._flush)
            self._abort()

    def require_not_fenced(self, record: Record) -> None:
        """Raise ``DeliveryError`` if another writer of this id has opened after this one.

        Writes ``record`` in a transaction and aborts it, so committed readers never see the record.
        """
        self.abort_left()
        try:
            self._write([record])
        except _AbortedError as aborted:
            _log.info("a transaction of %s that only asks was refused: %s", self._id, aborted)
        self._abort()

    def commit_once(self, records: Sequence[Record]) -> None:
        """Write ``records`` and commit them as ``commit`` does, but neither abort nor repeat (step M3c).

        This is for a producer whose address may come to mean another cluster. The other cluster does not know
        the producer, so it refuses the transaction. But to abort, librdkafka asks that cluster for a new
        producer id, and with that a repetition would succeed there. Raises ``RecordRefused`` when a topic
        refuses a record permanently, and ``DeliveryError`` for every other reason that leaves the transaction
        uncommitted. The next writer that opens aborts the transaction; this writer has to be replaced.
        """
        try:
            self._write(records)
            self._finish()
        except _AbortedError as aborted:
            if self._refusal is not None:
                raise self._refusal from None
            raise DeliveryError(f"A transaction of {self._id} was not committed: {aborted}") from None

    def cluster_id(self, topic: str) -> str:
        """Return the id of the only cluster that the producer has talked to. The question names ``topic``.

        Raises ``RetryError`` without an answer. Raises ``SinkHeld`` once another cluster was seen, since it
        is unknown which of the two refused what; another producer is needed then.
        """
        return self._watch.only_cluster(self._producer, topic, _CALL_S, self._id)

    def give_up(self) -> None:
        """Make the call under way, and all later ones, raise ``GivenUpError`` instead of repeating.

        Any thread may call it. The next writer aborts an open transaction.
        """
        self._given_up.set()

    def close(self) -> None:
        """Close the connections. The next writer aborts an open transaction.

        The client's own ``close`` would first abort the transaction: that waits without limit while the
        broker is away, and asks whatever cluster is at the address.
        """
        if self.is_amid:
            self._producer.purge()
            with suppress(KafkaException, SystemError):  # how it ended is known
                self._producer.poll(0)  # purged records keep the client alive until they are reported
            return
        if not self._has_opened:
            # The client would complain of the ``open`` that was given up. It would repeat its request too,
            # and fence later writers, while anything refers to it, such as the traceback of that ``open``.
            with suppress(AttributeError):
                del self._producer
            return
        try:
            self._producer.close()
        except KafkaException as failure:
            _log.debug("a transaction of %s was not aborted: %s", self._id, failure.args[0].str())

    def _write(self, records: Iterable[Record]) -> dict[tuple[str, int], int]:
        ends: dict[tuple[str, int], int] = {}

        def delivered(error: KafkaError | None, message: Any) -> None:
            begin_report()
            if error is None:
                ends[message.topic(), message.partition()] = message.offset() + 1
            else:
                self._failed = self._failed or error
                self._note_refusal(message.topic(), message.partition(), error)

        self._failed = self._refusal = self._answer = None
        self._insist("begin_transaction", self._producer.begin_transaction)
        self.is_amid = True
        for record in records:
            self._produce(record, delivered)
        self._insist("flush", self._flush)
        if self._failed is not None:
            raise _AbortedError(self._failed.str())
        return ends

    def _flush(self) -> None:
        try:
            while self._producer.flush(_CALL_S):
                self._require_wanted()
                _log.warning("records of a transaction of %s wait for the broker", self._id)
        except SystemError:
            # A report came after the fatal error that the client raises here. The next call raises that error
            # again.
            _log.warning("a transaction of %s was not delivered", self._id)

    def _abort(self) -> None:
        self._insist("abort_transaction", lambda: self._producer.abort_transaction(_CALL_S))
        self.is_amid = False

    def _finish(self) -> None:
        self._insist("commit_transaction", lambda: self._producer.commit_transaction(_CALL_S))
        self.is_amid = False

    def _produce(self, record: Record, delivered: Callable[[KafkaError | None, Any], None]) -> None:
        error = self._error_of_produce(record, delivered)
        if error is None:
            return
        if is_fatal(error):
            self._finish()  # raises the error itself; ``produce`` may only say that it was fatal
            raise self._fatal("produce", error)
        self._note_refusal(record.topic, record.partition, error)
        if self._refusal is not None and not is_too_large(error):
            raise _AbortedError(error.str())
        raise refused(record, self._limit, error)

    def _error_of_produce(
        self, record: Record, delivered: Callable[[KafkaError | None, Any], None]
    ) -> KafkaError | None:
        """Hand ``record`` to the client; return its error if it refuses the record.

        An exception that the client raises while its last one is still handled is never freed, nor are the
        client and its threads. So the handling of an exception of ``produce`` ends before the client is
        called again.
        """
        topic, partition, key, value, timestamp_ms, headers = record
        while True:
            try:
                self._producer.produce(
                    topic, value, key, partition, delivered, None, timestamp_ms, list(headers)
                )
            except BufferError:
                pass  # the local queue is full
            except KafkaException as failure:
                error: KafkaError = failure.args[0]
                return error
            else:
                return None
            self._require_wanted()
            self._producer.poll(_BACKOFF_S)

    def _note_refusal(self, topic: str, partition: int, error: KafkaError) -> None:
        if self._answer is None and _is_answer(error):
            self._answer = topic, partition, error
        if self._refusal is None and is_for_good(error):
            self._refusal = marker_refused(topic, partition, error)

    def _insist(self, name: str, call: Callable[[], None]) -> None:
        """Repeat ``call`` while the broker does not answer."""
        while True:
            try:
                return call()
            except KafkaException as failure:
                error: KafkaError = failure.args[0]
                if error.txn_requires_abort():
                    raise _AbortedError(error.str()) from None
                if not error.retriable():
                    raise self._fatal(name, error) from None
                self._require_wanted()
                _log.warning(
                    "a transaction of %s waits for the broker in %s: %s", self._id, name, error.str()
                )
                time.sleep(_BACKOFF_S)

    def _require_wanted(self) -> None:
        if self._given_up.is_set():
            raise GivenUpError

    def _fatal(self, name: str, error: KafkaError) -> DeliveryError:
        if error.code() in _FENCED:
            return ProducerFenced(
                f"Another worker has taken over {self._id} from this one, which was taken for dead, or Kafka "
                f"gave up a transaction that was open for {TRANSACTION_TIMEOUT_MS // 1000} s ({name}: "
                f"{error.str()}). Nothing of it is visible; whoever owns it goes on from what is committed"
            )
        return DeliveryError(f"{name} of {self._id} failed for good: {error.str()}")


def _is_answer(error: KafkaError) -> bool:
    """Return whether the error is a broker's answer that refuses a record, and producer and transaction are
    not at fault."""
    told = error.code() >= KafkaError.UNKNOWN  # a broker's; librdkafka's own are far below
    return told and not is_of_the_producer(error) and error.code() not in _OF_TRANSACTIONS


class GivenUpError(Exception):
    """Raised because nobody waits for the transaction any more. Whether it is committed is not known."""


class _AbortedError(Exception):
    """Raised because the coordinator wants the transaction aborted. The transaction may be written again."""


def is_fatal(error: KafkaError) -> bool:
    """Return whether the producer can do nothing more.

    An error of ``produce`` shows that by its code alone.
    """
    return bool(error.fatal()) or error.code() == KafkaError._FATAL  # noqa: SLF001 - its public name


def refused(record: Record, limit_bytes: int, cause: KafkaError) -> DeliveryError:
    """Return the error for a record that ``produce`` refused."""
    size = len(record.key or b"") + len(record.value or b"")
    where = f"{record.topic} partition {record.partition}, key {(record.key or b'').hex()}"
    if cause.code() == KafkaError.MSG_SIZE_TOO_LARGE:
        return DeliveryError(
            f"A record of {size} bytes for {where} is above the limit of {limit_bytes} bytes. Nothing of its "
            "batch is acknowledged. Raise TIDEGATE_MAX_RECORD_BYTES and the topic's max.message.bytes"
        )
    return DeliveryError(f"A record of {size} bytes for {where} was refused: {cause.str()}")
