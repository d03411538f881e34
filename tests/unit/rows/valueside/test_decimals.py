"""Decimals in values."""

from __future__ import annotations

from decimal import Decimal

import pytest

from tidegate.errors import EncodingError
from tidegate.rows.valueside.decimals import decode_decimal_body, encode_decimal_body


@pytest.mark.parametrize("text", ["0", "0.00", "-0", "-0.0", "0E+5", "10", "10.0", "1E+1", "26.30", "-1.500"])
def test_the_scale_and_sign_of_a_decimal_survive(text: str) -> None:
    assert str(decode_decimal_body(encode_decimal_body(Decimal(text)))) == str(Decimal(text))


def test_a_long_decimal_is_refused_rather_than_computed() -> None:
    with pytest.raises(EncodingError, match="out of range"):
        decode_decimal_body(b"\x34\x89" + b"\xff" * 5000)
