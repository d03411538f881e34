"""The warehouse loader beside a live store and workers, killed at random moments."""

from __future__ import annotations

import time
from pathlib import Path
from random import Random

import pytest
from deltalake import DeltaTable

from stack.kafka import KafkaBroker
from tests.contract.loaded_tables import TrueTable, every_closed_bucket, loaded_rows
from tests.e2e.live_load import LiveLoad, live_load
from tests.e2e.spark_process import LoaderProcess
from tidegate.changefeed.definition.feed import FeedId
from tidegate.client.feed_topics import FeedTopics
from tidegate.client.kafka.connection import KafkaConnection
from tidegate.client.table_descriptors import read_catalog
from tidegate.errors import InputError
from tidegate.hlc import Timestamp
from tidegate.spark.warehouse.buckets import Buckets
from tidegate.spark.warehouse.delta_tables import closed_by_version
from tidegate.spark.warehouse.snapshots import Warehouse

pytestmark = pytest.mark.broker

_BUCKETS = Buckets(2_000_000_000)
_LIVES_S = (15.0, 30.0)


@pytest.mark.soak
@pytest.mark.timeout(900)
def test_a_loader_that_is_killed_has_the_tables_of_the_store_at_every_closed_bucket(
    broker: KafkaBroker, topic_prefix: str, tmp_path: Path
) -> None:
    seed = 43
    print("seed", seed)
    rng = Random(seed)
    directory = tmp_path / "warehouse"
    with live_load(
        broker.bootstrap, topic_prefix, tmp_path, seed=seed, store={"split_every_ms": 2_000}, rows_per_s=200
    ) as load:
        worker = load.start_worker("w0")
        load.create_feed("updated, mvcc_timestamp, resolved")
        for _ in range(3):
            with LoaderProcess(load, directory) as loader:
                time.sleep(rng.uniform(*_LIVES_S))
                loader.kill()
        worker.kill()  # what it had in flight comes again
        load.start_worker("w1")
        report = load.finish()
        with LoaderProcess(load, directory) as loader:
            bound = Timestamp(_BUCKETS.closed_by(report.covered))
            load.wait_until(lambda: _closed(directory) >= bound, f"buckets up to {bound}\n{loader.text}")
            assert loader.stop() == 0, loader.text[-5_000:]
            assert "Traceback" not in loader.text
        for table in _true_tables(load, broker.bootstrap, topic_prefix):
            _check(directory.as_uri(), table)


def _closed(directory: Path) -> Timestamp:
    try:
        return Warehouse(directory.as_uri()).closed
    except InputError:
        return Timestamp(0)


def _true_tables(load: LiveLoad, bootstrap: str, prefix: str) -> list[TrueTable]:
    feed = FeedTopics.of(FeedId(load.feed_id), load.feed)
    catalog = read_catalog(KafkaConnection(bootstrap), f"{prefix}raftlog")
    return [
        TrueTable(
            target.topic,
            [each for each in catalog.descriptors() if each.id == target.table_id],
            load.history,
            feed.start,
        )
        for target in feed.targets
    ]


def _check(root: str, table: TrueTable) -> None:
    house = Warehouse(root)
    times = list(every_closed_bucket(root, _BUCKETS))
    assert len(times) > 10
    for at in times:
        assert loaded_rows(house.rows(table.topic, at)) == table.rows(at)
    current = DeltaTable(f"{root}/{table.topic}/current")
    for version, closed in closed_by_version(current):
        if Timestamp(closed) >= times[0]:
            current.load_as_version(version)
            assert loaded_rows(current.to_pyarrow_table()) == table.rows(Timestamp(closed))
