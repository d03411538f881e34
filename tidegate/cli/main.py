"""``tidegate``: the command line."""

from __future__ import annotations

from importlib import metadata

import click

from tidegate.cli.debug import debug
from tidegate.cli.failure import Commands
from tidegate.cli.feed import feed
from tidegate.cli.logs import configure_logs
from tidegate.cli.printing import echo
from tidegate.cli.sim import sim
from tidegate.cli.spark import spark
from tidegate.cli.stack import stack
from tidegate.cli.status import status
from tidegate.cli.subscriptions.serve import serve
from tidegate.cli.subscriptions.subscribe import subscribe_command
from tidegate.cli.tail import tail
from tidegate.cli.verify import verify
from tidegate.cli.why import why
from tidegate.cli.worker import worker


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
def cli() -> None:
    """Changefeeds with resolved timestamps from the Raft logs of a range store."""


@cli.command()
def version() -> None:
    """Print the version."""
    echo(metadata.version("tidegate"))


for command in (feed, subscribe_command, serve, tail, verify, status, why, debug, worker, spark, sim, stack):
    cli.add_command(command)


def main() -> None:
    """Run the command line."""
    configure_logs()
    cli(prog_name="tidegate")
