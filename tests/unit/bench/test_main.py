"""A bench of an hour is not lost by one of its measurements."""

from __future__ import annotations

import io

from rich.console import Console

from bench.__main__ import _measure
from bench.report import Report
from tidegate.errors import RetryError


def test_what_ends_a_measurement_is_told_by_the_report_and_the_next_goes_on() -> None:
    console, report = Console(file=io.StringIO()), Report(seed=1, quick=True)
    done: list[str] = []

    def gives_no_answer() -> None:
        raise RetryError("the broker gives no answer")

    def has_a_defect() -> None:
        raise ZeroDivisionError("no rows were counted")

    _measure("idle", gives_no_answer, report, console)
    _measure("wide", has_a_defect, report, console)
    _measure("steps", lambda: done.append("steps"), report, console)
    assert report.failures == {
        "idle": "the broker gives no answer",
        "wide": "ZeroDivisionError: no rows were counted",
    }
    assert done == ["steps"]
