"""SQL literals mean what SQL says, and what has no meaning is refused."""

from __future__ import annotations

from decimal import Decimal
from math import copysign, isnan
from uuid import UUID

import pytest

from tests.conformance.sql_literals import split_rows, sql_literal
from tidegate.changefeed.text.datum_text import date_text, interval_text, timestamp_text, timetz_text
from tidegate.rows import Datum, Interval, Json, TimeTz, parse_sql_type


def _read(sql: str, literal: str) -> Datum:
    return sql_literal(parse_sql_type(sql), literal)


@pytest.mark.parametrize(
    ("literal", "found"),
    [
        ("'foo'", b"foo"),
        ("'it''s'", b"it's"),
        ("'beef'", b"beef"),
        (r"'\xbeef'", b"\xbe\xef"),
        (r"'\001\002\377'", b"\x01\x02\xff"),
        (r"'a\\b'", b"a\\b"),
        (r"b'\001\x02\n\'z'", b"\x01\x02\n'z"),
        ("x'00fF'", b"\x00\xff"),
        ("X''", b""),
        (r"e'\x41'::BYTES", b"A"),
        ("'foo':::BYTES", b"foo"),
    ],
)
def test_bytes(literal: str, found: bytes) -> None:
    assert _read("BYTES", literal) == found


@pytest.mark.parametrize(
    ("sql", "literal", "shown"),
    [
        ("TIMESTAMP", "'2025-05-09 21:20:29 UTC'", "2025-05-09T21:20:29"),
        ("TIMESTAMP", "'0044-03-15 12:00:00.5 BC'", "-0043-03-15T12:00:00.5"),
        ("TIMESTAMP", "TIMESTAMP '1969-12-31 23:59:59.9999996'", "1970-01-01T00:00:00"),
        ("TIMESTAMP(3)", "'1969-12-31 23:59:59.9994'", "1969-12-31T23:59:59.999"),
        ("TIMESTAMPTZ(3)", "'2019-01-02 03:04:05.1235+00'", "2019-01-02T03:04:05.124"),
        ("TIMETZ(1)", "'03:04:05.06+02'", "03:04:05.1+02:00:00"),
        ("TIMESTAMP", "'infinity'", "294276-12-31T23:59:59.999999"),
        ("TIMESTAMP", "'-infinity'", "-4713-11-24T00:00:00"),
        ("TIMESTAMP", "'epoch'", "1970-01-01T00:00:00"),
        ("TIMESTAMP", "'12345-02-03 00:00:00'", "12345-02-03T00:00:00"),
        ("TIMESTAMPTZ", "'2025-05-09T21:20:29+0530'", "2025-05-09T15:50:29"),
        ("TIMESTAMPTZ", "'2025-05-09 21:20:29 -05:30:15'", "2025-05-10T02:50:44"),
        ("TIMESTAMPTZ", "'2025-05-09 21:20:29z'", "2025-05-09T21:20:29"),
        ("DATE", "'0044-03-15 BC'", "0044-03-15 BC"),
        ("DATE", "'0001-02-29 BC'::DATE", "0001-02-29 BC"),
        ("DATE", "'-infinity'", "-infinity"),
        ("TIMETZ", "'03:04:05+00:00:00'", "03:04:05+00:00:00"),
        ("TIMETZ", "'03:04:05 -05:30:15'", "03:04:05-05:30:15"),
        ("TIMETZ", "'03:04+0200'", "03:04:00+02:00:00"),
        ("TIMETZ", "'24:00:00UTC'", "24:00:00+00:00:00"),
    ],
)
def test_times(sql: str, literal: str, shown: str) -> None:
    datum = _read(sql, literal)
    if isinstance(datum, TimeTz):
        assert timetz_text(datum) == shown
    else:
        assert isinstance(datum, int)
        assert (date_text if sql == "DATE" else timestamp_text)(datum) == shown


@pytest.mark.parametrize(
    ("literal", "shown"),
    [
        ("'P1Y2M3DT4H5M6S'", "1 year 2 mons 3 days 04:05:06"),
        ("'P1YT-0.006S'", "1 year -00:00:00.006"),
        ("'P-1W'", "-7 days"),
        ("'PT1M'", "00:01:00"),
        ("'1-2'", "1 year 2 mons"),
        ("'-1-2'", "-1 years -2 mons"),
        ("'1-2 3 4:05:06'", "1 year 2 mons 3 days 04:05:06"),
        ("INTERVAL '1 yr -6 ms'", "1 year -00:00:00.006"),
        ("'1y2mon3d4h5m6s7ms8us'", "1 year 2 mons 3 days 04:05:06.007008"),
        ("'1.5 years 1.5 mons 1.5 days'", "1 year 7 mons 16 days 12:00:00"),
        ("'-1 year -2 mons +3 days -04:05:06.5'", "-1 years -2 mons +3 days -04:05:06.5"),
        ("'2 weeks 1 decade'", "10 years 14 days"),
        ("'90'", "00:01:30"),
        ("'0'", "00:00:00"),
    ],
)
def test_intervals(literal: str, shown: str) -> None:
    datum = _read("INTERVAL", literal)
    assert isinstance(datum, Interval)
    assert interval_text(datum) == shown


@pytest.mark.parametrize(
    ("sql", "literal", "found"),
    [
        ("INT[]", "ARRAY[1:::INT8, NULL, (-3):::INT8]", (1, None, -3)),
        ("INT[]", "ARRAY[]:::INT8[]", ()),
        ("INT[]", "'{1, NULL,3}'::INT[]", (1, None, 3)),
        ("INT[]", "'{}'", ()),
        ("STRING[]", """'{a b, "c,\\"d", "NULL", null, it''s}'""", ("a b", 'c,"d', "NULL", None, "it's")),
        ("STRING[]", r"ARRAY['a,b', e'\'],', NULL]", ("a,b", "'],", None)),
        ("BYTES[]", r"ARRAY[b'\'\001', x'00']", (b"'\x01", b"\x00")),
        ("UUID", "'27f4f4c9-e35a-45dd-9b79-5ff0f9b5fbb0'::UUID", UUID("27f4f4c9e35a45dd9b795ff0f9b5fbb0")),
        (
            "UUID",
            "CAST('27f4f4c9-e35a-45dd-9b79-5ff0f9b5fbb0' AS UUID)",
            UUID("27f4f4c9e35a45dd9b795ff0f9b5fbb0"),
        ),
        ("INT", "1:::INT8", 1),
        ("INT", "(-1):::INT8", -1),
        ("STRING", r"e'a\tb\u00e9'", "a\tbé"),
        ("STRING", "'a::b'", "a::b"),
        ("STRING", "'x':::STRING COLLATE en", "x"),
        ("STRING", "'x'::VARCHAR(10)::STRING", "x"),
        ("STRING", "''", ""),
        ("STRING", "''''", "'"),
        ("BIT(3)", "B'010'::BIT(3)", "010"),
        ("BOOL", "'t'", True),
        ("BOOL", "'off'", False),
        ("DECIMAL", "1.5E+3", Decimal("1.5E+3")),
        ("DECIMAL(42,2)", f"{10**38}.005", Decimal(f"{10**38}.01")),
        ("DECIMAL", "'-Infinity'", Decimal("-Infinity")),
        ("FLOAT", "'+Inf'", float("inf")),
        ("JSONB", """'{"a": -0, "b": 1E400}'::JSONB""", Json({"a": Decimal("-0"), "b": Decimal("1E400")})),
        ("VECTOR(3)", "'[1,2.5,-3]'::VECTOR(3)", (1.0, 2.5, -3.0)),
        ("TIME", "'24:00'", 86_400_000_000),
    ],
)
def test_literals(sql: str, literal: str, found: Datum) -> None:
    assert _read(sql, literal) == found


def test_zero_has_a_sign_in_floats_alone() -> None:
    number, decimal = _read("FLOAT", "-0.0"), _read("DECIMAL", "-0.0")
    assert isinstance(number, float)
    assert copysign(1, number) == -1
    assert str(decimal) == "0.0"


def test_nan_has_no_sign() -> None:
    number = _read("FLOAT", "'NaN'")
    assert isinstance(number, float)
    assert isnan(number)
    assert str(_read("DECIMAL", "'-NaN'")) == "NaN"


@pytest.mark.parametrize(
    ("sql", "literal"),
    [
        ("BYTES", r"'\0'"),
        ("BYTES", r"'\xf'"),
        ("BYTES", "x'0'"),
        ("DATE", "'2019-02-29'"),
        ("DATE", "'March 3'"),
        ("TIMESTAMP", "'2019-01-02 03'"),
        ("TIMESTAMPTZ", "'2019-01-02 03:04:05 America/New_York'"),
        ("TIMETZ", "'03:04:05 noon'"),
        ("INTERVAL", "''"),
        ("INTERVAL", "'P'"),
        ("INTERVAL", "'1 fortnight'"),
        ("INTERVAL", "'1 day ago'"),
        ("INT[]", "'{1,}'"),
        ("INT[]", "'{1,2'"),
        ("STRING[]", """'{"a"b}'"""),
        ("STRING[]", "'a'"),
        ("BOOL", "'maybe'"),
        ("INT", "'one'"),
        ("INT", "1 + 1"),
        ("STRING", "'a' || 'b'"),
        ("STRING", "upper('a')"),
        ("STRING", "5"),
        ("BYTES", "decode('00', 'hex')"),
    ],
)
def test_what_has_no_meaning_is_refused(sql: str, literal: str) -> None:
    with pytest.raises(ValueError, match=r"\S"):
        _read(sql, literal)


def test_rows_are_split_outside_quotes_and_brackets() -> None:
    text = r"VALUES (1, b'\',(', ARRAY[1,2]), (2, 'it''s, (', NULL)"
    assert split_rows(text) == [["1", r"b'\',('", "ARRAY[1,2]"], ["2", "'it''s, ('", "NULL"]]
