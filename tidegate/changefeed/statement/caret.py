"""Errors that show where in the statement they are."""

from __future__ import annotations

from typing import Final

from tidegate.changefeed.statement.statement_mask import masked
from tidegate.errors import StatementError

_WINDOW_CHARS: Final = 100


def with_caret(error: StatementError, statement: str) -> StatementError:
    """Return the error with the line of the statement and a caret under its position.

    Everything in the line that may be a secret is replaced by stars, and a long line is cut around the caret.
    An error without a position is returned as it is.
    """
    if not 0 <= error.position <= len(statement):
        return error
    line_start = statement.rfind("\n", 0, error.position) + 1
    line = masked(statement)[line_start:].partition("\n")[0].expandtabs(1)
    column = error.position - line_start
    cut = max(0, column - _WINDOW_CHARS // 2) if len(line) > _WINDOW_CHARS else 0
    shown = line[cut : cut + _WINDOW_CHARS].rstrip().encode(errors="replace").decode()
    return StatementError(f"{error}\n  {shown}\n  {' ' * (column - cut)}^", error.position)
