"""Makes updates of row versions: the former row is retracted, the new row is added.

| where the row before comes from | when |
|---|---|
| the record | the feed has ``diff``; no state is kept |
| nowhere | the feed has no ``diff``: ENVELOPE UPSERT by the primary key, without a query |
| a table of rows by key | in all other cases; each change costs one read and one write |

If the row before comes from nowhere, a deletion retracts a row with the key and NULLs: ENVELOPE UPSERT shows
only the key of a deleted row. A version that changes nothing is shown as an upsert.

In the other two cases a version that changes nothing is ``-1`` and ``+1`` of one row, whose sum is 0.
"""

from __future__ import annotations

import enum
from collections.abc import Collection, Sequence
from typing import assert_never

from tidegate.errors import UnreadableRow
from tidegate.hlc import ZERO, Timestamp
from tidegate.subscribe.changes.key_rows import KeyRows, MemoryKeyRows
from tidegate.subscribe.changes.reduced_keys import ReducedColumns
from tidegate.subscribe.changes.row_values import RowLines
from tidegate.subscribe.gate.feed_record import RowVersion
from tidegate.subscribe.updates.relation import Relation
from tidegate.subscribe.updates.update import RowValues, Update


class RowBefore(enum.Enum):
    """The place from which the row before a change comes."""

    RECORD = "record"
    KEY_ROWS = "key rows"
    NOWHERE = "nowhere"


class RowUpdates:
    """Makes the updates of one relation from its versions, which come in the order of their timestamps."""

    __slots__ = ("_as_of", "_before", "_key_rows", "_lines", "_reduced")

    def __init__(
        self,
        relation: Relation,
        before: RowBefore,
        key_rows: KeyRows | None = None,
        as_of: Timestamp = ZERO,
        reduced: Collection[str] = (),
    ) -> None:
        """With ``NOWHERE``, changes up to ``as_of`` belong to the snapshot, in which each key has one row.

        Rows have the columns ``reduced`` in the form that their deletions have (`ReducedColumns`).
        """
        self._reduced = ReducedColumns(relation, reduced)
        self._lines = RowLines(relation)
        self._before = before
        self._key_rows = key_rows or MemoryKeyRows()
        self._as_of = as_of

    def updates(self, versions: Sequence[RowVersion]) -> list[Update]:
        """Return the updates of some versions; of each version the retraction comes first.

        Raises ``SchemaMismatch`` and ``UnreadableRow``.
        """
        updates: list[Update] = []
        rows = [row_of(self._lines, version) for version in versions]
        for version, before, row in zip(versions, self._rows_before(versions, rows), rows, strict=True):
            if before is not None:
                updates.append(Update(version.updated, -1, self._reduced.row(before)))
            if row is not None:
                updates.append(Update(version.updated, 1, self._reduced.row(row)))
        return updates

    def _rows_before(
        self, versions: Sequence[RowVersion], rows: Sequence[RowValues | None]
    ) -> list[RowValues | None]:
        match self._before:
            case RowBefore.RECORD:
                return [self._previous(version) for version in versions]
            case RowBefore.KEY_ROWS:
                return self._replaced(versions, rows)
            case RowBefore.NOWHERE:
                # Versions come in the order of their timestamps: those of the snapshot are the first ones.
                count = sum(version.updated <= self._as_of for version in versions)
                later = zip(versions[count:], rows[count:], strict=True)
                return self._replaced(versions[:count], rows[:count]) + [
                    self._lines.key_alone(version) if row is None else None for version, row in later
                ]
            case never:
                assert_never(never)

    def _previous(self, version: RowVersion) -> RowValues | None:
        previous = version.record.previous
        return None if previous is None else self._lines.values(previous, version)

    def _replaced(
        self, versions: Sequence[RowVersion], rows: Sequence[RowValues | None]
    ) -> list[RowValues | None]:
        return self._key_rows.replace_all([(each.key, row) for each, row in zip(versions, rows, strict=True)])


def row_of(lines: RowLines, version: RowVersion) -> RowValues | None:
    """Return the row that a version sets; ``None`` for a deletion.

    Raises ``SchemaMismatch``, and ``UnreadableRow`` for a version that does not say if it is a deletion.
    """
    record = version.record
    if record.row is not None and not record.deleted:
        return lines.values(record.row, version)
    if record.deleted is not True:
        raise UnreadableRow(
            f"The row at {version.place} does not say whether it is a deletion: its envelope cannot be "
            "subscribed to. Create a feed with another one",
            version.topic,
            version.partition,
            version.offset,
        )
    return None
