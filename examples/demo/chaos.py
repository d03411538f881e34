"""``make demo-chaos``: the same flights while ranges split and merge, workers die and the broker restarts.

Three workers share the log. Two of them are killed, one after the other, and started again; in between the
broker is stopped and started. At the end the audit compares the output topics with what the store committed.
"""

from __future__ import annotations

import time
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path
from typing import Final

import click

from examples.demo.run import RUNS, Demo, Disturbance, Options, Workers, audit, run_to_exit, show
from sim.nycflights import fetch_archive
from stack.kafka import KafkaBroker

_WORKERS: Final = ("worker-1", "worker-2", "worker-3")
_BROKER_AWAY_S: Final = 3.0


@click.command()
@click.option("--seconds", default=120.0, show_default=True, help="How long the store runs.")
@click.option("--rate", default=1000.0, show_default=True, help="Rows that it writes per second.")
@click.option("--seed", default=1, show_default=True, help="Decides everything but the times.")
@click.option("--partitions", default=6, show_default=True, help="Partitions of the log.")
@click.option(
    "--every", default=1.0, show_default=True, help="Seconds from one split, or merge, to the next."
)
@click.option(
    "--runs",
    type=click.Path(path_type=Path),
    default=RUNS,
    show_default=True,
    help="Directory for the logs and the state of runs.",
)
def main(seconds: float, rate: float, seed: int, partitions: int, every: float, runs: Path) -> None:
    """Splits, merges, killed workers and a broker that restarts, audited."""
    run_to_exit(partial(_run, Options(seconds, rate, seed, partitions, keep=False), every), runs)


def _run(options: Options, every: float, name: str, directory: Path) -> int:
    fetch_archive()
    with ExitStack() as stack:
        broker = stack.enter_context(closing(KafkaBroker().start()))
        statement = (
            f"CREATE CHANGEFEED FOR TABLE flights, weather INTO 'kafka://{broker.bootstrap}"
            f"?topic_prefix={name}_board_' WITH updated, resolved, initial_scan='no'"
        )
        every_ms = max(1, round(1000 * every))
        moves = {"split_every_ms": every_ms, "merge_every_ms": every_ms, "move_lease_every_ms": every_ms}
        demo = Demo(options, broker.bootstrap, name, directory, statement, _WORKERS, moves)
        click.echo(f"Kafka is up at {broker.bootstrap}; logs and state are in {directory}")
        return audit(demo, show(demo, stack, disturbances=_disturbances(broker)))


def _disturbances(broker: KafkaBroker) -> list[Disturbance]:
    first, second, _ = _WORKERS
    return [
        Disturbance(0.25, f"{first} is killed, and started again", partial(_kill, first)),
        Disturbance(0.5, "the broker is killed, and started again", lambda _: _restart(broker)),
        Disturbance(0.75, f"{second} is killed, and started again", partial(_kill, second)),
    ]


def _kill(name: str, workers: Workers) -> None:
    workers.kill(name)
    workers.start(name)


def _restart(broker: KafkaBroker) -> None:
    broker.kill()
    time.sleep(_BROKER_AWAY_S)
    broker.start()


if __name__ == "__main__":
    main()
