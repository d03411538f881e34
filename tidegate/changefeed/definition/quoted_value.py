"""Quotes values of a statement in error texts, if they cannot be secrets."""

from __future__ import annotations

import re
from typing import Final

#: A number, a duration or a moment.
_HARMLESS: Final = re.compile(r"[-+.:0-9 TZhmnsuµ]{0,60}")


def quoted(value: str) -> str:
    """Return the value in quotes if it is short and has only characters of numbers, durations and moments.

    Return dots in quotes for any other value.
    """
    return f"'{value}'" if _HARMLESS.fullmatch(value) else "'...'"
