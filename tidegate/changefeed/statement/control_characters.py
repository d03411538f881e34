"""Refuses control characters in a statement.

No name and no value needs one. In a feed's description they would steer the terminals of those who look at
it. Printed text is also escaped (``tidegate/client/shown_text.py``), since an earlier version may have
accepted such a feed.
"""

from __future__ import annotations

import re
from typing import Final

from tidegate.changefeed.statement.statement import CreateChangefeed
from tidegate.errors import StatementError

#: The control characters of ASCII and Latin-1.
_CONTROL: Final = re.compile("[\x00-\x1f\x7f-\x9f]")
#: The option that is not checked here. Its value is JSON: it may have several lines, and its reader refuses
#: other control characters below U+0020.
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
