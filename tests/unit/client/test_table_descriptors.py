"""The descriptors of a log: read whole, and read on by looks that come again and again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

import pytest
from confluent_kafka.admin import AdminClient

from stack.kafka import KafkaBroker
from tests.hand_log import HandTable, update_of
from tests.unit.client.history_log import log
from tests.unit.client.topics import (
    create_topic,
    delete_before,
    delete_topic,
    wait_until_forgotten,
    write,
)
from tidegate.client import table_descriptors
from tidegate.client.kafka.connection import KafkaConnection
from tidegate.client.kafka.reader import PartitionReader
from tidegate.client.table_descriptors import LogDescriptors, read_catalog
from tidegate.errors import BrokerUnavailable, InputError
from tidegate.hlc import Timestamp
from tidegate.raftlog.encode import encode_entry, encode_key
from tidegate.raftlog.entry import BROADCAST, RangeId
from tidegate.rows.descriptor import TableDescriptor
from tidegate.verify import TopicPartition, TopicRecord

pytestmark = pytest.mark.broker

_ACCOUNTS = HandTable.of(104, "accounts", "id INT, balance INT").descriptor
_NEXT = replace(_ACCOUNTS, version=_ACCOUNTS.version + 1, modified=Timestamp(_ACCOUNTS.modified.wall + 5))
_OTHER = HandTable.of(105, "others", "id INT").descriptor


class HandLog:
    """A log with descriptors and other records, and what was read of it."""

    def __init__(self, broker: KafkaBroker, prefix: str, monkeypatch: pytest.MonkeyPatch) -> None:
        self.bootstrap, self.topic = broker.bootstrap, f"{prefix}raftlog"
        self.connection = KafkaConnection(broker.bootstrap)
        self.read: list[int] = []
        self.breaks_at = -1
        create_topic(self.bootstrap, self.topic)
        noted = self

        class Noted(PartitionReader):
            def read_to(self, ends: Mapping[TopicPartition, int]) -> Iterator[TopicRecord]:
                for record in super().read_to(ends):
                    if record.offset == noted.breaks_at:
                        raise BrokerUnavailable("it does not answer")
                    noted.read.append(record.offset)
                    yield record

        monkeypatch.setattr(table_descriptors, "PartitionReader", Noted)

    def describe(self, *descriptors: TableDescriptor) -> None:
        self._write([(encode_key(BROADCAST), encode_entry(update_of(each))) for each in descriptors])

    def fill(self, count: int) -> None:
        self._write([(encode_key(RangeId(7)), b"no entry")] * count)

    def _write(self, records: list[tuple[bytes, bytes]]) -> None:
        write(self.bootstrap, [TopicRecord(self.topic, 0, -1, *each, timestamp_ms=1) for each in records])

    def taken(self) -> list[int]:
        """The offsets that were read since the last call."""
        taken, self.read = self.read, []
        return taken


@pytest.fixture
def hand_log(broker: KafkaBroker, topic_prefix: str, monkeypatch: pytest.MonkeyPatch) -> HandLog:
    return HandLog(broker, topic_prefix, monkeypatch)


def test_a_look_reads_only_what_stands_behind_the_one_before(hand_log: HandLog) -> None:
    descriptors = LogDescriptors(hand_log.connection, hand_log.topic)
    hand_log.describe(_ACCOUNTS)
    hand_log.fill(9)
    first = descriptors.look()
    assert first == {104: [_ACCOUNTS]}
    assert hand_log.taken() == list(range(10))
    assert descriptors.look() == first
    assert hand_log.taken() == []
    hand_log.describe(_NEXT, _OTHER)
    assert descriptors.look() == {104: [_ACCOUNTS, _NEXT], 105: [_OTHER]}
    assert hand_log.taken() == [10, 11]
    assert first == {104: [_ACCOUNTS]}, "a look changes what an earlier one has returned"


def test_a_look_that_fails_is_continued_by_the_next(hand_log: HandLog) -> None:
    descriptors = LogDescriptors(hand_log.connection, hand_log.topic)
    hand_log.describe(_ACCOUNTS, _OTHER)
    hand_log.fill(2)
    hand_log.breaks_at = 1
    with pytest.raises(BrokerUnavailable):
        descriptors.look()
    hand_log.breaks_at = -1
    assert hand_log.taken() == [0]
    assert descriptors.look() == {104: [_ACCOUNTS], 105: [_OTHER]}
    assert hand_log.taken() == [1, 2, 3]


def test_a_log_that_was_made_anew_is_read_from_its_beginning(hand_log: HandLog) -> None:
    descriptors = LogDescriptors(hand_log.connection, hand_log.topic)
    hand_log.describe(_ACCOUNTS, _OTHER)
    descriptors.look()
    delete_topic(hand_log.bootstrap, hand_log.topic)
    wait_until_forgotten(AdminClient({"bootstrap.servers": hand_log.bootstrap}), hand_log.topic)
    create_topic(hand_log.bootstrap, hand_log.topic)
    hand_log.describe(_OTHER)
    hand_log.fill(5)  # it ends behind the end of the log before
    hand_log.taken()
    assert descriptors.look() == {105: [_OTHER]}
    assert hand_log.taken() == list(range(6))


def test_what_retention_has_removed_stays_known(hand_log: HandLog) -> None:
    descriptors = LogDescriptors(hand_log.connection, hand_log.topic)
    hand_log.describe(_ACCOUNTS)
    descriptors.look()
    hand_log.fill(5)
    delete_before(hand_log.bootstrap, hand_log.topic, 0, 3)
    hand_log.taken()
    assert descriptors.look() == {104: [_ACCOUNTS]}
    assert hand_log.taken() == [3, 4, 5]


def test_a_look_at_a_log_that_is_not_there_names_it(hand_log: HandLog) -> None:
    with pytest.raises(InputError, match=f"has no topic {hand_log.topic}-not"):
        LogDescriptors(hand_log.connection, f"{hand_log.topic}-not").look()


def test_the_catalog_is_read_from_the_log(broker: KafkaBroker, topic_prefix: str) -> None:
    topic = f"{topic_prefix}raftlog"
    create_topic(broker.bootstrap, topic, 2)
    records = log().partitions[0]
    write(
        broker.bootstrap,
        [TopicRecord(topic, 0, -1, each.key, each.value, each.timestamp) for each in records],
    )
    found = read_catalog(KafkaConnection(broker.bootstrap), topic)
    assert tuple(found.descriptors()) == log().tables


def test_a_log_that_is_not_there_is_named(broker: KafkaBroker, topic_prefix: str) -> None:
    with pytest.raises(InputError, match=f"has no topic {topic_prefix}raftlog"):
        read_catalog(KafkaConnection(broker.bootstrap), f"{topic_prefix}raftlog")
