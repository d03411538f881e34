"""A new snapshot over a consumer's table that has rows already: at its end, rows that it lacks are deleted.

A snapshot replaces rows, and says nothing of keys that are gone. So each row has a *generation*:

1. ``begin`` returns a generation above those of all rows.
2. Rows of the snapshot are written with it, and so are rows of later batches.
3. With the last chunk of the snapshot, in the transaction of its token, ``sweep`` deletes all other rows.

A process that ends before 3 leaves rows of its generation. The next process begins a higher generation, and
its sweep deletes these rows too if its snapshot does not have them. Until step 3 readers see old rows and new
ones.

The generation is not the snapshot's AS OF: a second snapshot as of the same time would keep rows that came
after the first.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from tidegate.client.subscribe.state.sql_dialect import Connection, SqlDialect, plain_row

#: The usual name of the column: ``bigint``, may be NULL.
GENERATION_COLUMN: Final = "tidegate_generation"


class GenerationSweep:
    """The generations of one table of a consumer. It uses the user's connection, and commits nothing."""

    __slots__ = ("_column", "_connection", "_dialect", "_table")

    def __init__(
        self,
        connection: Connection,
        dialect: SqlDialect,
        table: str | Sequence[str],
        column: str = GENERATION_COLUMN,
    ) -> None:
        """``table`` is a name, or the parts of a name with its schema."""
        self._connection = connection
        self._dialect = dialect
        self._table = ".".join(map(_quoted, [table] if isinstance(table, str) else table))
        self._column = _quoted(column)

    def begin(self) -> int:
        """Return a generation that is above those of all rows (step 1)."""
        cursor = self._connection.cursor()
        cursor.execute(f"SELECT coalesce(max({self._column}), 0) FROM {self._table}")  # noqa: S608 - quoted
        (highest,) = plain_row(cursor.fetchone())
        return int(highest) + 1

    def sweep(self, generation: int) -> int:
        """Delete the rows of other generations, and rows without one (step 3); returns how many."""
        cursor: Any = self._connection.cursor()
        statement = f"DELETE FROM {self._table} WHERE {self._column} <> ? OR {self._column} IS NULL"  # noqa: S608 - quoted
        cursor.execute(self._dialect.statement(statement), (generation,))
        return int(cursor.rowcount)


def _quoted(name: str) -> str:
    """Return the name as an identifier. Raises ``ValueError`` for one that a statement cannot have."""
    if not name or "\x00" in name:
        raise ValueError(f"no name of a table or column: {name!r}")
    return '"' + name.replace('"', '""') + '"'
