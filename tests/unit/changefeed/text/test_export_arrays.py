"""Arrays in CSV: SQL expressions as EXPORT prints them, element by element."""

from __future__ import annotations

import csv
from decimal import Decimal
from ipaddress import IPv4Interface
from typing import Any, Final
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.changefeed.tables import INT, row, table
from tidegate.changefeed.definition.options import FeedOptions, Format, InitialScan
from tidegate.changefeed.encoding.encoder import compile_encoder
from tidegate.changefeed.text.export_arrays import sql_string
from tidegate.hlc import Timestamp
from tidegate.rows.sql_type import parse_sql_type
from tidegate.rows.types import Datum, Interval, Json, Kind, SqlType, TimeTz, TsTerm, TsVector

CSV: Final = FeedOptions(format=Format.CSV, initial_scan=InitialScan.ONLY)


def exported(element: str, *items: Datum) -> str:
    """The field of an array, as another reader of CSV finds it."""
    sql_type = SqlType(Kind.ARRAY, element=parse_sql_type(element))
    one = table("one", {"id": INT, "c": sql_type}, key=("id",))
    _, value = compile_encoder(one, CSV).encode(row(one, id=1, c=items), Timestamp(1, 2))
    assert value is not None
    ((_, field),) = csv.reader([value.decode()], strict=True)
    return field


@pytest.mark.parametrize(
    ("element", "items", "text"),
    [
        ("INT8", (), "ARRAY[]"),
        ("INT8", (None, None), "ARRAY[NULL,NULL]"),
        ("INT8", (1, -1, None), "ARRAY[1:::INT8,(-1):::INT8,NULL]"),
        ("INT2", (7,), "ARRAY[7:::INT8]"),
        ("BOOL", (True, False, None), "ARRAY[true,false,NULL]"),
        ("VARBIT", ("010", ""), "ARRAY[B'010',B'']"),
        ("FLOAT8", (1.0, -1.5, -0.0), "ARRAY[1.0:::FLOAT8,(-1.5):::FLOAT8,(-0.0):::FLOAT8]"),
        ("FLOAT4", (float("nan"), float("-inf")), "ARRAY['NaN':::FLOAT8,'-Inf':::FLOAT8]"),
        ("DECIMAL(10,2)", (Decimal("1.10"), Decimal(-2)), "ARRAY[1.10:::DECIMAL,(-2):::DECIMAL]"),
        ("DECIMAL", (Decimal("NaN"), Decimal("-Infinity")), "ARRAY['NaN':::DECIMAL,'-Infinity':::DECIMAL]"),
        ("STRING", ("a", "", "NULL", None), "ARRAY['a':::STRING,'':::STRING,'NULL':::STRING,NULL]"),
        ("STRING", ('a,b"c', "it's", "{}"), r"""ARRAY['a,b"c':::STRING,e'it\'s':::STRING,'{}':::STRING]"""),
        ("VARCHAR(5)", ("x",), "ARRAY['x':::STRING]"),
        ("NAME", ("x",), "ARRAY['x':::STRING:::NAME]"),
        ("REFCURSOR", ("x",), "ARRAY['x':::REFCURSOR]"),
        ("STRING COLLATE en-US", ("x", "\u00e9"), r"ARRAY['x' COLLATE en_US,e'\u00E9' COLLATE en_US]"),
        ("status('open', 'closed')", ("open",), "ARRAY['open':::public.status]"),
        ("shop.status('open', 'closed')", ("open",), "ARRAY['open':::shop.status]"),
        ("BYTES", (b"foo\x00", b""), r"ARRAY['\x666f6f00':::BYTES,'\x':::BYTES]"),
        ("UUID", (UUID(int=1),), "ARRAY['00000000-0000-0000-0000-000000000001':::UUID]"),
        ("INET", (IPv4Interface("10.0.0.1/8"),), "ARRAY['10.0.0.1/8':::INET]"),
        ("DATE", (0,), "ARRAY['1970-01-01':::DATE]"),
        ("TIME", (1_000_000,), "ARRAY['00:00:01':::TIME]"),
        ("TIMETZ", (TimeTz(0, 0),), "ARRAY['00:00:00+00':::TIMETZ]"),
        ("TIMESTAMP", (0,), "ARRAY['1970-01-01 00:00:00':::TIMESTAMP]"),
        ("TIMESTAMPTZ", (0,), "ARRAY['1970-01-01 00:00:00+00':::TIMESTAMPTZ]"),
        ("INTERVAL", (Interval(1, 2, 0),), "ARRAY['1 mon 2 days':::INTERVAL]"),
        ("OID", (26,), "ARRAY[26:::OID]"),
        ("PG_LSN", (1,), "ARRAY['0/1':::PG_LSN]"),
        ("JSONB", (Json({"a": "it's"}), Json(None)), r"""ARRAY[e'{"a": "it\'s"}':::JSONB,'null':::JSONB]"""),
        ("TSVECTOR", (TsVector((TsTerm("a"),)),), "ARRAY['''a''':::TSVECTOR]"),
    ],
)
def test_an_array_is_printed_as_export_prints_it(element: str, items: tuple[Any, ...], text: str) -> None:
    assert exported(element, *items) == text


@pytest.mark.parametrize(
    ("text", "literal"),
    [
        ("plain ~", "'plain ~'"),
        ("a\\b", r"e'a\\b'"),
        ("\b\f\n\r\t", r"e'\b\f\n\r\t'"),
        ("\x00\x1f\x7f", r"e'\x00\x1f\x7f'"),
        ("h\u00e9 \u2705 \U0001f366!", r"e'h\u00E9 \U00002705 \U0001F366!'"),
        ("\udcff", r"e'\xff'"),
        ("\udcffabc", r"e'\xff\x61\x62c'"),
        ("\ufffdabc", r"e'\xef\xbf\xbdabc'"),
    ],
)
def test_a_string_is_escaped_where_it_is_not_printable_ascii(text: str, literal: str) -> None:
    assert sql_string(text) == literal


@given(st.text(st.characters(codec="utf-8", exclude_characters="\ufffd")))
def test_a_literal_means_the_string(text: str) -> None:
    literal = sql_string(text)
    assert literal.isascii()
    if literal.startswith("e'"):
        literal = literal[1:].encode().decode("unicode_escape")
    assert literal[1:-1] == text
