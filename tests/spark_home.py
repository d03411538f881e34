"""A home of Spark whose Python workers start faster.

Spark puts ``python/lib/pyspark.zip`` of its home in front of a worker's path. A worker then compiles PySpark
anew: 0.55 s of processor time until it answers, of which Spark waits for 10 s. On a machine with much to do
that may be too few. A worker that finds no archive imports the installed package: 0.2 s.
"""

from __future__ import annotations

import functools
import tempfile
from pathlib import Path
from typing import Final

import pyspark

_LEFT_OUT: Final = "python"


@functools.cache
def spark_home() -> Path:
    """Return a directory with what the installed PySpark has but the archive; it goes with the process."""
    installed, home = Path(pyspark.__file__).parent, Path(_directory().name)
    for each in installed.iterdir():
        if each.name != _LEFT_OUT:
            (home / each.name).symlink_to(each)
    return home


@functools.cache
def _directory() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="spark-home-")
