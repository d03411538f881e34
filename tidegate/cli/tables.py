"""Prints tables on the terminal, and as plain aligned text elsewhere."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import click
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

#: Wide enough that nothing is ever cut in a pipe.
_PIPE_WIDTH = 10_000


def print_table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print rows under their column names."""
    out = click.get_text_stream("stdout")
    terminal = out.isatty()
    table = Table(box=box.SIMPLE_HEAD if terminal else None, pad_edge=False, padding=(0, 2, 0, 0))
    for column in columns:
        table.add_column(column, overflow="fold")
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    console = Console(file=out, width=None if terminal else _PIPE_WIDTH, highlight=False)
    console.print(table)


def print_fields(fields: Iterable[tuple[str, str]]) -> None:
    """Print names and values, one pair a line; empty values are left out."""
    shown = [(name, value) for name, value in fields if value]
    width = max((len(name) for name, _ in shown), default=0)
    for name, value in shown:
        click.echo(f"{name:<{width}}  {value}")
