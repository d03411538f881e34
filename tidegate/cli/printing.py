"""Prints what commands say: text, fields and tables. No other module of the command line prints text.

What is printed may quote rows, names or statements of others, so no control character reaches a terminal
(``tidegate/client/shown_text.py``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial

import click
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from tidegate.client.shown_text import shown_lines, shown_text

#: Wide enough that nothing is ever cut in a pipe.
_PIPE_WIDTH = 10_000


def echo(text: object = "", *, err: bool = False) -> None:
    """Print a text of one or several lines, on standard error if ``err`` is set."""
    click.echo(shown_lines(str(text)), err=err)


def echo_in_red(text: str) -> None:
    """Print a text on standard error, in red if that is a terminal."""
    click.secho(shown_lines(text), fg="red", err=True)


def echo_progress(line: str, *, last: bool) -> None:
    """Print a line on standard error in the place of the line before, and go to the next one if it is the
    ``last``.
    """
    click.echo(f"\r{shown_lines(line)}", err=True, nl=last)


def exact_lines() -> Callable[[str], None]:
    """Return a function that prints lines as they are, since a program reads them. On a terminal return
    ``echo``.

    Without ``color`` click would take escape sequences out of them.
    """
    return echo if click.get_text_stream("stdout").isatty() else partial(click.echo, color=True)


def print_table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print rows under their column names: a table on a terminal, plain aligned text elsewhere.

    Each cell is one line of text, which a narrow terminal folds.
    """
    out = click.get_text_stream("stdout")
    terminal = out.isatty()
    table = Table(box=box.SIMPLE_HEAD if terminal else None, pad_edge=False, padding=(0, 2, 0, 0))
    for column in columns:
        table.add_column(Text(shown_text(column)), overflow="fold")
    for row in rows:
        table.add_row(*(Text(shown_text(cell)) for cell in row))
    console = Console(file=out, width=None if terminal else _PIPE_WIDTH, highlight=False)
    console.print(table)


def print_fields(fields: Iterable[tuple[str, str]]) -> None:
    """Print names and values, one pair a line; empty values are left out."""
    shown = [(shown_text(name), shown_text(value)) for name, value in fields if value]
    width = max((len(name) for name, _ in shown), default=0)
    for name, value in shown:
        echo(f"{name:<{width}}  {value}")
