"""The command line of Spark's Java is open to all users of the machine."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Final

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
