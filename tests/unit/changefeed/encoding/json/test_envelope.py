"""Envelopes: exact bytes of keys and values."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.changefeed.tables import FOO, INT, STRING, deletion, row, table
from tidegate.changefeed.definition.feed import TableName
from tidegate.changefeed.definition.options import Envelope, FeedOptions
from tidegate.changefeed.definition.table_topics import table_topic
from tidegate.changefeed.encoding.encoder import compile_encoder
from tidegate.errors import UnsupportedTable
from tidegate.hlc import Timestamp
from tidegate.rows.descriptor import Column
from tidegate.rows.types import Datum, Kind, SqlType

AT = Timestamp(1, 2)
BAR = row(FOO, a=1, b="bar")


def encoded(options: FeedOptions, *, deleted: bool = False) -> tuple[bytes, bytes | None]:
    return compile_encoder(FOO, options).encode(deletion(FOO, 1) if deleted else BAR, AT)


def test_both_timestamps_stand_in_name_order_beside_the_row() -> None:
    options = FeedOptions(updated=True, mvcc_timestamp=True)
    assert encoded(options) == (
        b"[1]",
        b'{"after": {"a": 1, "b": "bar"}, "mvcc_timestamp": "1.0000000002", "updated": "1.0000000002"}',
    )
    assert encoded(options, deleted=True) == (
        b"[1]",
        b'{"after": null, "mvcc_timestamp": "1.0000000002", "updated": "1.0000000002"}',
    )


def test_the_row_envelope_puts_timestamps_under_the_metadata_member() -> None:
    options = FeedOptions(envelope=Envelope.ROW, updated=True, mvcc_timestamp=True)
    assert encoded(options) == (
        b"[1]",
        b'{"__crdb__": {"mvcc_timestamp": "1.0000000002", "updated": "1.0000000002"}, "a": 1, "b": "bar"}',
    )


def test_the_metadata_member_sorts_between_upper_and_lower_case() -> None:
    mixed = table("mixed", {"a": INT, "Z": INT}, key=("a",))
    options = FeedOptions(envelope=Envelope.ROW, updated=True)
    _, value = compile_encoder(mixed, options).encode(row(mixed, a=1, Z=2), AT)
    assert value == b'{"Z": 2, "__crdb__": {"updated": "1.0000000002"}, "a": 1}'


@pytest.mark.parametrize("envelope", [Envelope.ROW, Envelope.KEY_ONLY])
def test_a_deletion_without_wrapping_is_an_empty_value_not_an_absent_one(envelope: Envelope) -> None:
    assert encoded(FeedOptions(envelope=envelope, updated=True), deleted=True) == (b"[1]", b"")


def test_the_key_is_in_index_order_not_in_table_order() -> None:
    pair = table("pair", {"a": INT, "b": STRING, "c": INT}, key=("c", "b"))
    key, _ = compile_encoder(pair, FeedOptions()).encode(row(pair, a=1, b="x", c=3), AT)
    assert key == b'[3, "x"]'


def test_hidden_columns_are_emitted_and_columns_in_transition_are_not() -> None:
    plain = table("t", {"a": INT, "rowid": INT}, key=("rowid",), hidden=("rowid",))
    adding = replace(plain, columns=(*plain.columns, Column(3, "new", INT, public=False)))
    key, value = compile_encoder(adding, FeedOptions()).encode(row(plain, a=0, rowid=99), AT)
    assert (key, value) == (b"[99]", b'{"after": {"a": 0, "rowid": 99}}')


def test_null_columns_print_as_null() -> None:
    _, value = compile_encoder(FOO, FeedOptions()).encode(row(FOO, a=1, b=None), AT)
    assert value == b'{"after": {"a": 1, "b": null}}'


def test_names_with_percent_signs_quotes_and_braces_survive_the_template() -> None:
    odd = table("odd", {"%s": INT, '"{}"': INT, "%(x)d%%": INT}, key=("%s",))
    _, value = compile_encoder(odd, FeedOptions(updated=True)).encode(
        row(odd, **{"%s": 1, '"{}"': 2, "%(x)d%%": 3}), AT
    )
    assert json.loads(value or b"") == {
        "after": {"%s": 1, '"{}"': 2, "%(x)d%%": 3},
        "updated": "1.0000000002",
    }


def test_a_column_named_like_the_metadata_is_refused_only_where_they_would_meet() -> None:
    odd = table("odd", {"a": INT, "__crdb__": INT}, key=("a",))
    for envelope in (Envelope.ROW, Envelope.BARE):
        with pytest.raises(
            UnsupportedTable, match=r"table odd has a column named __crdb__.* leave out updated$"
        ):
            compile_encoder(odd, FeedOptions(envelope=envelope, updated=True))
        compile_encoder(odd, FeedOptions(envelope=envelope))
    compile_encoder(odd, FeedOptions(updated=True))


def test_a_key_that_is_an_object_has_its_members_sorted() -> None:
    pair = table("pair", {"a": INT, "b": STRING, "c": INT}, key=("c", "b"))
    for envelope in (Envelope.ENRICHED, Envelope.UPSERT, Envelope.DEBEZIUM):
        key, _ = compile_encoder(pair, FeedOptions(envelope=envelope)).encode(row(pair, a=1, b="x", c=3), AT)
        assert key == b'{"b": "x", "c": 3}'


def test_a_key_column_that_the_table_lacks_is_refused_with_the_names_it_has() -> None:
    with pytest.raises(
        UnsupportedTable,
        match=r"^required column c not present on table foo, which key_column .* a, b$",
    ):
        compile_encoder(FOO, FeedOptions(key_column="c", unordered=True))


def test_a_key_column_in_transition_is_not_there() -> None:
    adding = replace(FOO, columns=(*FOO.columns, Column(3, "new", INT, public=False)))
    with pytest.raises(UnsupportedTable, match="required column new not present"):
        compile_encoder(adding, FeedOptions(key_column="new", unordered=True))


def test_a_key_column_that_is_null_prints_as_null() -> None:
    for envelope, expected in ((Envelope.WRAPPED, b"[null]"), (Envelope.UPSERT, b'{"b": null}')):
        options = FeedOptions(envelope=envelope, key_column="b", unordered=True)
        key, _ = compile_encoder(FOO, options).encode(row(FOO, a=1, b=None), AT)
        assert key == expected


def test_a_deletion_knows_a_key_column_that_is_part_of_the_primary_key() -> None:
    pair = table("pair", {"a": INT, "b": STRING, "c": INT}, key=("c", "b"))
    encode = compile_encoder(pair, FeedOptions(key_column="b", unordered=True)).encode
    assert encode(deletion(pair, 3, "x"), AT)[0] == b'["x"]'


def test_only_debezium_feeds_write_tombstones() -> None:
    written = {e for e in Envelope if compile_encoder(FOO, FeedOptions(envelope=e)).tombstones}
    assert written == {Envelope.DEBEZIUM}


def test_the_topic_in_the_value_is_the_topic() -> None:
    long = table("🍦" + "x" * 300, {"a": INT}, key=("a",))
    options = FeedOptions(topic_in_value=True, topic_prefix="p%s.")
    _, value = compile_encoder(long, options).encode(row(long, a=1), AT)
    assert json.loads(value or b"")["topic"] == table_topic(TableName.of(long), options)


def test_a_column_that_cannot_be_printed_is_named() -> None:
    odd = table("odd", {"a": INT, "b": SqlType(Kind.ARRAY)}, key=("a",))
    with pytest.raises(UnsupportedTable, match="table odd, column b: columns of type ARRAY"):
        compile_encoder(odd, FeedOptions())


NAMES = st.lists(st.text(st.characters(codec="utf-8"), min_size=1), min_size=1, max_size=6, unique=True)


@given(NAMES, st.data())
def test_every_row_reads_back_with_its_names_sorted(names: list[str], data: st.DataObject) -> None:
    wide = table("wide", dict.fromkeys(names, STRING), key=(names[0],))
    texts = st.text(st.characters(codec="utf-8"))
    values: dict[str, Datum] = {name: data.draw(texts | st.none()) for name in names}
    values[names[0]] = data.draw(texts)
    key, value = compile_encoder(wide, FeedOptions()).encode(row(wide, **values), AT)
    after = json.loads(value or b"")["after"]
    assert after == values
    assert list(after) == sorted(names, key=lambda name: name.encode())
    assert json.loads(key) == [values[names[0]]]
