"""The rows by key of a shared reader, which are in memory within limits, or in a directory."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple, Protocol
from weakref import WeakSet, ref

from tidegate.client.subscribe.durable_key_rows import DurableKeyRows, open_empty_key_rows
from tidegate.client.subscribe.state.table_directory import discard_key_table
from tidegate.errors import RequestRefused, StateError
from tidegate.serve.shared.table_moment import TableMoment
from tidegate.subscribe.changes.key_rows import KeyChange, KeyRows, MemoryKeyRows, memory_bytes
from tidegate.subscribe.updates.frontier import Frontier
from tidegate.subscribe.updates.relation import Relation
from tidegate.subscribe.updates.update import RowValues

_NAME_DIGITS: Final = 32
_OURS: Final = re.compile(rf"[0-9a-f]{{{_NAME_DIGITS}}}")


class FrozenRows(NamedTuple):
    """All rows of a table at one moment, and their number. The rows can be iterated over once."""

    row_count: int
    rows: Iterable[RowValues]


class TableRows(KeyRows, Protocol):
    """Rows by key that can be read as of one frontier while later changes are applied to them."""

    def frozen(self) -> FrozenRows:
        """Return all rows as they are now. Another thread may iterate over them."""

    def close(self) -> None:
        """Drop the rows."""


@dataclass(frozen=True, slots=True)
class MemoryLimits:
    """The bounds of a table's rows in memory: their number, and about how many bytes they take."""

    rows: int
    bytes: int


class MemoryTableRows(MemoryKeyRows):
    """Rows in memory, within limits.

    Subscribers that begin between two changes share one moment.
    """

    __slots__ = ("_held_bytes", "_limits", "_moment", "_moments", "_table")

    def __init__(self, table: str, limits: MemoryLimits) -> None:
        super().__init__()
        self._table = table
        self._limits = limits
        self._held_bytes = 0
        #: The moments whose rows somebody still has; and the one that has the rows as they are now, if any.
        self._moments: WeakSet[TableMoment] = WeakSet()
        self._moment: ref[TableMoment] | None = None

    def replace_all(self, changes: Iterable[KeyChange]) -> list[RowValues | None]:
        """See ``KeyRows``. Raises ``RequestRefused`` for a table that is too large."""
        changes = list(changes)
        before = super().replace_all(changes)
        gone_bytes = 0
        for (key, row), row_before in zip(changes, before, strict=True):
            row_bytes_before = memory_bytes(key, row_before)
            self._held_bytes += memory_bytes(key, row) - row_bytes_before
            gone_bytes += row_bytes_before
        self._go_on(gone_bytes)
        if len(self._rows) > self._limits.rows:
            raise self._too_large(f"has more than {self._limits.rows:,} rows")
        if self._held_bytes > self._limits.bytes:
            raise self._too_large(f"takes more than {self._limits.bytes >> 20:,} MiB")
        return before

    def frozen(self) -> FrozenRows:
        """See ``TableRows``."""
        moment = None if self._moment is None else self._moment()
        rows = None if moment is None else moment.again()
        if rows is None:
            moment = TableMoment(self._held_bytes)
            rows = moment.begin(self._rows.values())
            self._moment = ref(moment)
            self._moments.add(moment)
        return FrozenRows(len(self._rows), rows)

    def close(self) -> None:
        """See ``TableRows``."""
        self._rows.clear()
        self._go_on(self._held_bytes)
        self._held_bytes = 0

    def _go_on(self, gone_bytes: int) -> None:
        """Tell earlier moments how many bytes of rows the table has dropped."""
        self._moment = None
        if gone_bytes:
            for moment in list(self._moments):
                moment.replaced(gone_bytes)

    def _too_large(self, what: str) -> RequestRefused:
        return RequestRefused(
            f"{self._table} {what}: no more is kept in memory",
            "table_too_large",
            "54000",
            "start the server with --data-dir",
        )


class DirectoryTableRows:
    """Rows in a directory. They are kept during one run only: the next run reads the topic again."""

    __slots__ = ("_rows",)

    def __init__(self, rows: DurableKeyRows) -> None:
        """``rows`` have to be empty."""
        self._rows = rows

    @property
    def frontier(self) -> Frontier:
        """See ``KeyRows``."""
        return self._rows.frontier

    def replace(self, key: bytes, row: RowValues | None) -> RowValues | None:
        """See ``KeyRows``."""
        return self._rows.replace(key, row)

    def replace_all(self, changes: Iterable[KeyChange]) -> list[RowValues | None]:
        """See ``KeyRows``."""
        return self._rows.replace_all(changes)

    def any_key(self) -> bytes | None:
        """See ``KeyRows``."""
        return self._rows.any_key()

    def close_at(self, frontier: Frontier) -> None:
        """See ``KeyRows``. Undo records are dropped, since nobody goes back to an earlier frontier."""
        self._rows.close_at(frontier)
        self._rows.settle(frontier)

    def frozen(self) -> FrozenRows:
        """See ``TableRows``."""
        snapshot = self._rows.snapshot()

        def rows() -> Iterator[RowValues]:
            with snapshot:
                for chunk in snapshot.chunks():
                    yield from (row for _, row in chunk)

        return FrozenRows(snapshot.row_count, rows())

    def close(self) -> None:
        """See ``TableRows``."""
        try:
            self._rows.start_over()
        finally:
            self._rows.close()


def open_table_rows(data: Path | None, source: str, relation: Relation, limits: MemoryLimits) -> TableRows:
    """Open the rows of a table: in a directory of its own below ``data``, or in memory if ``data`` is
    ``None``.

    Rows that an earlier run has left in the directory are deleted unread, even if that run was killed.

    Raises ``SettingsError`` if the extra ``subscribe`` is not installed, and ``StateError`` if another
    process has the directory.
    """
    if data is None:
        return MemoryTableRows(str(relation.name), limits)
    shape = (relation.columns, relation.primary_key, sorted(relation.added), sorted(relation.removed))
    # Readers that run at the same time have a directory each.
    about = repr((source, str(relation.name), *shape, relation.types, relation.exact_from))
    name = hashlib.sha256(about.encode()).hexdigest()[:_NAME_DIGITS]  # as _OURS
    return DirectoryTableRows(open_empty_key_rows(data / name, source, relation, durable=False))


def remove_left_rows(data: Path) -> None:
    """Delete the rows of all tables that earlier runs have left below ``data``.

    Other files stay, and so do rows that another server has open.
    """
    if not data.is_dir():
        return
    for directory in data.iterdir():
        if _OURS.fullmatch(directory.name):
            with suppress(StateError):  # another server has it, or it cannot be written: a reader will say so
                discard_key_table(directory)
