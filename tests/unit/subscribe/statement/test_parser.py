"""Tests what a statement is, and the sentence for what is none."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.subscribe.consumer_run import plan_of
from tests.unit.subscribe.statement.statements import UNRESERVED, bounded, statement_text, statements
from tidegate.errors import SubscribeStatementError
from tidegate.subscribe.statement.parser import MOST_CHARACTERS, parse_subscribe
from tidegate.subscribe.statement.statement import NamedRelation, OutputMode, SubscribeStatement


@given(statement=statements, late=st.booleans())
def test_a_statement_is_what_its_text_says(statement: SubscribeStatement, late: bool) -> None:
    assert parse_subscribe(statement_text(statement, late=late)) == bounded(statement)


@pytest.mark.parametrize("word", UNRESERVED)
def test_a_word_that_is_no_keyword_there_is_a_name(word: str) -> None:
    text = f"SUBSCRIBE {word} ENVELOPE UPSERT (KEY ({word})) WITH (PROGRESS) AS OF 1"
    statement = parse_subscribe(text)
    assert statement.subject == NamedRelation((word,), position=10)
    assert [key.parts for key in statement.output.key] == [(word,)]
    query = parse_subscribe(f"SUBSCRIBE (SELECT {word} FROM {word} WHERE {word} > 1 ORDER BY {word} LIMIT 1)")
    assert query.output.mode is OutputMode.DIFFS


@pytest.mark.parametrize(
    ("text", "code", "message"),
    [
        ("", "syntax_error", "Expected SUBSCRIBE, found EOF"),
        ("SELECT 1", "syntax_error", "Expected SUBSCRIBE, found SELECT"),
        ("TAIL t", "renamed_statement", "TAIL has been renamed to SUBSCRIBE"),
        ("SUBSCRIBE", "syntax_error", "Expected identifier, found EOF"),
        ("SUBSCRIBE t x", "syntax_error", 'Expected end of statement, found identifier "x"'),
        ("SUBSCRIBE t; SUBSCRIBE t", "syntax_error", "Expected end of statement, found SUBSCRIBE"),
        ("SUBSCRIBE t ENVELOPE", "syntax_error", "Expected one of UPSERT or DEBEZIUM, found EOF"),
        ("SUBSCRIBE t ENVELOPE NONE (KEY (a))", "syntax_error", "Expected one of UPSERT or DEBEZIUM"),
        ("SUBSCRIBE t ENVELOPE UPSERT", "syntax_error", "Expected left parenthesis, found EOF"),
        ("SUBSCRIBE t ENVELOPE UPSERT (a)", "syntax_error", 'Expected KEY, found identifier "a"'),
        ("SUBSCRIBE t ENVELOPE UPSERT (KEY a)", "syntax_error", "Expected a list of columns in parentheses"),
        (
            "SUBSCRIBE t ENVELOPE UPSERT (KEY ())",
            "syntax_error",
            "Expected identifier, found right parenthesis",
        ),
        (
            "SUBSCRIBE t ENVELOPE UPSERT (KEY (a+1))",
            "syntax_error",
            'Expected right parenthesis, found operator "+"',
        ),
        ("SUBSCRIBE t WITHIN TIMESTAMP", "syntax_error", "Expected end of statement, found WITHIN"),
        ("SUBSCRIBE t WITHIN TIMESTAMP ORDER BY", "syntax_error", "Expected an expression, found EOF"),
        ("SUBSCRIBE t WITH PROGRESS", "syntax_error", "Expected left parenthesis, found PROGRESS"),
        ("SUBSCRIBE t WITH ()", "syntax_error", "Expected one of PROGRESS or SNAPSHOT"),
        ("SUBSCRIBE t WITH (FOO = 1)", "unknown_option", "Expected one of PROGRESS or SNAPSHOT"),
        ("SUBSCRIBE t WITH (PROGRESS, PROGRESS)", "repeated_option", "PROGRESS specified more than once"),
        (
            "SUBSCRIBE t WITH (SNAPSHOT = 7)",
            "invalid_option",
            "invalid SNAPSHOT: cannot use value as boolean",
        ),
        ("SUBSCRIBE t UP TO 3 AS OF 4", "syntax_error", "Expected end of statement, found AS"),
        ("SUBSCRIBE (SELECT a FROM t JOIN u)", "syntax_error", "Expected right parenthesis, found JOIN"),
        ("SUBSCRIBE (SELECT a FROM t GROUP BY a)", "syntax_error", "Expected right parenthesis, found GROUP"),
        ("SUBSCRIBE (SELECT a FROM t LIMIT 1.5)", "syntax_error", "Expected a number of rows, found 1.5"),
        ("SUBSCRIBE a.b.c.d", "syntax_error", "a name has at most three parts"),
        ("SUBSCRIBE t AS OF 'abc", "syntax_error", "the quote that opens here is never closed"),
        ("SUBSCRIBE t /* abc", "syntax_error", "the comment that opens here is never closed"),
        (
            "SUBSCRIBE t ENVELOPE UPSERT (KEY (a)) WITH (PROGRESS) WITHIN TIMESTAMP ORDER BY a",
            "conflicting_modifiers",
            "Expected end of statement, found WITHIN",
        ),
    ],
)
def test_what_is_no_statement_is_refused_by_name(text: str, code: str, message: str) -> None:
    with pytest.raises(SubscribeStatementError) as caught:
        parse_subscribe(text)
    assert message in str(caught.value)
    assert caught.value.code == code
    assert 0 <= caught.value.position <= len(text)


@pytest.mark.parametrize(
    "text",
    [
        "SUBSCRIBE t" + " " * MOST_CHARACTERS,
        "SUBSCRIBE (SELECT " + "-" * 0 + "- " * 5_000 + "a FROM t)",
        "SUBSCRIBE (SELECT " + "NOT " * 5_000 + "a FROM t)",
        "SUBSCRIBE (SELECT 1" + " + 1" * 5_000 + " FROM t)",
        "SUBSCRIBE t AS OF " + "9" * 5_000,
    ],
    ids=["long", "minus", "not", "sum", "digits"],
)
def test_a_statement_beyond_all_measure_is_refused(text: str) -> None:
    with pytest.raises(SubscribeStatementError) as caught:
        parse_subscribe(text)
    assert caught.value.code == "statement_too_large"


@pytest.mark.parametrize("text", ["SUBSCRIBE \ud800", "SUBSCRIBE (SELECT '\udcff' FROM t)"])
def test_half_a_character_is_refused_by_name(text: str) -> None:
    with pytest.raises(SubscribeStatementError, match="half of a surrogate pair") as caught:
        parse_subscribe(text)
    str(caught.value).encode()


@pytest.mark.parametrize("digits", ["9" * 5_000, "9" * 30, "9" * 19])
def test_a_limit_beyond_all_rows_is_refused_by_name(digits: str) -> None:
    with pytest.raises(SubscribeStatementError, match=r"Expected a number of rows, found 9+$") as caught:
        parse_subscribe(f"SUBSCRIBE (SELECT * FROM t LIMIT {digits})")
    assert len(str(caught.value)) < 100


def test_a_name_of_any_length_makes_no_long_sentence() -> None:
    with pytest.raises(SubscribeStatementError, match=r'^column "x+') as caught:
        plan_of(f"SUBSCRIBE (SELECT {'x' * 9_000} FROM accounts)")
    assert len(str(caught.value)) < 1_100


def test_a_long_chain_of_conditions_is_no_depth() -> None:
    parse_subscribe("SUBSCRIBE (SELECT * FROM t WHERE a = 0" + " OR a = 1" * 3_000 + ")")


_PIECES = st.sampled_from(
    (
        "SUBSCRIBE",
        "TO",
        "t",
        "(",
        ")",
        "SELECT",
        "FROM",
        "WHERE",
        "ENVELOPE",
        "UPSERT",
        "KEY",
        ",",
        "WITH",
        "AS",
        "OF",
        "UP",
        "WITHIN TIMESTAMP ORDER BY",
        "PROGRESS",
        "=",
        "1",
        "'a",
        '"',
        "--",
        "/*",
        ";",
        "\x00",
        "é",
        "::",
    )
)


@given(st.lists(_PIECES, max_size=12).map(" ".join))
def test_any_text_is_parsed_or_refused(text: str) -> None:
    with suppress(SubscribeStatementError):
        parse_subscribe(text)
