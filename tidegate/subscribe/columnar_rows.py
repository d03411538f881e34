"""The rows of a batch as Arrow tables. Tuples are made of them only when somebody asks for tuples.

The core does not import Arrow: the caller who wants columns gives the function that makes them (`MakeTable`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, TypeAlias, overload

from tidegate.hlc import Timestamp
from tidegate.subscribe.gate.opened_rows import DecodeRow, OpenedRows
from tidegate.subscribe.updates.update import RowValues

#: A function that makes an Arrow table of the rows that show some versions, in the statement's form and
#: order.
#:
#: If a timestamp is given, each version is the newest one of its key at that timestamp, and the table is a
#: snapshot as of it. Without a timestamp, each version is shown at its own timestamp. The function returns
#: ``None`` for versions that it does not take: the caller makes tuples of them instead.
MakeTable: TypeAlias = Callable[[OpenedRows, Timestamp | None, DecodeRow], Any | None]
_MakeRows: TypeAlias = Callable[[], Sequence[RowValues]]


class ColumnarRows(Sequence[RowValues]):
    """The rows of some Arrow tables, one table after the other. The bytes of the records are kept until
    tuples are made of them.

    Attributes:
        tables: tables with the statement's columns, in the order of its header. Values that JSON has as text
            are text here.
    """

    __slots__ = ("_made", "_parts", "tables")

    def __init__(self, tables: Sequence[Any], parts: Sequence[_MakeRows]) -> None:
        """``parts`` are functions that make the same rows as tuples. They are called when tuples are first
        needed."""
        self.tables: Final = tuple(tables)
        self._parts = tuple(parts)
        self._made: tuple[RowValues, ...] | None = None

    def and_then(self, later: ColumnarRows) -> ColumnarRows:
        """Return these rows, followed by the ``later`` ones."""
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
        """Pickle the rows as one tuple of tuples. Unpickling gives that tuple, without tables."""
        return tuple, (self._rows,)

    @property
    def _rows(self) -> tuple[RowValues, ...]:
        if self._made is None:
            self._made = tuple(row for make in self._parts for row in make())
            self._parts = ()  # they hold the bytes of the records
        return self._made


def joined(first: Sequence[RowValues], later: Sequence[RowValues]) -> Sequence[RowValues]:
    """Return the ``first`` rows, followed by the ``later`` ones.

    They are ``ColumnarRows`` if both are, or if one is and the other has no rows. Otherwise they are a list.
    """
    if isinstance(first, ColumnarRows) and isinstance(later, ColumnarRows):
        return first.and_then(later)
    if isinstance(first, ColumnarRows) and not len(later):
        return first
    if isinstance(later, ColumnarRows) and not len(first):
        return later
    return [*first, *later]
