"""Asks a running store to split or merge a range, and waits for its answer in the log.

The commands ``tidegate sim split`` and ``tidegate sim merge`` do this.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Final, NamedTuple

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from sim.topics import log_topic, requests_topic
from tidegate.errors import BrokerUnavailable, InputError, MalformedEntry, TopologyError
from tidegate.raftlog.decode import decode_entry
from tidegate.raftlog.encode import partition_of
from tidegate.raftlog.entry import Snapshot, SnapshotReason
from tidegate.raftlog.request import AdminRequest, AdminSplit, encode_request

_TIMEOUT_S: Final = 10.0
_POLL_S: Final = 0.2


class ControlledStore(NamedTuple):
    """The address of a running store."""

    bootstrap: str
    topic_prefix: str = ""


def ask(store: ControlledStore, request: AdminRequest, timeout_s: float = _TIMEOUT_S) -> Snapshot:
    """Send a request; return the snapshot that shows it done.

    Raises ``BrokerUnavailable``; ``TopologyError`` if there is no topic of a store; ``InputError`` if the
    store has not done it within ``timeout_s`` seconds.
    """
    with _kafka_errors(store.bootstrap):
        place = _log_of(store, request)
        config = {**_config(store), "group.id": place.topic, "enable.auto.commit": False}
        with closing(Consumer(config)) as consumer:
            end = consumer.get_watermark_offsets(place, timeout=_TIMEOUT_S)[1]
            consumer.assign([TopicPartition(place.topic, place.partition, end)])
            _send(store, request, place.partition)
            return _answer(consumer, request, time.monotonic() + timeout_s)


def _config(store: ControlledStore) -> dict[str, str | int | bool]:
    # librdkafka is silent: this module reports each fault once
    return {"bootstrap.servers": store.bootstrap, "log_level": 0}


@contextmanager
def _kafka_errors(bootstrap: str) -> Iterator[None]:
    try:
        yield
    except KafkaException as error:
        raise BrokerUnavailable(
            f"Kafka at {bootstrap} does not answer ({error.args[0].str()}): start it, or correct the address"
        ) from None


def _log_of(store: ControlledStore, request: AdminRequest) -> TopicPartition:
    name = log_topic(store.topic_prefix)
    topics = AdminClient(_config(store)).list_topics(timeout=_TIMEOUT_S).topics
    if name not in topics or requests_topic(store.topic_prefix) not in topics:
        raise TopologyError(
            f"There is no topic {name} with its requests: start `tidegate sim run`, or correct the prefix"
        )
    return TopicPartition(name, partition_of(request.range_id, len(topics[name].partitions)))


def _send(store: ControlledStore, request: AdminRequest, partition: int) -> None:
    producer = Producer({**_config(store), "acks": "all"})
    key, value = encode_request(request)
    producer.produce(requests_topic(store.topic_prefix), value, key, partition)
    if producer.flush(_TIMEOUT_S):
        raise BrokerUnavailable(f"Kafka at {store.bootstrap} took no request: see its log, and ask again")


def _answer(consumer: Consumer, request: AdminRequest, deadline: float) -> Snapshot:
    reason = SnapshotReason.SPLIT if isinstance(request, AdminSplit) else SnapshotReason.MERGE
    while time.monotonic() < deadline:
        message = consumer.poll(_POLL_S)
        if message is None or message.error() is not None:
            continue
        try:
            entry = decode_entry(message.key(), message.value())
        except MalformedEntry:
            continue
        if isinstance(entry, Snapshot) and (entry.range_id, entry.reason) == (request.range_id, reason):
            return entry
    raise InputError(
        f"The store did nothing to range {request.range_id}. Either it does not run, or it has no such "
        "range, or the range does not have the key to split at, or no range of its table follows to merge "
        "it with"
    )
