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
from tidegate.changefeed.encoding.json.template import NULL, beside, literals
from tidegate.changefeed.encoding.row_templates import Filling, Member, RowPart
from tidegate.changefeed.text.json_text import utf8
from tidegate.hlc import Timestamp
from tidegate.rows import Row, TableDescriptor

_AT = Timestamp(1_700_000_000_000_000_000, 3)


def _filled(filling: Filling, row: Row) -> bytes:
    parts: dict[RowPart, Any] = {
        RowPart.KEY: row.key,
        RowPart.VALUES: row.values,
        RowPart.PREVIOUS: row.previous,
    }
    datums: tuple[Any, ...] = sum((parts[part] for part in filling.parts), ()) + beside(row, _AT)
    member = filling.member
    texts = (NULL if datums[at] is None else text(datums[at]) for at, text in member.slots)
    pieces = zip_longest(literals(member), texts, fillvalue="")
    return utf8("".join(text for pair in pieces for text in pair))


@given(
    tables_with_rows(),
    st.sampled_from(Envelope),
    st.booleans(),
    st.booleans(),
    st.booleans(),
    st.sampled_from(("", "source", "schema, source")),
)
def test_templates_give_the_bytes_of_the_encoder(
    drawn: tuple[TableDescriptor, tuple[Any, ...]],
    envelope: Envelope,
    stamps: bool,
    places: bool,
    diff: bool,
    enriched: str,
) -> None:
    table, values = drawn
    options = FeedOptions(
        envelope=envelope,
        updated=stamps,
        mvcc_timestamp=stamps,
        key_in_value=places,
        topic_in_value=places,
        key_column=table.columns[-1].name if diff != places else "",
        diff=diff,
        enriched_properties=enriched,
    )
    templates = row_templates(table, options)
    assert templates is not None
    by_id = {column.id: value for column, value in zip(table.columns, values, strict=True)}
    row_key = tuple(by_id[part.column_id] for part in table.primary_key)
    encode = compile_encoder(table, options).encode
    for previous in ((), values):
        replaced = templates.replaced if previous else None
        row, deletion = replaced or (templates.row, templates.deletion)
        for now, key, value in ((values, templates.key, row), (None, templates.deleted_key, deletion)):
            assert isinstance(key, Filling)
            assert isinstance(value, Filling)
            written = Row(table, row_key, now, previous)
            assert encode(written, _AT) == (_filled(key, written), _filled(value, written) or templates.empty)


@pytest.mark.parametrize(
    "options",
    [
        FeedOptions(headers_json_column_name="c1"),
        FeedOptions(format=Format.CSV),
        FeedOptions(format=Format.AVRO),
        FeedOptions(envelope=Envelope.UPSERT, connect_schema=True),
        FeedOptions(envelope=Envelope.DEBEZIUM, connect_schema=True),
    ],
)
def test_an_encoder_that_does_more_has_no_templates(options: FeedOptions) -> None:
    table = TableDescriptor(1, "t", 1, Timestamp(1), (), (), ())
    assert row_templates(table, options) is None


def test_templates_have_what_options_of_every_envelope_add() -> None:
    table = TableDescriptor(1, "t", 1, Timestamp(1), (), (), ())
    options = FeedOptions(
        envelope=Envelope.DEBEZIUM,
        on_oversize=OnOversize.KEY_ONLY,
        max_row_bytes=100,
        extra_headers='{"team": "blue"}',
    )
    templates = row_templates(table, options)
    assert templates is not None
    assert (templates.tombstones, templates.headers) == (True, (("team", b"blue"),))
    assert templates.max_bytes == 100 - len("teamblue") - 10
    plain = row_templates(table, FeedOptions())
    assert plain is not None
    assert (plain.tombstones, plain.headers, plain.max_bytes) == (False, (), None)


def test_text_with_percent_signs_stays_as_it_is() -> None:
    assert literals(Member("", "%%s%s%%")._replace(slots=((0, str),))) == ["%s", "%"]  # type: ignore[arg-type]
