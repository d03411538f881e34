"""Splits rows of state that are too large for one record (docs/protocols/record-bounds.md).

The first piece has the key of the row, and says how many pieces there are. The key of each other piece is the
row's key, followed by ``/piece/`` and a number (4 bytes, from 1 on). A row that fits into one record is
stored as it is.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from tidegate.errors import StateMismatch
from tidegate.processor.batch import StateChange, StateTable

#: The first byte of a piece's value. Any other value begins with the version of its form, which is far lower.
#: So a worker that does not know of pieces refuses them as rows of a newer worker.
_FIRST: Final = b"\xf0"
_LATER: Final = b"\xf1"
_BEHIND: Final = b"/piece/"
_NUMBER_BYTES: Final = 4


def is_later_piece(key: bytes, value: bytes) -> bool:
    """Whether a stored row is a piece of a row, and not its first."""
    return value[:1] == _LATER and key[-_NUMBER_BYTES - len(_BEHIND) : -_NUMBER_BYTES] == _BEHIND


class StoredRow(NamedTuple):
    """A row of state as it was before `RowPieces.split`."""

    table: StateTable
    key: bytes
    value: bytes


class _Found:
    """The pieces of a row that were taken so far, and how many there are, once that is known."""

    __slots__ = ("count", "pieces")

    def __init__(self) -> None:
        self.count: int | None = None
        self.pieces: dict[int, bytes] = {}


class RowPieces:
    """Splits rows with values of more than ``most_bytes``, and puts them together again.

    Rows of transactions are never split.
    """

    def __init__(self, most_bytes: int) -> None:
        self._most = most_bytes
        #: The number of pieces of each row that is stored in pieces.
        self._counts: dict[tuple[StateTable, bytes], int] = {}
        self._found: dict[tuple[StateTable, bytes], _Found] = {}

    # ---- to what is stored ----

    def split(self, changes: list[StateChange]) -> list[StateChange]:
        """Return the changes, split so that each is small enough for a record.

        Some of the returned changes remove pieces that a row does not need any more.
        """
        most = self._most
        if not self._counts and all(value is None or len(value) <= most for _, _, value in changes):
            return changes
        return [piece for change in changes for piece in self._split(change)]

    def _split(self, change: StateChange) -> Iterator[StateChange]:
        table, key, value = change
        if table is StateTable.INTENTS:
            yield change
            return
        before, count = self._counts.pop((table, key), 1), 1
        if value is None or len(value) <= self._most:
            yield change
        else:
            pieces = [value[at : at + self._most] for at in range(0, len(value), self._most)]
            count = self._counts[table, key] = len(pieces)
            yield StateChange(table, key, _FIRST + count.to_bytes(_NUMBER_BYTES, "big") + pieces[0])
            for number, piece in enumerate(pieces[1:], 1):
                yield StateChange(table, _piece_key(key, number), _LATER + piece)
        for number in range(count, before):
            yield StateChange(table, _piece_key(key, number), None)

    # ---- back from it ----

    def join_piece(self, table: StateTable, key: bytes, value: bytes) -> StoredRow | None:
        """Join a stored piece to its row. Returns the row once it is whole, and ``None`` before that."""
        if is_later_piece(key, value):
            own, number = key[: -_NUMBER_BYTES - len(_BEHIND)], int.from_bytes(key[-_NUMBER_BYTES:], "big")
            piece = value[1:]
        elif value[:1] == _FIRST:
            own, number, piece = key, 0, value[1 + _NUMBER_BYTES :]
        else:
            return StoredRow(table, key, value)
        found = self._found.setdefault((table, own), _Found())
        found.pieces[number] = piece
        if number == 0:
            found.count = int.from_bytes(value[1 : 1 + _NUMBER_BYTES], "big")
        if len(found.pieces) != found.count:
            return None
        del self._found[table, own]
        self._counts[table, own] = found.count
        return StoredRow(table, own, b"".join(_in_order(found.pieces, table, own)))

    def finish(self) -> None:
        """End the taking of stored rows. Raises ``StateMismatch`` if pieces of a row are missing."""
        for (table, key), found in self._found.items():
            raise _torn(table, key, len(found.pieces), found.count)


def _in_order(pieces: dict[int, bytes], table: StateTable, key: bytes) -> Sequence[bytes]:
    if sorted(pieces) != list(range(len(pieces))):
        raise _torn(table, key, len(pieces), len(pieces))
    return [pieces[number] for number in range(len(pieces))]


def _torn(table: StateTable, key: bytes, found: int, count: int | None) -> StateMismatch:
    of = "an unknown number of" if count is None else str(count)
    return StateMismatch(
        f"The row {key.hex()} of the {table.value} table is stored in {of} pieces, and {found} were found: "
        "not all of it is there. Wipe the data directory to restore the state from its changelogs"
    )


def _piece_key(key: bytes, number: int) -> bytes:
    return key + _BEHIND + number.to_bytes(_NUMBER_BYTES, "big")
