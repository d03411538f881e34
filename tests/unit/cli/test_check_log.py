"""``tidegate debug check-log`` over topics on a real broker: the example of the page, sound and broken."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from stack.kafka import KafkaBroker
from tests.unit.cli.running import NOBODY, run
from tests.unit.client.topics import create_topic, delete_before, write, write_transaction
from tests.unit.raftlog.example_log import PARTITIONS, RECORDS
from tidegate.client.kafka.connection import KafkaConnection
from tidegate.client.kafka.log_in_time import read_in_time
from tidegate.verify import TopicPartition, TopicRecord

_PAGE = Path(__file__).parents[3] / "docs" / "log-contract.md"


def _records(topic: str) -> list[TopicRecord]:
    return [TopicRecord(topic, each.partition, -1, each.key, each.value, each.time_ms) for each in RECORDS]


@pytest.fixture
def topic(broker: KafkaBroker, topic_prefix: str) -> str:
    """An empty log."""
    name = f"{topic_prefix}raftlog"
    create_topic(broker.bootstrap, name, PARTITIONS, retention_ms="-1")
    return name


def _checked(broker: KafkaBroker, topic: str, *options: str) -> tuple[int, str]:
    prefix = topic.removesuffix("raftlog")
    result = run("debug", "check-log", "-b", broker.bootstrap, "--topic-prefix", prefix, *options)
    assert not result.stderr
    return result.exit_code, result.stdout


def _json(broker: KafkaBroker, topic: str, *options: str) -> dict[str, Any]:
    code, printed = _checked(broker, topic, "--json", *options)
    told: dict[str, Any] = json.loads(printed)
    assert code == (1 if told["breaches"] else 0)
    return told


def _written(broker: KafkaBroker, records: Iterable[TopicRecord]) -> None:
    write(broker.bootstrap, records)


@pytest.mark.broker
def test_a_sound_log_has_no_breach_and_the_exit_status_is_0(broker: KafkaBroker, topic: str) -> None:
    _written(broker, _records(topic))
    code, printed = _checked(broker, topic, "--ended")
    assert (code, printed) == (
        0,
        f"{topic}: {len(RECORDS)} records of 2 ranges in 2 partitions, 0 breaches of the log contract, "
        "0 holes, 0 copies.\n",
    )
    assert "Not decided: the log goes on" in _checked(broker, topic)[1]


@pytest.mark.broker
def test_a_breach_is_told_with_partition_offset_and_rule(broker: KafkaBroker, topic: str) -> None:
    records = _records(topic)
    del records[4]  # index 12 of range 7
    _written(broker, records)
    code, printed = _checked(broker, topic, "--ended")
    assert code == 1
    assert f"```\n{printed.replace(topic, 'mine-raftlog')}```" in _PAGE.read_text()
    assert "... and 1 more (--limit)" in _checked(broker, topic, "--limit", "1")[1]
    told = _json(broker, topic)
    assert told["rules"] == {"dense": 1, "intent-count": 1}
    assert told["first_breaches"][0] == {
        "rule": "dense",
        "partition": 1,
        "offset": 3,
        "sentence": "range 7 at index 11: index 13 follows",
        "link": "docs/log-contract.md#dense",
    }


@pytest.mark.broker
def test_a_log_that_has_lost_its_beginning_is_checked_from_there_on(broker: KafkaBroker, topic: str) -> None:
    _written(broker, _records(topic))
    delete_before(broker.bootstrap, topic, 1, 3)
    told = _json(broker, topic)
    assert (told["breaches"], told["records"]) == (0, len(RECORDS) - 3)
    assert any("partition 1 has lost its beginning" in sentence for sentence in told["undecided"])


@pytest.mark.broker
def test_what_a_transaction_has_not_committed_is_no_part_of_the_log(broker: KafkaBroker, topic: str) -> None:
    records = _records(topic)
    write_transaction(broker.bootstrap, f"{topic}-a", records[:5], commit=True)
    write_transaction(broker.bootstrap, f"{topic}-a", records[8:], commit=False)
    write_transaction(broker.bootstrap, f"{topic}-a", records[5:], commit=True)
    told = _json(broker, topic, "--ended")
    assert (told["breaches"], told["records"]) == (0, len(RECORDS))


@pytest.mark.broker
def test_partitions_are_read_side_by_side_in_the_order_of_time(broker: KafkaBroker, topic: str) -> None:
    times = {0: [10, 40, 30, 70], 1: [20, 25, 65]}
    _written(
        broker,
        (TopicRecord(topic, number, -1, b"k", b"v", at) for number, each in times.items() for at in each),
    )
    starts = {TopicPartition(topic, number): 0 for number in times}
    ends = {TopicPartition(topic, number): len(each) for number, each in times.items()}
    read = list(read_in_time(KafkaConnection(broker.bootstrap), starts, ends))
    assert [record.timestamp_ms for record in read] == [10, 20, 25, 40, 30, 65, 70]
    assert Counter(record.partition for record in read) == {0: 4, 1: 3}


@pytest.mark.broker
def test_an_empty_log_and_one_that_is_not_there(broker: KafkaBroker, topic: str) -> None:
    assert _checked(broker, topic)[0] == 0
    result = run("debug", "check-log", "-b", broker.bootstrap, "--topic-prefix", "nowhere-")
    assert (result.exit_code, "has no topic nowhere-raftlog" in result.stderr) == (1, True)


def test_without_a_broker_it_says_so() -> None:
    result = run("debug", "check-log", *NOBODY)
    assert result.exit_code == 1
    assert "gave no answer within 0.3 s" in result.stderr
