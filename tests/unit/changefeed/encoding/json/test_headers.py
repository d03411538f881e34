"""``headers_json_column_name``: a JSONB column becomes Kafka headers and leaves the payload."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.changefeed.tables import INT, STRING, deletion, deletion_of, row, table, update
from tidegate.changefeed.definition.options import Envelope, FeedOptions
from tidegate.changefeed.encoding.encoder import compile_encoder
from tidegate.changefeed.text.json_text import decimal_text
from tidegate.errors import UnsupportedTable
from tidegate.hlc import Timestamp
from tidegate.rows.types import Json, JsonValue, Kind, SqlType

AT = Timestamp(1, 2)
TRACED = table("traced", {"a": INT, "h": SqlType(Kind.JSONB), "b": STRING}, key=("a",))
OPTIONS = FeedOptions(headers_json_column_name="h")


def headers_of(value: JsonValue) -> list[tuple[str, bytes]]:
    headers = compile_encoder(TRACED, OPTIONS).headers
    assert headers is not None
    return headers(row(TRACED, a=1, h=Json(value), b="x"))


def test_each_member_is_a_header() -> None:
    assert headers_of({"trace_id": "abc", "b": True, "n": Decimal("1.50"), "A": "é🍦"}) == [
        ("A", "é🍦".encode()),
        ("b", b"true"),
        ("n", b"1.50"),
        ("trace_id", b"abc"),
    ]


def test_a_number_has_the_text_that_it_has_in_a_row() -> None:
    numbers = {"a": Decimal("0E-8"), "b": Decimal("-0E-8"), "c": Decimal("1E+3"), "d": Decimal("2.50")}
    headers = headers_of(dict(numbers))
    assert headers == [(name, decimal_text(value).encode()) for name, value in numbers.items()]
    assert headers[0] == ("a", b"0.00000000")


def test_members_without_a_text_of_their_own_have_no_header() -> None:
    assert headers_of({"null": None, "array": [Decimal(1)], "object": {"a": "b"}, "text": ""}) == [
        ("text", b"")
    ]


@pytest.mark.parametrize("value", [None, "text", Decimal(1), False, [Decimal(1)], [{"a": "b"}]])
def test_a_value_that_is_no_object_gives_no_headers(value: JsonValue) -> None:
    assert headers_of(value) == []


def test_null_and_deletions_give_no_headers() -> None:
    headers = compile_encoder(TRACED, OPTIONS).headers
    assert headers is not None
    assert headers(row(TRACED, a=1, h=None, b="x")) == []
    assert headers(deletion(TRACED, 1)) == []


@pytest.mark.parametrize(
    ("envelope", "value"),
    [
        (Envelope.WRAPPED, b'{"after": {"a": 1, "b": "x"}}'),
        (Envelope.ROW, b'{"a": 1, "b": "x"}'),
        (Envelope.BARE, b'{"a": 1, "b": "x"}'),
        (Envelope.UPSERT, b'{"a": 1, "b": "x"}'),
        (Envelope.ENRICHED, b'{"after": {"a": 1, "b": "x"}, "op": "c", "ts_ns": 1}'),
    ],
)
def test_the_column_leaves_the_payload(envelope: Envelope, value: bytes) -> None:
    options = FeedOptions(envelope=envelope, headers_json_column_name="h")
    _, written = compile_encoder(TRACED, options).encode(row(TRACED, a=1, h=Json({}), b="x"), AT)
    assert written == value


def test_the_column_leaves_the_row_before_too() -> None:
    options = FeedOptions(diff=True, headers_json_column_name="h")
    encode = compile_encoder(TRACED, options).encode
    old, new = row(TRACED, a=1, h=Json({}), b="x"), row(TRACED, a=1, h=Json({}), b="y")
    assert encode(update(old, new), AT)[1] == b'{"after": {"a": 1, "b": "y"}, "before": {"a": 1, "b": "x"}}'
    assert encode(deletion_of(old), AT)[1] == b'{"after": null, "before": {"a": 1, "b": "x"}}'


def test_the_bare_deletion_leaves_it_out() -> None:
    options = FeedOptions(envelope=Envelope.BARE, headers_json_column_name="h")
    assert compile_encoder(TRACED, options).encode(deletion(TRACED, 1), AT)[1] == b'{"a": 1, "b": null}'


def test_a_table_without_the_column_is_refused_with_the_names_it_has() -> None:
    with pytest.raises(
        UnsupportedTable, match=r"^required column g not present on table traced, .* are a, h, b"
    ):
        compile_encoder(TRACED, FeedOptions(headers_json_column_name="g"))


def test_a_column_of_another_type_is_refused() -> None:
    with pytest.raises(UnsupportedTable, match=r"table traced, column b: .* type JSONB, not STRING"):
        compile_encoder(TRACED, FeedOptions(headers_json_column_name="b"))


def test_a_feed_that_did_not_ask_has_no_headers() -> None:
    assert compile_encoder(TRACED, FeedOptions()).headers is None


def test_names_that_a_producer_could_not_take_never_reach_it() -> None:
    assert headers_of({"a\0b": "cut", "\udc80": "no UTF-8"}) == [("\\ufffd", b"no UTF-8")]


NAMES = st.text(st.characters(codec="utf-8", exclude_characters="\0"))


@given(st.dictionaries(NAMES, st.text() | st.booleans() | st.none()))
def test_headers_are_the_same_whatever_order_the_members_have(members: dict[str, JsonValue]) -> None:
    assert headers_of(members) == headers_of(dict(reversed(members.items())))
    assert [name for name, _ in headers_of(members)] == sorted(k for k, v in members.items() if v is not None)
