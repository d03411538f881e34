"""The goals that the step in native code was given, and what was measured of each: one table of a run.

A goal that a run did not measure has a dash. Figures are those of this run; the ratios hold while the
machine's speed does not.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from bench.peers.contest import KERNEL, PYTHON
from bench.step_costs import AVRO, FLIGHTS, ORDERS, UPDATES
from tidegate.kernel.kernel_mode import KernelMode

if TYPE_CHECKING:
    from bench.report import Report

_ON: Final = KernelMode.ON.value
_OFF: Final = KernelMode.OFF.value
_NOT_MEASURED: Final = "-"

#: Returns a report's value of a figure in a mode of the kernel; ``None`` where it was not measured.
Find: TypeAlias = Callable[["Report", str], float | None]


class Goal(NamedTuple):
    """A figure and its goal: ``least`` or ``most`` of ``unit``."""

    figure: str
    unit: str
    find: Find
    most: float | None = None
    least: float | None = None

    def reached(self, value: float) -> bool:
        """Whether the value is within the goal."""
        return (self.most is None or value <= self.most) and (self.least is None or value >= self.least)

    @property
    def words(self) -> str:
        """The goal as it stands in the table; a dash for a figure without one."""
        if self.most is not None:
            return f"<= {self.most:,g} {self.unit}"
        return f">= {self.least:,g} {self.unit}" if self.least is not None else _NOT_MEASURED


class GoalRow(NamedTuple):
    """A line of the table."""

    figure: str
    kernel: str
    python: str
    goal: str
    reached: str


def goal_rows(report: Report) -> list[GoalRow]:
    """Return all goals with what the report has of them."""
    return [_row(goal, report) for goal in GOALS]


def _row(goal: Goal, report: Report) -> GoalRow:
    kernel, python = goal.find(report, _ON), goal.find(report, _OFF)
    reached = _NOT_MEASURED
    if kernel is not None and goal.words != _NOT_MEASURED:
        reached = "yes" if goal.reached(kernel) else "no"
    return GoalRow(goal.figure, _cell(kernel, goal.unit), _cell(python, goal.unit), goal.words, reached)


def _cell(value: float | None, unit: str) -> str:
    if value is None:
        return _NOT_MEASURED
    digits = 0 if abs(value) >= 1_000 else 1 if abs(value) >= 10 else 2
    return f"{value:,.{digits}f} {unit}"


def _step(log: str) -> Find:
    def find(report: Report, kernel: str) -> float | None:
        found = (cost for cost in report.steps if cost.log == log)
        return next((cost.kernel_us if kernel == _ON else cost.python_us for cost in found), None)

    return find


def _over_copy(report: Report, kernel: str) -> float | None:
    return next((done.over_copy for done in report.kernel if done.kernel == kernel), None)


def _rows_per_s(report: Report, kernel: str) -> float | None:
    return next((done.rows_per_s for done in report.kernel if done.kernel == kernel), None)


def _over_faust(report: Report, kernel: str) -> float | None:
    rates = {done.contender: done.rows_per_s for done in (report.peers.results if report.peers else ())}
    ours, faust = rates.get(KERNEL if kernel == _ON else PYTHON), rates.get("stock Faust")
    return ours / faust if ours and faust else None


def _marker_lag(rows_per_s: int) -> Find:
    def find(report: Report, kernel: str) -> float | None:
        found = (lag for lag in report.marker_lag if lag.asked_rows_per_s == rows_per_s)
        return next((lag.p99_ms for lag in found if lag.kernel == kernel), None)

    return find


def _splits(report: Report, kernel: str) -> float | None:
    return next((lag.splitting_p99_ms for lag in report.split_lag if lag.kernel == kernel), None)


def _intents_mib(report: Report, kernel: str) -> float | None:
    return next((found.with_mib for found in report.open_intents if found.kernel == kernel), None)


def _intents_per_s(report: Report, kernel: str) -> float | None:
    return next((found.intents_per_s for found in report.open_intents if found.kernel == kernel), None)


def _catch_up(report: Report, kernel: str) -> float | None:
    """Return the slower of the two ways to begin in the past."""
    found = (costs.speeds for costs in report.catch_up if costs.kernel == kernel)
    return next((min(speed.rows_per_s for speed in speeds) for speeds in found), None)


def _slowdown(report: Report, kernel: str) -> float | None:
    found = (costs.beside.slowdown_percent for costs in report.catch_up if costs.kernel == kernel)
    return next(found, None)


def _idle(ranges: int) -> Find:
    def find(report: Report, kernel: str) -> float | None:
        found = (cost for cost in report.idle_ranges if cost.ranges == ranges)
        return next((100 * cost.cpu for cost in found if cost.kernel == kernel), None)

    return find


def _wide(ranges: int) -> Find:
    """Return a finder of a ratio: a row's time among ``ranges`` ranges over its time among the fewest, with
    one feed.
    """

    def find(report: Report, kernel: str) -> float | None:
        found = (cost for cost in report.wide if (cost.ranges, cost.feeds) == (ranges, 1))
        return next((cost.of_first for cost in found if cost.kernel == kernel), None)

    return find


def _spark(copy: str) -> Find:
    """Return a finder of the first log's rate in one micro-batch, by the mode that the environment chose."""

    def find(report: Report, kernel: str) -> float | None:
        ratios = report.spark.ratios if report.spark and report.spark_kernel == kernel else ()
        return next((found.rate for found in ratios if found.copy == copy and found.batches == 1), None)

    return find


def _start(report: Report, kernel: str) -> float | None:
    return next((found.seconds for found in report.starts if found.kernel == kernel), None)


def _later(report: Report, kernel: str) -> float | None:
    """Return the seconds by which the first rows come later than without the kernel."""
    with_it, without = _start(report, kernel), _start(report, _OFF)
    return None if with_it is None or without is None else with_it - without


GOALS: Final = (
    Goal("step: orders, 8 columns", "us/row", _step(ORDERS), most=3),
    Goal("step: flights, 19 columns", "us/row", _step(FLIGHTS), most=5),
    Goal("step: updates with previous values", "us/row", _step(UPDATES), most=4),
    Goal("step: orders, Avro wrapped", "us/row", _step(AVRO), most=6),
    Goal("one worker over a raw copy", "times", _over_copy, least=0.7),
    Goal("one worker", "rows/s", _rows_per_s, least=150_000),
    Goal("over stock Faust (`peers`)", "times", _over_faust, least=40),
    Goal("marker lag p99 at 2,000 rows/s", "ms", _marker_lag(2_000), most=100),
    Goal("marker lag p99 at 20,000 rows/s", "ms", _marker_lag(20_000), most=200),
    Goal("10,000 idle ranges", "% of a core", _idle(10_000), most=10),
    Goal("100,000 idle ranges", "% of a core", _idle(100_000), most=60),
    Goal("open intents: memory", "MiB", _intents_mib, most=630),
    Goal("open intents", "/s", _intents_per_s, least=100_000),
    Goal("catch-up", "rows/s", _catch_up, least=150_000),
    Goal("what live rows lose beside a catch-up", "%", _slowdown, most=20),
    Goal("marker lag p99 while every range splits, 5,000 rows/s", "ms", _splits, most=500),
    Goal("Spark over its own copy of the log", "times", _spark("copy of log"), least=0.5),
    Goal("Spark over its own copy of the rows", "times", _spark("copy of rows"), least=1.0),
    Goal("cost per row, 100,000 ranges over 10", "times", _wide(100_000), most=1.2),
    Goal("from a worker's start to its first rows", "s", _start),
    Goal("how much later than without the kernel", "s", _later, most=0.3),
)
