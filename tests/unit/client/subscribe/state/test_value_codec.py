"""Rows are stored exactly: the type and the form of every value come back, and damage is seen."""

from __future__ import annotations

import datetime
import uuid
from contextlib import suppress
from decimal import Decimal
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.client.subscribe.state.stored_values import ROWS, form_of
from tidegate.client.subscribe.state.value_codec import decode_row, encode_row

UTC: Final = datetime.UTC
#: What is stored on somebody's disk stays readable.
GOLDEN: Final = [
    ((), "00"),
    ((None, True, False), "034e5446"),
    ((0, 1, -1, 127, 128, -129, 2**64), "076901006901016901ff69017f690200806902ff7f6909010000000000000000"),
    ((1.5, -0.0), "02643ff8000000000000648000000000000000"),
    ((Decimal("1.10"), Decimal("-0E+5"), Decimal("NaN")), "034404312e313044052d30452b3544034e614e"),
    (("", "aß", "\ud800"), "037300730361c39f7303eda080"),
    ((b"", b"\x00\xff"), "026200620200ff"),
    ((datetime.date(2026, 11, 26),), "01610a323032362d31312d3236"),
    ((datetime.time(5, 4, 3, 2),), "01630f30353a30343a30332e303030303032"),
    (
        (datetime.datetime(2026, 11, 26, 5, tzinfo=UTC),),
        "014319323032362d31312d32365430353a30303a30302b30303a3030",
    ),
    ((uuid.UUID(int=7),), "017500000000000000000000000000000007"),
    (([1, "a"], {"k": [None]}, (True,)), "036c02690101730161" + "6f0173016b6c014e" + "740154"),
]


@pytest.mark.parametrize(("row", "written"), GOLDEN)
def test_stored_rows_keep_their_bytes(row: tuple[Any, ...], written: str) -> None:
    assert encode_row(row).hex() == written
    assert form_of(decode_row(bytes.fromhex(written))) == form_of(row)


@given(row=ROWS)
def test_a_row_comes_back_with_the_types_and_forms_of_its_values(row: tuple[Any, ...]) -> None:
    assert form_of(decode_row(encode_row(row))) == form_of(row)


@pytest.mark.parametrize("kind", ["list", "dict"])
def test_values_may_be_nested_as_deep_as_they_like(kind: str) -> None:
    value: Any = 1
    for _ in range(20_000):
        value = [value] if kind == "list" else {"a": value}
    written = encode_row((value,))
    assert encode_row(decode_row(written)) == written


def test_an_int_beyond_what_python_makes_text_of_is_stored() -> None:
    row = (-(10**20_000),)
    assert decode_row(encode_row(row)) == row


def test_a_time_zone_becomes_its_offset_at_that_time() -> None:
    zone = datetime.timezone(datetime.timedelta(hours=-5, minutes=-30), "somewhere")
    (read,) = decode_row(encode_row((datetime.datetime(2026, 1, 1, tzinfo=zone),)))
    assert read.isoformat() == "2026-01-01T00:00:00-05:30"


@pytest.mark.parametrize("value", [object(), {1, 2}, datetime.timedelta(1), [[object()]]])
def test_a_value_without_a_stored_form_is_refused_by_its_type(value: Any) -> None:
    with pytest.raises(TypeError, match="has no stored form"):
        encode_row((1, value))


@given(row=ROWS, data=st.data())
def test_bytes_that_end_early_are_no_row(row: tuple[Any, ...], data: st.DataObject) -> None:
    written = encode_row(row)
    cut = written[: data.draw(st.integers(0, len(written) - 1))]
    with pytest.raises(ValueError, match="stored row"):
        decode_row(cut)


@given(written=st.binary(max_size=60))
def test_other_bytes_are_a_row_or_a_value_error(written: bytes) -> None:
    with suppress(ValueError):
        decode_row(written)
