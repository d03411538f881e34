"""The page of the server names its limits, its errors, and tests that there are."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import fields
from typing import Final

from stack.places import CHECKOUT
from tidegate.serve.limits import ServeLimits

_PAGE: Final = (CHECKOUT / "docs" / "serve.md").read_text()
_ROW: Final = re.compile(r"^\| `(\w+)` \| ([0-9A-Z]{5}(?:, [0-9A-Z]{5})*) \|", re.MULTILINE)


def refusals() -> Iterator[tuple[str, str]]:
    """Code and SQLSTATE of every ``RequestRefused`` that the server makes."""
    for file in (CHECKOUT / "tidegate" / "serve").rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "RequestRefused":
                code, sqlstate = node.args[1:3]
                assert isinstance(code, ast.Constant)
                assert isinstance(sqlstate, ast.Constant)
                yield str(code.value), str(sqlstate.value)


def test_the_table_of_errors_has_every_refusal() -> None:
    rows = {(code, state) for code, states in _ROW.findall(_PAGE) for state in states.split(", ")}
    assert rows - {("wire_broken", "08P01"), ("internal_error", "XX000")} == {*refusals()}


def test_every_limit_is_on_the_page_with_its_number() -> None:
    for each in fields(ServeLimits):
        value = each.default
        assert isinstance(value, int | float)
        number = f"{value:,}" if isinstance(value, int) else f"{value:g}"
        shown = f"{value // 1024} KiB" if value % 1024 == 0 else number
        assert f"`{each.name}`: {shown}" in _PAGE


def test_the_tests_of_the_page_exist() -> None:
    written = "".join(
        file.read_text()
        for name in ("serve", "client")
        for file in (CHECKOUT / "tests" / "unit" / name).rglob("test_*.py")
    )
    missing = [name for name in re.findall(r"`(test_\w+)`", _PAGE) if f"def {name}(" not in written]
    assert not missing
