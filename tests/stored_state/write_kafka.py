"""Runs a worker and a Spark query on a real broker over the first part of the log, and packs what they leave.

    python .../tests/stored_state/in_old_tree.py . write_kafka DIRECTORY     (in the older checkout)

``DIRECTORY`` has what ``write.py`` wrote. The README beside this file says what this is for.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from tests.e2e.worker_process import WorkerProcess
from tests.spark_session import running_session
from tests.stored_state import on_kafka
from tests.stored_state.archives import pack
from tests.stored_state.stored import HOME, PARTITIONS, TOPICS, Place, Stored
from tidegate.changefeed.definition.feed import Engine, FeedState
from tidegate.client.jobs import Jobs
from tidegate.client.kafka.connection import KafkaConnection
from tidegate.spark.changefeed.changefeed_query import QueryOptions, changefeed_query, ready_query

_LONG_S: Final = 240
_BATCHES: Final = 4
#: Files of RocksDB and of Kafka that hold nothing of the state.
_LEFT_OUT: Final = ("LOG", "LOCK", ".lock")


def main(directory: Path) -> None:
    """Run, and pack."""
    stored = Stored(directory)
    feeds = {engine: on_kafka.feeds(stored, engine) for engine in on_kafka.APPS}
    ends = [stored.ends[Place(HOME, TOPICS.log, number)] for number in range(PARTITIONS)]
    with TemporaryDirectory() as name:
        home = Path(name)
        with on_kafka.broker(home / "kafka"):
            on_kafka.create_topics([feed for each in feeds.values() for feed in each])
            for engine, app in on_kafka.APPS.items():
                on_kafka.write_jobs(app, feeds[engine])
            _run_worker(home, stored, ends)
            _run_query(home / "checkpoint", sum(ends))
        for part in ("kafka", "data", "checkpoint"):
            pack(home / part, directory / f"{part}.tar.xz", without=_LEFT_OUT)


def _run_worker(home: Path, stored: Stored, ends: list[int]) -> None:
    """Run a worker until it has processed the part of the log; then kill it."""
    settings = on_kafka.worker_settings(home) | {"PYTHONPATH": os.getcwd()}
    jobs = Jobs(KafkaConnection(on_kafka.BOOTSTRAP), on_kafka.APPS[Engine.WORKERS])
    with WorkerProcess(home, settings, fresh=True) as worker:
        worker.wait_until(lambda: _all_run(jobs), "the feeds to run", _LONG_S)
        on_kafka.write_log([log[:end] for log, end in zip(stored.log, ends, strict=True)])
        app = on_kafka.APPS[Engine.WORKERS]
        worker.wait_until(lambda: on_kafka.log_is_processed(app, ends), "the end of the log", _LONG_S)
        worker.kill()


def _all_run(jobs: Jobs) -> bool:
    return [feed.status for _, feed in jobs.view().feeds()] == [FeedState.RUNNING] * 2


def _run_query(checkpoint: Path, records: int) -> None:
    """Run a query to the end of what is there."""
    options = QueryOptions(
        KafkaConnection(on_kafka.BOOTSTRAP, timeout_s=60),
        on_kafka.APPS[Engine.SPARK],
        TOPICS.prefix,
        str(checkpoint),
        batch_records=records // _BATCHES + 1,
        available_now=True,
    )
    with (
        running_session("stored") as session,
        changefeed_query(session, ready_query(options)) as query,
    ):
        assert query.awaitTermination(_LONG_S), query.status


if __name__ == "__main__":
    main(Path(sys.argv[1]))
