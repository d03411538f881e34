"""Spark for tests: local, small, and silent."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Final

import pyspark
import pytest
from pyspark.sql import SparkSession

from stack.downloads.spark_connector import spark_connector
from tests.spark_home import spark_home
from tidegate.errors import SettingsError
from tidegate.spark.platform.java import require_java
from tidegate.spark.platform.session import start_session

_ROOT: Final = Path(__file__).parents[1]
_CONFIG: Final = {
    "spark.ui.enabled": "false",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.sql.shuffle.partitions": "2",
    "spark.driver.memory": "1g",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "50",  # as small as the steps of other engines in tests
}


def skip_without_java() -> None:
    """Skip the test that is about to start Spark, on a machine that has no Java for it. The message names
    what is missing."""
    try:
        require_java()
    except SettingsError as error:
        pytest.skip(str(error))


@contextmanager
def running_session(name: str, config: Mapping[str, str] = MappingProxyType({})) -> Iterator[SparkSession]:
    """A session on two threads, stopped at the end. Python workers find the checkout's packages.

    ``config`` has properties of Spark beside those of all tests.
    """
    skip_without_java()
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (str(_ROOT), os.environ.get("PYTHONPATH"))))
    os.environ.setdefault("SPARK_HOME", str(spark_home()))
    jars = spark_connector(pyspark.__version__)
    session = start_session(name, master="local[2]", jars=jars, config={**_CONFIG, **config})
    session.sparkContext.setLogLevel("ERROR")
    try:
        yield session
    finally:
        session.stop()
