"""Errors that show where in the statement they are."""

from __future__ import annotations

import re
from typing import Final

from tidegate.changefeed.uri_parameters import SECRET_PARAMETERS
from tidegate.errors import StatementError

_WINDOW_CHARS: Final = 100
_SECRET: Final = re.compile(rf"((?:{'|'.join(sorted(SECRET_PARAMETERS))})=)([^&'\s]+)")
#: Up to the last @ of the literal: a password that was not escaped may hold any of : / ? # @ and space.
_PASSWORD: Final = re.compile(r"(:(?!//))((?:[^']|'')+)(?=@)")
#: The literal of extra_headers: API keys are given in headers.
_HEADERS: Final = re.compile(r"(\bextra_headers\"?\s*=\s*')((?:[^']|'')+)", re.I)
_WITHIN_LINE: Final = re.compile(r"[^\n]")


def with_caret(error: StatementError, statement: str) -> StatementError:
    """The error, with the line of the statement and a caret under its position.

    Secrets in the line are starred out, and a long line is cut around the caret. An error without a
    position comes back as it is.
    """
    if not 0 <= error.position <= len(statement):
        return error
    statement = _HEADERS.sub(lambda match: match[1] + _WITHIN_LINE.sub("*", match[2]), statement)
    line_start = statement.rfind("\n", 0, error.position) + 1
    line = statement[line_start:].partition("\n")[0].expandtabs(1)
    for secret in (_SECRET, _PASSWORD):
        line = secret.sub(lambda match: match[1] + "*" * len(match[2]), line)
    column = error.position - line_start
    cut = max(0, column - _WINDOW_CHARS // 2) if len(line) > _WINDOW_CHARS else 0
    shown = line[cut : cut + _WINDOW_CHARS].rstrip()
    return StatementError(f"{error}\n  {shown}\n  {' ' * (column - cut)}^", error.position)
