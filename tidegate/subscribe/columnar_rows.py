"""Rows of a batch that are columns first: a table of Arrow, and tuples only if they are asked for.

The core knows no Arrow: whoever asks for columns gives the function that makes them (`MakeTable`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, TypeAlias, overload

from tidegate.hlc import Timestamp
from tidegate.subscribe.gate.opened_rows import DecodeRow, OpenedRows
from tidegate.subscribe.updates.update import RowValues

#: Makes a table of the rows that show some versions, in the statement's form and order.
#:
#: With a timestamp the versions are the newest of their keys there, and the table is a snapshot as of it.
#: Without one, each version is shown at its own timestamp. ``None`` for versions that have to go by rows.
MakeTable: TypeAlias = Callable[[OpenedRows, Timestamp | None, DecodeRow], Any | None]
_MakeRows: TypeAlias = Callable[[], Sequence[RowValues]]


class ColumnarRows(Sequence[RowValues]):
    """The rows of some tables, one table after the other. The bytes of the records are kept until rows are
    made of them.

    Attributes:
        tables: tables with the statement's columns, in the order of its header. Values that JSON has as text
            are text here.
    """

    __slots__ = ("_made", "_parts", "tables")

    def __init__(self, tables: Sequence[Any], parts: Sequence[_MakeRows]) -> None:
        """``parts`` make the rows of the tables, when these are asked for."""
        self.tables: Final = tuple(tables)
        self._parts = tuple(parts)
        self._made: tuple[RowValues, ...] | None = None

    def and_then(self, later: ColumnarRows) -> ColumnarRows:
        """Return these rows, and others after them."""
        return ColumnarRows((*self.tables, *later.tables), (lambda: self._rows, lambda: later._rows))

    def __len__(self) -> int:
        return sum(table.num_rows for table in self.tables)

    @overload
    def __getitem__(self, at: int) -> RowValues: ...
    @overload
    def __getitem__(self, at: slice) -> Sequence[RowValues]: ...
    def __getitem__(self, at: int | slice) -> RowValues | Sequence[RowValues]:
        return self._rows[at]

    def __iter__(self) -> Iterator[RowValues]:
        return iter(self._rows)

    def __eq__(self, other: object) -> bool:
        return self._rows == (other._rows if isinstance(other, ColumnarRows) else other)

    def __hash__(self) -> int:
        return hash(self._rows)

    def __repr__(self) -> str:
        return f"ColumnarRows({len(self)} rows)"

    def __reduce__(self) -> tuple[Any, ...]:
        """Rows that are pickled are tuples from then on."""
        return tuple, (self._rows,)

    @property
    def _rows(self) -> tuple[RowValues, ...]:
        if self._made is None:
            self._made = tuple(row for make in self._parts for row in make())
            self._parts = ()  # they hold the bytes of the records
        return self._made


def joined(first: Sequence[RowValues], later: Sequence[RowValues]) -> Sequence[RowValues]:
    """Return some rows and those after them, as columns if both are."""
    if isinstance(first, ColumnarRows) and isinstance(later, ColumnarRows):
        return first.and_then(later)
    if isinstance(first, ColumnarRows) and not len(later):
        return first
    if isinstance(later, ColumnarRows) and not len(first):
        return later
    return [*first, *later]
