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
    """Raised by a check for a case that uses an option which this version refuses as not supported yet."""


def kind_of(case: Case) -> str:
    """The case's kind, from its field of that name.

    Changefeed cases have no such field: they are of kind ``changefeed``, and claimed group by group, which
    their id names: ``cf-enc-02`` is of ``changefeed.enc``. Raises ``ValueError`` for a case with neither.
    """
    if "kind" in case:
        return str(case["kind"])
    _, _, rest = str(case.get("id", "")).partition("-")
    group = rest.partition("-")[0]
    if not group:
        raise ValueError("the case has no kind, and no id of the form cf-<group>-<number> that would tell it")
    return f"changefeed.{group}"
