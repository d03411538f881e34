"""The demo's queries of PostgreSQL."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from examples.demo.connect import _print_query, _rows
from stack.ports import LOOPBACK, choose_port
from tidegate.errors import FatalError


@pytest.mark.parametrize("ask", [_print_query, _rows])
def test_a_database_that_is_away_is_a_sentence(ask: Callable[[str], object]) -> None:
    with pytest.raises(FatalError, match=r"PostgreSQL did not give the rows of the table flights: .*refused"):
        ask(f"postgresql://demo:hush@{LOOPBACK}:{choose_port()}/demo")
