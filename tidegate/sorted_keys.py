"""Keys in byte order, for a set of some hundred thousand that changes all the time."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from typing import Final

_BLOCK_KEYS: Final = 1_024


class SortedKeys:
    """A sorted set in blocks of at most ``block_keys``: a new key moves only keys of its block."""

    __slots__ = ("_block_keys", "_blocks", "_heads")

    def __init__(self, block_keys: int = _BLOCK_KEYS) -> None:
        self._block_keys = block_keys
        self._blocks: list[list[bytes]] = []
        self._heads: list[bytes] = []  # the first key of each block

    def __iter__(self) -> Iterator[bytes]:
        return (key for block in self._blocks for key in block)

    def __bool__(self) -> bool:
        return bool(self._blocks)

    def copy(self) -> SortedKeys:
        """Return the same keys in a set of their own."""
        copied = SortedKeys(self._block_keys)
        copied._blocks = [block.copy() for block in self._blocks]
        copied._heads = self._heads.copy()
        return copied

    def add(self, key: bytes) -> None:
        """Add a key that is not there."""
        if not self._blocks:
            self._blocks.append([])
            self._heads.append(key)
        number = self._block_of(key)
        block = self._blocks[number]
        block.insert(bisect_left(block, key), key)
        if len(block) > self._block_keys:
            half = len(block) // 2
            self._blocks[number : number + 1] = [block[:half], block[half:]]
            self._heads.insert(number + 1, block[half])
        self._heads[number] = self._blocks[number][0]

    def remove(self, key: bytes) -> None:
        """Remove a key that is there."""
        number = self._block_of(key)
        block = self._blocks[number]
        del block[bisect_left(block, key)]
        if block:
            self._heads[number] = block[0]
        else:
            del self._blocks[number], self._heads[number]

    def around(self, start: bytes, end: bytes) -> list[bytes]:
        """Return the greatest key at or below ``start``, if there is one, and all keys between ``start`` and
        ``end``, which is excluded.
        """
        if not self._blocks:
            return []
        number = self._block_of(start)
        block = self._blocks[number]
        first = max(0, bisect_right(block, start) - 1)
        found = block[first : max(first, bisect_left(block, end))]
        for later in range(number + 1, bisect_left(self._heads, end)):
            block = self._blocks[later]
            found += block[: bisect_left(block, end)]
        return found

    def below(self, key: bytes) -> bytes | None:
        """Return the greatest key below ``key``, if there is one."""
        number = max(0, bisect_left(self._heads, key) - 1)
        block = self._blocks[number] if self._blocks else []
        place = bisect_left(block, key)
        return block[place - 1] if place else None

    def _block_of(self, key: bytes) -> int:
        return max(0, bisect_right(self._heads, key) - 1)
