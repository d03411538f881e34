"""What the worker makes of a broker's refusals and of topics that another worker creates meanwhile."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer

from app import topology
from app.settings import Settings
from app.topics import TopicSpec
from app.topology import TopicAdmin, insist
from stack.kafka import KafkaBroker
from tests.unit.client.topics import create_topic, write
from tidegate.errors import RetryError, TopologyError
from tidegate.verify import TopicRecord

_COMPACT = {"cleanup.policy": "compact"}


class Answers:
    """A question that is answered with these errors, one after the other, and then with ``"told"``."""

    def __init__(self, *codes: int) -> None:
        self._codes: Iterator[int] = iter(codes)

    def __call__(self) -> str:
        for code in self._codes:
            raise KafkaException(KafkaError(code))
        return "told"


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topology, "_BACKOFF_FIRST_S", 0.001)
    monkeypatch.setattr(topology, "_BACKOFF_MAX_S", 0.001)
    monkeypatch.setattr(topology, "_PASSING_S", 0.05)


def test_a_refusal_is_a_sentence_with_the_question_and_the_brokers_words() -> None:
    with pytest.raises(TopologyError) as caught:
        insist("configuration of the topic x", Answers(KafkaError.TOPIC_AUTHORIZATION_FAILED))
    assert "(configuration of the topic x): Broker: Topic authorization failed. Let" in str(caught.value)


@pytest.mark.parametrize(
    "code",
    [
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.NOT_CONTROLLER,
        KafkaError.REQUEST_TIMED_OUT,
        KafkaError._UNKNOWN_PARTITION,
        KafkaError._UNKNOWN_TOPIC,
        KafkaError._DESTROY,
        KafkaError._TRANSPORT,
        KafkaError._ALL_BROKERS_DOWN,
    ],
)
def test_what_passes_is_asked_again(code: int) -> None:
    assert insist("ids", Answers(code, code, code)) == "told"


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (KafkaError.UNKNOWN_TOPIC_OR_PART, "Broker: Unknown topic or partition"),
        (KafkaError._DESTROY, "Local: Broker handle destroyed"),
    ],
)
def test_what_does_not_pass_is_refused_in_the_end(code: int, words: str) -> None:
    with pytest.raises(TopologyError, match=words):
        insist("ids", Answers(*[code] * 10_000))


@pytest.mark.parametrize("code", [KafkaError._TRANSPORT, KafkaError._UNKNOWN_PARTITION])
def test_a_broker_that_is_away_is_waited_for_without_an_end(code: int) -> None:
    assert insist("ids", Answers(*[code] * 200)) == "told"


class Late(TopicAdmin):
    """Looks before another worker creates the topic, and creates it after that."""

    def __init__(self, broker: KafkaBroker, topic: str, partitions: int, **config: str) -> None:
        super().__init__(Settings(bootstrap_servers=broker.bootstrap))
        self._other: list[Callable[[], None]] = [
            lambda: create_topic(broker.bootstrap, topic, partitions, **config)
        ]

    def partitions(self, topic: str) -> int | None:
        found = super().partitions(topic)
        for create in self._other:
            self._other = []
            create()
        return found


@pytest.mark.broker
def test_the_topic_of_a_faster_worker_is_taken(broker: KafkaBroker, topic_prefix: str) -> None:
    topic = f"{topic_prefix}jobs"
    Late(broker, topic, 2, cleanup_policy="compact").ensure([TopicSpec(topic, 2, _COMPACT)])


@pytest.mark.broker
@pytest.mark.timeout(30)
@pytest.mark.parametrize(
    ("partitions", "policy", "reason"),
    [(1, "compact", "has 1 partitions where 2 are needed"), (2, "delete", "has cleanup.policy=delete")],
)
def test_a_topic_that_somebody_else_made_meanwhile_is_checked(
    broker: KafkaBroker, topic_prefix: str, partitions: int, policy: str, reason: str
) -> None:
    topic = f"{topic_prefix}jobs"
    with pytest.raises(TopologyError, match=reason):
        Late(broker, topic, partitions, cleanup_policy=policy).ensure([TopicSpec(topic, 2, _COMPACT)])


@pytest.mark.broker
def test_ends_are_told_above_transactions_that_are_open(broker: KafkaBroker, topic_prefix: str) -> None:
    """A committed reader's end would stand below them, and below rows that were acknowledged behind them."""
    topic = f"{topic_prefix}rows"
    create_topic(broker.bootstrap, topic, 2)
    dead = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": f"{topic_prefix}dead"})
    dead.init_transactions(10)
    dead.begin_transaction()
    dead.produce(topic, b"open", partition=1)
    assert dead.flush(10) == 0
    write(broker.bootstrap, [TopicRecord(topic, 1, -1, b"[1]", b"row", 0)])
    admin = TopicAdmin(Settings(bootstrap_servers=broker.bootstrap))
    assert admin.ends([(topic, 0), (topic, 1)]) == {(topic, 0): 0, (topic, 1): 2}
    dead.abort_transaction(10)


@pytest.mark.broker
def test_ends_that_cannot_be_had_are_a_sentence_and_not_waited_for(
    broker: KafkaBroker, topic_prefix: str
) -> None:
    topic = f"{topic_prefix}rows"
    create_topic(broker.bootstrap, topic, 1)
    admin = TopicAdmin(Settings(bootstrap_servers=broker.bootstrap))
    with pytest.raises(RetryError, match=f"Kafka does not tell where the topics {topic} end: "):
        admin.ends([(topic, 0), (topic, 1)])


def test_ends_of_a_broker_that_is_away_are_given_up_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topology, "_ENDS_S", 0.2)
    with pytest.raises(RetryError, match="Kafka does not tell where the topics rows end"):
        TopicAdmin(Settings(bootstrap_servers="127.0.0.1:9")).ends([("rows", 0)])
