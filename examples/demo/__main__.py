"""``make demo``: everything that the README promises, in about a minute.

A broker is started, a simulated range store replays the flights of 2013 into it, a worker turns its log
into a changefeed, and at the end an audit compares the output topics with what the store committed.
"""

from __future__ import annotations

from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path

import click

from examples.demo.run import Demo, Options, audit, run_to_exit, show
from sim.nycflights import fetch_archive
from stack import background
from stack.kafka import KafkaBroker


@click.command()
@click.option("--seconds", default=60.0, show_default=True, help="How long the store runs.")
@click.option("--rate", default=3000.0, show_default=True, help="Rows that it writes per second.")
@click.option("--seed", default=1, show_default=True, help="Decides everything but the times.")
@click.option("--partitions", default=8, show_default=True, help="Partitions of the log.")
@click.option("--keep", is_flag=True, help="Leave the broker up, with its topics.")
def main(seconds: float, rate: float, seed: int, partitions: int, keep: bool) -> None:
    """Real flights through a real broker, watched and audited."""
    run_to_exit(partial(_run, Options(seconds, rate, seed, partitions, keep)))


def _run(options: Options, name: str, directory: Path) -> int:
    fetch_archive()
    with ExitStack() as stack:
        bootstrap = _broker(options, stack)
        statement = (
            f"CREATE CHANGEFEED FOR TABLE flights, weather INTO 'kafka://{bootstrap}"
            f"?topic_prefix={name}_board_' WITH updated, resolved, initial_scan='no'"
        )
        demo = Demo(options, bootstrap, name, directory, statement)
        click.echo(f"Kafka is up at {bootstrap}; logs and state are in {directory}")
        return audit(demo, show(demo, stack))


def _broker(options: Options, stack: ExitStack) -> str:
    if options.keep:
        return background.up("kafka").record.address
    return stack.enter_context(closing(KafkaBroker().start())).bootstrap


if __name__ == "__main__":
    main()
