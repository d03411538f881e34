"""Spark and the other users of a machine: they read the command line of its Java, and reach its loopback."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from tests.spark_home import spark_home
from tests.spark_session import skip_without_java
from tidegate.spark.platform.session import closed_to_others

_SUBMIT: Final = """#!/bin/sh
printf '%s\\n' "$@" > "$SPARK_HOME/arguments"
exit 1
"""
_START: Final = """
from tidegate.spark.platform import session
from tidegate.spark.platform.store_access import StoreAccess

session.require_java = lambda: None  # there is none behind this ``spark-submit``
logins = StoreAccess.of_environment().for_spark()
session.start_session("x", master="local[1]", jars=None, config={"spark.shown": "shown"}, logins=logins)
"""


def test_no_login_of_the_environment_stands_on_the_command_line_of_java(tmp_path: Path) -> None:
    submit = tmp_path / "bin" / "spark-submit"
    submit.parent.mkdir()
    submit.write_text(_SUBMIT)
    submit.chmod(0o700)
    secrets = {"AWS_SECRET_ACCESS_KEY": "hidden-key", "AWS_SESSION_TOKEN": "hidden-token"}
    environment = {**os.environ, **secrets, "AWS_ACCESS_KEY_ID": "user", "SPARK_HOME": str(tmp_path)}
    environment.pop("PYSPARK_GATEWAY_PORT", None)
    started = subprocess.run(
        [sys.executable, "-c", _START],
        env=environment,
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert "JAVA_GATEWAY_EXITED" in started.stderr, started.stderr
    arguments = (tmp_path / "arguments").read_text()
    assert "spark.shown=shown" in arguments
    assert "spark.master=local[1]" in arguments
    assert not [secret for secret in secrets.values() if secret in arguments]


@pytest.mark.parametrize("master", ["local", "local[2]", "local[*]", "local[*,4]", "local[2, 4]"])
def test_spark_on_one_machine_asks_for_a_secret_and_has_no_page(master: str) -> None:
    assert closed_to_others({"spark.master": master}) == {
        "spark.authenticate": "true",
        "spark.ui.enabled": "false",
    }


def test_what_somebody_has_set_stays() -> None:
    asked = {"spark.master": "local[2]", "spark.ui.enabled": "true"}
    assert closed_to_others(asked) == {"spark.authenticate": "true"}
    assert closed_to_others({**asked, "spark.authenticate": "false"}) == {}


@pytest.mark.parametrize(
    "master", ["", "spark://127.0.0.1:7077", "yarn", "k8s://h", "local-cluster[1,1,1024]"]
)
def test_a_cluster_gets_no_secret_that_nobody_has_made(master: str) -> None:
    """Spark makes one for a local master alone, and does not start elsewhere without one."""
    assert closed_to_others({"spark.master": master}) == {}


#: Prints what a session was given, with a file of defaults.
_SHOWN: Final = """
from tidegate.spark.platform.session import start_session

session = start_session("x", master="local[1]", jars=None, config={"spark.driver.memory": "512m"})
conf = session.sparkContext.getConf()
print(conf.get("spark.authenticate"), conf.get("spark.ui.enabled"), session.sparkContext.uiWebUrl is not None)
print(session.sparkContext.parallelize([7], 1).map(lambda number: number).collect())
session.stop()
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("defaults", "shown"),
    [("", "true false False"), ("spark.ui.enabled true\nspark.ui.port 0\n", "true true True")],
    ids=["without defaults", "a page by default"],
)
def test_a_session_on_one_machine_is_closed_unless_the_defaults_say_otherwise(
    tmp_path: Path, defaults: str, shown: str
) -> None:
    skip_without_java()
    (tmp_path / "spark-defaults.conf").write_text(defaults)
    environment = {**os.environ, "SPARK_HOME": str(spark_home()), "PYTHONPATH": os.pathsep.join(sys.path)}
    environment.pop("PYSPARK_GATEWAY_PORT", None)
    ran = subprocess.run(
        [sys.executable, "-c", _SHOWN],
        env={**environment, "SPARK_CONF_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert ran.stdout.splitlines() == [shown, "[7]"], ran.stderr[-2_000:]
