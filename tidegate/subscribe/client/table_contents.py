"""The rows of a table after some batches: the fold of a subscription's rows, in each of its modes.

In diff mode the table counts the copies of each row. In an envelope mode it has one row for each key. After a
key violation the key is unknown: its later rows cannot be trusted, because Materialize's rule looks at one
timestamp only. Only a new snapshot makes the key known again.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from itertools import groupby
from typing import Final, NamedTuple

from tidegate.errors import ProtocolError
from tidegate.hlc import Timestamp
from tidegate.subscribe.client.consumer_state import ReleasedBatch
from tidegate.subscribe.client.received_row import ReceivedRow
from tidegate.subscribe.outputs.keyed_rows import DELETE, KEY_VIOLATION
from tidegate.subscribe.updates.row_identity import row_identity, written_identity
from tidegate.subscribe.updates.update import RowValues
from tidegate.subscribe.updates.value_order import values_key

SNAPSHOT, UPDATED = "snapshot", "updated"
_NO_ROW: Final[tuple[RowValues, int]] = ((), 0)


class TableState(NamedTuple):
    """The rows of the table at one timestamp. ``call`` is ``snapshot`` for the snapshot's, else
    ``updated``."""

    call: str
    time: Timestamp
    rows: list[RowValues]


class TableContents:
    """The rows of one table.

    With ``key_width`` 0 rows have diffs. Otherwise they have the form of an envelope: ``key_width`` of their
    values are the key, and the last ``value_width`` of them are what the key holds after the change.

    Attributes:
        with_debts: whether a row may be retracted that never came. This happens if the table lacks rows:
            those from before a subscription without a snapshot, or those that were skipped after a loss of
            history. Such a row is counted below zero, and not shown.
        unknown_keys: the keys that had a violation, by their identities.
    """

    __slots__ = ("_counts", "_key_width", "_value_width", "unknown_keys", "with_debts")

    def __init__(self, key_width: int = 0, value_width: int = 0, *, with_debts: bool = False) -> None:
        self.with_debts = with_debts
        self._key_width = key_width
        self._value_width = value_width
        self._counts: dict[Hashable, tuple[RowValues, int]] = {}
        self.unknown_keys: dict[Hashable, RowValues] = {}

    def restore(self, rows: Iterable[RowValues]) -> None:
        """Add rows that the method ``rows`` returned earlier, and that the consumer stored with its token."""
        for row in rows:
            identity = self._identity(row)
            self._counts[identity] = (row, self._counts.get(identity, _NO_ROW)[1] + 1)

    def fold(self, batch: ReleasedBatch) -> None:
        """Apply a batch. Raises ``ProtocolError`` if a row is retracted more often than it came, unless
        ``with_debts``."""
        for time, group in groupby(batch.rows, lambda row: row.time):
            self._apply_rows(time, group)

    def states(self, batch: ReleasedBatch) -> list[TableState]:
        """Apply a batch, and return the state after each of its timestamps, the snapshot's state first.

        A timestamp that changes nothing has no state. Raises what ``fold`` raises.
        """
        states: list[TableState] = []
        snapshot_due = batch.is_snapshot
        for time, group in groupby(batch.rows, lambda row: row.time):
            if snapshot_due and time > batch.opening:
                states.append(TableState(SNAPSHOT, batch.opening, self.rows()))
                snapshot_due = False
            changed = self._apply_rows(time, group)
            if changed and not snapshot_due:
                states.append(TableState(UPDATED, time, self.rows()))
        if snapshot_due:
            states.append(TableState(SNAPSHOT, batch.opening, self.rows()))
        return states

    def rows(self) -> list[RowValues]:
        """Return all rows in the order of their values, each as often as it is there."""
        rows = [row for row, count in self._counts.values() for _ in range(count)]  # none if below zero
        return sorted(rows, key=values_key)

    def _apply_rows(self, time: Timestamp, rows: Iterable[ReceivedRow]) -> bool:
        """Apply all rows of a timestamp, and return whether they changed anything.

        Counts are checked after the last row: an earlier row may delete what a later one inserts.
        """
        before: dict[Hashable, tuple[RowValues, int]] = {}
        for row in rows:
            identity = self._identity(row.values)
            before.setdefault(identity, self._counts.get(identity, _NO_ROW))
            if self._key_width:
                self._set(identity, row)
            else:
                self._count(identity, row)
        after = {identity: self._counts.get(identity, _NO_ROW) for identity in before}
        wrong = next((row for row, count in after.values() if count < 0), None)
        if wrong is not None and not self.with_debts:
            raise ProtocolError(f"at {time} a row is retracted that was not there: {wrong!r:.200}")
        return after != before

    def _identity(self, values: RowValues) -> Hashable:
        """Return the identity by which a row is found: that of its key, or in diff mode that of its text."""
        return row_identity(values[: self._key_width]) if self._key_width else written_identity(values)

    def _count(self, identity: Hashable, row: ReceivedRow) -> None:
        count = self._counts.get(identity, _NO_ROW)[1] + row.diff
        if count:
            self._counts[identity] = (row.values, count)
        else:
            self._counts.pop(identity, None)

    def _set(self, identity: Hashable, row: ReceivedRow) -> None:
        key = row.values[: self._key_width]
        self._counts.pop(identity, None)
        if row.state == KEY_VIOLATION:
            self.unknown_keys[identity] = key
        elif row.state != DELETE and identity not in self.unknown_keys:
            after = row.values[len(row.values) - self._value_width :]
            self._counts[identity] = ((*key, *after), 1)
