"""Where a Spark job runs and keeps what is durable: the same for each command of ``tidegate spark``."""

from __future__ import annotations

from pathlib import Path

import click

from tidegate.cli.service_tree import service_module

master_option = click.option(
    "--master", help="Where Spark runs: local[*] unless spark-submit says something else."
)


def spark_master(master: str | None) -> str | None:
    """This machine where none is given, or ``None`` where it is ``spark-submit``'s to say.

    Raises as ``service_module``.
    """
    if master is None and not service_module("pipeline.session").submitted():
        return "local[*]"
    return master


def directory_uri(directory: str) -> str:
    """The URI of a directory that is given by one, or by a path."""
    return directory if "://" in directory else Path(directory).absolute().as_uri()
