"""Halves of surrogate pairs, which Python's texts may have, and which no bytes of UTF-8 stand for."""

from __future__ import annotations

import re
from typing import Final

LONE_SURROGATE: Final = re.compile("[\ud800-\udfff]")


def is_utf8(text: str) -> bool:
    """Return whether the text came from bytes that are UTF-8: a variable of the environment, say."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
