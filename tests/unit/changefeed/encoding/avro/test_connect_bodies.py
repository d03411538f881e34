"""The bodies of rows and changes for Kafka Connect: filled, they are the bytes of the encoder."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.unit.changefeed.encoding.connect.forms import AT, FORMS
from tests.unit.changefeed.tables import FOO, row
from tests.unit.rows.strategies import tables_with_rows
from tidegate.changefeed.definition.options import FeedOptions
from tidegate.changefeed.encoding.avro.body import body_writer, stamp_bytes
from tidegate.changefeed.encoding.avro.connect_schema import branch_of, schema_text
from tidegate.changefeed.encoding.connect.schema import Field, struct
from tidegate.changefeed.encoding.connect.types import column_type, key_column_type
from tidegate.changefeed.encoding.encoder import compile_encoder, row_templates
from tidegate.changefeed.encoding.row_templates import (
    Body,
    DatumForm,
    DatumPlace,
    Filling,
    RowPart,
    RowTemplates,
    Stamp,
)
from tidegate.errors import RowError, UnsupportedTable
from tidegate.hlc import Timestamp
from tidegate.rows import Row, TableDescriptor

AVRO_FORMS: Final = [options for name, options in FORMS.items() if name.startswith("avro")]
SCAN: Final = Timestamp(AT.wall + 5_000_000, 1)


def _templates(table: TableDescriptor, options: FeedOptions) -> RowTemplates:
    templates = row_templates(table, options)
    assert templates is not None
    return templates


def _filled(template: Filling | Body, row: Row) -> bytes:
    if isinstance(template, Filling):
        assert not template.member.template
        return b""
    return b"".join(_piece(piece, row) for piece in template.pieces)


def _piece(piece: bytes | DatumPlace | Stamp, row: Row) -> bytes:
    match piece:
        case bytes():
            return piece
        case Stamp():
            return stamp_bytes(piece, AT if piece is Stamp.MVCC else row.updated(AT))
    parts: dict[RowPart, Any] = {
        RowPart.KEY: row.key,
        RowPart.VALUES: row.values,
        RowPart.PREVIOUS: row.previous,
    }
    return _datum(piece, parts[piece.part][piece.position])


def _datum(place: DatumPlace, datum: Any) -> bytes:
    """The only field of a record, which fastavro writes."""
    type_of = column_type if place.form is DatumForm.CONNECT else key_column_type
    schema, convert = type_of(place.sql_type)
    optional = place.form is not DatumForm.CONNECT_KEY
    value = datum if convert is None or datum is None else convert(datum)
    if optional:
        value = ("null", None) if datum is None else (branch_of(schema), value)
    write = body_writer(schema_text(struct("one", Field("only", schema, optional))), "t")
    return write({"only": value})


def _require_bytes_of_the_encoder(
    table: TableDescriptor, options: FeedOptions, rows: Sequence[tuple[Row, Body | Filling, Body | Filling]]
) -> None:
    encode, empty = compile_encoder(table, options).encode, _templates(table, options).empty
    for version, key, value in rows:
        try:
            written = encode(version, AT)
        except RowError:
            assume(False)  # a datum without a form
        assert written == (_filled(key, version), _filled(value, version) or empty)


@given(tables_with_rows(), st.sampled_from(AVRO_FORMS), st.booleans())
def test_filled_bodies_are_the_bytes_of_the_encoder(
    drawn: tuple[TableDescriptor, tuple[Any, ...]], form: FeedOptions, with_key_column: bool
) -> None:
    table, values = drawn
    options = replace(form, key_column=table.columns[-1].name if with_key_column else "")
    try:
        templates = _templates(table, options)
    except UnsupportedTable:
        assume(False)
    by_id = {column.id: value for column, value in zip(table.columns, values, strict=True)}
    row_key = tuple(by_id[part.column_id] for part in table.primary_key)
    replaced = templates.replaced
    rows = [
        (Row(table, row_key, values, ()), templates.key, templates.row),
        (Row(table, row_key, None, ()), templates.deleted_key, templates.deletion),
        (
            Row(table, row_key, values, values),
            templates.key,
            templates.row if replaced is None else replaced.updated,
        ),
        (
            Row(table, row_key, None, values),
            templates.deleted_key,
            templates.deletion if replaced is None else replaced.deleted,
        ),
    ]
    _require_bytes_of_the_encoder(table, options, rows)


@pytest.mark.parametrize("options", AVRO_FORMS)
def test_a_row_that_a_scan_found_has_a_body_of_its_own(options: FeedOptions) -> None:
    found = row(FOO, a=1, b="x")._replace(previous=None, scanned_at=SCAN)
    templates = _templates(FOO, options).of_scan()
    _require_bytes_of_the_encoder(FOO, options, [(found, templates.key, templates.row)])


@pytest.mark.parametrize("options", AVRO_FORMS)
def test_a_table_without_columns_has_no_bodies(options: FeedOptions) -> None:
    hidden = tuple(replace(column, public=False) for column in FOO.columns)
    assert row_templates(replace(FOO, columns=hidden), options) is None
