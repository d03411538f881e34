"""The rows of a page's table have as many cells as its head: two rows in one line would be read as one."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from stack.places import CHECKOUT

_PAGES: Final = (*CHECKOUT.glob("*.md"), *(CHECKOUT / "docs").rglob("*.md"))
#: A bar within backticks ends a cell too, unless a backslash stands before it.
_BAR: Final = re.compile(r"(?<!\\)\|")


def uneven_rows(page: str) -> Iterator[int]:
    """Yield the numbers of lines that have more or fewer cells than the first line of their table."""
    expected, in_block = 0, False
    for number, line in enumerate(page.splitlines(), 1):
        if line.lstrip().startswith("```"):
            in_block = not in_block
        if in_block or not line.startswith("|"):
            expected = 0
            continue
        bars = len(_BAR.findall(line))
        expected = expected or bars
        if bars != expected:
            yield number


@pytest.mark.parametrize("page", _PAGES, ids=lambda page: str(page.relative_to(CHECKOUT)))
def test_every_row_of_a_table_has_the_cells_of_its_head(page: Path) -> None:
    assert not list(uneven_rows(page.read_text()))


@pytest.mark.parametrize(
    ("table", "uneven"),
    [
        ("| a | b |\n|---|---|\n| 1 | 2 |\n", []),
        ("| a | b |\n|---|---|\n| 1 | 2 | | 3 | 4 |\n", [3]),
        ("| a | b |\n|---|---|\n| 1 |\n", [3]),
        ("| a |\n|---|\n| `x \\| y` |\n| `x | y` |\n", [4]),
        ("```\n| a |\n| b | c |\n```\n", []),
        ("| a |\n|---|\n\n| b | c |\n", []),
    ],
)
def test_rows_that_run_together_or_lack_a_cell_are_found(table: str, uneven: list[int]) -> None:
    assert list(uneven_rows(table)) == uneven
