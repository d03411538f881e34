"""Digests of a partition's state: they show whether the rows that are read back are those that were written.

The digest of a table is the sum, modulo 2^64, of a 64-bit hash of each row. A sum does not depend on the
order of rows, and it follows a change: the new row's hash is added, and the old one's is taken away
(docs/design/2026-11-21-intent-queue-beyond-memory.md).
"""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b
from typing import Final, NamedTuple

from tidegate.processor.batch import StateChange, StateTable

_MODULO: Final = 2**64
_HASH_BYTES: Final = 8
_KEY_LENGTH_BYTES: Final = 4
#: Most keys have 8 bytes: those of ranges.
_LENGTH_8: Final = (8).to_bytes(_KEY_LENGTH_BYTES, "big")
#: A hasher that knows its table, for each table. A copy of it is made faster than a new hasher.
_HASHERS: Final = {
    table: blake2b(digest_size=_HASH_BYTES, person=table.value.encode()) for table in StateTable
}


class TableDigests(NamedTuple):
    """The digest of each table. That of ``ranges`` leaves out the position's row, which has the digests."""

    ranges: int = 0
    intents: int = 0
    descriptors: int = 0
    feeds: int = 0


def row_hash(table: StateTable, key: bytes, value: bytes) -> int:
    """Return the 64-bit hash of a row."""
    hasher = _HASHERS[table].copy()
    hasher.update((_LENGTH_8 if len(key) == 8 else _length(key)) + key + value)
    return int.from_bytes(hasher.digest(), "big")


def _length(key: bytes) -> bytes:
    return len(key).to_bytes(_KEY_LENGTH_BYTES, "big")


class RowDigests:
    """The digest of every table but ``intents``, and the hash of each row.

    The hashes of ``intents`` are kept with the transactions.
    """

    def __init__(self) -> None:
        self._hashes: dict[StateTable, dict[bytes, int]] = {table: {} for table in StateTable}
        self._sums = dict.fromkeys(StateTable, 0)

    def add_changes(self, changes: Iterable[StateChange]) -> None:
        """Count the changes in the digests, in their order. Changes of ``intents`` are passed over."""
        for table, key, value in changes:
            if table is StateTable.INTENTS:
                continue
            new = 0 if value is None else row_hash(table, key, value)
            hashes = self._hashes[table]
            old = hashes.get(key, 0)
            if value is not None:
                hashes[key] = new
            elif key in hashes:
                del hashes[key]
            self._sums[table] += new - old

    def digests(self, intents: int) -> TableDigests:
        """Return the digests of all tables. ``intents`` is the sum of the hashes of the
        intents table, which is kept elsewhere."""
        sums = self._sums | {StateTable.INTENTS: intents}
        return TableDigests(*(sums[StateTable(name)] % _MODULO for name in TableDigests._fields))
