"""``tidegate sim``: runs the simulated range store."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, NamedTuple

import click

from tidegate.cli.failure import Commands
from tidegate.cli.kafka_options import topic_prefix_option
from tidegate.cli.options.finite_numbers import FiniteNumber, Seconds
from tidegate.cli.printing import echo, echo_progress
from tidegate.cli.service_tree import service_module
from tidegate.client.kafka.connection import KafkaConnection
from tidegate.raftlog.entry import RangeId, Snapshot
from tidegate.raftlog.request import AdminMerge, AdminRequest, AdminSplit

_LINE_EVERY_S: Final = 10.0


@click.group(cls=Commands)
def sim() -> None:
    """A simulated range store, for trying tidegate and for tests."""


def _servers(bootstrap_servers: str) -> str:
    """Return the servers. Raises ``SettingsError`` for text that no client of Kafka takes."""
    return KafkaConnection(bootstrap_servers).bootstrap_servers


_bootstrap_option: Final = click.option(
    "--bootstrap-servers",
    "-b",
    envvar="TIDEGATE_BOOTSTRAP_SERVERS",
    default="127.0.0.1:9092",
    show_default=True,
    show_envvar=True,
    callback=lambda _ctx, _param, servers: _servers(servers),
    help="Kafka brokers, without TLS or login.",
)


class _RangeOption(NamedTuple):
    """An option that sets ``field`` of ``StoreOptions``.

    Its unit is seconds if the field is in milliseconds.
    """

    name: str
    field: str
    text: str

    @property
    def type(self) -> click.ParamType:
        return Seconds() if self.field.endswith("_ms") else FiniteNumber(min=0)

    @property
    def metavar(self) -> str:
        return "SECONDS" if self.field.endswith("_ms") else "NUMBER"


_RANGE_OPTIONS: Final = (
    _RangeOption("--split-every", "split_every_ms", "About how often some range is split."),
    _RangeOption("--merge-every", "merge_every_ms", "About how often two neighbours are merged."),
    _RangeOption(
        "--move-lease-every", "move_lease_every_ms", "About how often a lease moves to another node."
    ),
    _RangeOption("--build-index-every", "build_index_every_ms", "About how often an index is built."),
    _RangeOption("--split-bytes", "split_bytes", "A range with more bytes of rows is split."),
    _RangeOption("--split-rate", "split_rate", "A range that takes more versions in a second is split."),
    _RangeOption("--merge-bytes", "merge_bytes", "Neighbours with no more bytes together are merged."),
    _RangeOption("--gc-ttl", "gc_ttl_ms", "Versions that were replaced so long ago are collected."),
    _RangeOption("--snapshot-every", "snapshot_interval_ms", "How often every range writes a snapshot."),
    _RangeOption("--ship-delay", "ship_delay_ms", "How late a range's records may come, at most."),
    _RangeOption("--skip-every", "skip_every_ms", "About how often entries of some range are left out."),
    _RangeOption("--batch-values", "batch_values_fraction", "Share of commands with values in their batch."),
    _RangeOption(
        "--opless-every", "opless_every_ms", "About how often some range's commands lack their ops."
    ),
)


def _range_options(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command options that say what ranges do by themselves.

    The command gets the options that are set, as its parameter ``ranges``.
    """

    @functools.wraps(command)
    def with_ranges(**arguments: Any) -> None:
        given = {option.field: arguments.pop(option.field) for option in _RANGE_OPTIONS}
        ranges = {name: _in_ms(name, value) for name, value in given.items() if value is not None}
        command(ranges=ranges, **arguments)

    for option in reversed(_RANGE_OPTIONS):
        with_ranges = click.option(
            option.name,
            option.field,
            type=option.type,
            metavar=option.metavar,
            help=f"{option.text} [default: never]",
        )(with_ranges)
    return with_ranges


def _in_ms(field: str, value: float) -> float:
    if field.endswith("_ms"):
        return round(value * 1_000)
    return value if field.endswith(("_rate", "_fraction")) else int(value)


def _new_file(path: Path | None) -> Path | None:
    """Return the path of a file that the run writes, and make its directory.

    Raises ``click.BadParameter`` for a file that is not empty, since the run would empty it, and for a
    directory that cannot be made.
    """
    if path is not None and path.is_file() and path.stat().st_size:
        raise click.BadParameter(
            f"{path} is there and not empty, and a run begins its file anew. Delete it if nobody audits that "
            "run any more, or name another file."
        )
    if path is not None:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise click.BadParameter(f"its directory cannot be made: {error}") from None
    return path


@sim.command()
@_bootstrap_option
@topic_prefix_option
@click.option(
    "--workload",
    type=click.Choice(["flights", "bank"]),
    default="flights",
    show_default=True,
    help="flights: New York 2013 (downloads 9 MB once); bank: transfers that keep the sum.",
)
@click.option(
    "--rate", type=FiniteNumber(min=0, min_open=True), help="Rows written per second. [default: 1000]"
)
@click.option("--partitions", type=click.IntRange(min=1), help="Partitions of the log. [default: 8]")
@click.option("--seed", type=int, default=0, show_default=True, help="Decides everything but the times.")
@click.option("--seconds", type=Seconds(positive=True), help="How long to run; else until stopped.")
@click.option(
    "--history",
    type=click.Path(dir_okay=False, writable=True, path_type=Path),
    callback=lambda _ctx, _param, path: _new_file(path),
    help="Write every committed version to this new file, for `tidegate verify --history`.",
)
@_range_options
def run(
    bootstrap_servers: str,
    topic_prefix: str,
    workload: str,
    rate: float | None,
    partitions: int | None,
    seed: int,
    seconds: float | None,
    history: Path | None,
    ranges: dict[str, float],
) -> None:
    """Run a range store that writes its log to Kafka in real time.

    Its ranges stay as they are unless an option lets them split, merge, move, or write a log with holes.
    """
    runner = service_module("sim.run")
    given = {"write_rate": rate, "partitions": partitions}
    options = runner.SimOptions(
        bootstrap=bootstrap_servers,
        topic_prefix=topic_prefix,
        workload=_workload_options(workload),
        store=service_module("sim.options").StoreOptions(
            **{name: value for name, value in given.items() if value is not None}, **ranges
        ),
        seed=seed,
        seconds=seconds,
        history=history,
    )
    runner.run(options, _ProgressLine())


@sim.command()
@click.argument("range_id", type=click.IntRange(min=1), metavar="RANGE")
@click.option("--key", default="", metavar="HEX", help="First key of the new range. [default: in the middle]")
@_bootstrap_option
@topic_prefix_option
def split(range_id: int, key: str, bootstrap_servers: str, topic_prefix: str) -> None:
    """Tell a running store to split a range."""
    try:
        at = bytes.fromhex(key)
    except ValueError:
        raise click.BadParameter(f"{key!r} is not hexadecimal", param_hint="--key") from None
    left = _ask(AdminSplit(RangeId(range_id), at), bootstrap_servers, topic_prefix)
    echo(f"range {range_id} ends at {left.span.end.hex()} now; a new range begins there")


@sim.command()
@click.argument("range_id", type=click.IntRange(min=1), metavar="RANGE")
@_bootstrap_option
@topic_prefix_option
def merge(range_id: int, bootstrap_servers: str, topic_prefix: str) -> None:
    """Tell a running store to merge a range with the one to its right."""
    merged = _ask(AdminMerge(RangeId(range_id)), bootstrap_servers, topic_prefix)
    right = next(parent.range_id for parent in merged.parents if parent.range_id != range_id)
    echo(f"range {right} is part of range {range_id} now, which ends at {merged.span.end.hex()}")


def _ask(request: AdminRequest, bootstrap: str, topic_prefix: str) -> Snapshot:
    control = service_module("sim.control")
    answer: Snapshot = control.ask(control.ControlledStore(bootstrap, topic_prefix), request)
    return answer


def _workload_options(workload: str) -> Any:
    if workload == "bank":
        return service_module("sim.workloads.bank").BankOptions()
    return service_module("sim.workloads.flights").FlightsOptions()


class _ProgressLine:
    """Shows the progress of a run: on a terminal one line that changes, else a line now and then."""

    def __init__(self) -> None:
        self._next_s = 0.0

    def __call__(self, progress: Any) -> None:
        line = (
            f"{progress.seconds:,.0f} s: {progress.committed:,} transactions, {progress.versions:,} versions,"
            f" {progress.records:,} records, {progress.bytes / 1e6:,.1f} MB"
        )
        if sys.stderr.isatty():
            echo_progress(line, last=progress.drained)
        elif progress.drained or progress.seconds >= self._next_s:
            self._next_s = progress.seconds + _LINE_EVERY_S
            echo(line, err=True)
