"""The jars by which Spark reads Kafka, for the sessions of tests and demos."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from stack.coordinate import Coordinate
from stack.downloads.jars import JarSet, resolve

#: Only the jars that Spark does not have itself, since Python workers look for modules in each jar.
_NEEDED: Final = ("commons-pool2", "kafka-clients", "spark-sql-kafka", "spark-token-provider-kafka")


#: The versions of Spark that feeds are tested with. ``constraints.txt`` pins PySpark to the newest.
VERSIONS: Final = ("4.0.0", "4.1.1", "4.2.0")


def connector_jars(spark_version: str) -> JarSet:
    """Return the jars for this version of Spark, on Scala 2.13."""
    root = Coordinate("org.apache.spark", "spark-sql-kafka-0-10_2.13", spark_version)
    return JarSet("spark-kafka", (root,), only=_NEEDED)


def spark_connector(spark_version: str) -> tuple[Path, ...]:
    """Return the paths of the jars for this version of Spark.

    Raises what ``stack.downloads.jars.resolve`` does.
    """
    return resolve(connector_jars(spark_version))
