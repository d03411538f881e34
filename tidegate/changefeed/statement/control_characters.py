"""Refuses control characters in a statement.

No name and no value needs one. In a feed's description they would steer the terminals of those who look at
it. What is printed is escaped besides (``tidegate/client/shown_text.py``), also for feeds that an earlier
version took.
"""

from __future__ import annotations

import re
from typing import Final

from tidegate.changefeed.statement.statement import CreateChangefeed
from tidegate.errors import StatementError

#: Those of ASCII and Latin-1.
_CONTROL: Final = re.compile("[\x00-\x1f\x7f-\x9f]")
#: Its value is JSON, which may have several lines, and reads no other control character.
_JSON: Final = "extra_headers"


def check_characters(statement: CreateChangefeed) -> None:
    """Raise ``StatementError`` at the first name or value that has a control character."""
    for table, position in statement.targets:
        for name in (table.database, table.schema, table.name):
            _check("a table's name", name, position)
    _check("the sink URI", statement.sink_uri, statement.sink_position)
    for option in statement.options:
        if option.name != _JSON:
            _check(f"the value of {option.name}", option.value or "", option.position)


def _check(what: str, text: str, position: int) -> None:
    control = _CONTROL.search(text)
    if control is not None:
        raise StatementError(
            f"{what} has the control character U+{ord(control[0]):04X}, which no feed may have there: it "
            "would steer the terminals of those who look at the feed",
            position,
        )
