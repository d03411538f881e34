"""The end of a query: it comes when it is asked for, even while nothing answers."""

from __future__ import annotations

import time
from pathlib import Path
from threading import Event

import pytest
from pyspark.sql import SparkSession

from stack.kafka import KafkaBroker
from tests.contract.case import merged
from tests.contract.catalogue import built
from tests.contract.kafka_run import KafkaRun
from tidegate.changefeed.definition.feed import Engine
from tidegate.client.kafka.transaction import TransactionalProducer
from tidegate.spark.changefeed import changefeed_query as module
from tidegate.spark.changefeed.changefeed_query import QueryOptions, changefeed_query, ready_query

pytestmark = [pytest.mark.broker, pytest.mark.together]

_WAIT_S = 120.0
_LOOK_AGAIN_S = 0.05


def test_a_query_whose_transaction_waits_for_a_broker_ends_when_it_is_asked_to(
    spark_session: SparkSession, broker: KafkaBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A topic may have too few replicas for a record, for as long as it takes an operator to mend that."""
    run = KafkaRun(broker.bootstrap, merged([built("updates and deletions")]), "", Engine.SPARK, timeout_s=60)
    waits = Event()

    def wait(producer: TransactionalProducer) -> None:
        waits.set()
        while True:
            producer._require_wanted()
            time.sleep(_LOOK_AGAIN_S)

    with run.topics():
        run.write_jobs()
        run.write_log()
        options = QueryOptions(run.connection, run.app_id, run.prefix, str(tmp_path / run.app_id))
        ready = ready_query(options)
        monkeypatch.setattr(module, "_LAST_BATCH_S", 0.5)
        monkeypatch.setattr(TransactionalProducer, "_flush", wait)
        with changefeed_query(spark_session, ready) as query:
            assert waits.wait(_WAIT_S), query.status
        assert not query.isActive
