"""``python -m bench``: measure everything on this machine, print tables, write JSON."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

import click
from rich.console import Console

from bench import figures
from bench.batch_delay import batch_delay
from bench.catch_up import catch_up_costs
from bench.durability import commit_time, produce_time
from bench.endtoend import LOG_PARTITIONS, end_to_end
from bench.formats import formats
from bench.frontier import forward_costs, frontier_costs
from bench.idle_ranges import idle_ranges
from bench.kernel_worker import kernel_workers
from bench.marker_lag import marker_lag
from bench.open_intents import open_intents
from bench.peers.contest import PeerSizes, contest
from bench.rangefeed import range_feed_costs
from bench.report import Report
from bench.restarts import restarts
from bench.served import copy_cost, event_delay
from bench.spark import SparkSizes, spark_costs
from bench.spark_dataframe import frame_costs
from bench.splits import split_lag
from bench.stages import run_stages, stage_times
from bench.step_costs import step_costs
from bench.subscribe import subscribe_costs
from bench.topics import BenchTopics
from bench.wide_steps import wide_costs
from bench.worker_start import worker_starts
from bench.workload import MakeLog, flights_log, orders_log, updates_log
from stack.kafka import KafkaBroker
from tidegate.kernel.kernel_mode import KernelMode, kernel_mode

_WIDTH: Final = 200
_MODES: Final = (KernelMode.OFF, KernelMode.ON)
_MARKER_LAGS: Final = (*((mode, 2_000) for mode in _MODES), (KernelMode.ON, 20_000))
_WORKLOADS: Final[dict[str, MakeLog]] = {"orders": orders_log, "flights": flights_log}


@dataclass(frozen=True, slots=True)
class Sizes:
    """The sizes of the measurements; seconds are those of a measurement in real time."""

    stage_rows: int
    rows: int
    format_rows: int
    faust_s: float
    marker_s: float
    starts: int
    kills: int
    idle_s: float
    wide_ranges: Sequence[int]
    feed_events: int
    stored_versions: int
    missed_versions: int
    intents: int
    subscribed_rows: int
    framed_rows: int
    peers: PeerSizes
    spark: SparkSizes


_FULL: Final = Sizes(
    stage_rows=100_000,
    rows=400_000,
    format_rows=200_000,
    faust_s=20,
    marker_s=30,
    starts=7,
    kills=10,
    idle_s=30,
    wide_ranges=(10, 1_000, 10_000, 100_000),
    feed_events=100_000,
    stored_versions=1_000_000,
    missed_versions=200_000,
    intents=5_000_000,
    subscribed_rows=600_000,
    framed_rows=400_000,
    peers=PeerSizes(rows=300_000, rounds=3, seconds=12),
    spark=SparkSizes(
        rows=400_000,
        passes=3,
        cuts=(1, 8),
        tiny_batches=12,
        ranges=(10, 1_000, 50_000),
        tails=(8, 64, 256),
        tail_s=30,
    ),
)
_QUICK: Final = Sizes(
    stage_rows=20_000,
    rows=100_000,
    format_rows=50_000,
    faust_s=6,
    marker_s=10,
    starts=3,
    kills=3,
    idle_s=9,
    wide_ranges=(10, 1_000, 10_000),
    feed_events=10_000,
    stored_versions=100_000,
    missed_versions=20_000,
    intents=100_000,
    subscribed_rows=60_000,
    framed_rows=100_000,
    peers=PeerSizes(rows=100_000, rounds=1, seconds=8),
    spark=SparkSizes(
        rows=40_000, passes=1, cuts=(1, 4), tiny_batches=4, ranges=(10, 1_000), tails=(8,), tail_s=5
    ),
)


@dataclass(frozen=True, slots=True)
class Bench:
    """One run: a broker, a place for files, and where results go."""

    topics: BenchTopics
    home: Path
    sizes: Sizes
    seed: int
    report: Report

    def stages(self) -> None:
        """Measure each stage by itself."""
        for name, make in _WORKLOADS.items():
            log = make(self.sizes.stage_rows, 1, self.seed)
            done = run_stages(log)
            self.report.commits[name] = commit_time(log, done, self.topics)
            self.report.stages[name] = [*stage_times(log, done), produce_time(log, done, self.topics)]

    def steps(self) -> None:
        """Measure the whole step, by Python and with the kernel."""
        self.report.steps += step_costs(self.sizes.stage_rows, self.seed)

    def endtoend(self) -> None:
        """Measure the worker beside a raw copy and a stock Faust agent."""
        for name, make in _WORKLOADS.items():
            log = make(self.sizes.rows, 4, self.seed)
            for result in end_to_end(log, self.topics, self._directory(name), self.sizes.faust_s):
                self.report.throughput.append(result)

    def kernel(self) -> None:
        """Measure a whole worker with the kernel and without it, beside a raw copy."""
        log = orders_log(self.sizes.rows, 4, self.seed)
        self.report.kernel += kernel_workers(log, self.topics, self._directory("kernel"))

    def peers(self) -> None:
        """Measure tidegate and other software on one job, side by side."""
        sizes = self.sizes.peers
        log = updates_log(sizes.rows, LOG_PARTITIONS, self.seed)
        self.report.peers = contest(log, self.topics, self._directory("peers"), sizes)

    def formats(self) -> None:
        """Measure every format and envelope beside a raw copy."""
        log = updates_log(self.sizes.format_rows, 4, self.seed)
        self.report.formats += formats(log, self.topics, self._directory("formats"))

    def markers(self) -> None:
        """Measure marker lag at 2,000 rows/s and, with the kernel, at 20,000 rows/s. A worker by Python
        cannot take 20,000."""
        for mode, rate in _MARKER_LAGS:
            home = self._directory(f"markers-{mode.value}-{rate}")
            self.report.marker_lag.append(
                marker_lag(self.topics, home, self.sizes.marker_s, self.seed, mode, rate)
            )

    def splits(self) -> None:
        """Measure marker lag at 5,000 rows/s while every range splits once."""
        for mode in _MODES:
            home = self._directory(f"splits-{mode.value}")
            self.report.split_lag.append(split_lag(self.topics, home, self.sizes.marker_s, self.seed, mode))

    def starts(self) -> None:
        """Measure the time from a worker's start to its first rows."""
        self.report.starts += worker_starts(
            self.topics, self._directory("starts"), self.sizes.starts, self.seed
        )

    def restarts(self) -> None:
        """Measure killed workers that start again."""
        self.report.restarts = restarts(self.topics, self._directory("restarts"), self.sizes.kills, self.seed)

    def idle(self) -> None:
        """Measure 10,000 idle ranges, with the kernel and without it."""
        for kernel in (KernelMode.OFF, KernelMode.ON):
            directory = self._directory(f"idle-{kernel.value}")
            cost = idle_ranges(self.topics, directory, self.sizes.idle_s, self.seed, kernel)
            self.report.idle_ranges.append(cost)

    def wide(self) -> None:
        """Measure the step over many ranges and many feeds."""
        self.report.wide += wide_costs(self.seed, self.sizes.wide_ranges)

    def intents(self) -> None:
        """Measure open intents that do not fit into memory."""
        for mode in _MODES:
            home = self._directory(f"intents-{mode.value}")
            self.report.open_intents.append(
                open_intents(self.topics, home, self.seed, self.sizes.intents, mode)
            )

    def frontier(self) -> None:
        """Measure checkpoints of 100,000 ranges."""
        self.report.frontier += frontier_costs(self.seed)
        self.report.forward += forward_costs(self.seed)

    def rangefeed(self) -> None:
        """Measure feeds of one range, and their catch-ups."""
        self.report.range_feed = range_feed_costs(
            self.sizes.feed_events, self.sizes.stored_versions, self.seed
        )

    def catch_up(self) -> None:
        """Measure feeds that begin in the past, beside live ones."""
        self.report.catch_up += catch_up_costs(self.sizes.missed_versions, self.seed, _MODES)

    def subscribe(self) -> None:
        """Measure subscriptions beside a consumer that only takes keys and values."""
        self.report.subscribe += subscribe_costs(self.topics, self.sizes.subscribed_rows, self.seed)
        self.report.batch_delay = batch_delay(self.topics, self.sizes.marker_s, 2_000, self.seed)
        self.report.copy = copy_cost(self.topics, self.sizes.subscribed_rows // 4, self.seed)
        self.report.event_delay = event_delay(self.topics, self.sizes.marker_s, 100, 200, self.seed)

    def spark(self) -> None:
        """Measure the Spark engine beside Spark's own copy."""
        self.report.spark_kernel = kernel_mode().value
        self.report.spark = spark_costs(self.topics, self._directory("spark"), self.sizes.spark, self.seed)

    def dataframe(self) -> None:
        """Measure a feed as a DataFrame beside Spark's Kafka source."""
        self.report.dataframe += frame_costs(
            self.topics, self._directory("dataframe"), self.sizes.framed_rows, self.seed
        )

    def _directory(self, name: str) -> Path:
        directory = self.home / name
        directory.mkdir()
        return directory


_MEASUREMENTS: Final[dict[str, Callable[[Bench], None]]] = {
    "stages": Bench.stages,
    "steps": Bench.steps,
    "endtoend": Bench.endtoend,
    "kernel": Bench.kernel,
    "peers": Bench.peers,
    "formats": Bench.formats,
    "markers": Bench.markers,
    "splits": Bench.splits,
    "starts": Bench.starts,
    "restarts": Bench.restarts,
    "idle": Bench.idle,
    "wide": Bench.wide,
    "intents": Bench.intents,
    "frontier": Bench.frontier,
    "rangefeed": Bench.rangefeed,
    "catch-up": Bench.catch_up,
    "subscribe": Bench.subscribe,
    "spark": Bench.spark,
    "dataframe": Bench.dataframe,
}


@click.command()
@click.option("--quick", is_flag=True, help="Smaller measurements, in a third of the time.")
@click.option("--only", type=click.Choice(list(_MEASUREMENTS)), multiple=True, help="Only these; repeatable.")
@click.option("--seed", default=1, show_default=True, help="Of the logs that are measured.")
@click.option(
    "--json",
    "file",
    type=click.Path(path_type=Path),
    default=Path("run/bench.json"),
    show_default=True,
    help="Where the results are written as well.",
)
@click.option("--draw", is_flag=True, help="Measure nothing: draw the charts of docs/benchmarks.md again.")
def main(quick: bool, only: tuple[str, ...], seed: int, file: Path, draw: bool) -> None:
    """Measure tidegate on this machine, with a real broker.

    What was measured in full joins the charts of docs/benchmarks.md.
    """
    if draw:
        figures.draw()
        return
    # Where the output is no terminal, the tables are as wide as they need.
    console, report = Console(width=None if sys.stdout.isatty() else _WIDTH), Report(seed, quick)
    with tempfile.TemporaryDirectory(prefix="tidegate-bench-") as home, KafkaBroker() as broker:
        sizes = _QUICK if quick else _FULL
        with closing(BenchTopics(broker.bootstrap)) as topics:
            bench = Bench(topics, Path(home), sizes, seed, report)
            for name in only or _MEASUREMENTS:
                report.measure(name, partial(_MEASUREMENTS[name], bench), console)
                report.write(file)  # after each: a run that is ended early keeps its results
    report.print(console)
    console.print(f"written to {file}")
    if not quick:
        figures.write(figures.with_run(figures.load(), figures.measured(report.to_json())))
        console.print(f"the charts in {figures.PLACE} have this run as well")
    if report.failures:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
