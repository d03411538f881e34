"""The changes of one opening, before they are written: later reads of the opening see them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from rocksdict import WriteBatch

from tidegate.client.subscribe.state.table_records import ROW, KeyTableState, Stored


class OpeningChanges:
    """The changes of one opening: for each key that was asked for, its row now, and its row at the beginning.

    ``state`` is that of the table with these changes, at the frontier before them.
    """

    __slots__ = ("_before", "_now", "state")

    def __init__(self, state: KeyTableState) -> None:
        self.state = state.copy()
        self._now: dict[bytes, Stored] = {}
        self._before: dict[bytes, Stored] = {}

    def __len__(self) -> int:
        return len(self._now)

    def unknown(self, keys: Iterable[bytes]) -> list[bytes]:
        """Return those keys, each once, that have to be learned before they can be replaced."""
        return [key for key in dict.fromkeys(keys) if key not in self._now]

    def learn(self, keys: Iterable[bytes], found: Iterable[Stored]) -> None:
        """Take in the stored rows ``found`` of keys that were unknown, in the order of the keys."""
        learned = dict(zip(keys, found, strict=True))
        self._now |= learned
        self._before |= learned

    def replace(self, key: bytes, stored: Stored) -> Stored:
        """Set the row of a known key; returns the row that it had before."""
        before = self._now[key]
        self._now[key] = stored
        self.state.count(before, stored)
        return before

    def replaced(self) -> Iterator[tuple[bytes, Stored]]:
        """Yield the keys that have another row now, with the row that they had when the opening began."""
        return ((key, before) for key, before in self._before.items() if self._now[key] != before)

    def put_into(self, batch: WriteBatch) -> None:
        """Write the rows that differ."""
        for key, _ in self.replaced():
            put_row(batch, key, self._now[key])

    def forget_rows(self) -> None:
        """Forget the rows, which were written. The state stays."""
        self._now, self._before = {}, {}


def put_row(batch: WriteBatch, key: bytes, stored: Stored) -> None:
    """Write a row, or its deletion."""
    if stored is None:
        batch.delete(ROW + key)
    else:
        batch.put(ROW + key, stored)
