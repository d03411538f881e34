"""The newest changes of a table. Its subscribers go through them, each at its own pace."""

from __future__ import annotations

from bisect import bisect_right
from operator import attrgetter

from tidegate.subscribe.changes.table_changes import TableChanges
from tidegate.subscribe.updates.frontier import Frontier


class ChangesLog:
    """The newest changes of a table, which follow each other without a gap.

    They take up to ``most_bytes``; the last changes are kept even if they are larger. While there are no
    changes yet, ``begin`` is the frontier from which the first ones will go on.
    """

    __slots__ = ("_begin", "_changes", "_most_bytes", "held_bytes")

    def __init__(self, begin: Frontier, most_bytes: int) -> None:
        self._begin = begin
        self._changes: list[TableChanges] = []
        self._most_bytes = most_bytes
        self.held_bytes = 0

    @property
    def begin(self) -> Frontier:
        """The lowest frontier from which a subscription can go on."""
        return self._changes[0].before if self._changes else self._begin

    @property
    def end(self) -> Frontier:
        """The end of the log: every change below it has come."""
        return self._changes[-1].frontier if self._changes else self._begin

    def holds(self, frontier: Frontier) -> bool:
        """Whether a subscription at a frontier can go on: now, or when the log reaches that frontier."""
        return frontier >= self.begin

    def add(self, changes: TableChanges) -> None:
        """Add the next changes. Raises ``ValueError`` for a gap or a repeat."""
        if changes.before != self.end:
            raise ValueError(f"changes from {changes.before} on do not follow those up to {self.end}")
        self._changes.append(changes)
        self.held_bytes += changes.held_bytes
        gone = 0
        while self.held_bytes > self._most_bytes and gone < len(self._changes) - 1:
            self.held_bytes -= self._changes[gone].held_bytes
            gone += 1
        del self._changes[:gone]

    def after(self, frontier: Frontier) -> TableChanges | None:
        """Return the next changes for a subscription at a frontier that the log holds; ``None`` while there
        are none."""
        at = bisect_right(self._changes, frontier, key=attrgetter("frontier"))
        return None if at == len(self._changes) else self._changes[at].after(frontier)
