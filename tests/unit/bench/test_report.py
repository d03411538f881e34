"""The report: what limits, how much faster, and JSON that can be read back."""

from __future__ import annotations

import json
from io import StringIO
from pathlib import Path

from rich.console import Console

from bench.durability import CommitTime
from bench.endtoend import Throughput
from bench.open_intents import OpenIntents
from bench.report import Report
from bench.stages import StageTime
from tidegate.errors import RetryError


def _report() -> Report:
    report = Report(seed=1, quick=True)
    report.stages["orders"] = [
        StageTime("decode", 7.0, 5.0),
        StageTime("row decode", 11.0, 8.0),
        StageTime("whole step", 30.0, 20.0),
        StageTime("produce", 6.0, 4.0),
    ]
    report.commits["orders"] = CommitTime(120.0, 9.0, 0.6)
    report.throughput = [
        Throughput("tidegate worker", "orders", 100, 5.0, 20.0, 50.0),
        Throughput("stock Faust agent", "orders", 20, 5.0, 4.0, None),
    ]
    report.open_intents.append(OpenIntents("off", 10, 100.0, 110.0, 5.0, 0, 105.0, 1.0))
    return report


def test_the_slowest_stage_limits_and_the_whole_step_is_none() -> None:
    assert _report().limiting_stage("orders") == "row decode"


def test_the_worker_is_compared_with_each_other_contender() -> None:
    assert _report().ratios() == {"orders: over stock Faust agent": 5.0}


def test_the_json_holds_what_was_measured_and_nothing_for_the_rest(tmp_path: Path) -> None:
    file = tmp_path / "bench.json"
    _report().write(file)
    stored = json.loads(file.read_text())
    assert stored["limiting_stage"] == {"orders": "row decode"}
    assert stored["open_intents"][0]["with_mib"] == 110.0
    assert stored["marker_lag"] == []
    assert stored["machine"]


def test_what_ends_a_measurement_is_told_and_the_next_goes_on() -> None:
    report, console = _report(), Console(file=StringIO())
    done: list[str] = []

    def gives_no_answer() -> None:
        raise RetryError("the broker gives no answer")

    def has_a_defect() -> None:
        raise ZeroDivisionError("no rows were counted")

    report.measure("idle", gives_no_answer, console)
    report.measure("wide", has_a_defect, console)
    report.measure("steps", lambda: done.append("steps"), console)
    assert report.failures == {
        "idle": "the broker gives no answer",
        "wide": "ZeroDivisionError: no rows were counted",
    }
    assert done == ["steps"]


def test_the_tables_name_what_could_not_be_measured() -> None:
    report = _report()
    report.failures["idle"] = "the broker went away"
    console = Console(record=True, width=200, file=StringIO())
    report.print(console)
    text = console.export_text()
    assert "idle was not measured: the broker went away" in text
    assert "the stage that limits: row decode" in text
    assert "stock Faust agent" in text
