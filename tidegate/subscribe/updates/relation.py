"""A relation that a statement can name: a table with its columns, or a thing that is no table."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from tidegate.changefeed.definition.feed import TableName
from tidegate.hlc import MAX, Timestamp
from tidegate.rows.types import SqlType

TABLE: Final = "table"


@dataclass(frozen=True, slots=True)
class Relation:
    """A named thing of the catalog.

    Attributes:
        name: its full name.
        columns: the names of its columns, in the order of its rows' values. A query may have one twice.
        primary_key: the names of the columns that no two rows share; empty where that is not known.
        kind: ``table``, or the word for what cannot be subscribed to.
        added: those of ``columns`` that rows of older versions of the table lack; they are NULL there.
        types: the SQL types of ``columns``, in their order; empty where they are not known.
        removed: columns that only rows of older versions have; they are left out.
        exact_from: rows at or above it have exactly ``columns``. It is the modification time of a version of
            the table: that version and all later known ones have exactly these columns. So ``added`` and
            ``removed`` are about rows below it; if it is not known, they are about all rows.
        composite: the columns of ``primary_key`` whose values may have two forms, one in the record of a row
            and another one in the record of its deletion, as 1.50 and 1.5.
    """

    name: TableName
    columns: tuple[str, ...]
    primary_key: tuple[str, ...] = ()
    kind: str = TABLE
    added: frozenset[str] = frozenset()
    removed: frozenset[str] = frozenset()
    types: tuple[SqlType, ...] = ()
    composite: frozenset[str] = frozenset()
    exact_from: Timestamp = MAX

    @property
    def known_types(self) -> tuple[SqlType | None, ...]:
        """The types of all columns; none where they are not known."""
        return self.types if len(self.types) == len(self.columns) else ()

    def positions(self, column: str) -> list[int]:
        """Return where the column stands: no position for an unknown one, several for an ambiguous one."""
        return [at for at, name in enumerate(self.columns) if name == column]


class Relations:
    """The relations that statements can name, by the last parts of their names."""

    __slots__ = ("_relations",)

    def __init__(self, relations: Iterable[Relation]) -> None:
        self._relations = tuple(relations)

    def __iter__(self) -> Iterator[Relation]:
        return iter(self._relations)

    def named(self, parts: Sequence[str]) -> list[Relation]:
        """Return the relations that one to three parts name: ``name``, ``schema.name`` or
        ``database.schema.name``.

        ``database.name`` is taken too where the schema is ``public``, as for feeds.
        """
        return [each for each in self._relations if tuple(parts) in _spellings(each.name)]


def _spellings(name: TableName) -> list[tuple[str, ...]]:
    full = (name.database, name.schema, name.name)
    short = [(name.database, name.name)] if name.schema == "public" else []
    return [full, full[1:], full[2:], *short]
