"""Describes errors by the fields of PostgreSQL's ErrorResponse.

| field | has |
|---|---|
| S, V | ERROR; FATAL where the connection ends |
| C | the SQLSTATE |
| M | the sentence |
| D | ``code: history_lost`` for programs, and topic, partition and offset of a record at fault |
| H | what to do instead |
| P | the place in the query, from 1 |
"""

from __future__ import annotations

import logging
from typing import Final

from tidegate.errors import TidegateError
from tidegate.redaction import redacted

_LOG: Final = logging.getLogger(__name__)
_MOST_CHARACTERS: Final = 4_000


def error_fields(error: BaseException, *, position: int = 0, fatal: bool = False) -> dict[str, str]:
    """Return the fields of an error; ``position`` is where its statement begins in the query.

    An exception of any other kind than ``TidegateError`` is logged, and the client does not get its text.
    """
    severity = "FATAL" if fatal else "ERROR"
    if not isinstance(error, TidegateError):
        _LOG.error("A command of a client met an exception that nobody foresaw", exc_info=error)
        return {
            "S": severity,
            "V": severity,
            "C": "XX000",
            "D": "code: internal_error",
            "M": f"The server met an exception that nobody foresaw ({type(error).__name__}): see its log",
        }
    fields = {
        "S": severity,
        "V": severity,
        "C": str(getattr(error, "sqlstate", "XX000")),
        "M": redacted(str(error))[:_MOST_CHARACTERS],
        "D": f"code: {getattr(error, 'code', 'error')}",
    }
    topic, partition, offset = (getattr(error, name, None) for name in ("topic", "partition", "offset"))
    if topic:
        fields["D"] += f"; record: {topic}[{partition}], offset {offset}"
    hint = getattr(error, "hint", "")
    if hint:
        fields["H"] = redacted(str(hint))
    at = getattr(error, "position", -1)
    if isinstance(at, int) and at >= 0:
        fields["P"] = str(position + at + 1)
    return fields
