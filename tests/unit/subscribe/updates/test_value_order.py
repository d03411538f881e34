"""SQL's order and equality of values, where Python's differ."""

from __future__ import annotations

import copy
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.hlc import Timestamp
from tidegate.subscribe.updates.row_identity import Spelling, first_spelled, row_identity, written_identity
from tidegate.subscribe.updates.update import Update, consolidated
from tidegate.subscribe.updates.value_order import ValueOrder, value_key

NAN = float("nan")
json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=3)
    | st.decimals(allow_nan=False),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=2), inner, max_size=3),
    max_leaves=5,
)


@pytest.mark.parametrize(
    ("order", "expected"),
    [
        (ValueOrder(), [1, 2, 3, None]),
        (ValueOrder(nulls_first=True), [None, 1, 2, 3]),
        (ValueOrder(descending=True, nulls_first=True), [None, 3, 2, 1]),
        (ValueOrder(descending=True), [3, 2, 1, None]),
    ],
)
def test_nulls_stand_where_they_are_told(order: ValueOrder, expected: list[Any]) -> None:
    assert sorted([2, None, 3, 1], key=order.key, reverse=order.descending) == expected


@given(st.text(), st.text())
def test_text_is_ordered_by_its_utf8_bytes(one: str, other: str) -> None:
    one, other = (text.encode(errors="replace").decode() for text in (one, other))
    assert (value_key(one) < value_key(other)) == (one.encode() < other.encode())


def test_nan_is_above_all_numbers_and_equals_itself() -> None:
    assert sorted([NAN, 3, Decimal("2.5"), float("inf")], key=value_key)[:3] == [
        Decimal("2.5"),
        3,
        float("inf"),
    ]
    assert value_key(NAN) == value_key(float("nan")) == value_key(Decimal("NaN"))
    assert row_identity((NAN,)) == row_identity((float("nan"),))


@given(st.lists(json_values, max_size=3))
def test_an_identity_is_one_of_its_own_copy_alone(values: list[Any]) -> None:
    row = tuple(values)
    assert hash(row_identity(row)) == hash(row_identity(tuple(values)))
    assert row_identity(row) == row_identity(row)
    assert sorted([row, row], key=lambda each: tuple(map(value_key, each)))


@pytest.mark.parametrize(("one", "other"), [(True, 1), (False, 0), ([1], [True]), ({"a": 1}, {"a": True})])
def test_a_truth_value_is_no_number(one: Any, other: Any) -> None:
    assert row_identity((one,)) != row_identity((other,))


def test_equal_numbers_of_two_types_are_one_value() -> None:
    assert row_identity((Decimal("1.0"),)) == row_identity((1,))


def test_of_equal_rows_the_first_spelling_is_shown() -> None:
    one, other = (1, "a"), (Decimal("1.0"), "a")
    assert row_identity(one) == row_identity(other)
    assert first_spelled(one, other) is first_spelled(other, one) is one is first_spelled(one, one)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (Decimal("1.0"), Decimal("1.00")),
        (0.0, -0.0),
        ([Decimal("1.0")], [Decimal("1.00")]),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
    ],
)
def test_equal_rows_that_are_written_differently_are_two_for_who_compares_texts(one: Any, other: Any) -> None:
    assert row_identity((one,)) == row_identity((other,))
    assert written_identity((one,)) != written_identity((other,))
    assert written_identity((one,)) == written_identity((copy.deepcopy(one),))
    assert (Spelling((one,)) < Spelling((other,))) != (Spelling((other,)) < Spelling((one,)))


def test_consolidation_sums_within_a_timestamp_alone() -> None:
    one, two = Timestamp(1), Timestamp(2)
    updates = [
        Update(one, 1, ("a",)),
        Update(two, -1, ("a",)),
        Update(one, 2, ("a",)),
        Update(one, 1, ("b",)),
    ]
    assert consolidated([*updates, Update(one, -1, ("b",))]) == [
        Update(one, 3, ("a",)),
        Update(two, -1, ("a",)),
    ]
