"""Finds control characters, which steer the terminal of whoever prints a text."""

from __future__ import annotations

import re
from typing import Final

#: The control characters of ASCII and Latin-1.
_CONTROL: Final = re.compile("[\x00-\x1f\x7f-\x9f]")


def control_character(text: str) -> str:
    """Return the first control character of a text as ``U+001B``. Return an empty text if there is none."""
    found = _CONTROL.search(text)
    return "" if found is None else f"U+{ord(found[0]):04X}"
