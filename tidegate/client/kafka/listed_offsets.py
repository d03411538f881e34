"""Asks the brokers for offsets of partitions: their beginnings, their ends, or their offsets at a time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import confluent_kafka
from confluent_kafka import IsolationLevel, KafkaError, KafkaException
from confluent_kafka.admin import AdminClient

from tidegate.verify import TopicPartition


def listed_offsets(
    admin: AdminClient,
    asked: Mapping[confluent_kafka.TopicPartition, Any],
    isolation: IsolationLevel,
    timeout_s: float,
) -> dict[TopicPartition, int]:
    """Return the offset of each partition; -1 if no record is at or above the time that was asked for.

    Asks once, in one request to each broker. Raises ``KafkaException`` when any of them does not answer.

    librdkafka 2.16 reports no error when a connection is lost during the question (``rdkafka_admin.c``: the
    merge of the brokers' answers leaves out one that failed). The partitions of that broker then have no
    offset, which counts as no answer here.
    """
    answers = admin.list_offsets(dict(asked), isolation_level=isolation, request_timeout=timeout_s)
    return {
        TopicPartition(place.topic, place.partition): _known(place, answer.result().offset)
        for place, answer in answers.items()
    }


def _known(place: confluent_kafka.TopicPartition, offset: int) -> int:
    if offset == confluent_kafka.OFFSET_INVALID:
        lost = f"the broker of {place.topic}[{place.partition}] did not answer"
        raise KafkaException(KafkaError(KafkaError._TRANSPORT, lost))  # noqa: SLF001 - its public name
    return offset
