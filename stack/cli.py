"""The command line: ``python -m stack up|status|down``."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import NoReturn

import click

from stack import background
from stack.errors import StackError
from stack.recipes.catalogue import RECIPES

_NAME = click.Choice(sorted(RECIPES))


@click.group()
def cli() -> None:
    """Real servers for development: started in the background, on loopback, without Docker."""


@cli.command()
@click.argument("name", type=_NAME)
@click.option("--port", type=click.IntRange(1, 65535), help="Port for clients; any free one by default.")
@click.option(
    "--data",
    type=click.Path(file_okay=False, path_type=Path),
    help="Data directory, yours to keep; by default one in the run directory.",
)
@click.option("--keep/--fresh", default=True, help="Go on with the default data, or empty it first.")
@click.option("--set", "settings", multiple=True, metavar="KEY=VALUE", help="A setting of the server itself.")
def up(name: str, port: int | None, data: Path | None, keep: bool, settings: tuple[str, ...]) -> None:
    """Start a server and wait until it answers."""
    started = background.up(name, port=port, data=data, fresh=not keep, settings=_pairs(settings))
    record = started.record
    verb = "is already up" if started.already else "is up"
    click.echo(f"{name} {verb} at {record.address} (pid {record.process.pid})")
    click.echo(f"  log   {record.log}")
    click.echo(f"  data  {record.data}")


@cli.command()
def status() -> None:
    """Show what runs."""
    running = background.status()
    if not running:
        click.echo("Nothing is up.")
    for record, answers, uptime_s in running:
        state = "healthy" if answers else "does not answer"
        click.echo(
            f"{record.name}  {record.address}  pid {record.process.pid}  up {_duration(uptime_s)}  {state}"
        )


@cli.command()
@click.argument("name", type=_NAME, required=False)
def down(name: str | None) -> None:
    """Stop a server, or all of them; data stay."""
    stopped = False
    for each in [name] if name else sorted(RECIPES):
        if (record := background.down(each)) is not None:
            stopped = True
            click.echo(f"{each} (pid {record.process.pid}) is down; its data stay in {record.data}")
    if not stopped:
        click.echo(f"{name or 'Nothing'} {'is not' if name else 'is'} up.")


def main() -> NoReturn:
    """Run a command. An expected failure is one sentence on standard error, and exit status 1."""
    try:
        cli(prog_name="python -m stack")
    except StackError as error:
        click.echo(f"Error: {error}", err=True)
    sys.exit(1)


def _pairs(settings: Iterable[str]) -> dict[str, str]:
    pairs = {}
    for setting in settings:
        key, equals, value = setting.partition("=")
        if not (key and equals):
            raise click.BadParameter(f"{setting!r} is not of the form KEY=VALUE.", param_hint="--set")
        pairs[key] = value
    return pairs


def _duration(seconds: float) -> str:
    minutes, secs = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}h{minutes:02}m" if hours else f"{minutes}m{secs:02}s"
