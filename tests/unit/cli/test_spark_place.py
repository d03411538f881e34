"""Spark repeats the task of a Python worker that was killed, also where it runs on one machine."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from tests.spark_home import spark_home
from tests.spark_session import skip_without_java
from tidegate.cli.spark_place import spark_master

#: Its first argument is a master, its second a file that the first attempt makes.
_JOB: Final = """
import os, signal, sys
from pathlib import Path
from tidegate.spark.platform.session import start_session

def killed_once(number):
    if not Path(sys_args[1]).exists():
        Path(sys_args[1]).touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return number

sys_args = sys.argv[1:]
session = start_session("killed once", master=sys_args[0], jars=None, config={"spark.ui.enabled": "false"})
print(session.sparkContext.parallelize([7], 1).map(killed_once).collect())
session.stop()
"""


@pytest.mark.slow
def test_by_default_a_python_worker_that_is_killed_costs_a_task_and_no_query(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    skip_without_java()
    monkeypatch.delenv("PYSPARK_GATEWAY_PORT", raising=False)
    master, killed = spark_master(None), tmp_path / "killed"
    assert master is not None
    ran = subprocess.run(
        [sys.executable, "-c", _JOB, master, str(killed)],
        env={**os.environ, "SPARK_HOME": str(spark_home()), "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert killed.exists()
    assert ran.stdout.split() == ["[7]"], ran.stderr[-2_000:]
