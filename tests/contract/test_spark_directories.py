"""Tests the advice about a checkpoint directory that is lost: to begin on a new one."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from stack.kafka import KafkaBroker
from tests.contract.case import merged
from tests.contract.catalogue import built
from tests.contract.comparison import records_at, rows_by_key, unseen_rows_below_markers
from tests.contract.kafka_run import KafkaRun
from tests.contract.spark_engine import SparkEngine
from tidegate.changefeed.definition.feed import Engine
from tidegate.processor.reference import OutputPartition

pytestmark = [pytest.mark.broker, pytest.mark.together]


def test_a_query_on_a_new_directory_repeats_rows_and_breaks_no_promise(
    spark_session: SparkSession, broker: KafkaBroker, tmp_path: Path
) -> None:
    case = built("updates and deletions")
    run = KafkaRun(broker.bootstrap, merged([case]), "", Engine.SPARK, timeout_s=60)
    run.create_topics()
    run.write_jobs()
    run.write_log()
    for directory in ("first", "second"):
        SparkEngine(spark_session, broker.bootstrap, tmp_path / directory).query(run)
    output, expected = run.read(), rows_by_key(case.reference.output)
    rows = [record for records in output.values() for record in records if record.key is not None]
    assert len(rows) > sum(map(len, expected.values()))
    assert rows_by_key(output) == expected
    for feed in case.feeds:
        for target in feed.targets:
            for number in range(target.partitions):
                records = records_at(feed, output, OutputPartition(target.topic, number))
                assert unseen_rows_below_markers(feed, records) == []
