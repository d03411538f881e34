r"""Makes texts of others safe for a terminal: rows, names, and sentences that quote them.

A terminal follows the control characters of ASCII and Latin-1: they can set its title, write over what was
printed, or answer as if the user had typed. So they are shown as JSON escapes them, ``\u001b`` for example.
In a text of JSON the escaped character means the same value. A tab stays as it is.
"""

from __future__ import annotations

import re
from collections.abc import MutableMapping
from typing import Any, Final

_CONTROL: Final = re.compile("[\x00-\x08\x0a-\x1f\x7f-\x9f]")
_CONTROL_BUT_LINES: Final = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def shown_text(text: str) -> str:
    """Return the text as one line: ends of lines are escaped too.

    Otherwise the text after an end of line could look like a line that the program itself printed.
    """
    return _CONTROL.sub(_escaped, text)


def shown_lines(text: str) -> str:
    """Return a text that may have several lines: ends of lines stay as they are."""
    return _CONTROL_BUT_LINES.sub(_escaped, text)


def shown_event(_: object, __: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Return the parts of a log line as a terminal may show them.

    It is a processor of structlog, and comes before the parts are printed for people.

    Values that are no texts are printed by ``repr``, which escapes these characters itself.
    """
    return {name: shown_lines(value) if isinstance(value, str) else value for name, value in event.items()}


def _escaped(control: re.Match[str]) -> str:
    return f"\\u{ord(control[0]):04x}"
