"""Tests what the worker makes of a broker's refusals and of topics that another worker creates meanwhile."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from queue import SimpleQueue

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient
from rocksdict import Cache

from stack.kafka import KafkaBroker
from tables import TABLES
from tests.unit.client.topics import create_topic, write
from tidegate.client.kafka import topic_admin
from tidegate.client.kafka.topic_admin import TopicSpec, insist
from tidegate.errors import RetryError, TopicGone, TopologyError
from tidegate.processor.batch import StateTable
from tidegate.verify import TopicRecord
from tidegate.worker.kafka import jobs_follower
from tidegate.worker.kafka.jobs_follower import JobsFollower
from tidegate.worker.kafka.topology import WorkerTopicAdmin
from tidegate.worker.process.settings import Settings
from tidegate.worker.state.changelog import Changelog, ChangelogReader
from tidegate.worker.state.store import PartitionStore

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
    monkeypatch.setattr(topic_admin, "_BACKOFF_FIRST_S", 0.001)
    monkeypatch.setattr(topic_admin, "_BACKOFF_MAX_S", 0.001)
    monkeypatch.setattr(topic_admin, "_PASSING_S", 0.05)


class Time:
    """A clock that the pauses between two questions move, and nothing else."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def monotonic(self) -> float:
        return self.now_s

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Time:
    clock = Time()
    monkeypatch.setattr(topic_admin, "time", clock)
    return clock


def _told() -> str:
    """Brokers answer a request for metadata."""
    return "metadata"


def _unheard() -> str:
    """Raise the error of brokers that do not answer a request for metadata."""
    raise KafkaException(KafkaError(KafkaError._TRANSPORT))


def test_a_refusal_is_a_sentence_with_the_question_and_the_brokers_words() -> None:
    with pytest.raises(TopologyError) as caught:
        insist("configuration of the topic x", Answers(KafkaError.TOPIC_AUTHORIZATION_FAILED), _told)
    assert "(configuration of the topic x): Broker: Topic authorization failed. Let" in str(caught.value)


@pytest.mark.parametrize(
    "code",
    [
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.UNKNOWN_LEADER_EPOCH,
        KafkaError.NOT_CONTROLLER,
        KafkaError.REQUEST_TIMED_OUT,
        KafkaError._UNKNOWN_PARTITION,
        KafkaError._UNKNOWN_TOPIC,
        KafkaError._DESTROY,
        KafkaError._TRANSPORT,
        KafkaError._ALL_BROKERS_DOWN,
    ],
)
@pytest.mark.parametrize("metadata", [_told, _unheard])
def test_what_passes_is_asked_again(clock: Time, metadata: Callable[[], str], code: int) -> None:
    assert insist("ids", Answers(code, code, code), metadata) == "told"


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (KafkaError.UNKNOWN_TOPIC_OR_PART, "Broker: Unknown topic or partition"),
        (KafkaError._DESTROY, "Local: Broker handle destroyed"),
        (KafkaError._UNKNOWN_PARTITION, "Local: Unknown partition"),
        (KafkaError._UNKNOWN_TOPIC, "Local: Unknown topic"),
    ],
)
def test_what_does_not_pass_is_refused_in_the_end(clock: Time, code: int, words: str) -> None:
    with pytest.raises(TopologyError, match=words):
        insist("ids", Answers(*[code] * 10_000), _told)
    assert 0.05 < clock.now_s < 0.06  # _PASSING_S, and a pause


@pytest.mark.parametrize("code", [KafkaError._TRANSPORT, KafkaError._UNKNOWN_PARTITION])
def test_a_broker_that_is_away_is_waited_for_without_an_end(clock: Time, code: int) -> None:
    assert insist("ids", Answers(*[code] * 200), _unheard) == "told"


def test_a_topic_that_is_gone_is_told_from_one_that_was_not_heard_of(clock: Time) -> None:
    """A broker is away for long; when it is back, it knows nothing of the topic."""
    answers = iter([_unheard] * 200)

    def metadata() -> str:
        return next(answers, _told)()

    question = Answers(*[KafkaError._UNKNOWN_PARTITION] * 10_000)
    with pytest.raises(TopologyError, match="Local: Unknown partition"):
        insist("ids", question, metadata)
    assert 0.25 < clock.now_s < 0.26  # 200 pauses, then as above


def _no_replicas(words: str) -> KafkaException:
    return KafkaException(KafkaError(KafkaError.INVALID_REPLICATION_FACTOR, words))


@pytest.mark.parametrize(
    "behind", [".", " or in controlled shutdown.", ", or have all their log directories"]
)
def test_a_controller_that_takes_all_brokers_for_dead_is_asked_again(clock: Time, behind: str) -> None:
    words = f"Unable to replicate the partition 1 time(s): All brokers are currently fenced{behind}"
    refusals = iter([_no_replicas(words)] * 2)

    def create() -> str:
        for refusal in refusals:
            raise refusal
        return "created"

    assert insist("creation", create, _told) == "created"


def test_more_replicas_than_brokers_are_refused_at_once(clock: Time) -> None:
    words = "The target replication factor of 3 cannot be reached because only 1 broker(s) are registered."

    def create() -> str:
        raise _no_replicas(words)

    with pytest.raises(TopologyError, match=re.escape(words)):
        insist("creation", create, _told)
    assert clock.now_s == 0


@pytest.mark.parametrize("code", [KafkaError._AUTHENTICATION, KafkaError._SSL])
def test_who_is_not_let_in_is_told_at_once(clock: Time, code: int) -> None:
    for question, metadata in (
        (Answers(code), _told),
        (Answers(KafkaError._UNKNOWN_PARTITION), Answers(code)),
    ):
        with pytest.raises(TopologyError, match=r"refused what the worker asked for \(ids\): Local: "):
            insist("ids", question, metadata)
    assert clock.now_s == 0


@pytest.mark.broker
def test_a_changelog_that_is_gone_ends_the_wait_for_its_bounds(
    broker: KafkaBroker, topic_prefix: str, tmp_path: Path
) -> None:
    """As when it was deleted since its id was asked for; the local copy stands somewhere in it."""
    name = f"{topic_prefix}gone"
    settings = Settings(bootstrap_servers=broker.bootstrap, topic_prefix=topic_prefix)
    copy = PartitionStore(tmp_path / "copy", Cache(1 << 20), TABLES)
    copy.write(iter([]), {StateTable.RANGES: ("id", 7)}, time.time_ns() // 1_000_000)
    reader = ChangelogReader(settings, (Changelog(StateTable.RANGES, name, "id"),), 3)
    try:
        with pytest.raises(TopologyError, match=f"bounds of the changelog {name}, partition 3.*was deleted"):
            reader.catch_up(copy)
    finally:
        reader.close()
        copy.close()


@pytest.mark.broker
def test_a_jobs_topic_that_is_gone_ends_the_wait_for_its_end(
    broker: KafkaBroker, topic_prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = Settings(bootstrap_servers=broker.bootstrap, topic_prefix=topic_prefix)
    ended: SimpleQueue[BaseException] = SimpleQueue()
    monkeypatch.setattr(jobs_follower, "end_process", ended.put)

    async def follow() -> BaseException:
        follower = JobsFollower(settings)
        reading = asyncio.ensure_future(follower.read_to_end(asyncio.Event()))
        error = await asyncio.to_thread(ended.get, timeout=60)
        reading.cancel()
        follower.close()
        return error

    error = asyncio.run(follow())
    assert isinstance(error, TopologyError)
    assert "(end of the topic of jobs, " in str(error)


class Late(WorkerTopicAdmin):
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
def test_ends_are_told_above_transactions_that_are_open(
    broker: KafkaBroker, topic_prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A committed reader's end would stand below them, and below rows that were acknowledged behind them."""
    monkeypatch.setattr(topic_admin, "_ENDS_S", 60.0)
    topic = f"{topic_prefix}rows"
    create_topic(broker.bootstrap, topic, 2)
    dead = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": f"{topic_prefix}dead"})
    dead.init_transactions(60)
    dead.begin_transaction()
    dead.produce(topic, b"open", partition=1)
    assert dead.flush(60) == 0
    write(broker.bootstrap, [TopicRecord(topic, 1, -1, b"[1]", b"row", 0)])
    admin = WorkerTopicAdmin(Settings(bootstrap_servers=broker.bootstrap))
    assert admin.ends([(topic, 0), (topic, 1)]) == {(topic, 0): 0, (topic, 1): 2}
    dead.abort_transaction(60)


@pytest.mark.broker
def test_ends_that_cannot_be_had_are_a_sentence_and_not_waited_for(
    broker: KafkaBroker, topic_prefix: str
) -> None:
    topic = f"{topic_prefix}rows"
    create_topic(broker.bootstrap, topic, 1)
    admin = WorkerTopicAdmin(Settings(bootstrap_servers=broker.bootstrap))
    with pytest.raises(RetryError, match=f"Kafka does not tell where the topics {topic} end: "):
        admin.ends([(topic, 0), (topic, 1)])


def _ask_until_gone(admin: WorkerTopicAdmin, topic: str) -> None:
    """Ask for the ends of a topic until brokers have heard of its deletion. Raises what the question does."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        admin.ends([(topic, 0)])


@pytest.mark.broker
def test_a_topic_that_was_deleted_is_told_apart_from_ends_that_cannot_be_had(
    broker: KafkaBroker, topic_prefix: str
) -> None:
    topic = f"{topic_prefix}rows"
    create_topic(broker.bootstrap, topic)
    admin = WorkerTopicAdmin(Settings(bootstrap_servers=broker.bootstrap))
    assert admin.ends([(topic, 0)]) == {(topic, 0): 0}
    client = AdminClient({"bootstrap.servers": broker.bootstrap})
    client.delete_topics([topic])[topic].result()
    with pytest.raises(TopicGone, match=f"topics {topic} end: it knows no partition 0 of {topic}") as told:
        _ask_until_gone(admin, topic)
    assert f"the topic {topic} has had no partition 0 for 30 s: it was deleted" in told.value.refusal
    successor = WorkerTopicAdmin(Settings(bootstrap_servers=broker.bootstrap))  # never knew a leader
    with pytest.raises(TopicGone):
        successor.ends([(topic, 0)])


def test_ends_of_a_broker_that_is_away_are_given_up_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topic_admin, "_ENDS_S", 0.2)
    with pytest.raises(RetryError, match="Kafka does not tell where the topics rows end"):
        WorkerTopicAdmin(Settings(bootstrap_servers="127.0.0.1:9")).ends([("rows", 0)])
