"""Rows of a task: all acknowledged, in order and whole, or the task says which was not."""

from __future__ import annotations

import gc
import re
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

import tidegate.spark.changefeed.row_producer
from tidegate.changefeed.definition.feed import FeedId
from tidegate.errors import BrokerUnavailable
from tidegate.processor.batch import OutputRecord
from tidegate.spark.changefeed.row_producer import FeedRefused, RowProducer, SinkStalled

_WAIT_S = 60.0
_FEED = FeedId("feed")


@pytest.fixture(scope="module")
def broker() -> Iterator[str]:
    """A broker inside of librdkafka, whose topics have four partitions."""
    owner = Producer({"test.mock.num.brokers": 1})
    (found,) = owner.list_topics(timeout=_WAIT_S).brokers.values()
    yield f"{found.host}:{found.port}"
    del owner


def _row(number: int, partition: int = 0) -> OutputRecord:
    headers = [("tidegate-source", b"1/%d/0" % number)]
    return OutputRecord("rows", partition, b"key", b"%d" % number, 1_000 + number, headers)


def test_acknowledged_rows_are_there_in_order_with_their_times_and_headers(broker: str) -> None:
    producer = RowProducer({"bootstrap.servers": broker, "log_level": 0})
    producer.send(_FEED, map(_row, range(1_000)))
    producer.acknowledge()
    consumer = Consumer({"bootstrap.servers": broker, "group.id": "unused"})
    try:
        consumer.assign([TopicPartition("rows", 0, 0)])
        found = consumer.consume(1_000, _WAIT_S)
    finally:
        consumer.close()
    assert [
        OutputRecord(m.topic(), m.partition(), m.key(), m.value(), m.timestamp()[1], m.headers())
        for m in found
    ] == list(map(_row, range(1_000)))


def test_a_row_that_is_refused_is_named_though_no_others_are_told_of(broker: str) -> None:
    with pytest.raises(
        FeedRefused, match=r"rows has had no partition 99 .*a row of 4 bytes .* key 6b6579"
    ) as told:
        _deliver(broker, [_row(1), _row(2, partition=99), _row(3)])
    assert told.value.feed_id == _FEED


def test_a_row_above_the_limit_is_named_with_its_size(broker: str) -> None:
    with pytest.raises(
        FeedRefused, match=r"a row of 1000003 bytes for rows partition 0, .* limit of 1000000 b"
    ):
        _deliver(broker, [_row(1), _row(2)._replace(value=b"x" * 1_000_000)])


def _deliver(broker: str, rows: Sequence[OutputRecord]) -> None:
    producer = RowProducer({"bootstrap.servers": broker, "log_level": 0})
    producer.send(_FEED, rows)
    producer.acknowledge()


def test_a_sink_that_does_not_answer_is_told_of_while_it_is_waited_for(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(tidegate.spark.changefeed.row_producer, "_TELL_AGAIN_S", 0.0)
    producer = RowProducer({"bootstrap.servers": "127.0.0.1:1"})
    producer.send(_FEED, map(_row, range(3)))
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(producer.acknowledge)  # for ever, until its rows are thrown away
        try:
            deadline = time.monotonic() + _WAIT_S
            while not caplog.messages and time.monotonic() < deadline:
                time.sleep(0.05)
            assert not waiting.done()
        finally:
            producer.abandon()
    with pytest.raises(BrokerUnavailable, match="a row for rows partition 0 was not delivered"):
        waiting.result()
    told = re.match(
        r"Up to (\d+) rows wait for 127\.0\.0\.1:1 to acknowledge them.*: .*Connect", caplog.messages[0]
    )
    assert told is not None, caplog.messages[0]
    assert int(told[1]) >= 3


def test_a_sink_that_acknowledges_nothing_for_long_has_stalled() -> None:
    producer = RowProducer({"bootstrap.servers": "127.0.0.1:1", "log_level": 0}, stall_s=0.3)
    producer.send(_FEED, map(_row, range(3)))
    with pytest.raises(SinkStalled):
        producer.acknowledge()
    producer.abandon()


def test_a_sink_that_has_no_room_for_rows_for_long_has_stalled(monkeypatch: pytest.MonkeyPatch) -> None:
    little = {**tidegate.spark.changefeed.row_producer._CONFIG, "queue.buffering.max.messages": 5}
    monkeypatch.setattr(tidegate.spark.changefeed.row_producer, "_CONFIG", little)
    producer = RowProducer({"bootstrap.servers": "127.0.0.1:1", "log_level": 0}, stall_s=0.3)
    with pytest.raises(SinkStalled):
        producer.send(_FEED, map(_row, range(10)))
    producer.abandon()


def test_a_sink_that_follows_is_waited_for_however_little_patience_there_is(broker: str) -> None:
    producer = RowProducer({"bootstrap.servers": broker, "log_level": 0}, stall_s=5.0)
    for _ in range(3):
        producer.send(_FEED, map(_row, range(1_000)))
        producer.acknowledge()


class Client:
    """Stands where librdkafka's does. Each flush tells of one row, by the next of ``errors``; then all others
    are delivered.

    ``fatal`` is what it raises then, and ``refuses`` what it says of each row at once; ``breaks`` is what it
    raises for each. ``cluster`` is at the address now; without one nobody answers. ``passed`` are those that
    were there for a moment.
    """

    def __init__(
        self,
        *errors: int,
        fatal: KafkaError | None = None,
        refuses: KafkaError | None = None,
        breaks: Exception | None = None,
    ) -> None:
        self.cluster = "stored"
        self.passed: list[str] = []
        self._breaks = breaks if refuses is None else KafkaException(refuses)
        self._logger: Any = None
        self._errors, self._fatal = list(errors), fatal
        self._waiting: list[Callable[[KafkaError, Any], None]] = []
        self._reports: list[Callable[[], None]] = []

    def __call__(self, config: Any) -> Client:
        self._logger = config.get("logger")
        return self

    def list_topics(self, topic: str, timeout: float) -> Any:
        if not self.cluster:
            raise KafkaException(KafkaError(KafkaError._TRANSPORT))
        return SimpleNamespace(cluster_id=self.cluster)

    def __len__(self) -> int:
        return len(self._waiting) + len(self._reports)

    def produce(self, topic: str, value: bytes, key: bytes, partition: int, delivered: Any, *_: Any) -> None:
        if self._breaks is not None:
            raise self._breaks
        self._waiting.append(delivered)

    def poll(self, _: float) -> int:
        for name in self.passed:
            self._logger.log(30, "%s [%s] %s", "CLUSTERID", "producer", f"Broker reports ClusterId {name}")
        self.passed.clear()
        if self._fatal is not None and not self._waiting and not self._reports:
            raise KafkaException(self._fatal)
        for report in self._reports:
            report()
        self._reports.clear()
        return len(self)

    def flush(self, seconds: float) -> int:
        if self._fatal is not None:
            raise KafkaException(self._fatal)
        if self._errors:
            self._tell(self._errors.pop(0))
        else:
            self._waiting.clear()
        return self.poll(seconds)

    def purge(self, **_: bool) -> None:
        while self._waiting:
            self._tell(self._errors.pop(0) if self._errors else KafkaError._PURGE_QUEUE)

    def _tell(self, code: int) -> None:
        delivered = self._waiting.pop(0)
        row = SimpleNamespace(
            topic=lambda: "rows", partition=lambda: 3, key=lambda: b"key", value=lambda: b"value"
        )
        self._reports.append(lambda: delivered(KafkaError(code), row))


def _over(client: Client, monkeypatch: pytest.MonkeyPatch, rows: int) -> RowProducer:
    monkeypatch.setattr(tidegate.spark.changefeed.row_producer, "Producer", client)
    producer = RowProducer({"bootstrap.servers": "a-sink:9092"})
    producer.send(_FEED, map(_row, range(rows)))
    return producer


@pytest.mark.parametrize("rows", [1, 3])
@pytest.mark.parametrize(
    "code", [KafkaError._PURGE_INFLIGHT, KafkaError._TRANSPORT, KafkaError.UNKNOWN_PRODUCER_ID]
)
def test_a_row_that_is_not_delivered_is_not_acknowledged_though_the_client_raises_nothing(
    code: int, rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = Client(code)
    producer = _over(client, monkeypatch, rows)
    with pytest.raises(BrokerUnavailable, match=r"a-sink:9092 .*rows partition 3 was not delivered: .*again"):
        producer.acknowledge()
    assert not len(client), "rows after it may still be sent, and are written again by another one"


def test_a_row_that_is_refused_behind_one_that_is_not_delivered_fails_its_feed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    producer = _over(Client(KafkaError._TRANSPORT, KafkaError.MSG_SIZE_TOO_LARGE), monkeypatch, 3)
    with pytest.raises(FeedRefused, match=r"max\.message\.bytes"):
        producer.acknowledge()


def test_a_row_with_an_answer_that_may_pass_is_doubted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kafka's UNKNOWN_SERVER_ERROR, for example: librdkafka does not send the row again."""
    fatal = KafkaError(KafkaError._GAPLESS_GUARANTEE, "a request failed", fatal=True)
    for client in (Client(KafkaError.UNKNOWN), Client(KafkaError.UNKNOWN, fatal=fatal)):
        producer = _over(client, monkeypatch, 3)
        with pytest.raises(FeedRefused, match="the broker does not take a row of 8 bytes") as told:
            producer.acknowledge()
        assert told.value.is_doubted


def test_a_refusal_for_good_takes_the_place_of_a_doubt(monkeypatch: pytest.MonkeyPatch) -> None:
    fatal = KafkaError(KafkaError._GAPLESS_GUARANTEE, "a request failed", fatal=True)
    client = Client(KafkaError.UNKNOWN, KafkaError.MSG_SIZE_TOO_LARGE, KafkaError.UNKNOWN, fatal=fatal)
    producer = _over(client, monkeypatch, 3)
    with pytest.raises(FeedRefused, match=r"max\.message\.bytes") as told:
        producer.acknowledge()
    assert not told.value.is_doubted


def test_a_call_with_an_error_that_may_pass_is_doubted_or_ends_the_producer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with pytest.raises(FeedRefused) as told:
        _over(Client(refuses=KafkaError(KafkaError._STATE)), monkeypatch, 1)
    assert told.value.is_doubted
    with pytest.raises(BrokerUnavailable, match="came to its end"):
        _over(Client(refuses=KafkaError(KafkaError._DESTROY)), monkeypatch, 1)


@pytest.mark.parametrize("broken", [ValueError("embedded null character"), TypeError("a str, not bytes")])
def test_a_row_that_the_client_cannot_be_given_is_refused_and_ends_nothing(
    broken: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(FeedRefused, match="the client does not take a row of 4 bytes for rows") as told:
        _over(Client(breaks=broken), monkeypatch, 1)
    assert (told.value.is_doubted, str(broken) in str(told.value)) == (False, True)


def test_librdkafka_itself_cannot_be_given_such_rows(broker: str) -> None:
    for row in (_row(1)._replace(topic="ro\0ws"), _row(1)._replace(partition=2**40)):
        with pytest.raises(FeedRefused, match=r"the client does not take a row of .*Please report it"):
            _deliver(broker, [row])


def test_rows_that_are_given_up_at_the_end_of_a_producer_do_not_hide_why_it_ended(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fatal = KafkaError(KafkaError._FENCED, "another one has its id", fatal=True)
    producer = _over(Client(fatal=fatal), monkeypatch, 3)
    with pytest.raises(BrokerUnavailable, match=r"came to its end: .*another one has its id"):
        producer.acknowledge()


def test_rows_that_are_given_up_when_a_producer_is_abandoned_raise_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    client = Client()
    producer = _over(client, monkeypatch, 3)
    producer.abandon()
    assert not len(client)


def test_rows_of_a_producer_that_has_ended_are_given_up_too(monkeypatch: pytest.MonkeyPatch) -> None:
    client = Client(fatal=KafkaError(KafkaError._FENCED, "another one has its id", fatal=True))
    _over(client, monkeypatch, 3).abandon()
    assert not len(client)


def test_an_abandoned_producer_is_gone_with_its_rows_and_threads(broker: str) -> None:
    """A broker that is away has taken no row, and one that answers may have taken all of them."""
    for servers in ("127.0.0.1:1", broker):
        producer = RowProducer({"bootstrap.servers": servers, "log_level": 0}, stall_s=60.0, watched=True)
        producer.send(_FEED, map(_row, range(3)))
        left = weakref.ref(producer)
        producer.abandon()
        del producer
        gc.collect()  # the client calls methods of the producer, which has the client
        assert left() is None, f"the client for {servers} is kept alive by reports that nobody takes"


_TOO_LARGE = KafkaError(KafkaError.MSG_SIZE_TOO_LARGE, fatal=True)


def _watched(client: Client, monkeypatch: pytest.MonkeyPatch) -> RowProducer:
    monkeypatch.setattr(tidegate.spark.changefeed.row_producer, "Producer", client)
    producer = RowProducer({"bootstrap.servers": "a-sink:9092"}, watched=True)
    assert producer.cluster_id("rows") == "stored"
    return producer


def _refused_by_its_end(monkeypatch: pytest.MonkeyPatch) -> tuple[Client, RowProducer]:
    """The cluster at the address refuses a row, which is the end of the producer."""
    client = Client(KafkaError.MSG_SIZE_TOO_LARGE, fatal=_TOO_LARGE)
    producer = _watched(client, monkeypatch)
    producer.send(_FEED, map(_row, range(3)))
    return client, producer


def test_the_refusal_that_ends_a_producer_counts_once_the_cluster_was_asked_after_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    _, producer = _refused_by_its_end(monkeypatch)
    with pytest.raises(FeedRefused, match=r"max\.message\.bytes"):
        producer.acknowledge()


@pytest.mark.parametrize("cluster", ["another", ""])
def test_a_refusal_of_another_cluster_or_of_nobody_knows_whom_fails_no_feed(
    cluster: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    client, producer = _refused_by_its_end(monkeypatch)
    client.cluster = cluster
    with pytest.raises(SinkStalled):
        producer.acknowledge()


def test_nor_does_one_of_a_cluster_that_was_there_for_a_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    """The line that tells of it comes with the poll behind the answer."""
    client, producer = _refused_by_its_end(monkeypatch)
    ask = client.list_topics

    def answer(topic: str, timeout: float) -> Any:
        client.passed = ["another"]
        return ask(topic, timeout)

    monkeypatch.setattr(client, "list_topics", answer)
    with pytest.raises(SinkStalled):
        producer.acknowledge()


def test_a_row_that_is_refused_at_once_counts_in_the_same_way(monkeypatch: pytest.MonkeyPatch) -> None:
    """A topic that librdkafka has not found may be one of another cluster."""
    for cluster, raised in (("another", SinkStalled), ("stored", FeedRefused)):
        client = Client(refuses=KafkaError(KafkaError._UNKNOWN_PARTITION))
        producer = _watched(client, monkeypatch)
        client.cluster = cluster
        with pytest.raises(raised):
            producer.send(_FEED, [_row(1)])


def test_the_querys_own_cluster_is_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    client = Client(KafkaError.MSG_SIZE_TOO_LARGE, fatal=_TOO_LARGE)
    client.cluster = ""
    producer = _over(client, monkeypatch, 3)
    with pytest.raises(FeedRefused):
        producer.acknowledge()
