"""A log with offsets that nobody receives: what its store wrote in transactions, some of them aborted."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from tests.e2e.log_ends import log_ends, wait_until_read
from tests.e2e.scenario import HEAD_RECORDS, Scenario
from tests.logs import Record

pytestmark = [pytest.mark.broker, pytest.mark.slow]

_ANSWER_S = 60.0
_TRANSACTION = 40  # records


def append_in_transactions(scenario: Scenario, seed: int) -> int:
    """Write what is left of the log, and among it transactions that come to nothing; returns how many."""
    producer = Producer(
        {"bootstrap.servers": scenario.bootstrap, "transactional.id": f"{scenario.prefix}store"}
    )
    producer.init_transactions(_ANSWER_S)
    rng, aborted = random.Random(seed), 0
    for partition, records in enumerate(scenario.log.partitions):
        for first in range(HEAD_RECORDS, len(records), _TRANSACTION):
            piece = records[first : first + _TRANSACTION]
            if rng.random() < 0.5:
                aborted += 1
                write(producer, scenario, partition, piece)
                producer.flush(_ANSWER_S)
                producer.abort_transaction(_ANSWER_S)
            write(producer, scenario, partition, piece)
            producer.commit_transaction(_ANSWER_S)
    return aborted


def write(producer: Producer, scenario: Scenario, partition: int, records: Sequence[Record]) -> None:
    producer.begin_transaction()
    for record in records:
        producer.produce(
            f"{scenario.prefix}raftlog", record.value, record.key, partition, timestamp=record.timestamp
        )


def committed(scenario: Scenario) -> dict[int, int]:
    """The offsets of the worker's group, for lag monitoring."""
    group = Consumer({"bootstrap.servers": scenario.bootstrap, "group.id": scenario.app_id})
    try:
        places = [TopicPartition(f"{scenario.prefix}raftlog", number) for number in log_ends(scenario)]
        return {place.partition: place.offset for place in group.committed(places, _ANSWER_S)}
    finally:
        group.close()


def test_a_log_of_transactions_is_read_to_its_end_and_what_was_aborted_is_not(scenario: Scenario) -> None:
    worker = scenario.start_worker()
    scenario.create_feed(worker)
    aborted = append_in_transactions(scenario, seed=11)
    assert aborted > 0
    written = sum(map(len, scenario.log.partitions))
    assert sum(log_ends(scenario).values()) > written + aborted
    scenario.wait_until_covered(worker)
    wait_until_read(scenario, worker)  # over the offset of the last commit, which is no record
    worker.wait_until(lambda: committed(scenario) == log_ends(scenario), "the group's offsets")
    assert not worker.ask("/status")["quarantined_ranges"]
    assert worker.stop() == 0, worker.text
