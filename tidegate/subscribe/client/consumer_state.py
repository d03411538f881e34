"""The state machine of a consumer: it holds rows back until a progress row says that they are complete.

1. The first row is a progress row: the *opening* frontier, at AS OF. It releases nothing.
2. A data row is held. A data row below the last frontier breaks the protocol.
3. A progress row at F releases a batch: every row below F, in the order of timestamps, and F to resume from.
   An equal frontier releases nothing, a lower frontier breaks the protocol. Empty batches are released as
   well, so that the token moves on when nothing changes.
4. The first batch is the snapshot's, unless the stream was resumed.
5. If the stream ends without an error, all rows that are held are released. If it ends with an error, they
   are dropped, and the frontier to resume from stays as it was.

A batch keeps each row at its own timestamp. It never adds up rows of different timestamps, for two reasons. A
deletion and a new insertion would lose their order. And a consumer knows a repeated row by its timestamp.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tidegate.errors import ProgressMissing, ProtocolError
from tidegate.subscribe.client.received_row import ReceivedColumns, ReceivedRow
from tidegate.subscribe.updates.first_error import FirstError
from tidegate.subscribe.updates.frontier import Frontier


@dataclass(frozen=True, slots=True)
class ReleasedBatch:
    """Rows that are complete.

    Attributes:
        frontier: everything below it is here or was released before; ``None`` after a clean end.
        rows: in the order of their timestamps, and as they came within each.
        is_snapshot: whether the snapshot is complete with this batch.
        opening: the frontier that the stream opened with: rows at or below it are of the snapshot.
    """

    frontier: Frontier | None
    rows: tuple[ReceivedRow, ...]
    is_snapshot: bool
    opening: Frontier


class ConsumerState:
    """The state of a consumer of one stream. After an error each call raises the same error.

    Attributes:
        frontier: the frontier to resume from: everything below it was released. ``None`` before the first
            batch: then a consumer can only begin again with the snapshot.
    """

    __slots__ = (
        "_columns",
        "_first_error",
        "_held",
        "_last",
        "_opening",
        "_snapshot_due",
        "ended",
        "frontier",
    )

    def __init__(self, header: Sequence[str], *, resumed: bool = False) -> None:
        """``header`` has the names of the columns; ``resumed`` says that the stream was begun without a
        snapshot."""
        self._columns = ReceivedColumns(header)
        self._first_error = FirstError()
        self._snapshot_due = not resumed
        self._held: list[ReceivedRow] = []
        self._opening: Frontier | None = None
        self._last: Frontier | None = None
        self.frontier: Frontier | None = None
        self.ended = False

    @property
    def names(self) -> tuple[str, ...]:
        """The names of a row's values, in their order."""
        return self._columns.names

    def push(self, row: Sequence[Any]) -> ReleasedBatch | None:
        """Take a row as it was received. Return the batch that it releases; ``None`` if it releases none.

        Raises ``ProtocolError`` if the row cannot follow the rows before it.
        """
        with self._first_error:
            return self._push(row)

    def _push(self, row: Sequence[Any]) -> ReleasedBatch | None:
        received = self._columns.decode(row)
        if self.ended:
            raise ProtocolError(f"a row at {received.time} after the end of the stream")
        if self._last is None:
            self._open(received)
            return None
        if not received.progressed:
            self._hold(received, self._last)
            return None
        if received.time < self._last:
            raise ProtocolError(f"the frontier falls from {self._last} to {received.time}")
        return self._release(Frontier(received.time)) if received.time > self._last else None

    def complete(self) -> ReleasedBatch | None:
        """Release all rows that are held: the stream ended as it should, so these are complete.

        Returns ``None`` if no row is held and the snapshot was released, or if the stream had no rows at all.
        """
        with self._first_error:
            self.ended = True
            opened = self._opening is not None
            return self._release(None) if opened and (self._held or self._snapshot_due) else None

    def fail(self) -> None:
        """Drop all rows that are held: the stream ended with an error, so these may be incomplete."""
        self.ended = True
        self._held.clear()

    def _open(self, row: ReceivedRow) -> None:
        if not row.progressed:
            raise ProgressMissing(
                "PROGRESS missing: the first row of a subscription is a progress row at AS OF"
            )
        self._opening = self._last = Frontier(row.time)

    def _hold(self, row: ReceivedRow, last: Frontier) -> None:
        if row.time < last:
            raise ProtocolError(f"a row at {row.time}, below the frontier {last}, which had closed it")
        self._held.append(row)

    def _release(self, frontier: Frontier | None) -> ReleasedBatch:
        complete = sorted(
            (row for row in self._held if frontier is None or row.time < frontier), key=lambda row: row.time
        )
        self._held = [] if frontier is None else [row for row in self._held if row.time >= frontier]
        is_snapshot, self._snapshot_due = self._snapshot_due, False
        if frontier is not None:
            self._last = self.frontier = frontier
        opening = self._opening or Frontier(complete[0].time)
        return ReleasedBatch(frontier, tuple(complete), is_snapshot, opening)
