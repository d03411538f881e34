"""Digests of a partition's state: whether the rows that are read back are those that were written.

Per table the sum, modulo 2^64, of a 64-bit hash of each row. A sum knows no order, and follows changes: the
new row's hash comes in, the old one's goes (docs/design/2026-11-21-intent-queue-beyond-memory.md).
"""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b
from typing import Final, NamedTuple

from tidegate.processor.batch import StateChange, StateTable

_MODULO: Final = 2**64
_HASH_BYTES: Final = 8
_KEY_LENGTH_BYTES: Final = 4
#: Copying a hasher that knows its table is faster than making one.
_HASHERS: Final = {
    table: blake2b(digest_size=_HASH_BYTES, person=table.value.encode()) for table in StateTable
}


class TableDigests(NamedTuple):
    """The digest of each table; that of ``ranges`` without the row of the position, which holds them."""

    ranges: int = 0
    intents: int = 0
    descriptors: int = 0
    feeds: int = 0


def row_hash(table: StateTable, key: bytes, value: bytes) -> int:
    """The 64-bit hash of a row."""
    hasher = _HASHERS[table].copy()
    hasher.update(len(key).to_bytes(_KEY_LENGTH_BYTES, "big") + key + value)
    return int.from_bytes(hasher.digest(), "big")


class RowDigests:
    """The digests of the tables but ``intents``, whose hashes stand with its transactions.

    Remembers the hash of every row.
    """

    def __init__(self) -> None:
        self._hashes: dict[tuple[StateTable, bytes], int] = {}
        self._sums = dict.fromkeys(StateTable, 0)

    def take(self, changes: Iterable[StateChange]) -> None:
        """Follow changes, in their order; those of ``intents`` are passed over."""
        for table, key, value in changes:
            if table is StateTable.INTENTS:
                continue
            new = 0 if value is None else row_hash(table, key, value)
            old = self._hashes.pop((table, key), 0)
            if value is not None:
                self._hashes[table, key] = new
            self._sums[table] += new - old

    def digests(self, intents: int) -> TableDigests:
        """All digests, with the sum over the rows of transactions."""
        sums = self._sums | {StateTable.INTENTS: intents}
        return TableDigests(*(sums[StateTable(name)] % _MODULO for name in TableDigests._fields))
