"""Patterns of LIKE and ILIKE mean what one regular expression of the whole pattern would match."""

from __future__ import annotations

import re
import sys

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tidegate.errors import LimitExceeded
from tidegate.subscribe.query.patterns import MOST_CHARACTERS, MOST_PIECE, MOST_RUNS, is_like

#: Letters with unlike letters that are equal to them without case, or that become several.
_ODD = (
    "iI\u0130\u0131sS\u017fkK\u212a\u03c2\u03c3\u03a3\u00b5\u03bc\u00df\u1e9e\u0149\ufb05\ufb06\u0345\u1fbe"
)


def matches(text: str, pattern: str, *, fold: bool) -> bool:
    """Return what ``re`` says of the whole pattern."""
    parts = re.findall(r"\\.|.", pattern, re.DOTALL)
    form = "".join(
        {"%": ".*", "_": "."}.get(each, re.escape(each[-1] if len(each) > 1 else each)) for each in parts
    )
    return re.fullmatch(form, text, re.DOTALL | (re.IGNORECASE if fold else re.NOFLAG)) is not None


@given(text=st.text(_ODD, max_size=6), pattern=st.text(_ODD + "%_", max_size=6), fold=st.booleans())
def test_letters_of_other_languages_are_as_in_a_regular_expression(
    text: str, pattern: str, fold: bool
) -> None:
    assert is_like(text, pattern, fold=fold) == matches(text, pattern, fold=fold)


@given(text=st.text("ab", max_size=20), pattern=st.text("aab%_", max_size=14), fold=st.booleans())
@example(text="aabab", pattern="%a_a%", fold=False)
@example(text="abab", pattern="%_%__%", fold=True)
def test_pieces_of_several_runs_are_found_where_they_stand_first(text: str, pattern: str, fold: bool) -> None:
    assert is_like(text, pattern, fold=fold) == matches(text, pattern, fold=fold)


def test_every_character_is_equal_without_case_to_what_it_is_equal_to_in_a_regular_expression() -> None:
    for code in range(sys.maxunicode + 1):
        letter = chr(code)
        others = {letter.lower(), letter.upper(), letter.swapcase(), letter.casefold()} - {letter}
        for other in others:
            if len(other) == 1:
                assert is_like(other, letter, fold=True) == matches(other, letter, fold=True), hex(code)


def test_a_part_that_is_searched_for_has_a_bound_of_runs_and_characters() -> None:
    text = "ab" * 600
    assert is_like(text, f"%{'a_' * (MOST_RUNS - 1)}a%")
    for pattern in (f"%{'a_' * MOST_RUNS}a%", f"%a_{'ab' * (MOST_PIECE // 2)}%"):
        with pytest.raises(
            LimitExceeded, match="up to 16 texts with _ between them, and 1,000 char"
        ) as caught:
            is_like(text, pattern)
        assert caught.value.sqlstate == "54000"
    # What stands at the begin or the end of the text is not searched for, nor is a part of one run.
    assert is_like(text, f"{'a_' * 300}%{'_b' * 300}")
    assert is_like(text, f"%{'_' * 1_100}ab%")


def test_a_pattern_has_a_bound_since_a_column_may_be_one() -> None:
    assert is_like("a" * MOST_CHARACTERS, "a" * MOST_CHARACTERS)
    with pytest.raises(LimitExceeded, match="up to 65,536 characters, and this one has 65,537"):
        is_like("a", "a" * (MOST_CHARACTERS + 1))
