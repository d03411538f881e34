"""``tidegate sim``: the simulated range store."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, Final

import click

from tidegate.cli.connecting import topic_prefix_option
from tidegate.cli.failure import Commands
from tidegate.cli.service_tree import service_module

_LINE_EVERY_S: Final = 10.0


@click.group(cls=Commands)
def sim() -> None:
    """A simulated range store, for trying tidegate and for tests."""


@sim.command()
@click.option(
    "--bootstrap-servers",
    "-b",
    envvar="TIDEGATE_BOOTSTRAP_SERVERS",
    default="127.0.0.1:9092",
    show_default=True,
    show_envvar=True,
    help="Kafka brokers, without TLS or login.",
)
@topic_prefix_option
@click.option(
    "--workload",
    type=click.Choice(["flights", "bank"]),
    default="flights",
    show_default=True,
    help="flights: New York 2013 (downloads 9 MB once); bank: transfers that keep the sum.",
)
@click.option(
    "--rate", type=click.FloatRange(min=0, min_open=True), help="Rows written per second. [default: 1000]"
)
@click.option("--partitions", type=click.IntRange(min=1), help="Partitions of the log. [default: 8]")
@click.option("--seed", type=int, default=0, show_default=True, help="Decides everything but the times.")
@click.option(
    "--seconds", type=click.FloatRange(min=0, min_open=True), help="How long to run; else until stopped."
)
@click.option(
    "--history",
    type=click.Path(dir_okay=False, writable=True, path_type=Path),
    help="Write every committed version to this file, for `tidegate verify --history`.",
)
def run(
    bootstrap_servers: str,
    topic_prefix: str,
    workload: str,
    rate: float | None,
    partitions: int | None,
    seed: int,
    seconds: float | None,
    history: Path | None,
) -> None:
    """Run a range store that writes its log to Kafka in real time."""
    runner = service_module("sim.run")
    given = {"write_rate": rate, "partitions": partitions}
    options = runner.SimOptions(
        bootstrap=bootstrap_servers,
        topic_prefix=topic_prefix,
        workload=_workload_options(workload),
        store=service_module("sim.options").StoreOptions(
            **{name: value for name, value in given.items() if value is not None}
        ),
        seed=seed,
        seconds=seconds,
        history=history,
    )
    runner.run(options, _ProgressLine())


def _workload_options(workload: str) -> Any:
    if workload == "bank":
        return service_module("sim.workloads.bank").BankOptions()
    return service_module("sim.workloads.flights").FlightsOptions()


class _ProgressLine:
    """Shows how far a run is: one line that changes on a terminal, else a line now and then."""

    def __init__(self) -> None:
        self._next_s = 0.0

    def __call__(self, progress: Any) -> None:
        line = (
            f"{progress.seconds:,.0f} s: {progress.committed:,} transactions, {progress.versions:,} versions,"
            f" {progress.records:,} records, {progress.bytes / 1e6:,.1f} MB"
        )
        if sys.stderr.isatty():
            click.echo(f"\r{line}", err=True, nl=progress.drained)
        elif progress.drained or progress.seconds >= self._next_s:
            self._next_s = progress.seconds + _LINE_EVERY_S
            click.echo(line, err=True)
