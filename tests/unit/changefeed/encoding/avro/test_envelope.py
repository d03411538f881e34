"""Records of each envelope: exact bytes, and what stands where for rows, deletions and old rows."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.unit.changefeed.encoding.avro.tables_of_types import AVRO, sql_table
from tests.unit.changefeed.tables import FOO, deletion, row
from tidegate.changefeed.definition.feed import TableName
from tidegate.changefeed.definition.options import Envelope
from tidegate.changefeed.encoding.avro.marker import compile_avro_marker
from tidegate.changefeed.encoding.encoder import compile_encoder, compile_marker
from tidegate.errors import RowError
from tidegate.hlc import ZERO, ResolvedTimestamp, Timestamp
from tidegate.rows.types import Datum

AT = Timestamp(1, 2)
STAMP = b"\x02\x181.0000000002"  # a branch, the length 12, the text
BAR = row(FOO, a=1, b="bar")
GONE = deletion(FOO, 1)
KEY = b"\x02\x02"
ROW = b"\x02\x02\x02\x06bar"  # a = 1, b = 'bar'


def test_a_wrapped_row_and_its_deletion() -> None:
    encode = compile_encoder(FOO, AVRO).encode
    assert encode(BAR, AT) == (KEY, b"\x02" + ROW)
    assert encode(row(FOO, a=1, b=None), AT) == (KEY, b"\x02" + b"\x02\x02\x00")
    assert encode(GONE, AT) == (KEY, b"\x00")


def test_the_timestamps_follow_the_row() -> None:
    encode = compile_encoder(FOO, replace(AVRO, updated=True)).encode
    assert encode(BAR, AT) == (KEY, b"\x02" + ROW + STAMP)
    assert encode(GONE, AT) == (KEY, b"\x00" + STAMP)
    both = compile_encoder(FOO, replace(AVRO, updated=True, mvcc_timestamp=True)).encode
    assert both(GONE, AT) == (KEY, b"\x00" + STAMP + STAMP)


def test_the_row_before_stands_before_the_row() -> None:
    encode = compile_encoder(FOO, replace(AVRO, diff=True)).encode
    old = b"\x02\x02\x02\x06old"
    assert encode(BAR._replace(previous=()), AT) == (KEY, b"\x00" + b"\x02" + ROW)
    assert encode(BAR._replace(previous=(1, "old")), AT) == (KEY, b"\x02" + old + b"\x02" + ROW)
    assert encode(GONE._replace(previous=(1, "old")), AT) == (KEY, b"\x02" + old + b"\x00")
    assert encode(GONE._replace(previous=()), AT) == (KEY, b"\x00\x00")


def test_diff_without_the_row_before_fails_the_feed() -> None:
    with pytest.raises(RowError, match="table foo"):
        compile_encoder(FOO, replace(AVRO, diff=True)).encode(BAR._replace(previous=None), AT)


def test_a_bare_deletion_has_its_key_and_nulls() -> None:
    pair = sql_table("pair", ("c", "b"), a="INT", b="STRING", c="INT")
    encode = compile_encoder(pair, replace(AVRO, envelope=Envelope.BARE)).encode
    key = b"\x02\x06\x02\x02x"
    assert encode(row(pair, a=1, b="x", c=3), AT) == (key, b"\x02" + b"\x02\x02" + b"\x02\x02x" + b"\x02\x06")
    assert encode(deletion(pair, 3, "x"), AT) == (key, b"\x02" + b"\x00" + b"\x02\x02x" + b"\x02\x06")


def test_key_only_has_empty_values() -> None:
    encode = compile_encoder(FOO, replace(AVRO, envelope=Envelope.KEY_ONLY)).encode
    assert [encode(each, AT) for each in (BAR, GONE)] == [(KEY, b""), (KEY, b"")]


def test_a_key_column_is_null_in_deletions_but_where_the_primary_key_has_it() -> None:
    pair = sql_table("pair", ("a", "b"), a="INT", b="STRING", c="INT")
    by_c = compile_encoder(pair, replace(AVRO, key_column="c", unordered=True)).encode
    by_b = compile_encoder(pair, replace(AVRO, key_column="b", unordered=True)).encode
    there, gone = row(pair, a=1, b="x", c=3), deletion(pair, 1, "x")
    assert [by_c(each, AT)[0] for each in (there, gone)] == [b"\x02\x06", b"\x00"]
    assert [by_b(each, AT)[0] for each in (there, gone)] == [b"\x02\x02x", b"\x02\x02x"]


def test_names_that_need_escapes_and_a_namespace_do_not_change_the_bytes() -> None:
    odd = sql_table("☃.1", ("a b",), **{"a b": "INT", "1é": "INT[]"})
    encode = compile_encoder(odd, replace(AVRO, avro_schema_prefix="x.y")).encode
    datums: dict[str, Datum] = {"a b": 1, "1é": (2,)}
    assert encode(row(odd, **datums), AT) == (
        KEY,
        b"\x02" + b"\x02\x02" + b"\x02\x02\x02\x04\x00",
    )


def test_bytes_that_are_no_utf8_do_not_spoil_the_other_columns() -> None:
    wide = sql_table("wide", ("id",), id="INT", a="STRING", b="BYTES", c="STRING[]")
    datums = row(wide, id=1, a="x\udcff", b=b"\xff", c=("\udc80", None))
    key, value = compile_encoder(wide, AVRO).encode(datums, AT)
    invalid = b"\xef\xbf\xbd"
    assert key == b"\x02\x02"
    text = b"\x02\x08x" + invalid
    assert value == b"\x02" + key + text + b"\x02\x02\xff" + b"\x02\x04\x02\x06" + invalid + b"\x00\x00"


def test_a_marker() -> None:
    resolved = ResolvedTimestamp(AT)
    encoder = compile_avro_marker(TableName.of(FOO), AVRO)
    assert encoder.encode(resolved) == STAMP
    with pytest.raises(ValueError, match="nothing is resolved yet"):
        encoder.encode(ResolvedTimestamp(ZERO))


def test_the_feeds_options_lead_here() -> None:
    assert compile_encoder(FOO, AVRO).encode(BAR, AT) == (KEY, b"\x02" + ROW)
    name = TableName.of(FOO)
    assert compile_marker(name, AVRO).schema == compile_avro_marker(name, AVRO).schema
