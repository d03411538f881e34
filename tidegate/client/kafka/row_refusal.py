"""Rows that a topic refuses permanently: the answers of Kafka that say that, and the sentence for the feed
that fails.

When a producer ends, all rows that it still has are lost, but none of them is at fault: another producer
writes them again. Another producer also writes a row again if its error is not in ``_FOR_GOOD``: only the
errors in that set are known to come each time (docs/protocols/refused-rows.md, R4a and R4b).
"""

from __future__ import annotations

import logging
from typing import Any, Final

from confluent_kafka import KafkaError

from tidegate.changefeed.definition.oversize import RECORD_ROOM
from tidegate.client.kafka.record_limit import RecordLimit
from tidegate.delivery.refused_rows import UNKNOWN_FOR_S
from tidegate.errors import RecordRefused, RowDoubted, RowRefused
from tidegate.processor.containment import unforeseen

_GONE: Final = frozenset(
    {
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError._UNKNOWN_TOPIC,  # noqa: SLF001 - these are their public names
        KafkaError._UNKNOWN_PARTITION,  # noqa: SLF001
    }
)
#: Errors of rows that were not sent, or not answered, when their producer ended.
_OF_THE_PRODUCER: Final = frozenset(
    {
        KafkaError._PURGE_QUEUE,  # noqa: SLF001
        KafkaError._PURGE_INFLIGHT,  # noqa: SLF001
        KafkaError._FATAL,  # noqa: SLF001
        KafkaError._GAPLESS_GUARANTEE,  # noqa: SLF001
        KafkaError._FENCED,  # noqa: SLF001
        KafkaError._DESTROY,  # noqa: SLF001
        KafkaError._TRANSPORT,  # noqa: SLF001
        KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER,
        KafkaError.DUPLICATE_SEQUENCE_NUMBER,
        KafkaError.UNKNOWN_PRODUCER_ID,
        KafkaError.INVALID_PRODUCER_EPOCH,
        KafkaError.INVALID_PRODUCER_ID_MAPPING,
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,
    }
)
#: Errors that no repetition mends; a missing topic is among them.
_FOR_GOOD: Final = _GONE | {
    KafkaError.MSG_SIZE_TOO_LARGE,
    KafkaError.INVALID_RECORD,
    KafkaError.POLICY_VIOLATION,
    KafkaError.TOPIC_EXCEPTION,
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
    KafkaError.RECORD_LIST_TOO_LARGE,
    KafkaError.INVALID_TIMESTAMP,
    KafkaError.UNSUPPORTED_FOR_MESSAGE_FORMAT,
    KafkaError._INVALID_ARG,  # noqa: SLF001 - the row names a topic that cannot exist
}
_LEAVE_OUT: Final = (
    f"A feed with on_oversize='key_only' whose max_row_bytes is {RECORD_ROOM} below that limit, or lower, "
    "writes such rows without their values"
)
_RECREATE: Final = "Create the feed again, on topics of its own"

_log = logging.getLogger("tidegate.feeds")


def is_of_the_producer(error: KafkaError) -> bool:
    """Return whether the error says that the producer has ended or will end, and that no record is at
    fault."""
    return error.code() in _OF_THE_PRODUCER


def is_gone(error: KafkaError) -> bool:
    """Return whether no broker knows the topic, or its partition."""
    return error.code() in _GONE


def reported_refusal(error: KafkaError, message: Any) -> RowRefused | None:
    """Return the refusal that a delivery report with an ``error`` tells of, as ``refusal_of`` does.

    ``message`` is the report's row.
    """
    return refusal_of(message.topic(), message.partition(), message.key(), message.value(), error)


def refusal_of(
    topic: str,
    partition: int,
    key: bytes | None,
    value: bytes | None,
    error: KafkaError,
    limit: RecordLimit | None = None,
) -> RowRefused | None:
    """Return the refusal that an ``error`` means for a row. ``limit`` is as in ``row_refused``.

    Returns ``RowDoubted`` for an error that is not known to come each time: it may pass (step R4b). Returns
    ``None`` if the row was given up with its producer, and is not at fault (step R4a).
    """
    if is_of_the_producer(error):
        return None
    if is_for_good(error):
        return row_refused(topic, partition, key, value, error, limit)
    return RowDoubted(f"the broker does not take {_row(topic, partition, key, value)}: {error.str()}")


def is_too_large(error: KafkaError) -> bool:
    """Return whether the record is larger than some limit allows."""
    return bool(error.code() == KafkaError.MSG_SIZE_TOO_LARGE)


def is_for_good(error: KafkaError) -> bool:
    """Return whether the record stays refused, even if it or its transaction is written again."""
    return error.code() in _FOR_GOOD


def marker_refused(topic: str, partition: int, error: KafkaError) -> RecordRefused:
    """Return the error that says why neither this marker nor a later one can be written."""
    if is_gone(error):
        return RecordRefused(f"{_gone(topic, partition)}, so no marker can be written. {_RECREATE}")
    return RecordRefused(
        f"{topic} partition {partition} does not take a marker: {error.str()}. Mend that, then create the "
        "feed again"
    )


def row_refused(
    topic: str,
    partition: int,
    key: bytes | None,
    value: bytes | None,
    error: KafkaError,
    limit: RecordLimit | None = None,
) -> RowRefused:
    """Return the error that says why a feed cannot go on after this row.

    ``limit`` is tidegate's own limit, if the row may be above that.
    """
    row = _row(topic, partition, key, value)
    if is_gone(error):
        return RowRefused(f"{_gone(topic, partition)}. Nowhere to write {row}. {_RECREATE}")
    if not is_too_large(error):
        return RowRefused(
            f"the broker does not take {row}: {error.str()}. Mend that, then create the feed again"
        )
    if limit is not None:
        return RowRefused(
            f"{row}, is above the limit of {limit.max_bytes} bytes ({limit.name}). To have it written "
            f"{limit.mend}, give the topic a higher max.message.bytes, and create the feed again. "
            f"{_LEAVE_OUT}"
        )
    return RowRefused(
        f"the broker does not take {row}, or the batch that it was sent in: that is above the topic's "
        "max.message.bytes. Raise that to 1048588, Kafka's default, or above the size of the row, and create "
        f"the feed again. {_LEAVE_OUT}"
    )


def row_broke(
    topic: str, partition: int, key: bytes | None, value: bytes | None, error: Exception
) -> RowRefused:
    """Return the error that says why a feed fails: an unforeseen exception came when this row was given to
    the client.

    Raises ``error`` if the process is at fault, for example if memory runs out.
    """
    reason = unforeseen(error, keeps=False)
    _log.error(
        "an exception fails the feed of a row for %s partition %d: %s",
        topic,
        partition,
        reason,
        exc_info=error,
    )
    return RowRefused(f"the client does not take {_row(topic, partition, key, value)}: {reason}")


def _row(topic: str, partition: int, key: bytes | None, value: bytes | None) -> str:
    key = key or b""
    size = len(key) + len(value or b"")
    return f"a row of {size} bytes for {topic} partition {partition}, key {key.hex()}"


def _gone(topic: str, partition: int) -> str:
    return (
        f"the topic {topic} has had no partition {partition} for {UNKNOWN_FOR_S:.0f} s: it was deleted, or "
        "the broker has lost it"
    )
