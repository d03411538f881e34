"""Texts that leave the process, looked through once more."""

from __future__ import annotations

import io
import json
import logging
import sys
from time import process_time

import pytest

from app.logs import configure_logs
from tests.unit.changefeed.feeds import DEFINITION
from tidegate.changefeed.definition.feed import FeedState
from tidegate.changefeed.lifecycle.job_records import StateRecord
from tidegate.redaction import redacted, remember_secret
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


def test_no_reason_that_is_stored_has_a_secret() -> None:
    record = StateRecord(DEFINITION.id, DEFINITION.epoch, FeedState.FAILED, error=f"it said {SECRET}")
    assert json.loads(record.to_bytes())["error"] == "it said redacted"


@pytest.mark.parametrize("piece", ["://", "://a:", "://a:b", "a=", "client_key=", "password=x&", ":@", "x"])
def test_it_takes_time_in_proportion(piece: str) -> None:
    def cost(count: int) -> float:
        begin = process_time()
        redacted(piece * count)
        return process_time() - begin

    cost(1_000)
    assert cost(80_000) < max(0.05, 12 * cost(20_000))
