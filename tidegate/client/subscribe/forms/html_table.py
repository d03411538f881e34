"""Batches as HTML, for notebooks: a bounded table, in which values are text and nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Any, Final

from tidegate.subscribe.text.row_text import plain_text
from tidegate.subscribe.updates.update import RowValues

SHOWN_ROWS: Final = 20
SHOWN_COLUMNS: Final = 50
SHOWN_CHARACTERS: Final = 200


def html_table(caption: str, header: Sequence[str], rows: Sequence[RowValues]) -> str:
    """Return a table with the first rows, and the first columns and characters of each."""
    left_out = []
    if len(rows) > SHOWN_ROWS:
        left_out.append(f"the first {SHOWN_ROWS} rows are shown")
    if len(header) > SHOWN_COLUMNS:
        left_out.append(f"the first {SHOWN_COLUMNS} of {len(header)} columns")
    told = "; ".join((caption, *left_out))
    names = "".join(f"<th>{_shown(name)}</th>" for name in header[:SHOWN_COLUMNS])
    lines = "".join(
        f"<tr>{''.join(_cell(value) for value in row[:SHOWN_COLUMNS])}</tr>" for row in rows[:SHOWN_ROWS]
    )
    head = f"<caption>{_shown(told)}</caption><thead><tr>{names}</tr></thead>"
    return f"<table>{head}<tbody>{lines}</tbody></table>"


def _cell(value: Any) -> str:
    if value is None:
        return "<td><i>NULL</i></td>"
    return f"<td>{_shown(plain_text(value))}</td>"


def _shown(text: str) -> str:
    cut = text if len(text) <= SHOWN_CHARACTERS else f"{text[:SHOWN_CHARACTERS]}…"
    return escape(cut)
