"""Expressions with values: three-valued logic, numbers, patterns."""

from __future__ import annotations

import re
from contextlib import suppress
from decimal import Decimal
from math import inf
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.examples import examples
from tests.unit.subscribe.statement.statements import expressions
from tidegate.errors import EvaluationError, SubscribeStatementError
from tidegate.subscribe.query.arithmetic import calculate
from tidegate.subscribe.query.casts import cast
from tidegate.subscribe.query.evaluation import compile_expression
from tidegate.subscribe.query.patterns import is_like
from tidegate.subscribe.query.scope import Scope, references
from tidegate.subscribe.statement.expression import Expression
from tidegate.subscribe.statement.parser import parse_subscribe
from tidegate.subscribe.statement.statement import SelectQuery
from tidegate.subscribe.text.row_text import json_text

SCOPE = Scope(("a", "b", "c"), (("t",),))


def value_of(text: str, row: tuple[Any, ...] = (None, None, None)) -> Any:
    """The value of an expression over a row of ``a``, ``b`` and ``c``."""
    query = parse_subscribe(f"SUBSCRIBE (SELECT {text} FROM t)").subject
    assert isinstance(query, SelectQuery)
    expression = query.items[0].expression
    assert expression is not None
    return compile_expression(expression, SCOPE)(row)


TRUTHS = st.sampled_from((True, False, None))


@given(one=TRUTHS, other=TRUTHS)
def test_unknown_is_between_false_and_true(one: bool | None, other: bool | None) -> None:
    rank = {False: 0, None: 1, True: 2}
    of_rank = {number: truth for truth, number in rank.items()}
    row = (one, other, None)
    assert value_of("a AND b", row) is of_rank[min(rank[one], rank[other])]
    assert value_of("a OR b", row) is of_rank[max(rank[one], rank[other])]
    assert value_of("NOT a", row) is of_rank[2 - rank[one]]
    assert value_of("NOT (a AND b)", row) is value_of("NOT a OR NOT b", row)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("NULL = NULL", None),
        ("1 <> NULL", None),
        ("a IS NULL", True),
        ("a IS NOT NULL", False),
        ("(a > 1) IS UNKNOWN", True),
        ("(1 > 2) IS NOT TRUE", True),
        ("NULL IS NOT DISTINCT FROM NULL", True),
        ("1 IS DISTINCT FROM NULL", True),
        ("1 IN (2, NULL)", None),
        ("1 IN (1, NULL)", True),
        ("NOT 1 IN (2, 3)", True),
        ("1 NOT IN (2, NULL)", None),
        ("2 BETWEEN 1 AND 3 AND TRUE", True),
        ("2 NOT BETWEEN 1 AND NULL", None),
        ("0 BETWEEN 1 AND NULL", False),
        ("coalesce(a, NULL, 3)", 3),
        ("nullif(3, 3)", None),
        ("7 / 2", 3),
        ("-7 / 2", -3),
        ("-7 % 2", -1),
        ("7.0 / 2", Decimal("3.5")),
        ("0.1 + 0.2 = 0.3", True),
        ("1 + 2 * 3 - 4", 3),
        ("10 - 2 - 3", 5),
        ("- - 3", 3),
        ("abs(-2.5)", Decimal("2.5")),
        ("'a' || 'b' || NULL", None),
        ("upper('aé') || lower('B')", "AÉb"),
        ("length('aé')", 2),
        ("'2.50'::numeric", Decimal("2.50")),
        ("CAST(2.5 AS int)", 3),
        ("true::text", "true"),
        ("'-inf'::float", -inf),
        ("'Infinity'::float * 2", inf),
        ("'B' < 'a'", True),
        ("'abc' LIKE 'a%'", True),
        ("'abc' NOT LIKE '_b_'", False),
        ("'ABC' ILIKE 'a%c'", True),
        ("'a%' LIKE 'a\\%'", True),
    ],
)
def test_a_value_is_that_of_postgresql(text: str, value: Any) -> None:
    assert value_of(text) == value
    assert type(value_of(text)) is type(value)


@pytest.mark.parametrize(
    "text",
    ["1 / 0", "1.5 % 0", "1 < 'a'", "NOT 3", "1 AND TRUE", "'a' + 1", "lower(1)", "'x'::int", "TRUE < 1"]
    + [f"'1e{exponent}'::numeric::{kind}" for exponent in ("999999999", "131073") for kind in ("int", "text")]
    + ["'1e-999999999'::numeric::text"]
    + ["'1e400'::float", "'-1E400'::float", "'1e400'::numeric::float", "'1e308'::float * 10"],
)
def test_what_has_no_value_is_an_error_of_the_row(text: str) -> None:
    with pytest.raises(EvaluationError):
        value_of(text)


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("d", "unknown_column"),
        ("u.a", "unknown_column"),
        ("sin(1)", "unknown_function"),
        ("lower(1, 2)", "unknown_function"),
        ("nullif(1)", "unknown_function"),
        ("coalesce()", "unknown_function"),
        ('"is null"()', "unknown_function"),
        ("1::geometry", "unknown_function"),
    ],
)
def test_what_does_not_exist_is_an_error_of_the_statement(text: str, code: str) -> None:
    with pytest.raises(SubscribeStatementError) as caught:
        value_of(text)
    assert caught.value.code == code


def test_a_column_of_a_name_that_stands_twice_is_ambiguous() -> None:
    query = parse_subscribe("SUBSCRIBE (SELECT a FROM t)").subject
    assert isinstance(query, SelectQuery)
    with pytest.raises(SubscribeStatementError, match='column reference "a" is ambiguous'):
        compile_expression(query.items[0].expression, Scope(("a", "a")))  # type: ignore[arg-type]


@given(
    expression=expressions,
    row=st.lists(st.none() | st.integers() | st.text(max_size=3), min_size=20, max_size=20),
)
def test_any_expression_has_a_value_or_an_error(expression: Expression, row: list[Any]) -> None:
    columns = tuple({reference.parts[-1] for reference in references(expression)})
    qualifiers = tuple(reference.parts[:-1] for reference in references(expression))
    with suppress(EvaluationError, SubscribeStatementError):
        compile_expression(expression, Scope(columns, qualifiers))(tuple(row))


@given(text=st.text("ab%_\\\n", max_size=6), pattern=st.text("ab%_", max_size=6))
def test_a_pattern_means_what_its_regular_expression_means(text: str, pattern: str) -> None:
    form = "".join({"%": ".*", "_": "."}.get(each, re.escape(each)) for each in pattern)
    assert is_like(text, pattern) == (re.fullmatch(form, text, re.DOTALL) is not None)


def test_a_hostile_pattern_takes_no_power_of_the_text() -> None:
    assert not is_like("a" * 20_000, "%a" * 50 + "b")


def test_a_number_that_no_float_has_is_out_of_range() -> None:
    with pytest.raises(EvaluationError, match="a number of 33220 bits"):
        calculate("+", 10**10_000, 1.0)


@pytest.mark.parametrize(
    "value", [Decimal("1E+100000"), Decimal("-1E+1234"), Decimal(2**4_096), "9" * 4_300, 2**4_096]
)
def test_an_integer_that_cannot_be_printed_is_out_of_range(value: object) -> None:
    with pytest.raises(EvaluationError, match="integer out of range: an integer has up to 4,096 bits"):
        cast(value, "int")


def test_the_largest_integer_of_a_cast_is_printed_everywhere() -> None:
    largest = 2**4_096 - 1
    for value in (Decimal(largest), str(largest), largest, Decimal(-largest), float(2**1_023)):
        number = cast(value, "bigint")
        assert number == int(value)
        assert json_text(number) == str(number)


@given(
    text=st.text("ab%_", max_size=12),
    pattern=st.text("ab%_\\", max_size=8),
    fold=st.booleans(),
)
@examples(500)
def test_like_is_what_one_expression_of_the_pattern_matches(text: str, pattern: str, fold: bool) -> None:
    parts = re.findall(r"\\.|.", pattern, re.DOTALL)
    expression = "".join(
        {"%": ".*", "_": "."}.get(each, re.escape(each[-1] if len(each) > 1 else each)) for each in parts
    )
    flags = re.DOTALL | (re.IGNORECASE if fold else re.NOFLAG)
    assert is_like(text, pattern, fold=fold) == (re.fullmatch(expression, text, flags) is not None)


@pytest.mark.parametrize("text", ["sNaN", "-snan", "sNaN12", " sNaN "])
def test_a_nan_that_signals_is_no_numeric(text: str) -> None:
    numeric = "CAST(a AS numeric)"
    for query in (numeric, f"{numeric} = 1", f"abs({numeric})", f"1 / {numeric}", f"nullif({numeric}, 1)"):
        with pytest.raises(EvaluationError, match="invalid input syntax for type numeric"):
            value_of(query, (text, None, None))


@pytest.mark.parametrize("text", ["NaN", "nan", "-NaN", "NaN123", "+nan7"])
def test_every_nan_of_a_cast_is_the_same(text: str) -> None:
    assert str(value_of("CAST(a AS numeric)", (text, None, None))) == "NaN"
    assert value_of("CAST(a AS numeric) = CAST('NaN' AS numeric)", (text, None, None)) is True


@pytest.mark.parametrize("query", ["a * a", "a % 7"])
def test_an_error_of_arithmetic_shows_no_whole_number(query: str) -> None:
    number = Decimal("7" * 1_000_000)
    with pytest.raises(EvaluationError, match="has no value") as refused:
        value_of(query, (number, None, None))
    assert len(str(refused.value)) < 200


@given(
    sought=st.one_of(st.none(), st.booleans(), st.integers(-2, 2), st.floats(-2, 2), st.sampled_from("ab")),
    items=st.one_of(
        st.lists(st.sampled_from(["0", "1", "1.0", "2.5", "-1", "'a'", "'b'", "NULL"]), min_size=1),
        st.lists(st.sampled_from(["true", "false", "'a'", "NULL"]), min_size=1),
    ),
)
def test_a_list_of_constants_says_what_a_list_of_columns_says(sought: Any, items: list[str]) -> None:
    answers: list[Any] = []
    for texts in (items, [f"coalesce(c, {item})" for item in items]):
        try:
            answers.append(value_of(f"a IN ({', '.join(texts)})", (sought, None, None)))
        except EvaluationError as error:
            answers.append(str(error))
    assert answers[0] == answers[1]
    assert type(answers[0]) is type(answers[1])
