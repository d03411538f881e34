"""Checkpoints in the offsets of consumer groups: the broker itself refuses an older holder."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import confluent_kafka
import pytest
from confluent_kafka import Consumer, KafkaException
from confluent_kafka.admin import AdminClient, NewTopic

from stack.kafka import KafkaBroker
from tests.unit.client.subscribe.state.checkpoint_cases import AT_ONCE, CASES, named, token_at
from tidegate.client.kafka.cluster import Cluster
from tidegate.client.kafka.connection import KafkaConnection
from tidegate.client.subscribe.state.checkpoint import HeldCheckpoint
from tidegate.client.subscribe.state.group_checkpoints import GroupCheckpoints, HeldGroup
from tidegate.errors import BrokerUnavailable, Fenced, HistoryLost, StateError

pytestmark = pytest.mark.broker

_PARTITIONS = 40


class Groups:
    """The store, as tests of any store see it: names are groups, and tokens are of a topic that is there."""

    def __init__(self, bootstrap: str, prefix: str) -> None:
        self.connection = KafkaConnection(bootstrap, timeout_s=60.0)
        self.prefix = prefix
        self.topic = f"{prefix}t"
        self._acquired: list[HeldGroup] = []

    def acquire(self, name: str) -> HeldGroup:
        self._acquired.append(GroupCheckpoints(self.connection, [self.topic]).acquire(name))
        return self._acquired[-1]

    def token(self, wall: int) -> str:
        return token_at(wall, _PARTITIONS, self.topic)

    def close(self) -> None:
        for each in self._acquired:
            each.close()


@pytest.fixture
def groups(broker: KafkaBroker, topic_prefix: str) -> Iterator[Groups]:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    for made in admin.create_topics([NewTopic(f"{topic_prefix}t", _PARTITIONS, 1)]).values():
        made.result()
    found = Groups(broker.bootstrap, topic_prefix)
    while not Cluster(found.connection).existing([found.topic]):
        pass  # the broker knows of it a moment later
    yield found
    found.close()


class Prefixed:
    """A store whose names have the test's prefix on the broker."""

    def __init__(self, groups: Groups) -> None:
        self._groups = groups

    def acquire(self, name: str) -> HeldCheckpoint:
        held = self._groups.acquire(self._groups.prefix + name)
        held.name = name
        return held


@pytest.mark.parametrize("case", CASES, ids=named)
def test_a_store_in_groups(groups: Groups, case: Any) -> None:
    case(lambda: Prefixed(groups), AT_ONCE, groups.token)


def test_what_a_dead_process_had_begun_is_not_there(groups: Groups) -> None:
    dead = groups.acquire(groups.prefix)
    dead.commit(groups.token(1))
    assert dead._producer is not None
    dead._producer.begin_transaction()
    places = [confluent_kafka.TopicPartition(groups.topic, 0, 9, "{}")]
    dead._producer.send_offsets_to_transaction(places, dead._group, 60)
    successor = groups.acquire(groups.prefix)
    assert successor.token == groups.token(1)
    with pytest.raises(KafkaException, match="fenced"):
        dead._producer.commit_transaction(60)
    with pytest.raises(Fenced):
        dead.commit(groups.token(2))
    successor.commit(groups.token(2))
    assert groups.acquire(groups.prefix).token == groups.token(2)


def test_lag_is_seen_by_whoever_asks_for_the_group(groups: Groups) -> None:
    groups.acquire(groups.prefix).commit(groups.token(3))
    reader = groups.connection.open(Consumer, {"group.id": groups.prefix})
    (found,) = reader.committed([confluent_kafka.TopicPartition(groups.topic, 7)], 30)
    reader.close()
    assert found.offset == 307


def test_a_group_that_others_commit_to_is_history_lost(groups: Groups) -> None:
    groups.acquire(groups.prefix).commit(groups.token(3))
    other = groups.connection.open(Consumer, {"group.id": groups.prefix})
    other.commit(offsets=[confluent_kafka.TopicPartition(groups.topic, 7, 1)], asynchronous=False)
    other.close()
    with pytest.raises(HistoryLost, match=r"was committed by something else.* begin with a snapshot"):
        groups.acquire(groups.prefix)


def test_a_token_of_a_topic_that_is_gone_changes_nothing(groups: Groups) -> None:
    held = groups.acquire(groups.prefix)
    held.commit(groups.token(1))
    for _ in range(2):
        with pytest.raises(StateError, match=r"refused the checkpoint .*The token before stays"):
            held.commit(token_at(2, 1, f"{groups.prefix}gone"))
    assert groups.acquire(groups.prefix).token == groups.token(1)


def test_a_closed_checkpoint_takes_no_token(groups: Groups) -> None:
    held = groups.acquire(groups.prefix)
    held.close()
    for call in (held.require_held, lambda: held.commit(groups.token(1))):
        with pytest.raises(StateError, match="is closed: acquire it again"):
            call()


def test_whoever_asks_leaves_no_offset_and_no_open_transaction(groups: Groups) -> None:
    held = groups.acquire(groups.prefix)
    held.require_held()
    held.require_held()
    reader = groups.connection.open(Consumer, {"group.id": groups.prefix})
    asked = [confluent_kafka.TopicPartition(groups.topic, number) for number in range(_PARTITIONS)]
    found = reader.committed(asked, 30)
    reader.close()
    assert {each.offset for each in found} == {confluent_kafka.OFFSET_INVALID}
    held.commit(groups.token(1))
    held.require_held()
    assert groups.acquire(groups.prefix).token == groups.token(1)


def test_a_process_that_dies_while_it_asks_leaves_the_token(groups: Groups) -> None:
    dead = groups.acquire(groups.prefix)
    dead.commit(groups.token(1))
    assert dead._producer is not None
    dead._producer.begin_transaction()
    asked = [confluent_kafka.TopicPartition(*dead._first, 0)]
    dead._producer.send_offsets_to_transaction(asked, dead._group, 60)
    assert groups.acquire(groups.prefix).token == groups.token(1)


def test_a_broker_that_is_away_is_told() -> None:
    with pytest.raises(BrokerUnavailable, match=r"Kafka at 127.0.0.1:1 gave no answer"):
        GroupCheckpoints(KafkaConnection("127.0.0.1:1", timeout_s=0.1), ["t"]).acquire("n")
