"""A Spark query whose checkpoint directory is in S3 (docs/spark-cluster.md): the store is slow, frozen and
lost, and the driver is killed."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import pyspark
import pytest

from stack.downloads.hadoop_s3 import hadoop_s3
from stack.downloads.spark_connector import spark_connector
from stack.kafka import KafkaBroker
from stack.processes.owned import OwnedServer
from tests.cut_connection import CutConnection
from tests.e2e.live_load import LiveLoad, live_load
from tests.e2e.spark_process import SparkCommand
from tests.s3_server import BUCKET, SECRET, access_to, make_bucket, properties, s3_server
from tests.spark_session import skip_without_java
from tidegate.changefeed.definition.feed import Engine
from tidegate.spark.platform.file_systems import opened
from tidegate.spark.platform.whole_files import read_whole
from tidegate.verify import Verdict

pytestmark = [pytest.mark.broker, pytest.mark.slow, pytest.mark.together("spark")]

_SEED: Final = 53
_URI: Final = f"s3://{BUCKET}/feeds/query"
_SLOWER_S: Final = 0.02
#: Longer than tidegate's patience with a call, and shorter than that of Hadoop's library with all its tries.
_FROZEN_S: Final = 8.0


@pytest.fixture
def server() -> Iterator[OwnedServer]:
    skip_without_java()
    with s3_server() as running:
        make_bucket(running.address)
        yield running


def _query(load: LiveLoad, directory: Path, address: str) -> SparkCommand:
    arguments = ["changefeed", "--checkpoint", _URI, "--output-partitions", "3"]
    for jar in (*spark_connector(pyspark.__version__), *hadoop_s3()):
        arguments += ["--jars", str(jar)]
    for name, value in properties(address, "5s"):
        arguments += ["--conf", f"spark.hadoop.{name}={value}"]
    return SparkCommand(load, directory, arguments)


@pytest.mark.soak  # tests/unit/spark/platform/test_object_files.py is in `make test`
@pytest.mark.timeout(900)
def test_a_slow_and_frozen_store_and_a_killed_driver_lose_and_invent_nothing(
    broker: KafkaBroker, topic_prefix: str, tmp_path: Path, server: OwnedServer
) -> None:
    print("seed", _SEED)
    place = urlsplit(server.address)
    splits = {"split_every_ms": 10_000}
    with (
        CutConnection((str(place.hostname), int(place.port or 0)), lambda _: False, _SLOWER_S) as slow,
        live_load(broker.bootstrap, topic_prefix, tmp_path, seed=_SEED, store=splits, rows_per_s=100) as load,
    ):
        address = f"http://127.0.0.1:{slow.port}"
        with _query(load, tmp_path, address) as driver:
            driver.wait_until(lambda: "batches are durable" in driver.text, "the first batch")
            load.create_feed("updated, resolved, initial_scan='no'", Engine.SPARK)
            load.wait_past_now("a marker")
            server.pause()
            time.sleep(_FROZEN_S)
            server.resume()
            load.wait_past_now("a marker after the silence")
            driver.kill()
        with _query(load, tmp_path, address) as driver:
            load.wait_past_now("a marker of the second driver")
            report = load.finish()
            assert report.verdict is Verdict.PASSED, f"{report}\n{driver.text[-5_000:]}"
            assert report.counts.markers > 0
            assert driver.stop() == 0, driver.text[-5_000:]
            assert "Traceback" not in driver.text
            assert SECRET not in driver.text
    filesystem, path = opened(_URI, access_to(server.address))
    for half in ("tidegate/query.json", "spark/metadata"):
        assert read_whole(filesystem, f"{path}/{half}"), half


@pytest.mark.soak
def test_a_store_that_has_lost_the_directory_ends_the_query_with_a_sentence(
    broker: KafkaBroker, topic_prefix: str, tmp_path: Path, server: OwnedServer
) -> None:
    with live_load(broker.bootstrap, topic_prefix, tmp_path, seed=_SEED, store={}, rows_per_s=100) as load:
        with _query(load, tmp_path, server.address) as driver:
            driver.wait_until(lambda: "batches are durable" in driver.text, "the first batch")
            server.kill()
            server.start()
            make_bucket(server.address)
            assert driver.wait() == 1, driver.text[-5_000:]
        assert "Traceback" not in driver.text, driver.text[-5_000:]
        server.kill()
        with _query(load, tmp_path, server.address) as driver:
            assert driver.wait() == 1, driver.text[-5_000:]
        assert f"The checkpoint directory s3a://{BUCKET}/feeds/query cannot be read" in driver.text
        assert "Traceback" not in driver.text
