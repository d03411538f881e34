"""Encoders that only fill templates: the templates give the same bytes, whoever fills them."""

from __future__ import annotations

from itertools import zip_longest
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.rows.strategies import tables_with_rows
from tidegate.changefeed.definition.options import Envelope, FeedOptions, Format, OnOversize
from tidegate.changefeed.encoding.encoder import compile_encoder, row_templates
from tidegate.changefeed.encoding.json.template import NULL, Member, beside, literals
from tidegate.changefeed.text.json_text import utf8
from tidegate.hlc import Timestamp
from tidegate.rows import Row, TableDescriptor

_AT = Timestamp(1_700_000_000_000_000_000, 3)


def _filled(member: Member, datums: tuple[Any, ...]) -> bytes:
    texts = (NULL if datums[at] is None else text(datums[at]) for at, text in member.slots)
    pieces = zip_longest(literals(member), texts, fillvalue="")
    return utf8("".join(text for pair in pieces for text in pair))


@given(
    tables_with_rows(),
    st.sampled_from((Envelope.WRAPPED, Envelope.BARE)),
    st.booleans(),
    st.booleans(),
    st.booleans(),
)
def test_templates_give_the_bytes_of_the_encoder(
    drawn: tuple[TableDescriptor, tuple[Any, ...]], envelope: Envelope, stamps: bool, key: bool, topic: bool
) -> None:
    table, values = drawn
    options = FeedOptions(
        envelope=envelope, updated=stamps, mvcc_timestamp=stamps, key_in_value=key, topic_in_value=topic
    )
    templates = row_templates(table, options)
    assert templates is not None
    by_id = {column.id: value for column, value in zip(table.columns, values, strict=True)}
    row_key = tuple(by_id[part.column_id] for part in table.primary_key)
    encode = compile_encoder(table, options).encode
    whole, gone = Row(table, row_key, values), Row(table, row_key, None)
    key_text = _filled(templates.key, row_key)
    assert encode(whole, _AT) == (key_text, _filled(templates.row, values + beside(whole, _AT)))
    assert encode(gone, _AT) == (key_text, _filled(templates.deletion, row_key + beside(gone, _AT)))


@pytest.mark.parametrize(
    "options",
    [
        FeedOptions(diff=True),
        FeedOptions(key_column="c1"),
        FeedOptions(headers_json_column_name="c1"),
        FeedOptions(format=Format.CSV),
        FeedOptions(format=Format.AVRO),
        FeedOptions(on_oversize=OnOversize.KEY_ONLY),
        FeedOptions(envelope=Envelope.DEBEZIUM),
        FeedOptions(envelope=Envelope.UPSERT),
        FeedOptions(envelope=Envelope.ROW),
    ],
)
def test_an_encoder_that_does_more_has_no_templates(options: FeedOptions) -> None:
    table = TableDescriptor(1, "t", 1, Timestamp(1), (), (), ())
    assert row_templates(table, options) is None


def test_text_with_percent_signs_stays_as_it_is() -> None:
    assert literals(Member("", "%%s%s%%")._replace(slots=((0, str),))) == ["%s", "%"]  # type: ignore[arg-type]
