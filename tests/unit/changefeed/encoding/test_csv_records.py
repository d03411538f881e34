"""CSV: every type as CockroachDB's EXPORT prints it, and what must be in quotes."""

from __future__ import annotations

import csv
from dataclasses import replace
from decimal import Decimal
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.changefeed.encoding.json.row_of_every_type import EVERY_TYPE, KEY
from tests.unit.changefeed.tables import FOO, INT, STRING, deletion, row, table, with_virtual
from tidegate.changefeed.definition.options import FeedOptions, Format, InitialScan, VirtualColumns
from tidegate.changefeed.encoding.csv_records import csv_field
from tidegate.changefeed.encoding.decoder import decoder_for
from tidegate.changefeed.encoding.encoder import compile_encoder
from tidegate.changefeed.encoding.record import RowRecord
from tidegate.errors import MalformedRecord, RowError, UnsupportedTable
from tidegate.hlc import Timestamp
from tidegate.rows import Datum
from tidegate.rows.types import Kind, SqlType, TimeTz

CSV: Final = FeedOptions(format=Format.CSV, initial_scan=InitialScan.ONLY)
AT: Final = Timestamp(1, 2)
HOUR: Final = 3_600_000_000_000
DAY: Final = 24 * HOUR
#: The texts of the types that the JSON goldens have.
TEXTS: Final[dict[str, str]] = {
    "array": "\"ARRAY['a':::STRING,NULL,'q\"\"':::STRING]\"",
    "bit": "010",
    "bool": "true",
    "bytes": r"\x666f6f00",
    "collated": "Bonjour",
    "date": "2019-01-02",
    "decimal": "26.30",
    "Enum": "open",
    "float": "100.0",
    "float_nan": "NaN",
    "inet4": "190.0.0.0/24",
    "inet6": "::ffff:192.168.0.1/24",
    "int": "-9223372036854775808",
    "interval": "1 year 2 mons 3 days 04:00:05.5",
    "jsonb": '"{""B"": ""<\u2028>"", ""_"": {}, ""b"": [1E+2, null]}"',
    "null": "NULL",
    "oid": "26",
    "string": '"t\tn\nb\bq""\\ 100% é🍦"',
    "time": "24:00:00",
    "timestamp": "2025-04-01 17:55:46.812942",
    "timestamptz": "2025-05-09 21:20:29+00",
    "timetz": "03:04:05.6+02",
    "box2d": '"BOX(1 2,3 4.5)"',
    "lsn": "16/B374D848",
    "vector": '"[1,-0.5,1e+06]"',
    "uuid": "27f4f4c9-e35a-45dd-9b79-5ff0f9b5fbb0",
}


def written(sql_type: SqlType, datum: Datum) -> str:
    one = table("one", {"id": INT, "c": sql_type}, key=("id",))
    key, value = compile_encoder(one, CSV).encode(row(one, id=1, c=datum), AT)
    assert key == b""
    assert value is not None
    return value.decode().removeprefix("1,")


@pytest.mark.parametrize("name", TEXTS)
def test_a_datum_is_printed_as_export_prints_it(name: str) -> None:
    assert written(*EVERY_TYPE[name]) == TEXTS[name]


@pytest.mark.parametrize(
    ("kind", "datum", "text"),
    [
        (Kind.BOOL, False, "false"),
        (Kind.DECIMAL, Decimal("Infinity"), "Infinity"),
        (Kind.DECIMAL, Decimal("NaN"), "NaN"),
        (Kind.DECIMAL, Decimal("1E+3"), "1E+3"),
        (Kind.FLOAT, 1.5, "1.5"),
        (Kind.FLOAT, -0.0, "-0.0"),
        (Kind.FLOAT, 999_999.0, "999999.0"),
        (Kind.FLOAT, 1_000_000.0, "1e+06"),
        (Kind.FLOAT, 1e-7, "1e-07"),
        (Kind.FLOAT, float("inf"), "+Inf"),
        (Kind.FLOAT, float("-inf"), "-Inf"),
        (Kind.TIMESTAMP, 0, "1970-01-01 00:00:00"),
        (Kind.TIMESTAMP, -719_163 * DAY, "0001-12-31 00:00:00 BC"),
        (Kind.TIMESTAMPTZ, -719_163 * DAY + 1_000, "0001-12-31 00:00:00.000001+00 BC"),
        (Kind.TIMESTAMP, 9_224_318_016_000 * 10**9 - 1000, "infinity"),
        (Kind.TIMESTAMPTZ, -210_866_803_200 * 10**9, "-infinity"),
        (Kind.TIMETZ, TimeTz(0, -19_800), "00:00:00+05:30"),
        (Kind.TIMETZ, TimeTz(0, 19_801), "00:00:00-05:30:01"),
        (Kind.TIMETZ, TimeTz(0, 0), "00:00:00+00"),
        (Kind.STRING, "NULL", "NULL"),
        (Kind.STRING, "\udcff", "\ufffd"),
    ],
)
def test_datums_at_the_edges(kind: Kind, datum: Any, text: str) -> None:
    assert written(SqlType(kind), datum) == text


@pytest.mark.parametrize(
    ("text", "field"),
    [
        ("", ""),
        ("a b ", "a b "),
        ("'", "'"),
        (r"\N", r"\N"),
        (r"\.", r'"\."'),
        (r"\.x", r"\.x"),
        (" a", '" a"'),
        ("\u3000a", '"\u3000a"'),
        ("\x1fa", "\x1fa"),
        ("a,b", '"a,b"'),
        ('"', '""""'),
        ("a\rb", '"a\rb"'),
        ("a\nb", '"a\nb"'),
    ],
)
def test_fields_are_quoted_where_gos_writer_quotes_them(text: str, field: str) -> None:
    assert csv_field(text) == field


@given(st.lists(st.text(st.characters(codec="utf-8")), min_size=2, max_size=4))
def test_another_reader_and_ours_read_the_fields(texts: list[str]) -> None:
    names = [f"c{number}" for number in range(len(texts))]
    wide = table("wide", dict.fromkeys(names, STRING), key=("c0",))
    key, value = compile_encoder(wide, CSV).encode(row(wide, **dict(zip(names, texts, strict=True))), AT)
    assert value is not None
    if "\0" not in value.decode():  # which Python's reader takes from 3.11 on only
        assert [*csv.reader([value.decode()])] == [texts]
    assert decoder_for(CSV).decode(key, value) == RowRecord(
        (), {str(number): text for number, text in enumerate(texts, start=1)}, deleted=False
    )


@pytest.mark.parametrize(
    ("key", "value"), [(None, b"1"), (b"[1]", b"1"), (b"", None), (b"", b'"'), (b"", b"\xff"), (b"", b"a\nb")]
)
def test_bytes_that_no_csv_feed_wrote_are_refused(key: bytes | None, value: bytes | None) -> None:
    with pytest.raises(MalformedRecord, match="not a CSV record"):
        decoder_for(CSV).decode(key, value)


def test_columns_stand_in_the_order_of_the_table_and_virtual_ones_where_they_are_asked_for() -> None:
    odd = with_virtual(table("odd", {"b": STRING, "v": INT, "a": INT}, key=("a",)), "v")
    found = row(odd, a=1, b="x", v=None)
    assert compile_encoder(odd, CSV).encode(found, AT) == (b"", b"x,1")
    shown = replace(CSV, virtual_columns=VirtualColumns.NULL)
    assert compile_encoder(odd, shown).encode(found, AT) == (b"", b"x,NULL,1")


def test_a_deletion_has_no_form() -> None:
    with pytest.raises(
        RowError, match="table foo: cannot encode deleted rows into CSV format; the feed fails"
    ):
        compile_encoder(FOO, CSV).encode(deletion(FOO, 1), AT)


def test_a_type_without_a_form_is_refused_with_its_column() -> None:
    nested = SqlType(Kind.ARRAY, element=SqlType(Kind.ARRAY, element=STRING))
    names = table("names", {"id": INT, "n": nested}, key=("id",))
    with pytest.raises(
        UnsupportedTable, match=r"table names, column n: type STRING\[\]\[\] not yet supported with csv"
    ):
        compile_encoder(names, CSV)


def test_every_kind_has_a_text_and_so_has_an_array_of_it() -> None:
    wide = table("wide", {name: type_ for name, (type_, _) in EVERY_TYPE.items()}, key=KEY)
    compile_encoder(wide, CSV)
    for sql_type, datum in EVERY_TYPE.values():
        if sql_type.kind is not Kind.ARRAY:
            assert written(SqlType(Kind.ARRAY, element=sql_type), (datum,)).strip('"').startswith("ARRAY[")
