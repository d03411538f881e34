"""Asks the brokers for offsets of partitions: their beginnings, their ends, or their offsets at a time."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

import confluent_kafka
from confluent_kafka import IsolationLevel, KafkaError, KafkaException
from confluent_kafka.admin import AdminClient

from tidegate.verify import TopicPartition

#: The client asked the leader that it knows. Since then this leader has begun anew, or another one leads.
_FORMER_LEADER: Final = frozenset(
    {
        KafkaError.FENCED_LEADER_EPOCH,
        KafkaError.UNKNOWN_LEADER_EPOCH,
        KafkaError.NOT_LEADER_FOR_PARTITION,
    }
)


def listed_offsets(
    admin: AdminClient,
    asked: Mapping[confluent_kafka.TopicPartition, Any],
    isolation: IsolationLevel,
    timeout_s: float,
) -> dict[TopicPartition, int]:
    """Return the offset of each partition; -1 if no record is at or above the time that was asked for.

    Asks once, in one request to each broker, and once more if the client knew a former leader. Raises
    ``KafkaException`` when any of them does not answer.

    librdkafka 2.16 reports no error when a connection is lost during the question (``rdkafka_admin.c``: the
    merge of the brokers' answers leaves out one that failed). The partitions of that broker then have no
    offset, which counts as no answer here.
    """
    try:
        return _listed(admin, asked, isolation, timeout_s)
    except KafkaException as failure:
        if not names_former_leader(failure.args[0]):
            raise
    learn_leaders(admin, {place.topic for place in asked}, timeout_s)
    return _listed(admin, asked, isolation, timeout_s)


def names_former_leader(error: KafkaError) -> bool:
    """Return whether a client asked a former leader of a partition, or named a leader's former epoch.

    The client goes on with the former leader or epoch for minutes, up to ``metadata.max.age.ms`` (librdkafka
    2.16). `learn_leaders` ends that. A broker that is killed and comes back has a new epoch.
    """
    return error.code() in _FORMER_LEADER


def learn_leaders(client: AdminClient, topics: Iterable[str], timeout_s: float) -> None:
    """Have a client ask who leads the partitions of these topics. Raises ``KafkaException``."""
    for topic in sorted(topics):
        client.list_topics(topic, timeout=timeout_s)


def _listed(
    admin: AdminClient,
    asked: Mapping[confluent_kafka.TopicPartition, Any],
    isolation: IsolationLevel,
    timeout_s: float,
) -> dict[TopicPartition, int]:
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
