"""Finds when key violations end, by a count of the live rows of each key. Materialize does not do this.

A key is in violation while it has several live rows, or one of them several times. Each timestamp that
changes the key shows ``key_violation``. Once it has one row or none, it shows ``upsert`` or ``delete`` again.
This needs every update from the snapshot on, and memory for every live row.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable

from tidegate.subscribe.outputs.keyed_rows import (
    DELETE,
    INSERT,
    KEY_VIOLATION,
    UPSERT,
    KeyChange,
    keyed_groups,
    shown,
)
from tidegate.subscribe.outputs.shape import OutputShape
from tidegate.subscribe.updates.row_identity import row_identity
from tidegate.subscribe.updates.update import RowValues, Update, consolidated


class TrackedKeys:
    """Does what ``KeyedRows`` does, but looks at all live rows of a key, not only at one timestamp."""

    __slots__ = ("_live", "_shape")

    def __init__(self, shape: OutputShape) -> None:
        self._shape = shape
        self._live: dict[Hashable, list[Update]] = {}

    def rows(self, updates: Iterable[Update]) -> list[RowValues]:
        """Return the rows of consolidated updates of one timestamp, after all timestamps below it."""
        return [
            row
            for key, group in keyed_groups(updates, self._shape.key)
            for row in shown(self._change(key, group), self._shape)
        ]

    def _change(self, key: RowValues, group: list[Update]) -> KeyChange:
        identity, time = row_identity(key), group[0].time
        before = self._live.get(identity, [])
        live = consolidated([*(each._replace(time=time) for each in before), *group])
        self._live[identity] = live
        if not live:
            del self._live[identity]
        if [each.diff for each in live] not in ([], [1]):
            return KeyChange(KEY_VIOLATION, key, None, None)
        old = before[0].row if [each.diff for each in before] == [1] else None
        if not live:
            return KeyChange(DELETE, key, old, None)
        return KeyChange(UPSERT if before else INSERT, key, old, live[0].row)
