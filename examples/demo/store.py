"""The demo's range store, a process of its own: prints a JSON object a second about what it has done.

The ``moments`` of an object are those since the object before it (``sim.store.moments``).
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any, Final

import click

from sim.options import StoreOptions
from sim.plan import OutcomeMix
from sim.realtime import SimProgress
from sim.run import SimOptions, run
from sim.workloads.flights import FlightsOptions
from tidegate.errors import TidegateError

_CLOSED_LAG_MS: Final = 200
_HEARTBEAT_MS: Final = 200
#: Some transactions fail, so that there is something to resolve: abandoned ones hold markers until pushed.
_OUTCOMES: Final = OutcomeMix(restart=0.01, abort=0.01, abandon=0.0002)
_OPTIONS: Final = [option.name for option in fields(StoreOptions)]


@click.command()
@click.option("--bootstrap", required=True)
@click.option("--topic-prefix", required=True)
@click.option("--partitions", type=int, required=True)
@click.option("--rate", type=float, required=True)
@click.option("--seed", type=int, required=True)
@click.option("--history", type=click.Path(path_type=Path), required=True)
@click.option(
    "--set",
    "chosen",
    type=(click.Choice(_OPTIONS), int),
    multiple=True,
    help="A field of sim.options.StoreOptions, and its value; repeatable.",
)
@click.option("--answer-on", is_flag=True, help="Answer requests after SIGTERM until another SIGTERM.")
def main(
    bootstrap: str,
    topic_prefix: str,
    partitions: int,
    rate: float,
    seed: int,
    history: Path,
    chosen: Sequence[tuple[str, int]],
    answer_on: bool,
) -> None:
    """Run the flights workload until SIGTERM, then until all of it is in the log and closed."""
    given: dict[str, Any] = {"closed_lag_ms": _CLOSED_LAG_MS, "heartbeat_ms": _HEARTBEAT_MS, **dict(chosen)}
    store = StoreOptions(partitions=partitions, write_rate=rate, **given)
    workload = FlightsOptions(outcomes=_OUTCOMES)
    options = SimOptions(bootstrap, topic_prefix, workload, store, seed, None, history, answer_on)
    try:
        run(options, print_progress)
    except TidegateError as error:
        sys.exit(str(error))


def print_progress(progress: SimProgress) -> None:
    """Print the progress as a line of JSON, which ``Board.follow_store`` reads."""
    moments = [moment.fields() for moment in progress.moments]
    print(json.dumps({**progress._asdict(), "moments": moments}), flush=True)


if __name__ == "__main__":
    main()
