"""The command line: ``python -m supply pins|sbom|check``, which `make` runs."""

from __future__ import annotations

import sys
from typing import NoReturn

import click

from stack.places import CHECKOUT
from supply import requirements, sbom, stack_pins
from supply.check import findings
from tidegate.errors import TidegateError


@click.group()
def cli() -> None:
    """Pin, list and check what is installed and downloaded."""


@cli.command()
@click.argument("options", nargs=-1, type=click.UNPROCESSED)
def pins(options: tuple[str, ...]) -> None:
    """Write constraints.txt, requirements/ and stack/pinned.toml; OPTIONS go to the resolver of packages."""
    requirements.write(CHECKOUT, options)
    stack_pins.write()
    click.echo("constraints.txt, requirements/ and stack/pinned.toml are written: look at what changed.")


@cli.command("sbom")
def write_sbom() -> None:
    """Write sbom.cdx.json from what is pinned."""
    sbom.SBOM_FILE.write_text(sbom.document())
    click.echo(f"{sbom.SBOM_FILE.name} is written.")


@cli.command()
def check() -> None:
    """Hold what is installed to what is pinned and listed."""
    found = 0
    for finding in findings(CHECKOUT):
        found += 1
        click.echo(f"- {finding}", err=True)
    if found:
        raise SystemExit(1)
    click.echo("What is installed is what is pinned, and sbom.cdx.json lists it; pip refuses another hash.")


def main() -> NoReturn:
    """Run a command; an expected failure is one sentence on standard error and exit status 1."""
    try:
        cli(prog_name="python -m supply")
    except TidegateError as error:
        click.echo(f"Error: {error}", err=True)
    sys.exit(1)
