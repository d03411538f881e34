"""What a case is, and what a check of one kind of case is."""

from __future__ import annotations

import json
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any, TypeAlias

#: One line of a vectors file.
Case: TypeAlias = dict[str, Any]
#: What went wrong in the case, or ``None``.
Check: TypeAlias = Callable[[Case], str | None]


def read_cases(path: Path) -> list[Case]:
    """The cases of a file, one JSON object a line; fractions are ``Decimal``, so that their text survives."""
    lines = path.read_text(encoding="utf-8").splitlines()
    return [json.loads(line, parse_float=Decimal) for line in lines if line.strip()]


class NotClaimed(Exception):
    """Raised by a check for a case of its kind that asks for what is refused as not supported yet."""


def kind_of(case: Case) -> str:
    """The case's kind; changefeed cases have no field for it, but name their group in their id."""
    return str(case.get("kind") or f"changefeed.{case['id'].split('-')[1]}")
