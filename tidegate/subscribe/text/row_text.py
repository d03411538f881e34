"""Rows of a subscription as text: a line of JSON, or a line of CSV.

Numbers keep their digits: a ``Decimal`` is a number in JSON with all its digits, never a float. It has an
exponent only if it is very long without one (`number_text`). A timestamp is its HLC decimal, a text in JSON,
because most programs read JSON's numbers with 17 digits. Values for which JSON has no form are texts: bytes
as ``\\x`` and hexadecimal digits, NaN and the infinities by name, dates and times in ISO 8601.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import date, time
from decimal import Decimal
from typing import Any, Final

from tidegate.hlc import Timestamp
from tidegate.subscribe.text.nested_text import is_nested, nested_text, quoted_text
from tidegate.subscribe.text.number_text import is_finite, not_finite_name, number_text

_NEEDS_QUOTES: Final = re.compile(r'[",\r\n]|^\s|\s$')


class JsonLines:
    """Makes the JSON object of each row: ``{"mz_timestamp": "1.0000000000", "mz_diff": 1, "id": 7}``."""

    __slots__ = ("_names",)

    def __init__(self, header: Sequence[str]) -> None:
        self._names = [f"{quoted_text(name)}: " for name in header]

    def line(self, row: Sequence[Any]) -> str:
        """Return the row's object, without a line's end."""
        members = [name + json_text(value) for name, value in zip(self._names, row, strict=True)]
        return f"{{{', '.join(members)}}}"


def csv_line(values: Sequence[Any]) -> str:
    """Return the fields of a row of CSV, as PostgreSQL writes it, without a line's end.

    NULL is an empty field without quotes, an empty text is an empty field in quotes: ``1,,""``.
    """
    return ",".join(map(_csv_field, values))


def _csv_field(value: Any) -> str:
    if value is None:
        return ""
    text = plain_text(value)
    if text and not _NEEDS_QUOTES.search(text):
        return text
    return '"' + text.replace('"', '""') + '"'


def json_text(value: Any) -> str:
    """Return a value as JSON, however deep it is nested."""
    return nested_text(value, _scalar_text) if is_nested(value) else _scalar_text(value)


def _scalar_text(value: Any) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case Timestamp():
            return f'"{value.decimal()}"'
        case int():
            return str(value)
        case float() | Decimal():
            return number_text(value) if is_finite(value) else f'"{not_finite_name(value)}"'
    return quoted_text(plain_text(value))


def plain_text(value: Any) -> str:
    """Return a value that is not NULL as text, without quotes: for CSV and for tables."""
    match value:
        case str():
            return value
        case bool():
            return "true" if value else "false"
        case bytes():
            return f"\\x{value.hex()}"
        case Timestamp():
            return value.decimal()
        case float() | Decimal():
            return number_text(value)
        case date() | time():
            return value.isoformat()
        case list() | tuple() | dict():
            return json_text(value)
    return str(value)
