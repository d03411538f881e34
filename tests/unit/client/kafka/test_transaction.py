"""A producer that is fenced amid a transaction ends it by the sentence that says so; one whose address has
meant another cluster says that."""

from __future__ import annotations

import gc
import logging
import socket
from collections.abc import Callable, Iterator
from contextlib import suppress
from threading import Timer
from types import SimpleNamespace
from typing import Any, cast
from weakref import ref

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer, TopicPartition

from stack.kafka import KafkaBroker
from tests.unit.client.kafka.seen_producer import Seen
from tests.unit.client.topics import create_topic, wait_until_ended
from tidegate.client.kafka import transaction
from tidegate.client.kafka.cluster_watch import ClusterWatch
from tidegate.client.kafka.connection import KafkaConnection
from tidegate.client.kafka.transaction import GivenUpError, Record, TransactionalProducer, transactional
from tidegate.client.output import OutputTopics
from tidegate.errors import DeliveryError, RecordRefused, SinkHeld

_LIMIT = 1_000_000


class Fenced:
    """librdkafka's producer behind another one of its id: ``produce`` tells only that all is over."""

    def begin_transaction(self) -> None:
        """Do nothing: it has not heard of it yet."""

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


class Refusing:
    """A client whose records the broker answers by a code, ``times`` in a row; then it takes them."""

    def __init__(self, code: int, times: int = 99) -> None:
        self._code, self._times = code, times
        self._reports: list[Callable[[KafkaError | None, Any], None]] = []

    def init_transactions(self, _: float) -> None: ...
    def begin_transaction(self) -> None: ...
    def commit_transaction(self, _: float) -> None: ...
    def abort_transaction(self, _: float) -> None: ...

    def produce(self, *record: Any) -> None:
        self._reports.append(record[4])

    def flush(self, _: float) -> int:
        message = SimpleNamespace(
            topic=lambda: "out", partition=lambda: 0, offset=lambda: 5, key=lambda: None, value=lambda: b"m"
        )
        error = KafkaError(self._code) if self._times > 0 else None
        self._times -= 1
        reports, self._reports = self._reports, []
        for report in reports:
            report(error, message)
        return 0


@pytest.mark.parametrize("code", [KafkaError.UNKNOWN, KafkaError.UNSUPPORTED_COMPRESSION_TYPE])
def test_a_record_that_a_topic_refuses_in_each_attempt_is_refused(
    code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the code: no answer of a sink ends a process that can go on without the record."""
    monkeypatch.setattr(transaction, "_ANSWERED_PAUSE_S", 0.0)
    records = [Record("out", 0, None, b"m")]
    client: Any = Refusing(code)
    with pytest.raises(RecordRefused, match="out partition 0 does not take a marker"):
        TransactionalProducer(client, "markers", 1_000).commit(records, insist=False)
    client = Refusing(code)
    with pytest.raises(DeliveryError, match="nothing of them is visible"):
        TransactionalProducer(client, "state", 1_000).commit(records)
    client = Refusing(code, times=4)
    assert TransactionalProducer(client, "markers", 1_000).commit(records, insist=False) == {("out", 0): 6}


def test_such_attempts_have_pauses_between_them_and_who_gives_up_waits_for_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    client: Any = Refusing(KafkaError.UNKNOWN)
    producer, pauses = TransactionalProducer(client, "markers", 1_000), []

    def wait(seconds: float) -> bool:
        pauses.append(seconds)
        if len(pauses) == 4:
            producer.give_up()
        return False

    monkeypatch.setattr(producer._given_up, "wait", wait)
    with pytest.raises(GivenUpError):
        producer.commit([Record("out", 0, None, b"m")], insist=False)
    assert pauses == [0.5, 1, 2, 4]


@pytest.mark.parametrize("code", [KafkaError._MSG_TIMED_OUT, KafkaError.INVALID_PRODUCER_EPOCH])
def test_what_is_no_answer_to_the_record_refuses_none(code: int) -> None:
    client: Any = Refusing(code)
    with pytest.raises(DeliveryError) as ended:
        TransactionalProducer(client, "markers", 1_000).commit([Record("out", 0, None, b"m")], insist=False)
    assert not isinstance(ended.value, RecordRefused)


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


class Meanwhile(list[Record]):
    """Records of a commit; once the last of them was taken, something else happens."""

    def __init__(self, record: Record, happens: Callable[[], object]) -> None:
        super().__init__([record])
        self._happens = happens

    def __iter__(self) -> Iterator[Record]:
        yield from super().__iter__()
        self._happens()


@pytest.mark.broker
@pytest.mark.parametrize("delivered", [False, True], ids=["before its records", "before its commit"])
def test_who_is_fenced_says_so_and_can_be_closed(
    broker: KafkaBroker, topic_prefix: str, delivered: bool
) -> None:
    topic, name = f"{topic_prefix}records", f"{topic_prefix}writer"
    create_topic(broker.bootstrap, topic)
    connection = KafkaConnection(broker.bootstrap)
    client = connection.open(Producer, transactional(name, _LIMIT))
    fenced, successor = TransactionalProducer(client, name, _LIMIT), opened_later(connection, name)
    record = Record(topic, 0, b"key", b"value")
    fenced.open()
    fenced.commit([record])

    def taken_over() -> None:
        if delivered:
            assert client.flush(30) == 0
        successor.open()

    with pytest.raises(DeliveryError, match=f"Another worker has taken over {name}"):
        fenced.commit(Meanwhile(record, taken_over))
    fenced.close()
    successor.commit([record])
    successor.close()


def opened_later(connection: KafkaConnection, name: str) -> TransactionalProducer:
    return TransactionalProducer(connection.open(Producer, transactional(name, _LIMIT)), name, _LIMIT)


@pytest.mark.broker
def test_a_writer_learns_whether_it_is_fenced_and_nobody_reads_what_it_asks_with(
    broker: KafkaBroker, topic_prefix: str
) -> None:
    topic, name = f"{topic_prefix}records", f"{topic_prefix}writer"
    create_topic(broker.bootstrap, topic)
    connection = KafkaConnection(broker.bootstrap)
    writer, successor = opened_later(connection, name), opened_later(connection, name)
    question, record = Record(topic, 0, b"position", None), Record(topic, 0, b"key", b"value")
    writer.open()
    writer.require_not_fenced(question)
    writer.commit([record])
    writer.require_not_fenced(question)
    successor.open()
    with pytest.raises(DeliveryError, match=f"Another worker has taken over {name}"):
        writer.require_not_fenced(question)
    writer.close()
    successor.commit([record])
    successor.close()
    wait_until_ended(broker.bootstrap, {TopicPartition(topic, 0)})
    records = OutputTopics.now(connection, [topic]).records()
    assert [(each.key, each.value) for each in records] == [(b"key", b"value")] * 2


@pytest.mark.broker
def test_who_is_fenced_amid_its_records_leaves_no_client_behind(
    broker: KafkaBroker, topic_prefix: str
) -> None:
    """An exception that the client raises while another one of it is handled would hold on to it."""
    topic = f"{topic_prefix}records"
    create_topic(broker.bootstrap, topic)
    client = _fenced_amid_records(KafkaConnection(broker.bootstrap), topic, f"{topic_prefix}writer")
    gc.collect()
    assert client() is None


def _fenced_amid_records(connection: KafkaConnection, topic: str, name: str) -> ref[Producer]:
    client = connection.open(Seen, transactional(name, _LIMIT))
    fenced, successor = TransactionalProducer(client, name, _LIMIT), opened_later(connection, name)
    fenced.open()

    def records() -> Iterator[Record]:
        """Yield more and more records, until `produce` itself tells that another one has opened."""
        successor.open()
        for _ in range(100):
            yield Record(topic, 0, b"key", b"value")
            with suppress(KafkaException):
                client.flush(0.1)

    with pytest.raises(DeliveryError, match=f"Another worker has taken over {name}"):
        fenced.commit_once(cast("list[Record]", records()))
    fenced.close()
    successor.close()
    return ref(client)


def test_an_opening_that_is_given_up_repeats_its_request_for_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its client would fence later writers again and again, for as long as anything refers to it."""
    monkeypatch.setattr(transaction, "_CALL_S", 0.1)

    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        servers = {"bootstrap.servers": f"127.0.0.1:{silent.getsockname()[1]}"}
        client = Seen({**servers, **transactional("app-feed", 1_000_000)})
        left = ref(client)
        producer = TransactionalProducer(client, "app-feed", 1_000_000)
        del client
        Timer(0.3, producer.give_up).start()
        with pytest.raises(GivenUpError) as kept:
            producer.open()
        producer.close()
        producer.close()
        assert left() is None
        assert kept.traceback
