"""The trees of errors that are drawn where errors are defined have every error in its place."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import stack.errors
import tidegate.errors

ROOT = Path(__file__).parents[2]
PACKAGES = ("tidegate", "app", "agents", "tables", "sim", "stack", "examples", "bench")
_BRANCH = re.compile(r"^(?P<indent>[ │├└─]*)(?P<name>[A-Z]\w+)\b")


def drawn(module_doc: str | None) -> dict[str, str]:
    """Each error of a drawing, and the one that it hangs from."""
    parents: dict[str, str] = {}
    path: list[tuple[int, str]] = []
    for line in (module_doc or "").partition("TidegateError\n")[2].splitlines():
        branch = _BRANCH.match(line)
        if branch is None or "─" not in branch["indent"]:
            continue
        depth = len(branch["indent"])
        path = [place for place in path if place[0] < depth]
        parents[branch["name"]] = path[-1][1] if path else "TidegateError"
        path.append((depth, branch["name"]))
    return parents


def written() -> Iterator[tuple[str, list[str]]]:
    """Every class of the tree's packages, with the names of its bases."""
    for package in PACKAGES:
        for file in (ROOT / package).rglob("*.py"):
            for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
                if isinstance(node, ast.ClassDef):
                    yield node.name, [base.id for base in node.bases if isinstance(base, ast.Name)]


@pytest.mark.long
def test_every_error_is_drawn_under_the_error_that_it_is() -> None:
    tree = drawn(stack.errors.__doc__) | drawn(tidegate.errors.__doc__)
    errors = {"TidegateError"}
    found: dict[str, str] = {}
    classes = list(written())
    while new := {
        name: parent for name, bases in classes for parent in bases if parent in errors and name not in errors
    }:
        errors |= new.keys()
        found |= new
    assert tree == found
