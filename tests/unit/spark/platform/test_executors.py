"""Tests what a task looks at on an executor, and what is said of a task that could not begin."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from zipfile import ZipFile

import pytest
from pyspark import cloudpickle

from tidegate.errors import SettingsError
from tidegate.spark.platform.executors import _Answer, _look_for, _require_fit, words_of
from tidegate.spark.platform.package_archive import running_code, write_archive
from tidegate.spark.platform.store_access import StoreAccess


def lack(module: str, file_uri: str = "") -> str:
    ((where, found, _),) = _look_for(module, file_uri, StoreAccess())([])
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


def test_executors_with_the_drivers_code_fit_and_those_with_other_code_are_named(tmp_path: Path) -> None:
    write_archive(tmp_path / "same.zip")
    write_archive(tmp_path / "other.zip")
    with ZipFile(tmp_path / "other.zip", "a") as archive:
        archive.writestr("tidegate/newer.py", "")
    _require_fit([_answer_of(tmp_path / "same.zip")])
    with pytest.raises(SettingsError) as refused:
        _require_fit([_answer_of(tmp_path / "same.zip"), _answer_of(tmp_path / "other.zip")])
    assert str(running_code()) in str(refused.value)
    assert str(tmp_path / "other.zip") in str(refused.value)
    assert "tidegate spark package" in str(refused.value)


def test_an_executor_whose_code_does_not_know_the_question_is_another_version(tmp_path: Path) -> None:
    write_archive(tmp_path / "tidegate.zip")
    with ZipFile(tmp_path / "tidegate.zip") as archive:
        archive.extractall(tmp_path)
    package = tmp_path / "tidegate"
    (package / "spark" / "platform" / "package_archive.py").write_text("def write_archive(path): ...\n")
    older = re.escape(str(package / "__init__.py"))
    with pytest.raises(SettingsError, match=rf"runs tidegate \(code unknown, {older}\), and"):
        _require_fit([_answer_of(tmp_path)])


def _answer_of(place: Path) -> _Answer:
    """Return what a task answers that imports tidegate from there. As Spark does, it is sent as a value."""
    task = cloudpickle.dumps(_look_for("json", "", StoreAccess()))  # type: ignore[no-untyped-call]
    code = (
        "import json, pickle, sys\n"
        "((where, lack, found),) = pickle.loads(bytes.fromhex(sys.argv[1]))([])\n"
        "print(json.dumps([where, lack, found]))"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code, task.hex()],
        env={"PYTHONPATH": str(place)},
        cwd=place.parent,
        capture_output=True,
        text=True,
        check=False,
    )
    assert not ran.returncode, ran.stderr
    where, lack, found = json.loads(ran.stdout)
    return where, lack, tuple(found)
