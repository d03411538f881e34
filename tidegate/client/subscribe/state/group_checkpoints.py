"""Checkpoints in the offsets of consumer groups, fenced by Kafka's transactions.

The name of a checkpoint is the group's. A token is committed in a transaction, so all offsets of the group
change or none does. Its transactional id is made of the group's name. When another process acquires the
checkpoint, the broker raises the epoch of that id, ends an open transaction, and refuses the former producer
from then on. So the broker compares epochs and writes in one step.

The consumer's table is no part of the transaction. A batch that was applied, and whose token was not stored,
comes again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Final, NamedTuple, TypeVar

import confluent_kafka
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer

from tidegate.client.kafka.cluster import Cluster, partitions_of
from tidegate.client.kafka.connection import KafkaConnection
from tidegate.client.subscribe.state.checkpoint import (
    Clock,
    fenced,
    next_epoch,
    require_name,
    wall_clock_ms,
)
from tidegate.client.subscribe.state.group_metadata import GroupOffset, group_offsets, read_group
from tidegate.errors import StateError, TidegateError
from tidegate.subscribe.gate.feed_record import FeedPartition
from tidegate.subscribe.updates.first_error import FirstError
from tidegate.verify import TopicPartition

T = TypeVar("T")

#: The prefix of the transactional id of a group's checkpoint. In Kafka a login can be bound to such a prefix.
TRANSACTIONAL_PREFIX: Final = "tidegate-checkpoint-"
_TRANSACTION_TIMEOUT_MS: Final = 60_000  # the broker ends one that a dead process has left open
_CALL_S: Final = 5.0
_BACKOFF_S: Final = 0.2
#: Errors that pass: the group has, or gets, another coordinator.
_PASSING: Final = frozenset(
    {
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.NOT_COORDINATOR,
    }
)
#: Errors that say that a newer producer has the transactional id, or that the broker has forgotten the id
#: (after 7 idle days), so that anyone may have it.
_FENCED: Final = frozenset(
    {
        KafkaError._FENCED,  # noqa: SLF001 - its public name
        KafkaError.INVALID_PRODUCER_EPOCH,
        KafkaError.INVALID_PRODUCER_ID_MAPPING,
    }
)


class CheckpointEpoch(NamedTuple):
    """A checkpoint that ``acquire`` has acquired: its name, its new epoch, and the token that it found."""

    name: str
    epoch: int
    token: str | None


class HeldGroup:
    """A checkpoint in a group's offsets that this process has acquired. Close it.

    After an error each call raises the same error. Acquire the checkpoint again then, since it may not be
    known whether the token was stored.
    """

    def __init__(
        self,
        connection: KafkaConnection,
        producer: Producer,
        group: Any,
        first: TopicPartition,
        epoch: CheckpointEpoch,
    ) -> None:
        """``first`` is any partition of the topics: ``require_held`` asks the broker with it."""
        self.name, self.epoch, self.token = epoch
        self._connection = connection
        self._producer: Producer | None = producer
        self._group = group
        self._first = first
        self._first_error = FirstError()

    def commit(self, token: str) -> None:
        """Store a token: all its offsets, or nothing.

        Raises ``Fenced``; ``TokenRefused`` for a token without offsets; ``StateError`` where the broker
        refuses it; ``BrokerUnavailable`` where it does not answer, and the token may be stored.
        """
        with self._first_error:
            producer = self._open_producer()
            offsets = group_offsets(token, self.epoch, self.name)
            places = [
                confluent_kafka.TopicPartition(*place, each.offset, each.metadata)
                for place, each in offsets.items()
            ]
            try:
                self._commit(producer, places)
            except KafkaException as error:
                raise self._failed(error.args[0]) from None

    def require_held(self) -> None:
        """Ask the broker whether this is still the last process that acquired the checkpoint.

        It begins a transaction with one offset, which the broker refuses from an older holder, and aborts it:
        the stored offsets stay. Raises as ``commit``.
        """
        with self._first_error:
            producer = self._open_producer()
            place = confluent_kafka.TopicPartition(*self._first, 0)
            doing = f"asking who holds the checkpoint {self.name}"
            try:
                producer.begin_transaction()
                send = partial(producer.send_offsets_to_transaction, [place], self._group, _CALL_S)
                insist(send, self._connection, doing)
                insist(partial(producer.abort_transaction, _CALL_S), self._connection, doing)
            except KafkaException as error:
                raise self._failed(error.args[0]) from None

    def _open_producer(self) -> Producer:
        if self._producer is None:
            raise StateError(f"The checkpoint {self.name} is closed: acquire it again")
        return self._producer

    def close(self) -> None:
        """Release the connections. The next process to acquire the checkpoint ends an open transaction."""
        # The producer's own ``close`` would abort first, and wait if the broker is away.
        self._producer = None

    def _commit(self, producer: Producer, places: Sequence[confluent_kafka.TopicPartition]) -> None:
        doing = f"committing offsets of the group {self.name}"
        producer.begin_transaction()
        try:
            send = partial(producer.send_offsets_to_transaction, places, self._group, _CALL_S)
            insist(send, self._connection, doing)
            insist(partial(producer.commit_transaction, _CALL_S), self._connection, doing)
        except KafkaException as error:
            if error.args[0].txn_requires_abort():
                with suppress(KafkaException):  # the broker ends it, or who acquires the checkpoint next
                    producer.abort_transaction(_CALL_S)
            raise

    def _failed(self, cause: KafkaError) -> TidegateError:
        if cause.code() in _FENCED or cause.fatal():  # either way this producer commits no more
            return fenced(self.name, self.epoch, cause.str())
        if cause.code() < 0:
            return self._connection.away(f"committing offsets of the group {self.name}", cause.str())
        more = ""
        if cause.code() == KafkaError.OFFSET_METADATA_TOO_LARGE:
            more = ", whose offset.metadata.max.bytes is too low for a checkpoint (4096 is the default)"
        return StateError(
            f"Kafka at {self._connection.bootstrap_servers} refused the checkpoint {self.name}{more}: "
            f"{cause.str():.300}. The token before stays"
        )


class GroupCheckpoints:
    """Checkpoints in consumer groups of one cluster. A checkpoint has the name of its group."""

    def __init__(
        self, connection: KafkaConnection, topics: Sequence[str], clock: Clock = wall_clock_ms
    ) -> None:
        """``topics`` are those that the subscription reads."""
        self._connection = connection
        self._topics = topics
        self._clock = clock

    def acquire(self, name: str) -> HeldGroup:
        """Fence every earlier holder, and return the group's token.

        Raises ``BrokerUnavailable``, ``InputError`` for a topic that does not exist, and the errors that
        `CheckpointStore` names.
        """
        require_name(name)
        partitions = partitions_of(Cluster(self._connection).partition_counts(self._topics))
        producer = self._connection.open(
            Producer,
            {
                "transactional.id": f"{TRANSACTIONAL_PREFIX}{name}",
                "transaction.timeout.ms": _TRANSACTION_TIMEOUT_MS,
            },
        )
        doing = f"acquiring the checkpoint {name}"
        with self._connection.asking(doing):
            insist(lambda: producer.init_transactions(_CALL_S), self._connection, doing)
            # Not before: now what the former holder had begun is committed or aborted, and it commits no
            # more.
            group, found = self._group(name, partitions)
        stored = read_group(found, name)
        epoch = next_epoch(stored.epoch, self._clock())
        taken = CheckpointEpoch(name, epoch, stored.token)
        return HeldGroup(self._connection, producer, group, partitions[0], taken)

    def _group(
        self, name: str, partitions: Sequence[TopicPartition]
    ) -> tuple[Any, dict[FeedPartition, GroupOffset]]:
        """Return the group's name as producers want it, and its offsets.

        A consumer is asked for them, of partitions that are known. The admin client could list them, but in
        librdkafka 2.16 that ends the process where the group's coordinator has just moved (issue 5040).
        """
        consumer = self._connection.open(Consumer, {"group.id": name, "isolation.level": "read_committed"})
        try:
            asked = [confluent_kafka.TopicPartition(*place) for place in partitions]
            found = insist(
                lambda: consumer.committed(asked, self._connection.timeout_s),
                self._connection,
                f"reading the offsets of the group {name}",
            )
            group = consumer.consumer_group_metadata()
        finally:
            consumer.close()
        for each in found:
            if each.error is not None:
                raise KafkaException(each.error)
        return group, {
            FeedPartition(each.topic, each.partition): GroupOffset(each.offset, each.metadata or "")
            for each in found
            if each.offset >= 0
        }


def insist(call: Callable[[], T], connection: KafkaConnection, doing: str) -> T:
    """Repeat a call while no broker answers it, or while the group has no coordinator or another one.

    Raises ``BrokerUnavailable`` after the connection's timeout.
    """
    end = time.monotonic() + connection.timeout_s
    while True:
        try:
            return call()
        except KafkaException as failure:
            cause: KafkaError = failure.args[0]
            if not cause.retriable() and cause.code() not in _PASSING:
                raise
            if time.monotonic() > end:
                raise connection.away(doing, cause.str()) from None
        time.sleep(_BACKOFF_S)
