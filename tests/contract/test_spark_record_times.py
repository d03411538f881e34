"""Records whose times Spark cannot hold: a query takes them as every engine does, and so goes on."""

from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from stack.kafka import KafkaBroker
from tests.contract.case import merged
from tests.contract.catalogue import built
from tests.contract.comparison import rows_by_key
from tests.contract.engine import Task, run_reference
from tests.contract.kafka_run import KafkaRun
from tests.contract.spark_engine import SparkEngine
from tests.logs import Record
from tidegate.changefeed.definition.feed import Engine

pytestmark = [pytest.mark.broker, pytest.mark.together]

#: The first millisecond whose microseconds are more than 64 bits hold, and the last one that Kafka takes.
_TIMES = (2**63 // 1_000 + 1, 2**63 - 1)


def _with_odd_times(task: Task) -> Task:
    """The task, in whose log a record of each partition comes once more with such a time."""
    log = []
    for records, time in zip(task.log, _TIMES * len(task.log), strict=False):
        middle = len(records) // 2
        again = [*records[:middle], records[middle - 1]._replace(timestamp=time), *records[middle:]]
        log.append(tuple(Record(offset, *record[1:]) for offset, record in enumerate(again)))
    return replace(task, log=tuple(log))


def test_a_query_goes_on_over_records_whose_times_spark_cannot_hold(
    spark_session: SparkSession, broker: KafkaBroker, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    task = _with_odd_times(merged([built("updates and deletions")]))
    reference = run_reference(task.log, task.feeds, 1)
    run = KafkaRun(broker.bootstrap, task, "", Engine.SPARK, timeout_s=60)
    with run.topics():
        run.write_jobs()
        run.write_log()
        with caplog.at_level(logging.WARNING, "tidegate.spark"):
            SparkEngine(spark_session, broker.bootstrap, tmp_path).query(run)
        assert "a record whose time Spark cannot hold" in caplog.text
        assert rows_by_key(run.read()) == rows_by_key(reference.output)
        assert run.is_covered()
