"""The columns of a DataFrame of rows: those of the tables, and what tidegate tells of each row.

| column | what it is |
|---|---|
| `_table` | the full name of the row's table |
| `_op` | `upsert` or `delete`; where records have the row before, `insert`, `update` or `delete` |
| `_updated` | the commit timestamp, as decimal(29,10) |
| `_resolved` | the closed cut of the batch: every row at or below it has come |
| `_before` | the row before, a struct of the tables' columns; only where records have it |

Several tables share one DataFrame. Their columns stand in it once for each name, and are NULL in rows of
other tables. A deletion has values in the columns of its key alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Any, Final, NamedTuple

import pyarrow as pa

from tidegate.changefeed.definition.options import Format
from tidegate.changefeed.encoding.record import RowRecord
from tidegate.errors import InputError
from tidegate.hlc import Timestamp
from tidegate.spark.datasource.source_feed import FrameTable, SourceFeed
from tidegate.spark.warehouse.columns import rows_to_arrays
from tidegate.subscribe.gate.version_reader import timestamp_of

TABLE, OP, UPDATED, RESOLVED, BEFORE = "_table", "_op", "_updated", "_resolved", "_before"
_OWN: Final = frozenset({TABLE, OP, UPDATED, RESOLVED, BEFORE})
#: 19 digits of nanoseconds, and 10 of the logical part.
_TIMESTAMP: Final = pa.decimal128(29, 10)


class FrameColumns(NamedTuple):
    """All columns of a feed's DataFrame, those of its tables first. ``form`` is the feed's format."""

    fields: tuple[pa.Field, ...]
    form: Format
    tells_before: bool

    @classmethod
    def of(cls, feed: SourceFeed) -> FrameColumns:
        """Return the columns of a feed.

        Raises ``InputError`` for a name that has two types, and for one that tidegate's columns have.
        """
        form = feed.reading.options.format
        found: dict[str, tuple[pa.Field, FrameTable]] = {}
        folded: dict[str, str] = {}
        for table in feed.tables:
            for field in table.columns.schema(form):
                if field.name.lower() in _OWN:
                    raise InputError(
                        f"{table.name} has a column {field.name}, and so has each DataFrame of tidegate: "
                        "read the other tables, by the option tables, or rename the column."
                    )
                known, other = found.setdefault(field.name, (field, table))
                if known.type != field.type:
                    raise InputError(
                        f"The column {field.name} is {known.type} in {other.name} and {field.type} in "
                        f"{table.name}: read them by two DataFrames, with the option tables."
                    )
                if folded.setdefault(field.name.lower(), field.name) != field.name:
                    raise InputError(
                        f"{table.name} has a column {field.name}, and {folded[field.name.lower()]} is one "
                        "too: Spark does not tell names apart by case. Read the tables by two DataFrames, "
                        "with the option tables."
                    )
        return cls(tuple(field for field, _ in found.values()), form, feed.tells_before)

    def schema(self) -> pa.Schema:
        """Return the Arrow schema."""
        own = [
            pa.field(TABLE, pa.string()),
            pa.field(OP, pa.string()),
            pa.field(UPDATED, _TIMESTAMP),
            pa.field(RESOLVED, _TIMESTAMP),
        ]
        if self.tells_before:
            own.append(pa.field(BEFORE, pa.struct(list(self.fields))))
        return pa.schema([*self.fields, *own])

    def batch(self, table: FrameTable, rows: Sequence[RowRecord], resolved: Timestamp) -> pa.RecordBatch:
        """Return some rows of a table as a record batch.

        Raises ``RowError`` for a value without a form, and ``InputError`` for a row with a column that the
        DataFrame began without.
        """
        count = len(rows)
        _require_known(table, rows)
        arrays = self._of_table(table, [(row.key, row.row) for row in rows])
        arrays.append(pa.array([table.name] * count, pa.string()))
        arrays.append(pa.array([self._op(row) for row in rows], pa.string()))
        arrays.append(pa.array([Decimal(timestamp_of(row).decimal()) for row in rows], _TIMESTAMP))
        arrays.append(pa.array([Decimal(resolved.decimal())] * count, _TIMESTAMP))
        if self.tells_before:
            before = self._of_table(table, [(row.key, row.previous) for row in rows])
            nothing = pa.array([row.previous is None for row in rows], pa.bool_())
            arrays.append(pa.StructArray.from_arrays(before, fields=list(self.fields), mask=nothing))
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema())

    def _of_table(self, table: FrameTable, rows: Sequence[tuple[tuple[Any, ...], Any]]) -> list[pa.Array]:
        """Return the tables' columns, NULL in those that this table lacks."""
        arrays = rows_to_arrays(table.columns, self.form, rows)
        at = dict(zip(table.columns.names, arrays, strict=True))
        return [
            at[field.name] if field.name in at else pa.nulls(len(rows), field.type) for field in self.fields
        ]

    def _op(self, row: RowRecord) -> str:
        if row.deleted:
            return "delete"
        if not self.tells_before:
            return "upsert"
        return "insert" if row.previous is None else "update"


def _require_known(table: FrameTable, rows: Sequence[RowRecord]) -> None:
    known = frozenset(table.columns.names)
    for row in rows:
        for shown in (row.row, row.previous):
            if shown is not None and not shown.keys() <= known:
                names = ", ".join(sorted(shown.keys() - known))
                raise InputError(
                    f"{table.name} has a new column: {names}. Start the query again, with its checkpoint: it "
                    "goes on here, with the column."
                )
