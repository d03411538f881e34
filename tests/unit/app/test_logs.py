"""The lines of a worker's log."""

from __future__ import annotations

import io
import json
import logging
import sys

import pytest
import structlog

from app.logs import configure_logs
from tidegate.redaction import remember_secret
from tidegate.worker.process.settings import LogFormat, Settings

SECRET = "hunter2-of-this-process"


@pytest.fixture(autouse=True)
def _remembered() -> None:
    remember_secret(SECRET)


def _written(form: LogFormat, monkeypatch: pytest.MonkeyPatch, said: str, fault: Exception) -> str:
    written = io.StringIO()
    monkeypatch.setattr(sys, "stderr", written)
    root = logging.getLogger()
    before = root.handlers[:], root.level
    try:
        configure_logs(Settings(log_format=form))
        logging.getLogger("tidegate.test").warning("it said %s to http://me:hush@reg", said)
        structlog.get_logger("tidegate.test").warning("refused", reason=said)
        logging.getLogger("aiokafka").error("failed", exc_info=fault)
    finally:
        root.handlers[:], root.level = before
    return written.getvalue()


@pytest.mark.parametrize("form", LogFormat)
def test_no_line_of_the_log_has_a_secret(form: LogFormat, monkeypatch: pytest.MonkeyPatch) -> None:
    text = _written(form, monkeypatch, SECRET, ValueError(f"inside of {SECRET}"))
    assert "it said redacted to http://me:redacted@reg" in text
    assert "inside of redacted" in text
    assert SECRET not in text


def test_a_line_of_json_without_its_secrets_is_json(monkeypatch: pytest.MonkeyPatch) -> None:
    said = 'table "password=a" has no column'
    text = _written(LogFormat.JSON, monkeypatch, said, ValueError(said))
    events = [json.loads(line)["event"] for line in text.splitlines()]
    assert events[0] == 'it said table "password=redacted" has no column to http://me:redacted@reg'


@pytest.mark.parametrize("form", LogFormat)
def test_no_line_of_the_log_steers_a_terminal(form: LogFormat, monkeypatch: pytest.MonkeyPatch) -> None:
    text = _written(form, monkeypatch, "\x1b[2J", ValueError("inside of \x1b]0;owned\x07"))
    assert "it said \\u001b[2J to" in text
    assert "inside of \\u001b]0;owned\\u0007" in text
    assert "\x1b[2J" not in text
    assert "\x07" not in text
