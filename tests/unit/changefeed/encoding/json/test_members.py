"""``encode_json_value_null_as_object``: JSON null is told from SQL NULL, wherever a column's value stands."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.unit.changefeed.tables import INT, row, table, update
from tidegate.changefeed.definition.options import Envelope, FeedOptions
from tidegate.changefeed.encoding.encoder import compile_encoder
from tidegate.hlc import Timestamp
from tidegate.rows import Datum, Json, Kind, SqlType

AT = Timestamp(1, 2)
JSONB = SqlType(Kind.JSONB)
NOTED = table("noted", {"a": INT, "j": JSONB}, key=("a",))
OPTIONS = FeedOptions(envelope=Envelope.ROW, encode_json_value_null_as_object=True)
NULL_OBJECT = b'{"__crdb_json_null__": true}'


def value_of(datum: Datum, options: FeedOptions = OPTIONS) -> bytes | None:
    return compile_encoder(NOTED, options).encode(row(NOTED, a=1, j=datum), AT)[1]


@pytest.mark.parametrize(
    ("datum", "text"),
    [
        (None, b"null"),
        (Json(None), NULL_OBJECT),
        (Json([None]), b"[null]"),
        (Json({"k": None}), b'{"k": null}'),
        (Json("null"), b'"null"'),
        (Json(False), b"false"),
        (Json({"__crdb_json_null__": True}), NULL_OBJECT),
    ],
)
def test_only_a_value_that_is_null_becomes_the_object(datum: Datum, text: bytes) -> None:
    assert value_of(datum) == b'{"a": 1, "j": %s}' % text


def test_without_the_option_both_nulls_look_alike() -> None:
    options = replace(OPTIONS, encode_json_value_null_as_object=False)
    assert value_of(Json(None), options) == value_of(None, options) == b'{"a": 1, "j": null}'


def test_json_nulls_inside_of_an_array_of_a_column_stay() -> None:
    listed = table("listed", {"a": INT, "j": SqlType(Kind.ARRAY, element=JSONB)}, key=("a",))
    encode = compile_encoder(listed, OPTIONS).encode
    assert encode(row(listed, a=1, j=(Json(None), None)), AT)[1] == b'{"a": 1, "j": [null, null]}'


def test_the_row_before_has_it_too() -> None:
    old, new = row(NOTED, a=1, j=Json(None)), row(NOTED, a=1, j=None)
    options = FeedOptions(diff=True, encode_json_value_null_as_object=True)
    assert compile_encoder(NOTED, options).encode(update(old, new), AT)[1] == (
        b'{"after": {"a": 1, "j": null}, "before": {"a": 1, "j": %s}}' % NULL_OBJECT
    )


def test_a_key_that_the_column_gives_has_it_too() -> None:
    options = replace(OPTIONS, key_column="j", unordered=True)
    assert (
        compile_encoder(NOTED, options).encode(row(NOTED, a=1, j=Json(None)), AT)[0] == b"[%s]" % NULL_OBJECT
    )
