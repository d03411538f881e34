"""Tests Spark queries that meet what they cannot read, or must not read on."""

from __future__ import annotations

import re
import urllib.request
from pathlib import Path

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions

from stack.kafka import KafkaBroker
from stack.ports import choose_port
from tests.e2e.live_load import live_load
from tests.e2e.spark_process import SparkProcess
from tests.e2e.topics import cut
from tidegate.changefeed.definition.feed import Engine
from tidegate.client.kafka.cluster import Cluster
from tidegate.client.kafka.connection import KafkaConnection
from tidegate.verify import TopicPartition as Place

#: `tests/unit/spark` has what a task and the driver make of each of these.
pytestmark = [pytest.mark.soak, pytest.mark.broker]

_TRACE = re.compile(r"^Traceback|^\s+at [a-z]+\.", re.MULTILINE)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_query_lives_with_holes_and_ends_with_a_sentence(
    broker: KafkaBroker, topic_prefix: str, tmp_path: Path
) -> None:
    checkpoint, log = tmp_path / "checkpoint", f"{topic_prefix}raftlog"
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    with live_load(broker.bootstrap, topic_prefix, tmp_path, seed=43, rows_per_s=200) as load:
        with SparkProcess(load, checkpoint) as driver:
            driver.wait_until(lambda: "batches are durable" in driver.text, "the first batch")
            load.create_feed(engine=Engine.SPARK)
            assert driver.stop() == 0, driver.text[-5_000:]
            assert not _TRACE.search(driver.text), driver.text[-5_000:]
        load.end_store()
        partitions = Cluster(KafkaConnection(broker.bootstrap)).partition_counts([log])[log]
        places = [Place(log, number) for number in range(partitions)]
        ends = Cluster(KafkaConnection(broker.bootstrap)).bounds(places)
        cut(admin, [TopicPartition(*place, bound.end - 1) for place, bound in ends.items()])

        port = choose_port()
        with SparkProcess(load, checkpoint, ["--metrics-port", str(port), "--log-format", "json"]) as driver:
            gauges = [f'tidegate_quarantined_ranges{{partition="{number}"}}' for number in range(partitions)]
            driver.wait_until(
                lambda: all(each in _scrape(port) for each in gauges), "counts of all partitions"
            )
            driver.wait_until(
                lambda: driver.text.count("retention removed") >= partitions, "holes everywhere"
            )
            admin.create_partitions([NewPartitions(log, partitions + 1)])[log].result(30)
            producer = Producer({"bootstrap.servers": broker.bootstrap})
            producer.produce(log, b"\xff", None, 0)  # a batch begins
            assert producer.flush(30) == 0
            assert driver.wait() == 1
            assert not _TRACE.search(driver.text), driver.text[-5_000:]
            assert f"{log} has {partitions + 1} partitions, and had {partitions} when" in driver.text


def _scrape(port: int) -> str:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as answer:
            text: str = answer.read().decode()
            return text
    except OSError:
        return ""
