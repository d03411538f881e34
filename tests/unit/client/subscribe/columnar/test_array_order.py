"""Columns are ordered as rows are, or not at all."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.subscribe.gate.row_chunk import int_column
from tidegate.subscribe.updates.value_order import values_key

pa = pytest.importorskip("pyarrow")
order_of = pytest.importorskip("tidegate.client.subscribe.columnar.array_order").order_of

_NULLS = st.none()
#: Few values, so that rows are equal in many columns.
VALUES = {
    pa.int64(): st.one_of(_NULLS, st.sampled_from([-(2**63), -1, 0, 7, 2**63 - 1])),
    pa.bool_(): st.one_of(_NULLS, st.booleans()),
    pa.string(): st.one_of(_NULLS, st.sampled_from(["", "a", "B", "é", "\U0001f600", "￿"])),
    pa.decimal128(9, 2): st.one_of(
        _NULLS, st.sampled_from([Decimal("-1.00"), Decimal("0.10"), Decimal("2.00")])
    ),
}


@given(st.data())
def test_rows_are_in_the_order_of_their_values(data: st.DataObject) -> None:
    types = data.draw(st.lists(st.sampled_from(list(VALUES)), max_size=4))
    row = st.tuples(st.integers(0, 2), *(VALUES[each] for each in types))
    rows = data.draw(st.lists(row, max_size=12))
    columns = list(zip(*rows, strict=True)) if rows else [()] * (1 + len(types))
    arrays = [pa.array(values, type_) for values, type_ in zip(columns[1:], types, strict=True)]
    order = order_of([int_column(list(columns[0]))], arrays)
    if len({*rows}) < len(rows):
        assert order is None
    else:
        assert order is not None
        assert [rows[at] for at in order.tolist()] == sorted(rows, key=values_key)


def test_rounded_numbers_tell_no_order() -> None:
    equal = int_column([1, 1])
    assert order_of([equal], [pa.array([1.0, 2.0])]) is None
    assert order_of([int_column([2, 1])], [pa.array([1.0, 2.0])]).tolist() == [1, 0]


def test_a_column_is_not_looked_at_if_those_before_it_tell_the_order() -> None:
    def columns() -> Iterator[Any]:
        yield pa.array(["b", "a"])
        raise AssertionError("the order was known")

    assert order_of([int_column([1, 1])], columns()).tolist() == [1, 0]
