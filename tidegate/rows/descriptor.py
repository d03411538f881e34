"""Table descriptors: the form of a table from one modification time on.

A descriptor version governs the rows written at or above its modification time, until that of the next
version. Columns are identified by id, never by position.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from tidegate.hlc import Timestamp
from tidegate.rows.types import SqlType


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table.

    ``public`` is false while the column is being added or dropped; then its datums are passed over.
    ``virtual`` marks a computed column that is not stored, so the log has no datum of it. A virtual column
    can be part of a primary key, for example the shard column of a hash-sharded key. Then the key has its
    datum.
    """

    id: int
    name: str
    type: SqlType
    nullable: bool = True
    hidden: bool = False
    public: bool = True
    virtual: bool = False

    @property
    def in_rows(self) -> bool:
        """Whether ``Row.values`` has a datum of the column."""
        return self.public and not self.virtual


@dataclass(frozen=True, slots=True)
class KeyPart:
    """One column of the primary index, and its declared direction."""

    column_id: int
    descending: bool = False


@dataclass(frozen=True, slots=True)
class Family:
    """A column family.

    ``default_column_id`` is the id of the single column whose bare value the family holds, or 0.
    """

    id: int
    name: str
    column_ids: tuple[int, ...]
    default_column_id: int = 0


@dataclass(frozen=True, slots=True)
class TableDescriptor:
    """One version of a table. Columns stand in table order, ``primary_key`` in index order."""

    id: int
    name: str
    version: int
    modified: Timestamp
    columns: tuple[Column, ...]
    primary_key: tuple[KeyPart, ...]
    families: tuple[Family, ...]
    primary_index_id: int = 1
    database: str = "defaultdb"
    schema: str = "public"
    dropped: bool = False

    @property
    def repeated_name(self) -> str | None:
        """A name that several columns have, of the public columns and those of the primary key.

        It is ``None`` for every table of a real database. Records name columns, so a record would have only
        one of two columns with one name. Two rows whose keys differ in the other column would then have the
        same key in their records.
        """
        key_ids = {part.column_id for part in self.primary_key}
        names = Counter(column.name for column in self.columns if column.public or column.id in key_ids)
        return next((name for name, count in names.items() if count > 1), None)
