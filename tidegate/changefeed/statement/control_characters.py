"""Refuses control characters in a statement.

No name and no value needs one. In a feed's description they would steer the terminals of those who look at
it. Printed text is also escaped (``tidegate/client/shown_text.py``), since an earlier version may have
accepted such a feed.
"""

from __future__ import annotations

from typing import Final

from tidegate.changefeed.statement.statement import CreateChangefeed
from tidegate.changefeed.text.unprintable import control_character
from tidegate.errors import StatementError

#: The option that is not checked here. Its value is JSON, which may have several lines, and its reader checks
#: the names (``tidegate/changefeed/definition/extra_headers.py``). Values are hidden.
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
    if control := control_character(text):
        raise StatementError(
            f"{what} has the control character {control}, which no feed may have there: it would steer the "
            "terminals of those who look at the feed",
            position,
        )
