"""The report of a run, as tables for people and JSON for programs."""

from __future__ import annotations

import json
import os
import platform
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, TypeAlias

from rich.console import Console
from rich.table import Table

from bench.backfill import SparkBackfill
from bench.batch_delay import BatchDelay
from bench.catch_up import CatchUpBeside, CatchUpCosts, CatchUpSpeed
from bench.durability import CommitTime
from bench.endtoend import Throughput
from bench.formats import FormatResult
from bench.frontier import ForwardCost, FrontierCost
from bench.goals import GoalRow, goal_rows
from bench.idle_ranges import IdleRanges
from bench.kernel_worker import KernelWorker
from bench.live_tail import LiveTail
from bench.marker_lag import MarkerLag
from bench.open_intents import OpenIntents
from bench.peers.contest import Contest, PeerNote, PeerResult
from bench.rangefeed import CatchUpCost, FeedCost, RangeFeedCosts, ResolverCost
from bench.restarts import Restarts
from bench.served import CopyCost, EventDelay
from bench.spark import SparkCosts, SparkOverhead, SparkRanges, SparkRate, SparkRatio, SparkStage
from bench.spark_dataframe import FrameCost
from bench.splits import SplitLag
from bench.stages import StageTime
from bench.step_costs import StepCost
from bench.subscribe import SubscribeCost
from bench.wide_steps import WideCost
from bench.worker_start import WorkerStart
from tidegate.errors import TidegateError
from tidegate.kernel.kernel_mode import KernelMode

_WHOLE: str = "whole step"
_WORKER: str = "tidegate worker"


#: Results that are one line each.
_Single: TypeAlias = BatchDelay | CopyCost | EventDelay | Restarts


@dataclass(slots=True)
class Report:
    """Results by measurement; what was not run stays empty. ``failures`` name what could not be measured.

    ``spark_kernel`` is the mode of the kernel of the Spark engine, which takes it from the environment.
    """

    seed: int
    quick: bool
    stages: dict[str, list[StageTime]] = field(default_factory=dict)
    commits: dict[str, CommitTime] = field(default_factory=dict)
    throughput: list[Throughput] = field(default_factory=list)
    kernel: list[KernelWorker] = field(default_factory=list)
    peers: Contest | None = None
    formats: list[FormatResult] = field(default_factory=list)
    steps: list[StepCost] = field(default_factory=list)
    starts: list[WorkerStart] = field(default_factory=list)
    marker_lag: list[MarkerLag] = field(default_factory=list)
    split_lag: list[SplitLag] = field(default_factory=list)
    restarts: Restarts | None = None
    idle_ranges: list[IdleRanges] = field(default_factory=list)
    wide: list[WideCost] = field(default_factory=list)
    open_intents: list[OpenIntents] = field(default_factory=list)
    frontier: list[FrontierCost] = field(default_factory=list)
    forward: list[ForwardCost] = field(default_factory=list)
    range_feed: RangeFeedCosts | None = None
    catch_up: list[CatchUpCosts] = field(default_factory=list)
    subscribe: list[SubscribeCost] = field(default_factory=list)
    batch_delay: BatchDelay | None = None
    copy: CopyCost | None = None
    event_delay: EventDelay | None = None
    spark: SparkCosts | None = None
    spark_kernel: str = KernelMode.OFF.value
    dataframe: list[FrameCost] = field(default_factory=list)
    failures: dict[str, str] = field(default_factory=dict)

    def measure(self, name: str, measurement: Callable[[], None], console: Console) -> None:
        """Do one measurement, and say how long it took. An error that ends it is noted in ``failures``."""
        console.print(f"measuring {name} ...")
        begun = time.monotonic()
        try:
            measurement()
        except TidegateError as error:
            self.failures[name] = str(error)
        except Exception as error:  # a defect of this one
            console.print_exception()
            self.failures[name] = f"{type(error).__name__}: {error}"
        console.print(f"... {time.monotonic() - begun:.0f} s")

    def limiting_stage(self, workload: str) -> str:
        """Return the stage that takes the most time of a row."""
        stages = [each for each in self.stages[workload] if each.stage != _WHOLE]
        return max(stages, key=lambda each: each.us_per_row).stage

    def ratios(self) -> dict[str, float]:
        """Return the worker's rate over that of each other contender, by workload."""
        ours = {done.workload: done.rows_per_s for done in self.throughput if done.contender == _WORKER}
        return {
            f"{done.workload}: over {done.contender}": ours[done.workload] / done.rows_per_s
            for done in self.throughput
            if done.contender != _WORKER and done.rows_per_s
        }

    def to_json(self) -> dict[str, Any]:
        """Return everything, with the machine that it holds for."""
        return {
            "machine": machine(),
            "seed": self.seed,
            "quick": self.quick,
            "stages": {name: [each._asdict() for each in times] for name, times in self.stages.items()},
            "limiting_stage": {name: self.limiting_stage(name) for name in self.stages},
            "commits": {name: each._asdict() for name, each in self.commits.items()},
            "throughput": [done._asdict() for done in self.throughput],
            "ratios": self.ratios(),
            "kernel": [done._asdict() for done in self.kernel],
            "peers": self.peers and _peers_json(self.peers),
            "formats": [done._asdict() for done in self.formats],
            "steps": [cost._asdict() for cost in self.steps],
            "starts": [start._asdict() for start in self.starts],
            "marker_lag": [lag._asdict() for lag in self.marker_lag],
            "split_lag": [lag._asdict() for lag in self.split_lag],
            "restarts": self.restarts and self.restarts._asdict(),
            "idle_ranges": [cost._asdict() for cost in self.idle_ranges],
            "wide": [cost._asdict() for cost in self.wide],
            "open_intents": [found._asdict() for found in self.open_intents],
            "frontier": [cost._asdict() for cost in self.frontier],
            "subscribe": [cost._asdict() for cost in self.subscribe],
            "batch_delay": self.batch_delay and self.batch_delay._asdict(),
            "copy": self.copy and self.copy._asdict(),
            "event_delay": self.event_delay and self.event_delay._asdict(),
            "forward": [cost._asdict() for cost in self.forward],
            "range_feed": self.range_feed and _range_feed_json(self.range_feed),
            "catch_up": [_catch_up_json(costs) for costs in self.catch_up],
            "spark": self.spark and _spark_json(self.spark),
            "dataframe": [cost._asdict() for cost in self.dataframe],
            "goals": [row._asdict() for row in goal_rows(self)],
            "failures": self.failures,
        }

    def write(self, file: Path) -> None:
        """Write it as JSON."""
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(self.to_json(), indent=2) + "\n")

    def print(self, console: Console) -> None:
        """Print it as tables."""
        console.print(f"machine: {machine()}; all processes share it, the broker included")
        for name in self.stages:
            self._print_stages(console, name)
        if self.throughput:
            console.print(_throughput_table(self.throughput))
            for name, ratio in self.ratios().items():
                console.print(f"{name}: {ratio:.2f}")
        if self.formats:
            console.print(_table("formats, one worker each, same log", FormatResult._fields, self.formats))
        if self.frontier:
            title = "frontier, processor time for each range's checkpoint; core: with one each 3 s"
            console.print(_table(title, FrontierCost._fields, self.frontier))
            console.print(_table("forwards of disjoint spans", ForwardCost._fields, self.forward))
        if self.subscribe:
            title = "subscriptions beside a raw consumer, processor time"
            console.print(_table(title, SubscribeCost._fields, self.subscribe))
        self._print_ranges(console)
        self._print_costs(console)
        for title, result in self._single():
            console.print(_table(title, result._fields, [result]))
        console.print(_table("goals of the step in native code", GoalRow._fields, goal_rows(self)))
        for name, reason in self.failures.items():
            console.print(f"[bold red]{name} was not measured[/]: {reason}", highlight=False)

    def _print_ranges(self, console: Console) -> None:
        if self.idle_ranges:
            title = "idle ranges, a heartbeat each every 3 s"
            console.print(_table(title, IdleRanges._fields, self.idle_ranges))
        if self.wide:
            title = "the step over many ranges and feeds, processor time; of first: a row over the first line"
            console.print(_table(title, WideCost._fields, self.wide))

    def _print_costs(self, console: Console) -> None:
        self._print_by_mode(console)
        if self.kernel:
            title = "a whole worker over a raw copy of its rows, by mode of the kernel"
            console.print(_table(title, KernelWorker._fields, self.kernel))
        if self.peers is not None:
            _print_peers(console, self.peers)
        if self.range_feed is not None:
            _print_range_feed(console, self.range_feed)
        for costs in self.catch_up:
            _print_catch_up(console, costs)
        if self.spark is not None:
            _print_spark(console, self.spark)
        if self.dataframe:
            title = "a feed as a DataFrame, beside Spark's Kafka source on its topic"
            console.print(_table(title, FrameCost._fields, self.dataframe))

    def _print_by_mode(self, console: Console) -> None:
        """Print the measurements that ran by Python and with the kernel, each in a worker of its own."""
        title = "the whole step, processor time for a row, by Python and with the kernel"
        if self.steps:
            console.print(_table(title, StepCost._fields, self.steps))
        if self.starts:
            title = "from a worker's start to its first rows"
            console.print(_table(title, WorkerStart._fields, self.starts))
        if self.marker_lag:
            console.print(_table("marker lag", MarkerLag._fields, self.marker_lag))
        if self.split_lag:
            title = "marker lag while every range splits once"
            console.print(_table(title, SplitLag._fields, self.split_lag))
        if self.open_intents:
            console.print(_table("open intents", OpenIntents._fields, self.open_intents))

    def _single(self) -> Iterable[tuple[str, _Single]]:
        found = (
            ("from a marker that can be read to its batch", self.batch_delay),
            ("COPY of the server beside a raw consumer", self.copy),
            ("from a marker that can be read to its event at each client", self.event_delay),
            ("from kill -9 to the next marker", self.restarts),
        )
        return ((title, result) for title, result in found if result is not None)

    def _print_stages(self, console: Console, name: str) -> None:
        console.print(_table(f"stages, {name}, processor time", StageTime._fields, self.stages[name]))
        console.print(f"the stage that limits: {self.limiting_stage(name)}")
        if name in self.commits:
            commit = self.commits[name]
            console.print(
                f"the transaction of a batch: {commit.ms:.1f} ms for {commit.state_rows:.0f} state rows, "
                f"{commit.us_per_row:.2f} us for each row of the batch, while the next batch is stepped"
            )


def _range_feed_json(costs: RangeFeedCosts) -> dict[str, Any]:
    return {name: [cost._asdict() for cost in found] for name, found in costs._asdict().items()}


def _catch_up_json(costs: CatchUpCosts) -> dict[str, Any]:
    speeds = [found._asdict() for found in costs.speeds]
    return {"kernel": costs.kernel, "speeds": speeds, "beside": costs.beside._asdict()}


def _print_catch_up(console: Console, costs: CatchUpCosts) -> None:
    title = f"catch-up through the processor, processor time, kernel {costs.kernel}"
    console.print(_table(title, CatchUpSpeed._fields, costs.speeds))
    title = f"live rows beside a feed that catches up, processor time, kernel {costs.kernel}"
    console.print(_table(title, CatchUpBeside._fields, [costs.beside]))


def _peers_json(contest: Contest) -> dict[str, Any]:
    return {
        "results": [result._asdict() for result in contest.results],
        "notes": [note._asdict() for note in contest.notes],
        "skipped": contest.skipped,
    }


def _print_peers(console: Console, contest: Contest) -> None:
    title = "tidegate and its peers: each row gets the row before it; medians of rounds, same bytes out"
    console.print(_table(title, PeerResult._fields, contest.results))
    console.print(_table("what they do not do", PeerNote._fields, contest.notes))
    for name, reason in contest.skipped.items():
        console.print(f"{name} was left out: {reason}", highlight=False)


def _spark_json(costs: SparkCosts) -> dict[str, Any]:
    return {each.name: [found._asdict() for found in getattr(costs, each.name)] for each in fields(costs)}


def _print_spark(console: Console, costs: SparkCosts) -> None:
    """Print ratios first: they hold while the machine's speed does not."""
    title = "Spark, local[2]: the changefeed over Spark's own copies of the same bytes"
    console.print(_table(title, SparkRatio._fields, costs.ratios))
    console.print(_table("Spark, each by itself; processor time for a row", SparkRate._fields, costs.rates))
    console.print(_table("Spark, where the tasks' time goes", SparkStage._fields, costs.stages))
    console.print(
        _table("Spark, a micro-batch of a handful of records", SparkOverhead._fields, costs.overhead)
    )
    console.print(_table("Spark, backfills of a whole log", SparkBackfill._fields, costs.backfills))
    title = "Spark, micro-batches with a heartbeat of every range"
    console.print(_table(title, SparkRanges._fields, costs.ranges))
    title = "Spark, a live log with heartbeats alone"
    console.print(_table(title, LiveTail._fields, costs.tails))


def _print_range_feed(console: Console, costs: RangeFeedCosts) -> None:
    title = "feeds of one range, processor time for each event"
    console.print(_table(title, FeedCost._fields, costs.feeds))
    console.print(_table("resolver alone, for each op", ResolverCost._fields, costs.resolver))
    console.print(_table("catch-up, processor time", CatchUpCost._fields, costs.catch_up))


def machine() -> str:
    """Return the properties of the machine that matter for the results."""
    return f"{os.cpu_count()} cores, {platform.machine()}, Python {platform.python_version()}"


def _throughput_table(results: Iterable[Throughput]) -> Table:
    return _table("end to end, one process each, same records", Throughput._fields, results)


def _table(title: str, columns: Iterable[str], rows: Iterable[tuple[Any, ...]]) -> Table:
    table = Table(title=title, title_justify="left")
    for column in columns:
        table.add_column(column.replace("_", " "), justify="right")
    for row in rows:
        table.add_row(*map(_cell, row))
    return table


def _cell(value: object) -> str:
    if isinstance(value, float):
        return f"{value:,.2f}" if abs(value) < 1_000 else f"{value:,.0f}"
    return f"{value:,}" if isinstance(value, int) else str("-" if value is None else value)
