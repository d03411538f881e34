"""The lines of a worker's log."""

from __future__ import annotations

import io
import logging
import sys

import pytest

from app.logs import configure_logs
from tidegate.redaction import remember_secret
from tidegate.worker.process.settings import LogFormat, Settings

SECRET = "hunter2-of-this-process"


@pytest.fixture(autouse=True)
def _remembered() -> None:
    remember_secret(SECRET)


@pytest.mark.parametrize("form", LogFormat)
def test_no_line_of_the_log_has_a_secret(form: LogFormat, monkeypatch: pytest.MonkeyPatch) -> None:
    written = io.StringIO()
    monkeypatch.setattr(sys, "stderr", written)
    root = logging.getLogger()
    before = root.handlers[:], root.level
    try:
        configure_logs(Settings(log_format=form))
        logging.getLogger("tidegate.test").warning("it said %s to http://me:hush@reg", SECRET)
        fault = ValueError(f"inside of {SECRET}")
        logging.getLogger("aiokafka").error("failed", exc_info=fault)
    finally:
        root.handlers[:], root.level = before
    text = written.getvalue()
    assert "it said redacted to http://me:redacted@reg" in text
    assert "inside of redacted" in text
    assert SECRET not in text
