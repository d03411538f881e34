"""Runs the command line in this process."""

from __future__ import annotations

import logging

import structlog
from click.testing import CliRunner, Result

from tidegate.cli.main import cli

#: Nobody listens there; every wait for it is short.
NOBODY = ("-b", "127.0.0.1:1", "--timeout", "0.3")


def run(*arguments: str, stdin: str = "", **environment: str) -> Result:
    """One invocation without a terminal. An unexpected exception is raised, not swallowed.

    What a command makes of this process's log is undone: its lines go to a stream that ends with it.
    """
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    try:
        result = CliRunner(env=environment).invoke(cli, arguments, input=stdin, prog_name="tidegate")
    finally:
        root.handlers[:] = handlers
        root.setLevel(level)
        structlog.reset_defaults()
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result
