"""The page of SUBSCRIBE names what there is."""

from __future__ import annotations

import re
from typing import Final

import tidegate.errors
from stack.places import CHECKOUT
from tidegate.errors import SubscribeError, TidegateError
from tidegate.subscribe.outputs.dialect import Dialect
from tidegate.subscribe.statement.faults import StatementFault
from tidegate.subscribe.statement.parser import parse_subscribe

_PAGE: Final = (CHECKOUT / "docs" / "subscribe.md").read_text()
_ROW: Final = re.compile(r"^\| `(\w+)` \| (\w{5}) \| `(\w+)` \|", re.MULTILINE)


def written() -> set[tuple[str, str, str]]:
    """Code, SQLSTATE and class of every error that a subscription may meet."""
    classes = [value for value in vars(tidegate.errors).values() if isinstance(value, type)]
    running = {
        (str(vars(each).get("code", "")), str(getattr(each, "sqlstate", "")), each.__name__)
        for each in classes
        if issubclass(each, TidegateError) and "code" in vars(each) and each is not SubscribeError
    }
    return running | {(*fault.value, "SubscribeStatementError") for fault in StatementFault}


def test_the_table_of_errors_has_every_error() -> None:
    assert {*_ROW.findall(_PAGE)} == written()


def test_statements_of_the_page_are_statements() -> None:
    statements = re.findall(r'"(SUBSCRIBE [^"]+)"', _PAGE)
    assert len(statements) > 1
    for text in statements:
        parse_subscribe(text)


def test_every_dialect_is_on_the_page() -> None:
    assert all(dialect is Dialect.TIDEGATE or dialect.value in _PAGE for dialect in Dialect)
