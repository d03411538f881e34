"""Each goal stands in one table, with what a run measured of it by the kernel and by Python."""

from __future__ import annotations

from bench.catch_up import CatchUpBeside, CatchUpCosts, CatchUpSpeed
from bench.goals import GOALS, GoalRow, goal_rows
from bench.kernel_worker import KernelWorker
from bench.marker_lag import MarkerLag
from bench.open_intents import OpenIntents
from bench.peers.contest import COPY, KERNEL, PYTHON, Contest, PeerRound, results
from bench.report import Report
from bench.spark import SparkCosts, SparkRatio
from bench.splits import SplitLag
from bench.step_costs import CASES, StepCost
from bench.worker_start import WorkerStart


def _report() -> Report:
    report = Report(seed=1, quick=True)
    report.steps = [StepCost("orders", 40.0, 2.5)]
    report.kernel = [
        KernelWorker("off", 9, 9_000.0, 0.1, 30.0, 8.0),
        KernelWorker("on", 9, 9e4, 0.8, 4.0, 1.0),
    ]
    rates = {KERNEL: 900.0, PYTHON: 100.0, "stock Faust": 10.0, COPY: 1_000.0}
    report.peers = Contest(results({name: [PeerRound(9, rate, 1.0)] for name, rate in rates.items()}), [], {})
    report.marker_lag = [
        MarkerLag("off", 2_000, 1_999.0, 9, 5.0, 101.0, 200.0, 0.5),
        MarkerLag("on", 2_000, 1_999.0, 9, 5.0, 99.0, 200.0, 0.2),
        MarkerLag("on", 20_000, 15_000.0, 9, 5.0, 250.0, 900.0, 0.9),
    ]
    report.split_lag = [SplitLag("on", 5_000.0, 16, 10.0, 50.0, 20.0, 90.0, 1.8)]
    report.open_intents = [OpenIntents("on", 9, 100.0, 600.0, 120_000.0, 3, 90.0, 1.0)]
    speeds = [
        CatchUpSpeed("scan", 9, 9, 160_000.0, 1.0, 1.0),
        CatchUpSpeed("cursor", 9, 9, 140_000.0, 1.0, 1.0),
    ]
    report.catch_up = [CatchUpCosts("on", speeds, CatchUpBeside(9, 1.0, 1.0, 1.0, 12.0, 1.0, 1.0, 1.0))]
    report.spark = SparkCosts(ratios=[SparkRatio("orders", 1, "copy of log", 0.6, 2.0)])
    report.spark_kernel = "on"
    report.starts = [WorkerStart("off", 3, 3.0, 1.0), WorkerStart("on", 3, 3.5, 1.2)]
    return report


def _rows() -> dict[str, GoalRow]:
    return {row.figure: row for row in goal_rows(_report())}


def test_a_figure_is_held_to_its_goal_with_the_kernel() -> None:
    rows = _rows()
    assert rows["step: orders, 8 columns"][1:] == ("2.50 us/row", "40.0 us/row", "<= 3 us/row", "yes")
    assert rows["one worker over a raw copy"][1:] == ("0.80 times", "0.10 times", ">= 0.7 times", "yes")
    assert rows["one worker"][1:] == ("90,000 rows/s", "9,000 rows/s", ">= 150,000 rows/s", "no")
    assert rows["over stock Faust (`peers`)"][1:] == ("90.0 times", "10.0 times", ">= 40 times", "yes")
    assert rows["marker lag p99 at 2,000 rows/s"][1:] == ("99.0 ms", "101.0 ms", "<= 100 ms", "yes")
    assert rows["marker lag p99 at 20,000 rows/s"].reached == "no"
    assert rows["marker lag p99 while every range splits, 5,000 rows/s"].reached == "yes"
    assert (rows["open intents"].reached, rows["open intents: memory"].reached) == ("yes", "yes")
    assert rows["catch-up"][1:] == ("140,000 rows/s", "-", ">= 150,000 rows/s", "no")
    assert rows["what live rows lose beside a catch-up"].reached == "yes"
    assert rows["Spark over its own copy of the log"][1:] == ("0.60 times", "-", ">= 0.5 times", "yes")
    assert rows["how much later than without the kernel"].reached == "no"


def test_a_goal_that_a_run_did_not_measure_has_a_dash() -> None:
    rows = goal_rows(Report(seed=1, quick=True))
    assert len(rows) == len(GOALS)
    assert {(row.kernel, row.python, row.reached) for row in rows} == {("-", "-", "-")}
    assert _rows()["100,000 idle ranges"].reached == "-"


def test_every_step_with_a_goal_is_measured() -> None:
    report = Report(seed=1, quick=True, steps=[StepCost(name, 40.0, 2.0) for name in CASES])
    steps = [row for row in goal_rows(report) if row.figure.startswith("step: ")]
    assert len(steps) == len(CASES)
    assert {(row.kernel, row.python) for row in steps} == {("2.00 us/row", "40.0 us/row")}
