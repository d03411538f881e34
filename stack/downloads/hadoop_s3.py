"""The jars by which Spark reads and writes S3 (``s3a://``), for the sessions of tests."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from stack.coordinate import Coordinate
from stack.downloads.jars import JarSet, resolve

#: The version of Hadoop that the newest Spark of ``spark_connector.VERSIONS`` has.
_HADOOP: Final = "3.5.0"
#: The version of AWS's SDK that this Hadoop asks for. Hadoop itself asks for `bundle`, which has every
#: service of AWS.
_AWS: Final = "2.35.4"
_SDK: Final = "software.amazon.awssdk"

JARS: Final = JarSet(
    "hadoop-s3",
    (
        Coordinate("org.apache.hadoop", "hadoop-aws", _HADOOP),
        Coordinate(_SDK, "s3-transfer-manager", _AWS),
        Coordinate(_SDK, "sts", _AWS),
        Coordinate("software.amazon.s3.analyticsaccelerator", "analyticsaccelerator-s3", "1.3.1"),
    ),
    without=("bundle",),
)


def hadoop_s3() -> tuple[Path, ...]:
    """Return the paths of the jars. Raises what ``stack.downloads.jars.resolve`` does."""
    return resolve(JARS)
