"""Reads one line of CSV, with fields of any length.

Python's ``csv`` module refuses a field of more than 131,072 characters, unless a limit of the whole process
is raised. Apart from that limit, this module reads lines as ``csv.reader`` reads them with ``strict``.
"""

from __future__ import annotations

from typing import Final

_QUOTE: Final = '"'
_LINE_END: Final = "\r\n"


def csv_fields(line: str) -> list[str]:
    """Return the fields of a line; ``1,"a ""b"" c"`` has the fields ``1`` and ``a "b" c``.

    Raises ``ValueError`` for a quote that is not closed, for text after a closing quote, and for a line's
    end outside of quotes, unless nothing follows it.
    """
    line = line.rstrip(_LINE_END)
    fields = []
    end = -1
    while end < len(line):
        start = end + 1
        quoted = line.startswith(_QUOTE, start)
        field, end = _quoted_field(line, start + 1) if quoted else _plain_field(line, start)
        fields.append(field)
    return fields


def _plain_field(line: str, start: int) -> tuple[str, int]:
    """Return a field without quotes around it, and where it ends."""
    end = line.find(",", start)
    field = line[start:] if end < 0 else line[start:end]
    if "\n" in field or "\r" in field:
        raise ValueError("a line ends outside of quotes")
    return field, start + len(field)


def _quoted_field(line: str, start: int) -> tuple[str, int]:
    """Return the field after an opening quote, and where it ends."""
    quote = line.find(_QUOTE, start)
    while quote >= 0 and line.startswith(_QUOTE, quote + 1):
        quote = line.find(_QUOTE, quote + 2)
    if quote < 0:
        raise ValueError("a quote is not closed")
    end = quote + 1
    if end < len(line) and line[end] != ",":
        raise ValueError(f"a comma is expected after the closing quote of a field, not {line[end]!r}")
    return line[start:quote].replace('""', _QUOTE), end
