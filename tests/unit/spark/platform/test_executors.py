"""What a task looks at on an executor, and what is said of a task that could not begin."""

from __future__ import annotations

from pathlib import Path

from tidegate.spark.platform.executors import _look_for, words_of
from tidegate.spark.platform.store_access import StoreAccess


def lack(module: str, file_uri: str = "") -> str:
    ((where, found),) = _look_for(module, file_uri, StoreAccess())([])
    assert "python" in where
    return found


def test_an_executor_that_has_everything_lacks_nothing(tmp_path: Path) -> None:
    (tmp_path / "query.json").write_text("{}")
    assert lack("tidegate.spark.changefeed.partition_round", (tmp_path / "query.json").as_uri()) == ""


def test_a_package_that_is_missing_is_named() -> None:
    assert lack("tidegate.nowhere") == "cannot run tidegate: No module named 'tidegate.nowhere'."


def test_a_directory_that_only_the_driver_reaches_is_named(tmp_path: Path) -> None:
    uri = (tmp_path / "elsewhere" / "query.json").as_uri()
    assert lack("json", uri).startswith(f"does not find {uri}, which the driver has written")


def test_a_file_system_that_the_executor_does_not_know_is_named() -> None:
    said = lack("json", "nothing://bucket/query.json")
    assert said.startswith("does not find nothing://bucket/query.json")
    assert "nothing" in said.partition("written")[2]


def test_thewords_of_are_those_of_the_first_exception_that_a_trace_names() -> None:
    trace = (
        "An error occurred while calling z:org.apache.spark.api.python.PythonRDD.collectAndServe.\n"
        ": org.apache.spark.SparkException: Job aborted due to stage failure: Lost task 1.3: "
        "org.apache.spark.api.python.PythonException: Traceback (most recent call last):\n"
        '  File "worker.py", line 1, in main\n'
        "pyspark.errors.exceptions.base.PySparkRuntimeError: [PYTHON_VERSION_MISMATCH] Python in worker has "
        "different version: 3.9 than that in driver: 3.11, PySpark cannot run.\n"
        "\n\tat org.apache.spark.scheduler.Task.run(Task.scala:147)\n"
    )
    assert words_of(RuntimeError(trace)).startswith(
        "pyspark.errors.exceptions.base.PySparkRuntimeError: [PYTHON"
    )
    assert words_of(RuntimeError(trace)).count("\n") == 0
    assert words_of(RuntimeError("no connection")) == "no connection."
