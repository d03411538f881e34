"""Rows that a topic refuses for good: which answers of Kafka say that, and the sentence for the feed that
fails.

When a producer comes to its end all of its rows are lost, but none of them is at fault: another producer
writes them again (docs/protocols/refused-rows.md).
"""

from __future__ import annotations

from typing import Any, Final

from confluent_kafka import KafkaError

from tidegate.changefeed.definition.oversize import RECORD_ROOM
from tidegate.client.kafka.record_limit import RecordLimit
from tidegate.errors import RecordRefused, RowRefused

#: How long librdkafka waits for a topic that it does not know before it refuses the topic's rows; seconds.
UNKNOWN_FOR_S: Final = 30.0

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
}
_LEAVE_OUT: Final = (
    f"A feed with on_oversize='key_only' whose max_row_bytes is {RECORD_ROOM} below that limit, or lower, "
    "writes such rows without their values"
)
_RECREATE: Final = "Create the feed again, on topics of its own"


def is_of_the_row(error: KafkaError) -> bool:
    """Return whether the row or its topic is at fault, so that no repetition would deliver the row."""
    return error.code() not in _OF_THE_PRODUCER


def reported_refusal(error: KafkaError, message: Any) -> RowRefused | None:
    """Return the refusal that a delivery report with an ``error`` tells of.

    ``message`` is the report's row. Returns ``None`` where the row was given up, and is not at fault.
    """
    if not is_of_the_row(error):
        return None
    return row_refused(message.topic(), message.partition(), message.key(), message.value(), error)


def is_too_large(error: KafkaError) -> bool:
    """Return whether the record is larger than some limit allows."""
    return bool(error.code() == KafkaError.MSG_SIZE_TOO_LARGE)


def is_for_good(error: KafkaError) -> bool:
    """Return whether a record of a transaction stays refused, even if the transaction is repeated."""
    return error.code() in _FOR_GOOD


def marker_refused(topic: str, partition: int, error: KafkaError) -> RecordRefused:
    """Return why this marker cannot be written, and no later one either."""
    if error.code() in _GONE:
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
    """Return why a feed cannot go on after this row.

    ``limit`` is tidegate's own limit, if the row may be above that.
    """
    key = key or b""
    size = len(key) + len(value or b"")
    row = f"a row of {size} bytes for {topic} partition {partition}, key {key.hex()}"
    if error.code() in _GONE:
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


def _gone(topic: str, partition: int) -> str:
    return (
        f"the topic {topic} has had no partition {partition} for {UNKNOWN_FOR_S:.0f} s: it was deleted, or "
        "the broker has lost it"
    )
