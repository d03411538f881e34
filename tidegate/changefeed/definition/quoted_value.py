"""Values of a statement in error texts: those that cannot be a secret are quoted."""

from __future__ import annotations

import re
from typing import Final

#: A number, a duration or a moment.
_HARMLESS: Final = re.compile(r"[-+.:0-9 TZhmnsuµ]{0,60}")


def quoted(value: str) -> str:
    """The value in quotes, if it is a number, a duration or a moment; dots in quotes for any other."""
    return f"'{value}'" if _HARMLESS.fullmatch(value) else "'...'"
