"""Halves of surrogate pairs. Python's texts may have them, and UTF-8 cannot express them."""

from __future__ import annotations

import re
from typing import Final

LONE_SURROGATE: Final = re.compile("[\ud800-\udfff]")


def is_utf8(text: str) -> bool:
    """Return whether the text has a form in UTF-8. The value of an environment variable may have none."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
