"""Keys for people, as CockroachDB prints them (pkg/keys/printer_test.go)."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.rows import Box2D, Interval, TimeTz
from tidegate.rows.keyside import bit_strings, boxes, byte_strings, decimals, floats, integers, temporal
from tidegate.rows.pretty import pretty_key, quoted
from tidegate.rows.table_key import tenant_prefix

TABLE_42 = b"\xb2"
DAY_AND_MONTH = Interval(1, 1, 10**9)


@pytest.mark.parametrize(
    ("key", "text"),
    [
        (b"", "/Min"),
        (tenant_prefix(5), "/Tenant/5"),
        (tenant_prefix(5) + TABLE_42, "/Tenant/5/Table/42"),
        (b"\xf6\x6f", "/Table/111"),
        (b"\xbb\x89\x89\x88", "/Table/51/1/1/0"),
        (b"\xbb\x89\x9b\xfe\xbc\x89\xdb\x88", "/Table/51/1/19/#/52/1/83/0"),
        (b"\x04status", '/"\\x04status"'),
    ],
)
def test_prefixes_are_named(key: bytes, text: str) -> None:
    assert pretty_key(key) == text


@pytest.mark.parametrize(
    ("datum", "text"),
    [
        (integers.encode_varint_asc(-1222), "-1222"),
        (integers.encode_varint_desc(1222), "-1223"),
        (integers.encode_uvarint_asc(2**64 - 1), "18446744073709551615"),
        (floats.encode_float_asc(233.221112), "233.221112"),
        (floats.encode_float_desc(-233.221112), "233.221112"),
        (floats.encode_float_asc(100.0), "100"),
        (floats.encode_float_asc(-1e300), "-1e+300"),
        (floats.encode_float_asc(1234567.5), "1.2345675e+06"),
        (floats.encode_float_asc(0.00001), "1e-05"),
        (boxes.encode_box_asc(Box2D(1, 3.5, -2, 4)), "BOX(1 -2,3.5 4)"),
        (floats.encode_float_asc(0.0), "0"),
        (floats.encode_float_asc(float("inf")), "+Inf"),
        (floats.encode_float_asc(float("-inf")), "-Inf"),
        (floats.encode_float_asc(float("nan")), "NaN"),
        (decimals.encode_decimal_asc(Decimal("12.34")), "12.34"),
        (decimals.encode_decimal_desc(Decimal("12.34")), "-12.34"),
        (decimals.encode_decimal_asc(Decimal(25000)), "2.5E+4"),
        (byte_strings.encode_string_asc("handsome man"), '"handsome man"'),
        (byte_strings.encode_bytes_desc(b"\x01\x02\x08\xff"), '"\\x01\\x02\\b\\xff"'),
        (bit_strings.encode_bits_asc("00111010"), "B00111010"),
        (bit_strings.encode_bits_desc("00111010"), "B00111010"),
        (temporal.encode_timestamp_asc(1_459_345_235_053_725_008), "2016-03-30T13:40:35.053725008Z"),
        (temporal.encode_timestamp_asc(1_459_345_235_050_000_000), "2016-03-30T13:40:35.05Z"),
        (temporal.encode_timestamp_asc(0), "1970-01-01T00:00:00Z"),
        (temporal.encode_timestamp_desc(1_459_345_235_053_725_008), "1923-10-04T10:19:23.946274991Z"),
        (temporal.encode_timestamp_asc(10**21), "1000000000000.000000000s"),
        (temporal.encode_interval_asc(DAY_AND_MONTH), "1 mon 1 day 00:00:01"),
        (temporal.encode_interval_desc(DAY_AND_MONTH), "-2 mons -2 days +743:59:58.999999+999ns"),
        (temporal.encode_interval_asc(Interval(14, 0, -1_500_000_000)), "1 year 2 mons -00:00:01.5"),
        (temporal.encode_interval_asc(Interval(0, 0, 0)), "00:00:00"),
        (temporal.encode_timetz_asc(TimeTz(36_672_000_000, 18_024)), "10:11:12-05:00:24"),
        (temporal.encode_timetz_asc(TimeTz(36_672_000_000, -3600)), "10:11:12+01:00:00"),
        (b"\x00", "NULL"),
        (b"\xff", "NULL"),
        (b"\x01", "!NULL"),
        (b"\xfe", "!NULL"),
        (b"foo", '"foo"'),
        (b"\x12foo", '"\\x12foo"'),
    ],
)
def test_datums_are_told_by_their_marker(datum: bytes, text: str) -> None:
    assert pretty_key(TABLE_42 + datum) == f"/Table/42/{text}"


def test_the_rest_is_quoted_behind_what_could_be_read() -> None:
    key = TABLE_42 + integers.encode_varint_asc(7) + b"\x12open"
    assert pretty_key(key) == '/Table/42/7/"\\x12open"'


@given(key=st.binary(max_size=40))
def test_no_bytes_are_beyond_printing(key: bytes) -> None:
    assert pretty_key(key).startswith("/")


def test_quotes_and_controls_are_escaped() -> None:
    assert quoted('a"\\\n\x7f\u00e9\u200b\U000e0001'.encode()) == '"a\\"\\\\\\n\\x7f\u00e9\\u200b\\U000e0001"'
