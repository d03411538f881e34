"""Wrapped values decoded with the columns known, and which of them have to be decoded the other way."""

from __future__ import annotations

import numpy as np
import pytest
from msgspec import UNSET
from msgspec.structs import astuple

from tidegate.subscribe.gate.wrapped_values import REFUSALS, WrappedValues, maybe_twice

ROW = b'{"after": {"id": 1, "note": "a"}, "updated": "5.0000000000"}'
OLDER = b'{"after": {"id": 1}, "updated": "5.0000000000"}'
KEYED = b'{"after": {"id": 1, "note": "a"}, "key": [1], "updated": "5.0000000000"}'


def test_rows_have_their_values_in_the_order_of_the_columns() -> None:
    (value,), members = WrappedValues(["note", "id"]).decoded([ROW])
    assert astuple(value.after) == ("a", 1)
    assert members.tolist() == [2]


def test_an_optional_column_may_be_absent_and_no_other() -> None:
    (value,), _ = WrappedValues(["id", "note"], ["note"]).decoded([OLDER])
    assert astuple(value.after) == (1, UNSET)
    with pytest.raises(REFUSALS):
        WrappedValues(["id", "note"]).decoded([OLDER])


def test_values_have_any_members_or_exactly_those_that_are_asked_for() -> None:
    for values in ([ROW, KEYED], [KEYED, ROW]):
        _, members = WrappedValues(["id", "note"]).decoded(values)
        assert sorted(members.tolist()) == [2, 3]
    exact = WrappedValues(["id", "note"], members=["updated", "after"])
    assert len(exact.decoded([ROW, ROW])[0]) == 2
    for values in ([ROW, KEYED], [KEYED]):
        with pytest.raises(REFUSALS):
            exact.decoded(values)


def test_members_that_may_stand_twice_are_found_piece_by_piece() -> None:
    values = [b"{" + b", ".join(b'"%d": 1' % at for at in range(count % 7)) + b"}" for count in range(5_000)]
    members = np.array([count % 7 for count in range(5_000)])
    assert maybe_twice(values, members) == []
    assert maybe_twice([], members[:0]) == []
    for twice in ([3], [1_999, 2_000], [1, 4_998]):
        fewer = members.copy()
        fewer[twice] -= 1
        assert maybe_twice(values, fewer) == twice
    spelled = [b'{"a" :1}', b'{"a\\"": 1}', b'{"a": "b\\": "}']
    assert maybe_twice(spelled, np.array([1, 1, 1])) == [2]
    assert maybe_twice(spelled, np.array([1, 1, 2])) == []


@pytest.mark.parametrize("name", ['a"b', "a\\b", "a\nb", "\x1b[2J"])
def test_a_column_whose_name_json_escapes_is_decoded_the_other_way(name: str) -> None:
    values = WrappedValues(["id", name])
    with pytest.raises(REFUSALS):
        values.decoded([ROW])
    assert values.decoded([])[0] == []
