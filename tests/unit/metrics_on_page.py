"""The metrics that docs/operations.md has, with their labels."""

from __future__ import annotations

import re
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "operations.md"
_ROW = re.compile(r"^\| `(tidegate_\w+)` \| ([\w, ]*?) ?\| ", re.MULTILINE)


def text() -> str:
    return PAGE.read_text(encoding="utf-8")


def written() -> dict[str, set[str]]:
    """Each metric of the page, with its labels."""
    rows = _ROW.findall(text())
    return {name: set(labels.split(", ")) if labels else set() for name, labels in rows}
