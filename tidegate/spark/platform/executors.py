"""Gives tidegate to Spark's executors, and checks that they can run it, before the first batch."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple, TypeAlias
from urllib.parse import unquote

from pyspark import SparkContext, SparkFiles
from pyspark.sql import SparkSession

from tidegate.errors import SettingsError
from tidegate.spark.platform.package_archive import RunningCode, running_code, write_archive
from tidegate.spark.platform.store_access import StoreAccess

_PY_FILES: Final = "spark.submit.pyFiles"
#: How Python and Java name an exception, at the beginning of a line of a trace.
_NAMED: Final = re.compile(r"^(?:Caused by: |: )?([\w.$]*(?:Error|Exception): .+)$", re.MULTILINE)
PAGE: Final = "docs/spark-cluster.md says what executors need."
STORES: Final = "docs/spark-cluster.md#checkpoint-directories says what it needs."

#: The executor that answers, what it lacks (nothing: empty), and the code that it runs. Tasks of every
#: version answer in this form.
_Answer: TypeAlias = tuple[str, str, tuple[str, str, str]]


class Needs(NamedTuple):
    """The needs of a job: its tasks need a module of tidegate; they and Spark need a file (empty: none).

    The driver has written the file, and tasks have to read it and to write beside it. ``access`` has the
    login for its file system.
    """

    module: str
    file_uri: str = ""
    access: StoreAccess = StoreAccess()


def on_this_machine(master: str | None) -> bool:
    """Return whether Spark runs on this machine alone, with a number of cores that stays as it is.

    ``master`` is as Spark names it.
    """
    return (master or "").startswith("local")


def prepare_executors(session: SparkSession, py_files: Sequence[Path], needs: Needs) -> None:
    """Give tidegate to executors; check that they can import it, and find what the driver wrote.

    Spark's driver has to find the file as well, by Hadoop's library. On one machine (``local``) there is
    nothing more to do. Elsewhere executors get ``py_files``; without any, and without those of
    ``spark-submit``, they get the package that runs here. Raises ``SettingsError``, in one sentence, for
    executors that lack a package, run other code, or cannot read or write where the file is. As many tasks
    check this as the cluster has cores: an executor that starts later is not checked.
    """
    context = session.sparkContext
    if needs.file_uri:
        _require_found_by_hadoop(context, needs.file_uri)
    is_local = on_this_machine(context.master)
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
    _require_fit(answers)


def _require_fit(answers: Iterable[_Answer]) -> None:
    """Raise ``SettingsError`` for an executor that lacks something, or that runs other code than the driver.

    Another version may write other rows, and state that this one cannot read.
    """
    ours = running_code()
    for where, lack, code in answers:
        if lack:
            raise SettingsError(f"The executor at {where} {lack} {PAGE}")
        theirs = RunningCode(*code)
        if theirs.digest != ours.digest:
            raise SettingsError(
                f"The executor at {where} runs {theirs}, and the driver runs {ours}: rows and state "
                "would be of two versions. Nothing was run. Leave --py-files away, and executors get the "
                "driver's code; or name an archive there that this version's `tidegate spark package` has "
                f"written. {PAGE}"
            )


def _own_archive() -> Path:
    """Write the package that runs here into Spark's directory, which is removed with the session."""
    directory = Path(SparkFiles.getRootDirectory()) / "shipped"
    directory.mkdir(exist_ok=True)
    archive = directory / "tidegate.zip"
    write_archive(archive)
    return archive


def _require_found_by_hadoop(context: SparkContext, file_uri: str) -> None:
    """Raise ``SettingsError`` unless Spark's driver finds the file at the place where tidegate wrote it."""
    hadoop = context._jvm.org.apache.hadoop.fs  # type: ignore[union-attr]  # noqa: SLF001
    try:
        path = hadoop.Path(unquote(file_uri))  # Hadoop escapes nothing
        is_found = path.getFileSystem(context._jsc.hadoopConfiguration()).exists(path)  # noqa: SLF001
    except Exception as error:
        raise SettingsError(
            f"Spark cannot look for {file_uri}, which tidegate has written: {words_of(error)} {STORES}"
        ) from None
    if not is_found:
        raise SettingsError(
            f"Spark does not find {file_uri}, which tidegate has written: by that name the two reach "
            f"different places. {STORES}"
        )


def _look_for(
    module: str, file_uri: str, access: StoreAccess
) -> Callable[[Iterable[int]], Iterable[_Answer]]:
    """Return the function that a task runs.

    It names nothing of this module, which executors may be unable to import.
    """

    def look(_: Iterable[int]) -> Iterator[_Answer]:
        import importlib
        import socket
        import sys

        where = f"{socket.gethostname()} ({sys.executable})"
        try:
            importlib.import_module(module)
        except ImportError as error:
            yield where, f"cannot run tidegate: {error}.", ("", "", "")
            return
        if file_uri:
            try:
                from tidegate.spark.platform.file_systems import find, write_beside

                lack = find(file_uri, access) or write_beside(file_uri, access)
            except Exception as error:
                lack = f"cannot look for {file_uri}: {error}"
            if lack:
                yield where, f"{lack.rstrip('.')}.", ("", "", "")
                return
        try:
            from tidegate.spark.platform.package_archive import running_code

            version, digest, place = running_code()
        except ImportError:  # a version that has no such function yet
            version, digest, place = "", "", str(importlib.import_module("tidegate").__file__)
        yield where, "", (version, digest, place)

    return look


def words_of(error: Exception) -> str:
    """Return the sentence of a trace that says why it came: that of the last exception in it."""
    named = _NAMED.findall(str(error))
    words = str(named[-1] if named else error).strip().partition("\n")[0]
    return words if words.endswith(".") else f"{words}."
