"""A table's columns as an Avro record: its schema, and a function that fills it from a row's datums."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple, TypeAlias

from tidegate.changefeed.definition.names import avro_name
from tidegate.changefeed.encoding.avro.body import NULL, NULL_BYTES, Fields
from tidegate.changefeed.encoding.avro.field_types import FieldType, field_type
from tidegate.changefeed.encoding.avro.schema_text import (
    AvroType,
    column_field,
    record_schema,
    require_distinct,
)
from tidegate.changefeed.encoding.row_templates import DatumPlace, Piece, RowPart
from tidegate.errors import UnsupportedTable
from tidegate.rows.descriptor import Column, TableDescriptor
from tidegate.rows.types import Datum

#: Avro's own types: no record may be named after one. Source: the Avro specification, "Names".
PRIMITIVES: Final = frozenset(("null", "boolean", "int", "long", "float", "double", "bytes", "string"))
#: Fills a record from the datums of its columns, in their order.
Fill: TypeAlias = Callable[[Sequence[Datum]], Fields]
#: Returns a record as pieces, from the positions of its columns' datums in a part of a row; ``None`` for a
#: column that is null.
RecordPieces: TypeAlias = Callable[[RowPart, Iterable[int | None]], tuple[Piece, ...]]


class RowRecordType(NamedTuple):
    """The schema of a record of columns, the function that fills it, and the one that gives its pieces."""

    schema: AvroType
    fill: Fill
    pieces: RecordPieces


def row_record(
    table: TableDescriptor,
    columns: Iterable[Column],
    name: str,
    namespace: str,
    nulls: Iterable[Column] = (),
) -> RowRecordType:
    """Return the record of these columns; ``nulls`` are columns among them that have no datum and are always
    null.

    Raises ``UnsupportedTable`` for a column that has no Avro form, for two columns of one Avro name, and for
    a record's name that is an Avro type.
    """
    if name in PRIMITIVES:
        raise UnsupportedTable(
            f"table {table.name}: {name} is a type of Avro's own, which no record can be named; rename the "
            "table, or use format=json"
        )
    types = _field_types(table, [*columns])
    always_null = {avro_name(column.name): NULL for column in nulls}
    names = [(avro_name(column.name), each.convert) for column, each in types]
    converters = [(name, convert) for name, convert in names if name not in always_null]
    schema = record_schema(name, [column_field(column, each.branches) for column, each in types], namespace)

    def fill(datums: Sequence[Datum]) -> Fields:
        return {
            field: NULL if datum is None else convert(datum)
            for (field, convert), datum in zip(converters, datums, strict=True)
        }

    def pieces(part: RowPart, positions: Iterable[int | None]) -> tuple[Piece, ...]:
        filled = dict(zip((field for field, _ in converters), positions, strict=True))
        return tuple(
            NULL_BYTES
            if (position := filled.get(avro_name(column.name))) is None
            else DatumPlace(part, position, column.type)
            for column, _ in types
        )

    if not always_null:
        return RowRecordType(schema, fill, pieces)
    return RowRecordType(schema, lambda datums: fill(datums) | always_null, pieces)


def _field_types(table: TableDescriptor, columns: Sequence[Column]) -> list[tuple[Column, FieldType]]:
    try:
        require_distinct(column.name for column in columns)
    except UnsupportedTable as error:
        raise UnsupportedTable(f"table {table.name}: {error}") from None
    return [
        (column, field_type(column.type, f"table {table.name}, column {column.name}")) for column in columns
    ]
