"""The Spark job as an engine: a streaming query on this machine that reads what the log has and ends.

Micro-batches are small, so that every case is split into several. Feeds with schemas get a registry in this
process.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from pyspark.sql import SparkSession

from tests.contract.engine import Output, Task
from tests.contract.kafka_run import KafkaRun
from tests.registry_server import RegistryServer
from tidegate.changefeed.definition.feed import Engine
from tidegate.spark.changefeed.changefeed_query import QueryOptions, changefeed_query, ready_query

_ANSWER_S: Final = 60.0
_FINISH_S: Final = 500
_BATCHES: Final = 4


class SparkEngine:
    """Runs a task as a query of ``session``, with topics of its own on the broker."""

    def __init__(self, session: SparkSession, bootstrap: str, directory: Path) -> None:
        self._session = session
        self._bootstrap = bootstrap
        self._directory = directory

    def run(self, task: Task) -> Output:
        """See ``Engine``. Raises the error with which the query ended."""
        with RegistryServer() as registry:
            run = KafkaRun(self._bootstrap, task, registry.url, Engine.SPARK, timeout_s=_ANSWER_S)
            with run.topics():
                run.write_jobs()
                run.write_log()
                self.query(run)
                return run.read()

    def query(self, run: KafkaRun) -> None:
        """Run the query over what the log has. Returns once readers see all that the query wrote."""
        options = QueryOptions(
            run.connection,
            run.app_id,
            run.prefix,
            str(self._directory / run.app_id),
            batch_records=sum(map(len, run.task.log)) // _BATCHES + 1,
            available_now=True,
        )
        with changefeed_query(self._session, ready_query(options)) as query:
            assert query.awaitTermination(_FINISH_S), query.status
        run.wait_until_ended()
