"""The log lines of a query's driver: one format, and no secret in any of them."""

from __future__ import annotations

import io
import json
import logging
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime

import pytest
import structlog

from tests.spark_session import skip_without_java
from tidegate.redaction import remember_secret
from tidegate.spark.platform.logs import configure_logs

_SECRET = "hunter2-of-this-driver"
_KAFKA = logging.getLogger("tidegate.kafka")


@contextmanager
def written(level: str, *, as_json: bool = True) -> Iterator[io.StringIO]:
    """Give what comes to standard error; the logs of the test run are as before afterwards."""
    root, before = logging.getLogger(), structlog.get_config()
    handlers, level_before, of_kafka = root.handlers[:], root.level, _KAFKA.level
    root.handlers.clear()  # or they would be closed
    error = io.StringIO()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "stderr", error)
        try:
            configure_logs(level, as_json=as_json)
            yield error
        finally:
            root.handlers[:] = handlers
            root.setLevel(level_before)
            _KAFKA.setLevel(of_kafka)
            structlog.configure(**before)


@pytest.mark.parametrize("as_json", [True, False], ids=["json", "text"])
def test_no_line_has_a_secret(as_json: bool) -> None:
    remember_secret(_SECRET)
    with written("INFO", as_json=as_json) as lines:
        logging.getLogger("tidegate.test").warning("it said %s to http://me:hush@reg", _SECRET)
        structlog.stdlib.get_logger("tidegate.test").warning("refused", reason=f"by {_SECRET}")
        logging.getLogger("client.of.others").error("failed", exc_info=ValueError(f"inside of {_SECRET}"))
    text = lines.getvalue()
    assert "it said redacted to http://me:redacted@reg" in text
    assert "inside of redacted" in text
    assert _SECRET not in text


def test_a_line_of_json_without_its_secrets_is_json() -> None:
    with written("INFO") as lines:
        logging.getLogger("tidegate.test").warning('no table "password=a" is there')
    assert json.loads(lines.getvalue())["event"] == 'no table "password=redacted" is there'


@pytest.mark.parametrize("as_json", [True, False], ids=["json", "text"])
def test_no_line_steers_a_terminal(as_json: bool) -> None:
    with written("INFO", as_json=as_json) as lines:
        logging.getLogger("tidegate.test").warning("it said %s", "\x1b[2J")
        structlog.stdlib.get_logger("tidegate.test").warning("refused", reason="by\x1b]0;owned\x07")
    text = lines.getvalue()
    assert "it said \\u001b[2J" in text
    assert "by\\u001b]0;owned\\u0007" in text
    assert "\x1b[2J" not in text
    assert "\x07" not in text


def test_a_line_of_ours_and_one_of_a_client_have_one_form() -> None:
    with written("INFO") as lines:
        structlog.stdlib.get_logger("ours").info("said", feed="f")
        logging.getLogger("theirs").info("said")
    ours, theirs = (json.loads(line) for line in lines.getvalue().splitlines())
    assert (ours["event"], ours["logger"], ours["level"], ours["feed"]) == ("said", "ours", "info", "f")
    assert (theirs["event"], theirs["logger"], theirs["level"]) == ("said", "theirs", "info")
    assert ours.keys() - theirs.keys() == {"feed"}


@pytest.mark.parametrize(("level", "told"), [("INFO", ["warning", "error"]), ("ERROR", ["error"])])
def test_what_the_kafka_client_says_below_a_warning_is_left_out(level: str, told: list[str]) -> None:
    with written(level) as lines:
        for each in (_KAFKA.info, _KAFKA.warning, _KAFKA.error):
            each("said")
    assert [json.loads(line)["level"] for line in lines.getvalue().splitlines()] == told


_BY_JAVA = """
from tests.spark_session import running_session
from tidegate.spark.platform.logs import configure_java_logs

with running_session("logs") as session:
    configure_java_logs(session)
    log4j = session.sparkContext._jvm.org.apache.logging.log4j
    trouble = session.sparkContext._jvm.java.lang.IllegalStateException("torn")
    log4j.LogManager.getLogger("of.java").error("said \\"so\\"\\nin two lines", trouble)
"""


@pytest.mark.slow
def test_lines_of_java_have_the_form_of_those_of_python() -> None:
    skip_without_java()
    ended = subprocess.run([sys.executable, "-c", _BY_JAVA], capture_output=True, text=True, check=True)
    (line,) = [line for line in ended.stderr.splitlines() if "of.java" in line]
    said = json.loads(line)
    assert (said["event"], said["level"], said["logger"]) == ('said "so"\nin two lines', "error", "of.java")
    assert datetime.fromisoformat(said["timestamp"]).tzinfo == UTC
    assert said["exception"].startswith("java.lang.IllegalStateException: torn")
