"""The Spark session of tidegate's jobs: the connector that they need, and the Java and Python to run on."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pyspark
from pyspark.sql import SparkSession

from tidegate.spark.platform.java import require_java

_CONNECTOR: Final = "org.apache.spark:spark-sql-kafka-0-10_2.13"
#: Options of sources that Spark must not show in plans: the default, and what
#: `tidegate.spark.platform.kafka_source` adds.
_SECRETS: Final = "(?i)url|password|jaas|keystore"
_LOOPBACK: Final = "127.0.0.1"
_NOTHING: Final[Mapping[str, str]] = {}


@dataclass(frozen=True, slots=True)
class Placement:
    """Where Spark runs: ``master`` as Spark names it, empty for what ``spark-submit`` says; and the
    connector's ``jars``, empty to have Spark resolve it."""

    master: str = ""
    jars: Sequence[Path] = ()


def connector() -> str:
    """The Maven coordinates of the Kafka connector for the PySpark that is installed."""
    return f"{_CONNECTOR}:{pyspark.__version__}"


def submitted() -> bool:
    """Whether ``spark-submit`` runs this process: where Spark runs, and with which jars, is its to say."""
    return "PYSPARK_GATEWAY_PORT" in os.environ


def start_session(
    name: str,
    *,
    master: str | None = None,
    jars: Sequence[Path] | None = (),
    config: Mapping[str, str] = _NOTHING,
) -> SparkSession:
    """A session with the Kafka connector: from ``jars``, or else resolved by its Maven coordinates, unless
    ``spark-submit`` has been told of it; ``None`` for a session that needs none.

    Without ``master`` it is where ``spark-submit`` says, or on this machine. Python workers run the Python
    of this process unless ``PYSPARK_PYTHON`` names another.

    Raises ``SettingsError`` for a Java that will not do.
    """
    if not submitted():
        require_java()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.appName(name)
    if master is not None:
        builder = builder.master(master)
        if master.startswith("local"):  # else Spark's driver and its web pages are open to the network
            os.environ.setdefault("SPARK_LOCAL_IP", _LOOPBACK)
    if jars:
        builder = builder.config("spark.jars", ",".join(map(str, jars)))
    elif jars is not None and not submitted():
        builder = builder.config("spark.jars.packages", connector())
    builder = builder.config("spark.sql.redaction.options.regex", _SECRETS)
    builder = builder.config("spark.ui.showConsoleProgress", "false")
    builder = builder.config("spark.sql.adaptive.enabled", "false")  # streams have it not, and say so
    for key, value in config.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()
