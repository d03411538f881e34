"""Offsets of partitions, asked for over connections that are lost, on a real broker."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import closing, contextmanager
from threading import Timer
from types import SimpleNamespace
from typing import Any, Final, Protocol

import pytest
from confluent_kafka import OFFSET_INVALID, IsolationLevel, KafkaError, KafkaException
from confluent_kafka import TopicPartition as ConfluentPlace
from confluent_kafka.admin import OffsetSpec
from tenacity import Retrying, retry_if_exception_type, stop_after_delay, wait_fixed

from stack.kafka import KafkaBroker
from tests.moving_address import MovingAddress
from tests.unit.client.topics import create_topic, write
from tidegate.client.kafka import topic_admin
from tidegate.client.kafka.cluster import Bounds, Cluster
from tidegate.client.kafka.connection import KafkaConnection
from tidegate.client.kafka.listed_offsets import listed_offsets
from tidegate.client.kafka.topic_admin import open_admin
from tidegate.errors import BrokerUnavailable, RetryError
from tidegate.verify import TopicPartition, TopicRecord
from tidegate.worker.kafka.topology import WorkerTopicAdmin as WorkersAdmin
from tidegate.worker.process.settings import Settings

pytestmark = pytest.mark.broker

_PATIENCE_S: Final = 60.0
_SHORT_S: Final = 0.5
_AWAY_S: Final = 1.0

# A client's first answer may take longer than the short bound on a busy machine.
_UNTIL_ANSWERED: Final = Retrying(
    retry=retry_if_exception_type(BrokerUnavailable), stop=stop_after_delay(_PATIENCE_S), reraise=True
)
# A broker that has come back needs a moment before it leads its partitions.
_UNTIL_TOLD: Final = Retrying(
    retry=retry_if_exception_type(RetryError),
    stop=stop_after_delay(_PATIENCE_S),
    wait=wait_fixed(0.2),
    reraise=True,
)


class Ends(Protocol):
    """An object that asks where topics end, for markers and for Spark's reading of topics."""

    def ends(self, places: Sequence[tuple[str, int]]) -> Mapping[tuple[str, int], int]: ...


@pytest.fixture(scope="module")
def address() -> Iterator[MovingAddress]:
    """The one address of a broker of its own."""
    with closing(MovingAddress()) as address:
        settings = {"advertised.listeners": f"PLAINTEXT://{address.address}"}
        with KafkaBroker(settings=settings) as broker:
            address.means = broker.bootstrap
            yield address


@pytest.fixture
def place(address: MovingAddress, topic_prefix: str) -> TopicPartition:
    """A partition with two records."""
    place = TopicPartition(f"{topic_prefix}rows", 0)
    create_topic(address.address, place.topic)
    write(address.address, [TopicRecord(*place, -1, b"[1]", b"{}", 0)] * 2)
    return place


@contextmanager
def _lost(address: MovingAddress) -> Iterator[Callable[[], None]]:
    """End the connections, and take none until the function is called, or the block has ended."""
    broker, address.means = address.means, ""

    def back() -> None:
        address.means = broker

    address.cut()
    try:
        yield back
    finally:
        back()


def _of_workers(servers: str) -> Ends:
    return WorkersAdmin(Settings(bootstrap_servers=servers), patience_s=_PATIENCE_S)


def _of_spark(servers: str) -> Ends:
    return open_admin(KafkaConnection(servers), _PATIENCE_S)


class _OneOfTwoAnswers:
    """A client without a connection to the broker of the second partition, as librdkafka 2.16 tells it."""

    def list_offsets(self, asked: Mapping[Any, Any], **_: Any) -> Mapping[Any, Future[Any]]:
        answers = {}
        for place in asked:
            answers[place] = Future[Any]()
            offset = OFFSET_INVALID if place.partition == 1 else 7
            answers[place].set_result(SimpleNamespace(offset=offset))
        return answers


def test_of_a_question_that_one_broker_did_not_answer_no_offset_counts() -> None:
    asked = {ConfluentPlace("rows", number): OffsetSpec.latest() for number in (0, 1)}
    client: Any = _OneOfTwoAnswers()
    with pytest.raises(KafkaException, match=r"the broker of rows\[1\] did not answer"):
        listed_offsets(client, asked, IsolationLevel.READ_COMMITTED, _SHORT_S)


class _WithoutLeader:
    """A client whose brokers say that the partition has no leader."""

    def list_offsets(self, asked: Mapping[Any, Any], **_: Any) -> Mapping[Any, Future[Any]]:
        answer = Future[Any]()
        answer.set_exception(KafkaException(KafkaError(KafkaError.LEADER_NOT_AVAILABLE)))
        return dict.fromkeys(asked, answer)


def test_a_partition_without_a_leader_is_no_refusal(address: MovingAddress, place: TopicPartition) -> None:
    """Whoever asks waits for it: a refusal would fail feeds, and end queries."""
    cluster = Cluster(KafkaConnection(address.address, timeout_s=_SHORT_S))
    cluster._admin = _WithoutLeader()
    with pytest.raises(BrokerUnavailable, match="while asking where topics begin and end"):
        cluster.bounds([place])


@pytest.mark.parametrize("open_client", [_of_workers, _of_spark], ids=["workers", "spark"])
def test_a_lost_connection_is_no_end(
    address: MovingAddress,
    place: TopicPartition,
    open_client: Callable[[str], Ends],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """librdkafka says that the topic ends at -1001 then: a marker named that, or a later end had fallen."""
    client = open_client(address.address)
    with monkeypatch.context() as patient:
        patient.setattr(topic_admin, "_ENDS_S", _PATIENCE_S)
        assert client.ends([place]) == {place: 2}, "the client knows the leader now"
    with _lost(address), pytest.raises(RetryError, match="Kafka does not tell where the topics"):
        client.ends([place])


def test_a_leader_that_comes_back_is_asked_by_its_new_epoch(topic_prefix: str) -> None:
    """librdkafka 2.16 names the former epoch for minutes: no marker, and no query, would go on."""
    topic = f"{topic_prefix}rows"
    with KafkaBroker() as broker:
        create_topic(broker.bootstrap, topic)
        clients = [open_client(broker.bootstrap) for open_client in (_of_workers, _of_spark)]
        for client in clients:
            assert _UNTIL_ANSWERED(client.ends, [(topic, 0)]) == {(topic, 0): 0}
        broker.kill()
        broker.start()
        for client in clients:
            assert _UNTIL_TOLD(client.ends, [(topic, 0)]) == {(topic, 0): 0}


def test_commands_ask_again_when_a_connection_is_lost(address: MovingAddress, place: TopicPartition) -> None:
    cluster = Cluster(KafkaConnection(address.address, timeout_s=_PATIENCE_S))
    assert cluster.bounds([place]) == {place: Bounds(0, 2)}, "the client knows the leader now"
    with _lost(address) as back:
        Timer(_AWAY_S, back).start()
        assert cluster.bounds([place]) == {place: Bounds(0, 2)}


def test_commands_say_so_when_a_connection_stays_lost(address: MovingAddress, place: TopicPartition) -> None:
    cluster = Cluster(KafkaConnection(address.address, timeout_s=_SHORT_S))
    beginning = _UNTIL_ANSWERED(cluster.offsets_at, [place], time_ms=0)
    assert beginning == {place: 0}, "the client knows the leader now"
    with _lost(address), pytest.raises(BrokerUnavailable, match="gave no answer within 0"):
        cluster.offsets_at([place], time_ms=0)
