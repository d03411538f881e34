"""Gives tidegate to Spark's executors, and looks whether they can run it, before the first batch."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from pyspark import SparkFiles
from pyspark.sql import SparkSession

from tidegate.errors import SettingsError
from tidegate.spark.platform.package_archive import write_archive

_PY_FILES: Final = "spark.submit.pyFiles"
#: How Python and Java name an exception, at the begin of a line of a trace.
_NAMED: Final = re.compile(r"^(?:Caused by: |: )?([\w.$]*(?:Error|Exception): .+)$", re.MULTILINE)
PAGE: Final = "docs/spark-cluster.md says what executors need."


class Needs(NamedTuple):
    """What a job's tasks need: a module of tidegate, and a file that they have to find (empty: none)."""

    module: str
    file_uri: str = ""


def prepare_executors(session: SparkSession, py_files: Sequence[Path], needs: Needs) -> None:
    """Have executors import tidegate, and look that they can and that they find what the driver wrote.

    On one machine (``local``) there is nothing to do. Elsewhere executors get ``py_files``; without any, and
    without those of ``spark-submit``, they get the package that runs here. Raises ``SettingsError``, in one
    sentence, for executors that lack a package or do not reach the file. As many tasks look as the cluster
    has cores: an executor that starts later is not asked.
    """
    context = session.sparkContext
    is_local = (context.master or "").startswith("local")
    if not is_local and not py_files and not context.getConf().get(_PY_FILES, ""):
        py_files = (_own_archive(),)
    for file in py_files:
        context.addPyFile(str(file))
    if is_local:
        return
    tasks = max(2, context.defaultParallelism)
    try:
        answers = context.parallelize(range(tasks), tasks).mapPartitions(_look_for(*needs)).collect()
    except Exception as error:  # Python's and Java's words are in it, in 240 lines
        raise SettingsError(f"Spark's executors cannot run tidegate: {words_of(error)} {PAGE}") from None
    for where, lack in answers:
        if lack:
            raise SettingsError(f"The executor at {where} {lack} {PAGE}")


def _own_archive() -> Path:
    """Write the package that runs here into Spark's directory, which is removed with the session."""
    directory = Path(SparkFiles.getRootDirectory()) / "shipped"
    directory.mkdir(exist_ok=True)
    archive = directory / "tidegate.zip"
    write_archive(archive)
    return archive


def _look_for(module: str, file_uri: str) -> Callable[[Iterable[int]], Iterable[tuple[str, str]]]:
    """Return what a task runs. It names nothing of this module, which executors may be unable to import."""

    def look(_: Iterable[int]) -> Iterator[tuple[str, str]]:
        import importlib
        import socket
        import sys

        where = f"{socket.gethostname()} ({sys.executable})"
        try:
            importlib.import_module(module)
        except ImportError as error:
            yield where, f"cannot run tidegate: {error}."
            return
        if file_uri:
            from pyarrow import fs

            try:
                filesystem, path = fs.FileSystem.from_uri(file_uri)
                found = filesystem.get_file_info(path).type == fs.FileType.File
                why = "there is no such file on its machine"
            except Exception as error:
                found, why = False, str(error)
            if not found:
                yield where, f"does not find {file_uri}, which the driver has written: {why}."
                return
        yield where, ""

    return look


def words_of(error: Exception) -> str:
    """Return the sentence of a trace that says why: that of the last exception that it names."""
    named = _NAMED.findall(str(error))
    words = str(named[-1] if named else error).strip().partition("\n")[0]
    return words if words.endswith(".") else f"{words}."
