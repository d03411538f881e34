"""Batches as Arrow tables. The columns have the types of the table's columns, and values stay exact.

| column | Arrow |
|---|---|
| `mz_timestamp` | decimal(29,10): the HLC decimal |
| `mz_progressed`, `mz_diff`, `mz_state` | boolean, 64-bit integer, string |
| a column of the table | as `tidegate.changefeed.encoding.arrow_types` says |
| an expression without a known type | string |
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from decimal import Decimal
from typing import Any, Final

import pyarrow as pa

from tidegate.changefeed.definition.options import Format
from tidegate.changefeed.encoding.arrow_types import ArrowForm, arrow_array, arrow_form, usual_timestamps
from tidegate.client.subscribe.columnar.columnar_changes import TIMESTAMP_TYPE
from tidegate.client.subscribe.forms.batch_columns import BatchColumns
from tidegate.errors import InputError, UnsupportedTable
from tidegate.hlc import Timestamp
from tidegate.rows.sql_type import sql_type_text
from tidegate.rows.types import SqlType
from tidegate.subscribe.columnar_rows import ColumnarRows
from tidegate.subscribe.outputs.shape import (
    DIFF_COLUMN,
    PROGRESSED_COLUMN,
    STATE_COLUMN,
    TIMESTAMP_COLUMN,
)
from tidegate.subscribe.text.row_text import plain_text
from tidegate.subscribe.updates.update import RowValues

_OWN: Final = {
    TIMESTAMP_COLUMN: TIMESTAMP_TYPE,
    PROGRESSED_COLUMN: pa.bool_(),
    DIFF_COLUMN: pa.int64(),
    STATE_COLUMN: pa.string(),
}
_TEXT_FORM: Final[ArrowForm] = (pa.string(), plain_text)


def arrow_table(columns: BatchColumns, rows: Sequence[RowValues], as_text: Collection[str] = ()) -> pa.Table:
    """Return the rows as a table; the columns named ``as_text`` are strings.

    Raises ``RowError`` for a value that has no form, such as NaN in a DECIMAL(10,2): take its column
    as text. Raises ``InputError`` for names that are no columns, and for two columns of one name.
    """
    columns.require_names()
    header, own = columns.header, columns.own
    if unknown := sorted({*as_text} - {*header[own:]}):
        raise InputError(
            f"as_text names {unknown[0]}, which is no column of the table or query. Its columns are: "
            f"{', '.join(header[own:])}."
        )
    if isinstance(rows, ColumnarRows) and not as_text:
        return _typed(columns, pa.concat_tables(rows.tables).combine_chunks())
    found = list(zip(*rows, strict=True)) if rows else [()] * len(header)
    arrays = [_own_array(header[at], found[at]) for at in range(own)]
    for name, sql_type, values in zip(header[own:], columns.types, found[own:], strict=True):
        form = _TEXT_FORM if name in as_text else _form(sql_type, columns.format)
        arrays.append(_array(name, sql_type, form, values))
    return pa.Table.from_arrays(arrays, names=list(header))


def _typed(columns: BatchColumns, table: pa.Table) -> pa.Table:
    """Return a table of `ColumnarRows` with the types of the table's columns."""
    arrays = table.columns[: columns.own]
    for at, sql_type in enumerate(columns.types, columns.own):
        form, column = _form(sql_type, columns.format), table.column(at)
        if column.type != form[0]:
            values = column.combine_chunks()
            found = usual_timestamps(form[0], values)
            column = (
                _array(table.column_names[at], sql_type, form, values.to_pylist()) if found is None else found
            )
        arrays.append(column)
    return pa.Table.from_arrays(arrays, names=table.column_names)


def _array(name: str, sql_type: SqlType | None, form: ArrowForm, values: Sequence[Any]) -> pa.Array:
    told = "" if sql_type is None else sql_type_text(sql_type)
    return arrow_array(name, told, form, values, f"take it as text, with as_text=[{name!r}]")


def _form(sql_type: SqlType | None, record_format: Format) -> ArrowForm:
    if sql_type is None:
        return _TEXT_FORM
    try:
        return arrow_form(sql_type, record_format)
    except UnsupportedTable:  # it has no type of its own in this format
        return _TEXT_FORM


def _own_array(name: str, values: Sequence[Any]) -> pa.Array:
    if name == TIMESTAMP_COLUMN:
        known: dict[Timestamp, Decimal] = {time: Decimal(time.decimal()) for time in {*values}}
        values = [known[time] for time in values]
    return pa.array(values, _OWN[name])
