"""Short descriptors that were decoded lately are kept, and long ones are not."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tidegate.errors import EncodingError
from tidegate.hlc import Timestamp
from tidegate.rows import Column, KeyPart, TableDescriptor, encode_descriptor, parse_sql_type
from tidegate.rows.decoded_descriptors import COUNT_MAX, STORED_BYTES_MAX, decoded_descriptor
from tidegate.rows.stored_descriptor import COLUMNS_MAX

_INT = parse_sql_type("INT")
_TABLE = TableDescriptor(51, "t", 1, Timestamp(100), (Column(1, "id", _INT),), (KeyPart(1),), ())


def test_the_short_descriptors_that_were_asked_for_last_are_kept() -> None:
    stored = [encode_descriptor(replace(_TABLE, version=each)) for each in range(1, COUNT_MAX + 2)]
    first = decoded_descriptor(stored[0])
    assert decoded_descriptor(stored[0]) is first
    assert [decoded_descriptor(each).version for each in stored[1:]] == [*range(2, COUNT_MAX + 2)]
    assert decoded_descriptor(stored[0]) is not first
    assert decoded_descriptor(stored[0]) == first


def test_a_long_descriptor_is_not_kept() -> None:
    stored = encode_descriptor(replace(_TABLE, name="t" * STORED_BYTES_MAX))
    assert decoded_descriptor(stored) is not decoded_descriptor(stored)


def test_only_what_stands_in_state_may_have_two_columns_of_one_name() -> None:
    columns = (Column(1, "id", _INT), Column(2, "id", _INT))
    stored = encode_descriptor(replace(_TABLE, columns=columns))
    for _ in range(2):
        with pytest.raises(EncodingError, match="several columns named 'id'"):
            decoded_descriptor(stored)
        assert decoded_descriptor(stored, is_bounded=False).columns == columns


def test_only_what_stands_in_state_may_have_too_many_columns() -> None:
    columns = tuple(Column(number, "", _INT) for number in range(1, COLUMNS_MAX + 2))
    stored = encode_descriptor(replace(_TABLE, columns=columns))
    with pytest.raises(EncodingError):
        decoded_descriptor(stored)
    assert decoded_descriptor(stored, is_bounded=False).columns == columns
