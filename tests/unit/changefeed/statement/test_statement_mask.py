"""A masked statement: what is shown of it."""

from __future__ import annotations

from time import process_time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.changefeed.statement.statement_mask import masked


def test_the_language_and_the_tables_are_shown() -> None:
    statement = "create changefeed FOR TABLE a, db.b_1 INTO 'kafka://h' WITH format='json', diff /* why */"
    assert masked(statement) == (
        "create changefeed FOR TABLE a, db.b_1 INTO '*********' WITH format='json', diff /* *** **"
    )


@given(st.text())
def test_a_masked_statement_has_its_length_and_its_lines(text: str) -> None:
    hidden = masked(text)
    assert len(hidden) == len(text)
    assert [index for index, char in enumerate(hidden) if char == "\n"] == [
        index for index, char in enumerate(text) if char == "\n"
    ]


@pytest.mark.parametrize("piece", ["'", "''", '"', "/*", "--", ":", ":@", "a,", "a ", "CREATE "])
def test_masking_takes_time_in_proportion(piece: str) -> None:
    def cost(count: int) -> float:
        begin = process_time()
        masked("CREATE CHANGEFEED FOR " + piece * count)
        return process_time() - begin

    cost(1_000)
    assert cost(80_000) < max(0.05, 12 * cost(20_000))
