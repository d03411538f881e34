"""A Spark query on a standalone cluster, whose executors have Python's packages and not tidegate
(docs/spark-cluster.md)."""

from __future__ import annotations

import os
import signal
import subprocess
import sysconfig
import venv
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Final

import pytest

from stack.kafka import KafkaBroker
from stack.processes.owned import OwnedServer
from stack.spark import SparkCluster
from tests.e2e.live_load import LiveLoad, live_load
from tests.e2e.spark_process import Cluster, SparkProcess
from tests.spark_session import skip_without_java
from tidegate.changefeed.definition.feed import Engine
from tidegate.verify import Verdict

pytestmark = [pytest.mark.broker, pytest.mark.slow, pytest.mark.together("spark")]

_SEED: Final = 20
#: Each process of the cluster has a Java of its own.
_EXECUTOR: Final = ("--conf", "spark.executor.memory=512m")
_ROUNDS: Final = 10
_CREATED: Final = "updated, resolved, initial_scan='no'"


@pytest.fixture(scope="module")
def workers() -> Iterator[SparkCluster]:
    skip_without_java()
    with SparkCluster() as cluster:
        yield cluster


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Python with the packages of this one but tidegate, which a ``.pth`` file adds here."""
    home = tmp_path_factory.mktemp("executors") / "python"
    venv.create(home, with_pip=False, symlinks=True)
    packages = home / "lib" / f"python{sysconfig.get_python_version()}" / "site-packages"
    (packages / "packages.pth").write_text(f"{sysconfig.get_path('purelib')}\n")
    found = home / "bin" / "python"
    lacks = subprocess.run(
        [found, "-c", "import pyspark, tidegate"],
        capture_output=True,
        text=True,
        check=False,
        cwd=home,
        env={**os.environ, "PYTHONPATH": ""},
    )
    assert "No module named 'tidegate'" in lacks.stderr
    return found


@pytest.mark.always
@pytest.mark.timeout(600)
def test_executors_get_the_code_from_the_command_and_one_that_is_killed_loses_and_invents_nothing(
    broker: KafkaBroker, topic_prefix: str, tmp_path: Path, workers: SparkCluster, python: Path
) -> None:
    with (
        _loaded(broker, topic_prefix, tmp_path) as load,
        SparkProcess(load, tmp_path / "checkpoint", _EXECUTOR, Cluster(workers.master, python)) as driver,
    ):
        load.create_feed(_CREATED, Engine.SPARK)
        os.kill(_executor_of(workers.workers[0]), signal.SIGKILL)
        load.wait_past_now("a marker after the executor's end")
        _finish(load, driver)


@pytest.mark.soak
@pytest.mark.timeout(3_000)
def test_executors_workers_and_drivers_that_are_killed_lose_and_invent_nothing(
    broker: KafkaBroker, topic_prefix: str, tmp_path: Path, workers: SparkCluster, python: Path
) -> None:
    checkpoint, place = tmp_path / "checkpoint", Cluster(workers.master, python)
    with _loaded(broker, topic_prefix, tmp_path) as load:
        for number in range(_ROUNDS):
            with SparkProcess(load, checkpoint, _EXECUTOR, place) as driver:
                if not number:
                    load.create_feed(_CREATED, Engine.SPARK)
                load.wait_past_now("a marker")
                os.kill(_executor_of(workers.workers[1]), signal.SIGKILL)
                load.wait_past_now("a marker after the executor's end")
                workers.workers[0].kill()
                load.wait_past_now("a marker by the other worker")
                workers.workers[0].start()
                driver.kill()
        with SparkProcess(load, checkpoint, _EXECUTOR, place) as driver:
            load.wait_past_now("a marker by the last driver")
            _finish(load, driver)


@pytest.mark.soak
def test_a_package_that_executors_lack_is_named_in_one_sentence(
    broker: KafkaBroker, topic_prefix: str, tmp_path: Path, workers: SparkCluster
) -> None:
    venv.create(tmp_path / "bare", with_pip=False, symlinks=True)
    place = Cluster(workers.master, tmp_path / "bare" / "bin" / "python")
    with (
        _loaded(broker, topic_prefix, tmp_path) as load,
        SparkProcess(load, tmp_path / "checkpoint", _EXECUTOR, place) as driver,
    ):
        assert driver.wait() == 1, driver.text[-5_000:]
        (sentence,) = [line for line in driver.text.splitlines() if line.startswith("The executor at ")]
    assert "cannot run tidegate: No module named" in sentence
    assert "docs/spark-cluster.md" in sentence
    assert "Traceback" not in driver.text


def _loaded(broker: KafkaBroker, prefix: str, directory: Path) -> AbstractContextManager[LiveLoad]:
    print("seed", _SEED)
    splits = {"split_every_ms": 10_000}
    return live_load(broker.bootstrap, prefix, directory, seed=_SEED, store=splits, rows_per_s=200)


def _finish(load: LiveLoad, driver: SparkProcess) -> None:
    report = load.finish()
    assert report.verdict is Verdict.PASSED, str(report)
    assert report.counts.markers > 0
    assert driver.stop() == 0, driver.text[-5_000:]
    assert "Traceback" not in driver.text


def _executor_of(worker: OwnedServer) -> int:
    """The process id of the executor that a worker has started."""
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = stat.read_text().rpartition(")")[2].split()[1]
        except OSError:
            continue  # it has ended meanwhile
        if parent == str(worker.pid):
            return int(stat.parent.name)
    raise AssertionError(
        f"the worker at {worker.address} runs no executor: {worker.log.read_text()[-2_000:]}"
    )
