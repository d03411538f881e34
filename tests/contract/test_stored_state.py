"""A worker and a Spark query of a real broker go on with everything that an earlier version has left.

The broker's own data are among it, since the state names topics by their ids (tests/stored_state/README.md).
"""

from __future__ import annotations

import re
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
from pyspark.sql import SparkSession

from stack.errors import PortTaken
from tests.contract.comparison import rows_by_key, unseen_rows_below_markers
from tests.e2e.worker_process import WorkerProcess
from tests.stored_state import on_kafka
from tests.stored_state.archives import unpack
from tests.stored_state.copies import renew_copies
from tests.stored_state.stored import A248221, PARTITIONS, TOPICS, stored
from tests.stored_state.uninterrupted import no_schema, uninterrupted
from tidegate.changefeed.definition.feed import Engine
from tidegate.client.kafka.connection import KafkaConnection
from tidegate.processor.reference import OutputPartition
from tidegate.spark.changefeed.changefeed_query import QueryOptions, changefeed_query, ready_query

pytestmark = [pytest.mark.broker, pytest.mark.together, pytest.mark.slow]

_LONG_S: Final = 200.0
#: A batch of Spark takes seconds; the store need not write more in that time.
_LOOK_S: Final = 2
#: The log partition whose local copy the worker lacks, so that it reads the changelogs.
_WITHOUT_COPY: Final = 2
_RESTORED: Final = re.compile(r"changelog_records=(\d+) next_offset=(\d+) \S+ partition=(\d+)")
#: The offset that each log partition had come to at least.
_HAD_READ: Final = 100


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    """The directory with all that was left, and the broker with its part of it.

    Skips the test while something else has the port of the broker: the stored feeds name it.
    """
    for part in ("kafka", "data", "checkpoint"):
        unpack(A248221 / f"{part}.tar.xz", tmp_path / part)
    try:
        broker = on_kafka.broker(tmp_path / "kafka")
    except PortTaken as taken:
        pytest.skip(str(taken))
    with broker:
        yield tmp_path


@pytest.fixture
def store(home: Path) -> Iterator[on_kafka.LiveStore]:
    """The store, which has written the rest of its log."""
    store = on_kafka.LiveStore(stored())
    store.write()
    yield store
    store.close()


def _is_complete(engine: Engine) -> bool:
    feeds = on_kafka.feeds(stored(), engine)
    last = max(version.timestamp for version in stored().history)
    return on_kafka.covered(feeds, on_kafka.output_of(feeds)) >= last


def _require_whole(engine: Engine) -> None:
    """All rows are there, in the order of each key, and markers promise nothing that comes later."""
    feeds = on_kafka.feeds(stored(), engine)
    output = on_kafka.output_of(feeds)
    assert rows_by_key(output) == uninterrupted(stored(), feeds, no_schema)
    for feed in feeds:
        for target in feed.targets:
            for number in range(target.partitions):
                records = output[OutputPartition(target.topic, number)]
                assert unseen_rows_below_markers(feed, records) == []


def test_a_worker_goes_on(home: Path, store: on_kafka.LiveStore) -> None:
    def gone_on() -> bool:
        store.go_on()
        return _is_complete(Engine.WORKERS)

    copies = home / "data" / on_kafka.APPS[Engine.WORKERS]
    renew_copies(copies, range(PARTITIONS))
    shutil.rmtree(copies / f"partition-{_WITHOUT_COPY}")
    with WorkerProcess(home, on_kafka.worker_settings(home)) as worker:
        worker.wait_until(gone_on, "all feeds to be complete", _LONG_S)
        assert worker.stop() == 0, worker.text[-20_000:]
    _require_whole(Engine.WORKERS)
    found = {int(partition): (int(read), int(at)) for read, at, partition in _RESTORED.findall(worker.text)}
    for partition, (read, next_offset) in found.items():
        assert (read > 0) is (partition == _WITHOUT_COPY)
        assert next_offset > _HAD_READ
    assert len(found) == PARTITIONS


def test_a_spark_query_goes_on(home: Path, store: on_kafka.LiveStore, spark_session: SparkSession) -> None:
    options = QueryOptions(
        KafkaConnection(on_kafka.BOOTSTRAP, timeout_s=60),
        on_kafka.APPS[Engine.SPARK],
        TOPICS.prefix,
        str(home / "checkpoint"),
        interval_s=0.0,
    )
    had_done = max(int(file.name) for file in (home / "checkpoint/spark/commits").glob("[0-9]*"))
    deadline = time.monotonic() + _LONG_S
    with changefeed_query(spark_session, ready_query(options)) as query:
        while not _is_complete(Engine.SPARK):
            assert time.monotonic() < deadline, query.status
            store.go_on()
            query.awaitTermination(_LOOK_S)
        assert min(progress.batchId for progress in query.recentProgress) == had_done + 1
    _require_whole(Engine.SPARK)
