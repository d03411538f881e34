"""Rows as tuples: the members of a record in the order of the relation's columns."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tidegate.errors import SchemaMismatch
from tidegate.subscribe.gate.feed_record import RowVersion
from tidegate.subscribe.updates.relation import Relation
from tidegate.subscribe.updates.update import RowValues


class RowLines:
    """Turns the rows of one relation into tuples of its columns' values."""

    __slots__ = ("_key", "_relation", "_width")

    def __init__(self, relation: Relation) -> None:
        self._relation = relation
        self._width = len(relation.columns)
        self._key = [relation.positions(name)[0] for name in relation.primary_key]

    def values(self, row: Mapping[str, Any], version: RowVersion) -> RowValues:
        """Return the row's values.

        A row of an older version of the table has NULL in columns that came later. A row at or above
        ``Relation.exact_from`` is not of an older version. If it does not have exactly the relation's
        columns, it is of a version that came after the ``Relation`` was made.

        Raises ``SchemaMismatch`` for a row with a wrong set of columns. The error names the columns that it
        has beyond the relation's, and those that it lacks.
        """
        columns = self._relation.columns
        if len(row) == self._width:
            try:
                return tuple([row[name] for name in columns])
            except KeyError:
                pass
        relation = self._relation
        is_older = version.updated < relation.exact_from
        more = sorted(row.keys() - {*columns} - (relation.removed if is_older else frozenset()))
        fewer = sorted({*columns} - row.keys() - (relation.added if is_older else frozenset()))
        if not more and not fewer:
            return tuple([row.get(name) for name in columns])
        raise SchemaMismatch(
            f"The row at {version.place} is of another version of {relation.name}: "
            f"new columns: {', '.join(more) or 'none'}; missing columns: {', '.join(fewer) or 'none'}. "
            "Begin a new subscription with the table's columns",
            version.topic,
            version.partition,
            version.offset,
        )

    def key_alone(self, version: RowVersion) -> RowValues:
        """Return a row with its primary key and NULLs: only the key of a deleted row is known.

        Raises ``SchemaMismatch`` for a key that has not one value for each column of the primary key.
        """
        key = version.record.key
        if len(key) != len(self._key):
            relation = self._relation
            raise SchemaMismatch(
                f"The key at {version.place} has {len(key)} values, and the primary key of {relation.name} "
                f"has {len(self._key)} columns ({', '.join(relation.primary_key)}): the record is of another "
                "version of the table, or not the feed's. Begin a new subscription with the table's columns",
                version.topic,
                version.partition,
                version.offset,
            )
        values: list[Any] = [None] * self._width
        for at, value in zip(self._key, key, strict=True):
            values[at] = value
        return tuple(values)
