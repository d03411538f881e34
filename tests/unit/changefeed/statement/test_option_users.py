"""Tests who uses an option, by the table, by the page, and by the code that reads it."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Callable, Mapping
from dataclasses import fields
from functools import cache
from typing import Final

import pytest

from stack.places import CHECKOUT
from tidegate.changefeed.definition.options import FeedOptions
from tidegate.changefeed.encoding.envelopes.registry import FORMS, needs_previous, shows_previous
from tidegate.changefeed.statement.option_table import KNOWN_OPTIONS, SUPPORTED_OPTIONS
from tidegate.changefeed.statement.option_users import User
from tidegate.client.subscribe.readable_feed import reading_fault

#: Those that parse options, check them and store them: they read every option.
_PARSERS: Final = ("tidegate/changefeed/statement/", "tidegate/changefeed/definition/options.py")
_FIELDS: Final = frozenset(each.name for each in fields(FeedOptions))
#: Options that share a field with another one, or that the table has no field for, and their field.
_FIELD_OF: Final = {
    **{name: KNOWN_OPTIONS[name].field or name for name in SUPPORTED_OPTIONS},
    "initial_scan_only": "initial_scan",
    "no_initial_scan": "initial_scan",
}
#: Functions that read options for whoever calls them.
_ASKED: Final = {
    "needs_previous": (needs_previous, shows_previous),
    "shows_previous": (shows_previous,),
    "loading_fault": tuple(form.loading_fault for form in FORMS),
    "reading_fault": (reading_fault, *(form.loading_fault for form in FORMS)),
}

_SECTION: Final = re.compile(r"^## (.*?)\n(.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)
_LINE: Final = re.compile(r"^\| (`.*?) \|.*\| ([^|]*) \|$", re.MULTILINE)
_PLACES: Final = re.compile(r"^\| ([\w ]+) \|.*\| (`.*`) \|$", re.MULTILINE)
_CODE: Final = re.compile(r"`([^`]+)`")


@cache
def page() -> dict[str, str]:
    """The sections of the page."""
    return dict(_SECTION.findall((CHECKOUT / "docs" / "statements.md").read_text(encoding="utf-8")))


@cache
def places() -> Mapping[User, tuple[str, ...]]:
    """The modules and folders of each user, as the page names them."""
    found = _PLACES.findall(page()["Who uses an option"])
    return {User(word): tuple(_CODE.findall(paths)) for word, paths in found}


@cache
def properties() -> Mapping[str, frozenset[str]]:
    """The properties of ``FeedOptions``, and the fields that each of them reads."""
    tree = ast.parse((CHECKOUT / "tidegate/changefeed/definition/options.py").read_text())
    (options,) = [each for each in tree.body if isinstance(each, ast.ClassDef) and each.name == "FeedOptions"]
    return {
        each.name: frozenset(
            node.attr for node in ast.walk(each) if isinstance(node, ast.Attribute) and node.attr in _FIELDS
        )
        for each in options.body
        if isinstance(each, ast.FunctionDef) and each.decorator_list and each.name != "from_json"
    }


def fields_read(source: str) -> frozenset[str]:
    """The fields of ``FeedOptions`` that a module reads: of a name or an attribute that ends in ``options``.

    A call of a function that reads options for its caller counts as well.
    """
    read = set[str]()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Attribute) and ast.unparse(node.value).endswith("options"):
            read |= {node.attr} & _FIELDS | properties().get(node.attr, frozenset())
        elif isinstance(node, ast.Call) and node.args and ast.unparse(node.args[0]).endswith("options"):
            name = getattr(node.func, "id", getattr(node.func, "attr", ""))
            for function in _ASKED.get(name, ()):
                read |= read_by(function)
    return frozenset(read)


@cache
def read_by(function: Callable[[FeedOptions], object]) -> frozenset[str]:
    """The fields that a function reads, but for what it asks others."""
    return frozenset(
        node.attr
        for node in ast.walk(ast.parse(inspect.getsource(function)))
        if isinstance(node, ast.Attribute) and node.attr in _FIELDS
    )


@cache
def readers() -> Mapping[str, frozenset[str]]:
    """The modules of the package that read options, and the fields that each of them reads."""
    found = {}
    for file in sorted((CHECKOUT / "tidegate").rglob("*.py")):
        path = file.relative_to(CHECKOUT).as_posix()
        if not path.startswith(_PARSERS):
            found[path] = fields_read(file.read_text())
    return {path: read for path, read in found.items() if read}


def users_of(path: str) -> list[User]:
    return [
        user
        for user, below in places().items()
        if any(path == place or (place.endswith("/") and path.startswith(place)) for place in below)
    ]


@pytest.mark.long
def test_every_module_that_reads_options_is_of_one_user() -> None:
    assert len(readers()) > 40
    assert {path: len(users_of(path)) for path in readers() if len(users_of(path)) != 1} == {}


def test_every_place_of_the_page_is_there_and_reads_options() -> None:
    assert list(places()) == list(User)
    for place in (place for below in places().values() for place in below):
        assert any(path.startswith(place) for path in readers()), place


@pytest.mark.parametrize("name", SUPPORTED_OPTIONS)
def test_the_users_of_an_option_are_those_whose_modules_read_its_field(name: str) -> None:
    reading = {user for path, read in readers().items() if _FIELD_OF[name] in read for user in users_of(path)}
    assert set(KNOWN_OPTIONS[name].users) == reading


@pytest.mark.parametrize("name", SUPPORTED_OPTIONS)
def test_the_page_names_the_users_of_an_option(name: str) -> None:
    (said,) = [users for names, users in _LINE.findall(page()["Options"]) if name in _CODE.findall(names)]
    users = [each.value for each in User if each in KNOWN_OPTIONS[name].users]
    assert said == (", ".join(users) or "the parser alone")


def test_an_option_that_is_refused_has_no_users() -> None:
    assert all(not each.users for each in KNOWN_OPTIONS.values() if each.refused)


@pytest.mark.parametrize(
    ("source", "read"),
    [
        ("definition.options.updated", {"updated"}),
        ("row.updated(options)", set()),
        ("self._options.registry", {"confluent_schema_registry"}),
        ("options.enriched_schema", {"enriched_properties", "format"}),
        ("if needs_previous(feed.options): pass", {"diff", "envelope"}),
        ("self.feeds.needs_previous(span)", set()),
        ("fault = form_of(kind).loading_fault(options)", {"connect_schema", "envelope", "format", "updated"}),
        ("def f(options):\n    return lambda: options.format.value", {"format"}),
    ],
)
def test_what_a_module_reads_is_seen(source: str, read: set[str]) -> None:
    """The scan itself: what it would miss, no test above could find."""
    assert fields_read(source) == read
