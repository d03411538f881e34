"""Tests what tidegate relies on in Spark: how its Kafka source reads, and how much its driver takes."""

from __future__ import annotations

import logging
import os
import socket
import struct
from collections.abc import Iterable, Iterator
from functools import partial
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from threading import Thread
from typing import Any, Final

import pyarrow as pa
import pytest
from confluent_kafka import Producer
from pyspark.sql import DataFrame, Row, SparkSession

import tidegate.spark.platform.kafka_source
from stack.kafka import KafkaBroker
from tests.unit.client.topics import create_topic
from tidegate.client.kafka.cluster import Bounds
from tidegate.client.kafka.connection import KafkaConnection
from tidegate.errors import InputError, QueryEnded
from tidegate.spark.changefeed.answer_limit import AnswerLimit, limit_bytes
from tidegate.spark.changefeed.task.answers import ANSWER_SCHEMA, Answer, as_arrow
from tidegate.spark.platform.kafka_source import SLICE_MS, log_slice, log_stream, time_slices

pytestmark = [pytest.mark.broker, pytest.mark.together]

_PARTITIONS: Final = 3
_RECORDS: Final = 5
_MIB: Final = 1 << 20
_LONG_MS: Final = 600_000
#: How long a read may take that waits for nothing.
_COMES_S: Final = 240.0


def _with_long_polls(options: Any, connection: KafkaConnection, log: str) -> dict[str, str]:
    """A fetch without records is answered after ten minutes, if the client asks for a byte at least."""
    names = ("fetch.max.wait.ms", "request.timeout.ms", "default.api.timeout.ms")
    return {**options(connection, log), **{f"kafka.{name}": str(_LONG_MS) for name in names}}


def _filled_log(broker: KafkaBroker, prefix: str, partitions: int) -> tuple[KafkaConnection, str]:
    """Return how to reach a new topic, and its name; each of its partitions has some records."""
    connection, log = KafkaConnection(broker.bootstrap), f"{prefix}raftlog"
    create_topic(broker.bootstrap, log, partitions)
    producer = connection.open(Producer)
    for number in range(partitions):
        for record in range(_RECORDS):
            producer.produce(log, str(record).encode(), partition=number)
    assert producer.flush(30) == 0
    return connection, log


def test_a_batch_comes_in_few_parts_of_whole_partitions_in_their_order(
    spark_session: SparkSession, broker: KafkaBroker, topic_prefix: str, tmp_path: Path
) -> None:
    connection, log = _filled_log(broker, topic_prefix, 5)
    batches: list[list[list[tuple[int, int]]]] = []

    def keep(batch: DataFrame, _: int) -> None:
        parts = batch.select("partition", "offset").rdd.glom().collect()
        batches.append([[(row.partition, row.offset) for row in part] for part in parts])

    stream = log_stream(spark_session, connection, log, 0, 2)
    query = (
        stream.writeStream.foreachBatch(keep)
        .option("checkpointLocation", str(tmp_path))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(int(_COMES_S))
    (parts,) = batches
    assert len(parts) == 2
    whole = [list(each) for part in parts for _, each in groupby(part, key=itemgetter(0))]
    assert sorted(whole) == [[(number, at) for at in range(_RECORDS)] for number in range(5)]


def test_a_read_does_not_wait_for_records_that_are_not_there(
    spark_session: SparkSession, broker: KafkaBroker, topic_prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The source asks for a partition's bounds behind a fetch that has nothing to answer."""
    connection, log = _filled_log(broker, topic_prefix, _PARTITIONS)
    options = tidegate.spark.platform.kafka_source._options
    monkeypatch.setattr(tidegate.spark.platform.kafka_source, "_options", partial(_with_long_polls, options))
    bounds = dict.fromkeys(range(_PARTITIONS), Bounds(0, _RECORDS))
    read: list[list[Row]] = []
    reader = Thread(
        target=lambda: read.append(log_slice(spark_session, connection, log, bounds).collect()), daemon=True
    )
    reader.start()
    reader.join(_COMES_S)
    if not read:
        spark_session.sparkContext.cancelAllJobs()
        pytest.fail("the read waits for records that are not there")
    assert len(read[0]) == _PARTITIONS * _RECORDS


def _times(session: SparkSession, numbers: Iterable[int]) -> DataFrame:
    """Records of two partitions in turns, each of a slice by its number."""
    rows = [(offset % 2, offset // 2, number * SLICE_MS) for offset, number in enumerate(numbers)]
    schema = "partition INT, offset LONG, at_ms LONG"
    return session.createDataFrame(rows, schema).selectExpr(
        "partition", "offset", "timestamp_millis(at_ms) AS timestamp"
    )


def test_a_log_has_a_slice_for_each_five_minutes(spark_session: SparkSession) -> None:
    bounds = {number: Bounds(0, 10) for number in range(2)}
    slices = time_slices(_times(spark_session, (each // 2 for each in range(20))), bounds)
    assert [each[0] for each in slices] == [Bounds(at, at + 1) for at in range(10)]


@pytest.mark.parametrize(("count", "is_taken"), [(40, True), (42, False)], ids=["at the bound", "above it"])
def test_a_log_of_too_many_moments_is_refused_by_a_sentence(
    spark_session: SparkSession, monkeypatch: pytest.MonkeyPatch, count: int, is_taken: bool
) -> None:
    """Each slice is a batch of Spark's. Fewer and longer ones would have hand-offs come too late."""
    monkeypatch.setattr(tidegate.spark.platform.kafka_source, "SLICE_PARTS_MAX", 80)
    bounds = {number: Bounds(0, count // 2) for number in range(2)}
    times = _times(spark_session, (each * 1_000_003 for each in range(count)))
    if is_taken:
        assert len(time_slices(times, bounds)) == count
        return
    with pytest.raises(InputError, match=r"records of too many moments .* are more than 80 together"):
        time_slices(times, bounds)


@pytest.fixture
def small_driver(spark_session: SparkSession) -> Iterator[SparkSession]:
    """The session, whose driver takes one MiB of answers."""
    conf = spark_session.sparkContext._jsc.sc().conf()
    conf.set("spark.driver.maxResultSize", "1m")
    try:
        yield spark_session
    finally:
        conf.remove("spark.driver.maxResultSize")


def _answer(size: int, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for _ in batches:
        yield as_arrow([Answer(0, "checkpoint", os.urandom(size))])


def _answers(session: SparkSession, size: int) -> list[Answer]:
    rows = session.range(0, 4, 1, 4).mapInArrow(partial(_answer, size), ANSWER_SCHEMA).collect()
    return [Answer(partition, kind, bytes(body)) for partition, kind, body in rows]


def test_answers_that_the_driver_does_not_take_end_the_query_with_a_sentence(
    small_driver: SparkSession,
) -> None:
    assert limit_bytes(small_driver) == _MIB
    told = r"than Spark's driver takes: spark\.driver\.maxResultSize is 1m\."
    with pytest.raises(QueryEnded, match=told), AnswerLimit().explained(small_driver):
        _answers(small_driver, _MIB)


def test_answers_that_come_near_to_what_the_driver_takes_are_told_before(
    small_driver: SparkSession, caplog: pytest.LogCaptureFixture
) -> None:
    limit = AnswerLimit()
    with caplog.at_level(logging.WARNING, "tidegate.spark"):
        limit.look(small_driver, [Answer(0, "checkpoint", bytes(_MIB // 4))])
        assert caplog.messages == []
        limit.look(small_driver, [Answer(0, "checkpoint", bytes(_MIB))])
        limit.look(small_driver, [Answer(0, "checkpoint", bytes(_MIB + 1))])
    (message,) = caplog.messages
    assert message.startswith("the answers of a round have 1 MiB, and Spark's driver takes 1 MiB at most.")


def test_without_another_setting_the_driver_takes_a_gibibyte(spark_session: SparkSession) -> None:
    assert limit_bytes(spark_session) == 1 << 30


def _answer_to_a_stranger(port: int) -> str:
    """What the driver's port says to a message of somebody who has no secret: the begin of a Java object.

    A frame of Spark's is its length, a type (3 is a question, 5 a refusal), a number, a length, and text.
    """
    java = b"\xac\xed\x00\x05"
    question = struct.pack(">BqI", 3, 1, len(java)) + java
    with socket.create_connection(("127.0.0.1", port), timeout=30) as stranger:
        stranger.sendall(struct.pack(">q", 8 + len(question)) + question)
        with stranger.makefile("rb") as answers:
            head = answers.read(21)
            assert head[8:9] == b"\x05", head
            return answers.read(int.from_bytes(head[17:21], "big")).decode()


def test_a_driver_on_one_machine_answers_nobody_without_its_secret(spark_session: SparkSession) -> None:
    conf = spark_session.sparkContext.getConf()
    assert conf.get("spark.authenticate") == "true"
    answer = _answer_to_a_stranger(int(conf.get("spark.driver.port") or 0))
    assert "SaslMessage" in answer
    assert "ObjectInputStream" not in answer, "the object was read"
