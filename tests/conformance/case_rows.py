"""The rows of a case's tables, and the versions of them that its writes make."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import count
from typing import Any, TypeAlias

from tests.conformance.case_intents import OpenIntents, RowVersion
from tests.conformance.case_tables import CaseTable
from tests.conformance.sql_literals import split_rows
from tidegate.rows import Datum

_Write: TypeAlias = dict[str, Any]
RowKey: TypeAlias = tuple[int, tuple[Datum, ...]]


@dataclass(slots=True)
class CaseRows:
    """Committed rows by table and key, and open intents. ``rounded``: decimals are as SQL keeps them."""

    rounded: bool
    committed: dict[RowKey, tuple[Datum, ...]] = field(default_factory=dict)
    intents: OpenIntents = field(default_factory=OpenIntents)

    def versions(self, table: CaseTable, write: _Write) -> Iterable[RowVersion]:
        """The versions that a write makes of rows of a table. Raises ``ValueError`` for an unknown op."""
        match write["op"]:
            case "update":
                return self._updated(table, write)
            case "update_pk":
                key = table.key(write["from"])
                return self._moved(table, key, table.with_key(self.committed[table.id, key], write["to"]))
            case "delete":
                return self._deleted(table, write)
        return (self.put(table, row) for row in self._whole_rows(table, write))

    def put(self, table: CaseTable, values: tuple[Datum, ...]) -> RowVersion:
        """The version of a row that is written whole."""
        key = table.key_of(values)
        previous = self.committed.get((table.id, key))
        self.committed[table.id, key] = values
        return RowVersion(table.id, key, values, previous)

    def named(self, table: CaseTable, write: _Write) -> tuple[Datum, ...]:
        """The row that a write names, whole or by its key; or one whose key no other row has."""
        if "row" in write:
            return table.row(write["row"], rounded=self.rounded)
        if "key" in write:
            return table.row({table.key_name: write["key"]}, rounded=self.rounded)
        rows = (table.row({table.key_name: number}, rounded=self.rounded) for number in count(1))
        return next(row for row in rows if self._is_new(table.id, table.key_of(row)))

    def _is_new(self, table_id: int, key: tuple[Datum, ...]) -> bool:
        return (table_id, key) not in self.committed and not self.intents.has(key)

    def _whole_rows(self, table: CaseTable, write: _Write) -> Iterator[tuple[Datum, ...]]:
        match write["op"]:
            case "insert" | "upsert":
                for spelled in write["rows"]:
                    yield table.row(spelled, rounded=self.rounded)
            case "insert_range":
                for number in range(int(write["from"]), int(write["to"]) + 1):
                    yield table.row({write["column"]: number}, rounded=self.rounded)
            case "insert_sql":
                for texts in split_rows(write["values"]):
                    yield table.literals(texts, write.get("columns", ()), rounded=self.rounded)
            case "write_value":
                yield self.named(table, write)
            case op:
                raise ValueError(f"the cases' reader knows no op {op!r}")

    def _keys(self, table: CaseTable, write: _Write) -> list[tuple[Datum, ...]]:
        """The keys of the rows that a write names, or that its condition fits."""
        if "where" in write:
            rows = list(self.committed.items())
            return [
                key for (owner, key), row in rows if owner == table.id and table.fits(row, write["where"])
            ]
        return [table.key(spelled) for spelled in (write["keys"] if "keys" in write else [write["key"]])]

    def _updated(self, table: CaseTable, write: _Write) -> Iterator[RowVersion]:
        for key in self._keys(table, write):
            changed = table.changed(self.committed[table.id, key], write["set"], rounded=self.rounded)
            yield from self._moved(table, key, changed)

    def _moved(
        self, table: CaseTable, key: tuple[Datum, ...], values: tuple[Datum, ...]
    ) -> Iterator[RowVersion]:
        """A row under another key is a deletion and a row."""
        if table.key_of(values) != key:
            yield self._remove(table, key)
        yield self.put(table, values)

    def _deleted(self, table: CaseTable, write: _Write) -> Iterator[RowVersion]:
        if write.get("prev") is not None:
            known = table.row(write["prev"], rounded=self.rounded)
            self.committed.setdefault((table.id, table.key_of(known)), known)
        for key in self._keys(table, write):
            yield self._remove(table, key)

    def _remove(self, table: CaseTable, key: tuple[Datum, ...]) -> RowVersion:
        return RowVersion(table.id, key, None, self.committed.pop((table.id, key), None))
