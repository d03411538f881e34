"""Names can be searched for: one public class a name, no two modules that differ by an ending, and no name of
a method that fits them all."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Final, TypeGuard

import pytest

from stack.places import CHECKOUT

#: Where product code lives.
_PLACES: Final = ("tidegate", "app", "agents", "tables", "schemas", "pipeline", "sim", "stack", "supply")
#: Modules that are named for something outside: a command, an agent, a table.
_NAMED_FOR: Final = ("tidegate/cli/", "agents/", "tables/")
_ENDINGS: Final = re.compile(r"(?:ies|es|s|ging|ing|ed|e|y)$")
#: Within a folder these are endings too. Elsewhere one word may well be of two things: ``raftlog/encode.py``
#: encodes entries, and ``changefeed/encoding/encoder.py`` has what encoders of rows have in common.
_ENDINGS_IN_A_FOLDER: Final = re.compile(r"(?:ions?|ers?|ors?|ies|es|s|ging|ing|ed|e|y)$")
#: Verbs that fit any method, and so say nothing of one. Each may stand in a few classes, where it is exact: a
#: queue gives out what is taken from it.
_EMPTY_VERBS: Final = frozenset({"do", "execute", "handle", "manage", "offer", "perform", "process", "take"})
_EMPTY_CLASSES_MAX: Final = 3
#: The names of methods that many classes have: who reads a call knows what it does.
_WIDE: Final = frozenset({"add", "begin", "close", "of", "open", "read", "rows", "write"})
_CLASSES_MAX: Final = 24


def sources() -> Iterator[tuple[str, Path]]:
    """Every module of the product that people write, by its path in the tree."""
    for place in _PLACES:
        for file in sorted((CHECKOUT / place).rglob("*.py")):
            if not file.name.startswith("__") and not file.name.endswith("_pb2.py"):
                yield file.relative_to(CHECKOUT).as_posix(), file


def stem(name: str, endings: re.Pattern[str] = _ENDINGS) -> str:
    """Return what is left of a module's name without the endings of its words: ``feed_sinks`` is
    ``feed_sink``."""
    return "_".join(endings.sub("", word) or word for word in name.split("_"))


@cache
def trees() -> Sequence[tuple[str, ast.Module]]:
    """Return the syntax tree of every module of the product, by its path."""
    return [(path, ast.parse(file.read_text())) for path, file in sources()]


def _is_method(node: ast.stmt) -> TypeGuard[ast.FunctionDef | ast.AsyncFunctionDef]:
    return isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and not node.name.startswith("__")


def methods() -> dict[str, list[str]]:
    """Return the classes that have a method, by its name. ``_take`` is called ``take`` like any other."""
    places = defaultdict[str, list[str]](list)
    for path, tree in trees():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                for name in {each.name.lstrip("_") for each in node.body if _is_method(each)}:
                    places[name].append(f"{path}:{node.name}")
    return places


def catch_alls(places: Mapping[str, Collection[str]]) -> dict[str, Collection[str]]:
    """Return the names of methods that so many classes have that a search for one finds the others."""
    return {
        name: classes
        for name, classes in places.items()
        if name not in _WIDE and len(classes) > (_EMPTY_CLASSES_MAX if name in _EMPTY_VERBS else _CLASSES_MAX)
    }


@pytest.mark.long
def test_no_two_public_classes_have_one_name() -> None:
    places = defaultdict[str, list[str]](list)
    for path, tree in trees():
        for node in tree.body:
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


def test_no_two_modules_of_a_folder_differ_by_who_does_it_and_what_is_done() -> None:
    alike = defaultdict[tuple[str, str], set[str]](set)
    for path, file in sources():
        alike[path.rpartition("/")[0], stem(file.stem, _ENDINGS_IN_A_FOLDER)].add(file.stem)
    assert sorted(sorted(names) for names in alike.values() if len(names) > 1) == []


@pytest.mark.long
def test_no_name_of_a_method_fits_them_all() -> None:
    """Say in the name what the method does: the queue's ``take`` takes, a kernel's ``make_records`` makes."""
    found = methods()
    assert len(found) > 1_500
    assert catch_alls(found) == {}


@pytest.mark.parametrize(
    ("name", "classes", "is_found"),
    [
        ("take", 3, False),
        ("take", 4, True),
        ("offer", 4, True),
        ("apply_report", 24, False),
        ("accept", 25, True),
        ("close", 999, False),
    ],
)
def test_a_catch_all_is_found(name: str, classes: int, is_found: bool) -> None:
    assert (name in catch_alls({name: ["a.py:A"] * classes})) is is_found


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


def test_who_does_it_is_told_from_what_is_done_within_a_folder_alone() -> None:
    assert stem("row_encoder") != stem("row_encoding")
    assert stem("row_encoder", _ENDINGS_IN_A_FOLDER) == stem("row_encoding", _ENDINGS_IN_A_FOLDER)
    assert stem("row_decoder", _ENDINGS_IN_A_FOLDER) != stem("row_encoder", _ENDINGS_IN_A_FOLDER)
