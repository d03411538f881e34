"""A producer that is fenced amid a transaction ends it by the sentence that says so; one whose address has
meant another cluster says that."""

from __future__ import annotations

import logging
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from tidegate.client.kafka.cluster_watch import ClusterWatch
from tidegate.client.kafka.transaction import Record, TransactionalProducer
from tidegate.errors import DeliveryError, SinkHeld


class Fenced:
    """librdkafka's producer behind another one of its id: ``produce`` tells only that all is over."""

    def begin_transaction(self) -> None:
        """It has not heard of it yet."""

    def produce(self, *_: Any) -> None:
        raise KafkaException(KafkaError(KafkaError._FATAL, "Local: Fatal error"))

    def commit_transaction(self, _: float) -> None:
        raise KafkaException(KafkaError(KafkaError._FENCED, "fenced", fatal=True))


def test_who_is_fenced_before_a_record_is_told_of_the_successor() -> None:
    producer = TransactionalProducer(Fenced(), "app-0", 1_000_000)
    with pytest.raises(DeliveryError, match=r"Another worker has taken over app-0"):
        producer.commit([Record("topic", 0, b"key", b"value")])


class Stranger:
    """librdkafka's producer before a cluster that does not know it: the transaction has to be aborted."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    def begin_transaction(self) -> None:
        self.calls.append("begin")

    def produce(self, *_: Any) -> None:
        self.calls.append("produce")

    def flush(self, _: float) -> int:
        return 0

    def commit_transaction(self, _: float) -> None:
        self.calls.append("commit")
        unknown = KafkaError.INVALID_PRODUCER_ID_MAPPING
        raise KafkaException(KafkaError(unknown, "who is that?", False, False, True))

    def abort_transaction(self, _: float) -> None:
        self.calls.append("abort")

    def close(self) -> None:
        self.abort_transaction(-1)

    def purge(self) -> None:
        self.calls.append("purge")

    def poll(self, _: float) -> int:
        return 0


def test_a_transaction_that_may_be_elsewhere_by_now_is_neither_aborted_nor_repeated() -> None:
    client = Stranger()
    producer = TransactionalProducer(client, "app-0", 1_000_000)
    with pytest.raises(DeliveryError, match=r"transaction of app-0 was not committed: who is that\?"):
        producer.commit_once([Record("topic", 0, b"key", b"value")])
    assert client.calls == ["begin", "produce", "commit"]
    producer.close()
    assert client.calls[3:] == ["purge"], "the client's own `close` aborts, for as long as that takes"


class Elsewhere:
    """librdkafka's producer, which has talked to another cluster between two questions."""

    def __init__(self, watch: ClusterWatch) -> None:
        self._watch = watch
        self.lines = 0

    def list_topics(self, topic: str, timeout: float) -> Any:
        return SimpleNamespace(cluster_id="home")

    def poll(self, timeout: float) -> int:
        while self.lines:
            self.lines -= 1
            self._watch.log(30, "%s [%s] %s", "CLUSTERID", "producer", "another ClusterId")
        return 0


def test_a_producer_that_has_seen_another_cluster_no_longer_tells_an_id() -> None:
    watch = ClusterWatch(logging.getLogger("test"))
    client = Elsewhere(watch)
    producer = TransactionalProducer(client, "app-0", 1_000_000, watch)
    assert producer.cluster_id("topic") == "home"
    client.lines = 1
    for _ in range(2):
        with pytest.raises(SinkHeld, match="came to mean another Kafka cluster while app-0 talked to it"):
            producer.cluster_id("topic")
