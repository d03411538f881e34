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
from tidegate.errors import InputError
from tidegate.hlc import Timestamp
from tidegate.spark.datasource.frame_rows import FrameRows
from tidegate.spark.datasource.source_feed import AS_TEXT, FrameTable, SourceFeed
from tidegate.spark.warehouse.columns import columns_to_arrays
from tidegate.subscribe.gate.row_chunk import IntColumn

TABLE, OP, UPDATED, RESOLVED, BEFORE = "_table", "_op", "_updated", "_resolved", "_before"
_OWN: Final = frozenset({TABLE, OP, UPDATED, RESOLVED, BEFORE})
#: 19 digits of nanoseconds, and 10 of the logical part.
_TIMESTAMP: Final = pa.decimal128(29, 10)
_LOGICALS: Final = 10**10


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

    def batch(self, table: FrameTable, rows: FrameRows, resolved: Timestamp) -> pa.RecordBatch:
        """Return some rows of a table as a record batch. Raises ``RowError`` for a value without a form."""
        count = rows.size
        arrays = self._of_table(table, rows.after, count)
        arrays.append(pa.repeat(table.name, count))
        arrays.append(pa.array(_operations(rows), pa.string()))
        arrays.append(_timestamps(rows.walls, rows.logicals))
        arrays.append(pa.repeat(pa.scalar(Decimal(resolved.decimal()), _TIMESTAMP), count))
        if self.tells_before:
            before = self._of_table(table, rows.before, count)
            nothing = pa.array(rows.is_new, pa.bool_())
            arrays.append(pa.StructArray.from_arrays(before, fields=list(self.fields), mask=nothing))
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema())

    def _of_table(self, table: FrameTable, values: Sequence[Sequence[Any]], count: int) -> list[pa.Array]:
        """Return the tables' columns, NULL in those that this table lacks."""
        arrays = columns_to_arrays(table.columns, self.form, values, AS_TEXT)
        at = dict(zip(table.columns.names, arrays, strict=True))
        return [at[field.name] if field.name in at else pa.nulls(count, field.type) for field in self.fields]


def _operations(rows: FrameRows) -> list[str]:
    if not rows.is_new:
        return ["delete" if deleted else "upsert" for deleted in rows.deleted]
    return [
        "delete" if deleted else "insert" if is_new else "update"
        for deleted, is_new in zip(rows.deleted, rows.is_new, strict=True)
    ]


def _timestamps(walls: IntColumn, logicals: IntColumn) -> pa.Array:
    """Return timestamps as decimals: 16 bytes each, with the lowest first."""
    numbers = [
        (wall * _LOGICALS + logical).to_bytes(16, "little")
        for wall, logical in zip(walls.tolist(), logicals.tolist(), strict=True)
    ]
    return pa.Array.from_buffers(_TIMESTAMP, len(numbers), [None, pa.py_buffer(b"".join(numbers))])
