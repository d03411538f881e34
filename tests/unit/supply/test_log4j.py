"""The log4j inside of PySpark, which no pinned set of jars names: it is read from what is installed."""

from __future__ import annotations

import re
from importlib.util import find_spec
from pathlib import Path

from packaging.version import Version

from stack.places import CHECKOUT
from tests.unit.supply.pins import version_of

#: The first that compares the host of a log server with its certificate: CVE-2025-68161.
_OLDEST = Version("2.25.3")
_JAR = re.compile(r"log4j-.*-(\d+\.\d+\.\d+)\.jar")


def test_the_pinned_pyspark_brings_a_log4j_that_is_new_enough() -> None:
    assert _log4j() >= _OLDEST


def test_the_page_about_security_names_it() -> None:
    page = " ".join((CHECKOUT / "docs" / "security.md").read_text().split())
    assert f"PySpark {version_of('pyspark')} brings its own: {_log4j()}." in page


def _log4j() -> Version:
    """The one version that all of log4j's jars have."""
    spark = find_spec("pyspark")  # found, not imported: that would take a second
    assert spark is not None
    assert spark.origin is not None
    jars = map(_JAR.fullmatch, (each.name for each in Path(spark.origin).with_name("jars").iterdir()))
    (version,) = {found[1] for found in jars if found}
    return Version(version)
