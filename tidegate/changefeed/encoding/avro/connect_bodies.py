"""The bodies of `connect.py` as templates, which a kernel fills (docs/kernel.md)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, TypeAlias

from tidegate.changefeed.definition.options import FeedOptions
from tidegate.changefeed.encoding.avro.body import FIRST_BYTES, NULL_BYTES, string_bytes
from tidegate.changefeed.encoding.columns import index_in_key, named_column, public_columns
from tidegate.changefeed.encoding.connect.record_schemas import SOURCE, row_columns
from tidegate.changefeed.encoding.debezium_source import source_texts
from tidegate.changefeed.encoding.replaced import CREATE, DELETE, UPDATE, ChangeForm
from tidegate.changefeed.encoding.row_templates import (
    NO_TEXT,
    Body,
    DatumForm,
    DatumPlace,
    Piece,
    ReplacedTemplates,
    RowPart,
    RowTemplates,
    Stamp,
)
from tidegate.rows.descriptor import Column, TableDescriptor

_Pieces: TypeAlias = tuple[Piece, ...]

_STAMPS: Final = {"ts_hlc": Stamp.DECIMAL, "ts_ms": Stamp.WALL_MS, "ts_ns": Stamp.WALL_NS}


def connect_templates(
    table: TableDescriptor, options: FeedOptions, form: ChangeForm | None
) -> RowTemplates | None:
    """Return templates for the records of `compile_connect_avro`.

    Return ``None`` for a table without columns. The record of its row has no bytes, and a kernel would write
    it as a deletion.
    """
    columns = _columns(table, options)
    if not columns:
        return None
    if form is None:
        row = Body(_row(RowPart.VALUES, columns)[1:])
        return RowTemplates(*_keys(table, options), row, NO_TEXT, empty=None)
    return _changes(table, options, columns, form)


def _columns(table: TableDescriptor, options: FeedOptions) -> list[tuple[int, Column]]:
    """Return the columns of a row, each with the position of its datum."""
    public = public_columns(table)
    return [(column.position, public[column.position]) for column in row_columns(table, options)]


def _keys(table: TableDescriptor, options: FeedOptions) -> tuple[Body, Body]:
    """Return the template of the key of a present row, and that of the key of a deletion."""
    if options.key_column:
        return _column_keys(table, options)
    by_id = {column.id: column for column in table.columns}
    parts = enumerate(by_id[part.column_id] for part in table.primary_key)
    key = Body(tuple(DatumPlace(RowPart.KEY, at, part.type, DatumForm.CONNECT_KEY) for at, part in parts))
    return key, key


def _column_keys(table: TableDescriptor, options: FeedOptions) -> tuple[Body, Body]:
    position, column = named_column(table, options.key_column, "key_column")
    index = index_in_key(table, column)
    if index is not None:
        key = Body((DatumPlace(RowPart.KEY, index, column.type, DatumForm.CONNECT_KEY),))
        return key, key
    datum = DatumPlace(RowPart.VALUES, position, column.type, DatumForm.NULLABLE_CONNECT_KEY)
    return Body((datum,)), Body((NULL_BYTES,))


def _changes(
    table: TableDescriptor, options: FeedOptions, columns: Sequence[tuple[int, Column]], form: ChangeForm
) -> RowTemplates:
    none: _Pieces = (NULL_BYTES,)
    row, previous = _row(RowPart.VALUES, columns), _row(RowPart.PREVIOUS, columns)

    def change(op: str, before: _Pieces, after: _Pieces, *, scanned: bool = False) -> Body:
        source = _source(table, options, scanned=scanned)
        return Body((*before, *after, *source, string_bytes(op), FIRST_BYTES, Stamp.WALL_MS))

    return RowTemplates(
        *_keys(table, options),
        row=change(CREATE, none, row),
        deletion=change(DELETE, _key_alone(table, columns), none),
        replaced=ReplacedTemplates(change(UPDATE, previous, row), change(DELETE, previous, none)),
        scanned=change(form.scanned, none, row, scanned=True),
    )


def _row(part: RowPart, columns: Sequence[tuple[int, Column]]) -> _Pieces:
    """Return the record of a row behind the branch of its union."""
    datums = (DatumPlace(part, position, column.type, DatumForm.CONNECT) for position, column in columns)
    return FIRST_BYTES, *datums


def _key_alone(table: TableDescriptor, columns: Sequence[tuple[int, Column]]) -> _Pieces:
    """Return the record of a row of which only the key is known, behind the branch of its union."""
    pieces: list[Piece] = [FIRST_BYTES]
    for _, column in columns:
        index = index_in_key(table, column)
        pieces.append(
            NULL_BYTES if index is None else DatumPlace(RowPart.KEY, index, column.type, DatumForm.CONNECT)
        )
    return tuple(pieces)


def _source(table: TableDescriptor, options: FeedOptions, *, scanned: bool) -> _Pieces:
    texts = source_texts(table, options, scanned=scanned)
    names = (each.name for each in SOURCE.fields)
    return tuple(_STAMPS[name] if name in _STAMPS else string_bytes(texts[name]) for name in names)
