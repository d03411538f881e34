"""Rows of state that are larger than a record may be, in pieces (docs/delivery.md#what-bounds-a-record).

The first piece stands under the key of the row and says how many there are; the others stand behind it in the
order of keys. A row in one piece is stored as it is.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from tidegate.errors import StateMismatch
from tidegate.processor.batch import StateChange, StateTable

#: The first byte of the value of a piece. Each other value begins with the version of its form, which is far
#: below; so a worker that knows of no pieces refuses the row as one of a newer worker.
_FIRST: Final = b"\xf0"
_LATER: Final = b"\xf1"
_BEHIND: Final = b"/piece/"
_NUMBER_BYTES: Final = 4


def is_later_piece(key: bytes, value: bytes) -> bool:
    """Whether a stored row is a piece behind the first one of a row."""
    return value[:1] == _LATER and key[-_NUMBER_BYTES - len(_BEHIND) : -_NUMBER_BYTES] == _BEHIND


class StoredRow(NamedTuple):
    """A row as it was given to `RowPieces.split`."""

    table: StateTable
    key: bytes
    value: bytes


class _Found:
    """The pieces of a row so far."""

    __slots__ = ("count", "pieces")

    def __init__(self) -> None:
        self.count: int | None = None
        self.pieces: dict[int, bytes] = {}


class RowPieces:
    """Splits rows of more than ``most_bytes``, and puts them together again. Transactions are never split."""

    def __init__(self, most_bytes: int) -> None:
        self._most = most_bytes
        #: Of rows that are stored in pieces, how many these are.
        self._counts: dict[tuple[StateTable, bytes], int] = {}
        self._found: dict[tuple[StateTable, bytes], _Found] = {}

    # ---- to what is stored ----

    def split(self, changes: list[StateChange]) -> list[StateChange]:
        """The changes, each small enough for a record; pieces of before that are left over are removed."""
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

    def take(self, table: StateTable, key: bytes, value: bytes) -> StoredRow | None:
        """The row that a stored row is, or is the last piece of; ``None`` while pieces are missing."""
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
        """Every stored row was taken. Raises ``StateMismatch`` where pieces of one are missing."""
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
