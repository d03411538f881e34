"""Names can be searched for: one public class a name, and no two modules that differ by an ending."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from stack.places import CHECKOUT

#: Where product code lives.
_PLACES: Final = ("tidegate", "app", "agents", "tables", "schemas", "pipeline", "sim", "stack", "supply")
#: Modules that are named for something outside: a command, an agent, a table.
_NAMED_FOR: Final = ("tidegate/cli/", "agents/", "tables/")
_ENDINGS: Final = re.compile(r"(?:ies|es|s|ging|ing|ed|e|y)$")


def sources() -> Iterator[tuple[str, Path]]:
    """Every module of the product that people write, by its path in the tree."""
    for place in _PLACES:
        for file in sorted((CHECKOUT / place).rglob("*.py")):
            if not file.name.startswith("__") and not file.name.endswith("_pb2.py"):
                yield file.relative_to(CHECKOUT).as_posix(), file


def stem(name: str) -> str:
    """Return what is left of a module's name without the endings of its words: ``feed_sinks`` is
    ``feed_sink``."""
    return "_".join(_ENDINGS.sub("", word) or word for word in name.split("_"))


@pytest.mark.long
def test_no_two_public_classes_have_one_name() -> None:
    places = defaultdict[str, list[str]](list)
    for path, file in sources():
        for node in ast.parse(file.read_text()).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].append(path)
    assert len(places) > 500
    assert {name: found for name, found in places.items() if len(found) > 1} == {}


def test_no_two_modules_differ_by_an_ending() -> None:
    alike = defaultdict[str, set[str]](set)
    for path, file in sources():
        if not path.startswith(_NAMED_FOR):
            alike[stem(file.stem)].add(file.stem)
    assert len(alike) > 300
    assert sorted(sorted(names) for names in alike.values() if len(names) > 1) == []


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("feed_sink", "feed_sinks", True),
        ("lags", "lagging", True),
        ("registry", "registries", True),
        ("row_producer", "row_records", False),
        ("range", "range_log", False),
    ],
)
def test_endings_are_told_from_words(one: str, other: str, same: bool) -> None:
    assert (stem(one) == stem(other)) is same
