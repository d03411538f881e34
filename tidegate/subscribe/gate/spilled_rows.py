"""Rows that wait outside of memory, in a store that the gate is given.

Rows of one partition are moved out in *blocks*. Only the lowest timestamp, the first offset, the ticket and
the size of a block stay in memory. A block is written once. It is taken back once: when the minimum reaches
its lowest timestamp. Rows that had been decoded are then decoded again.

A block is, in this order: how many rows it has (4 bytes); offsets, walls and logical parts (8 bytes each);
the lengths of keys, then of values (4 bytes each, -1 for no value); the keys; the values.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Final, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from tidegate.hlc import Timestamp
from tidegate.subscribe.gate.row_chunk import IntColumn, RowChunk, joined_chunks, memory_of

#: About how many bytes of memory the rows of a block take. Blocks are small, so that a block that is read
#: back does not fill the memory again.
BLOCK_BYTES: Final = 2 << 20
BUDGET_BYTES: Final = 64 << 20
#: The rows of an opening take the budget divided by this, before they are decoded: decoded rows take several
#: times their bytes.
_OPENINGS: Final = 8
_LITTLE: Final = "<i4"
_LONG: Final = "<i8"


class BlockStore(Protocol):
    """Keeps blocks outside of memory. Raises ``SpillLost`` if it cannot keep one or give it back whole."""

    def put(self, block: bytes) -> int:
        """Keep a block; return its ticket."""
        ...

    def pop(self, ticket: int) -> bytes:
        """Return a block, and forget it."""
        ...


@dataclass(frozen=True, slots=True)
class Spill:
    """The place for rows beyond ``budget_bytes`` of memory. All partitions of a gate share this budget.

    The memory for an opening of the gate is at least ``least_opening_bytes``: each opening looks at all rows
    that are complete, so many small openings would take long.
    """

    store: BlockStore
    budget_bytes: int = BUDGET_BYTES
    least_opening_bytes: int = BLOCK_BYTES

    @property
    def opening_bytes(self) -> int:
        """About how many bytes of memory the rows of an opening may take before they are decoded."""
        return max(self.budget_bytes // _OPENINGS, self.least_opening_bytes)


class SpilledBlock(NamedTuple):
    """A block in the store. ``memory_bytes`` is about what its rows take in memory."""

    ticket: int
    first_offset: int
    lowest: Timestamp
    memory_bytes: int


def move_out(chunks: Iterable[RowChunk], store: BlockStore) -> Iterator[SpilledBlock]:
    """Move the rows of some chunks to a store, in blocks. Raises ``SpillLost``.

    The blocks have the rows in the order of their times. Without that order each block might have rows of all
    times, as after a scan in the order of keys. Then all blocks would be taken back at the same time, because
    a block is taken back whole.
    """
    some = [chunk for chunk in chunks if chunk.rows]
    if not some:
        return
    rows = joined_chunks(some)
    order = np.lexsort((rows.logicals, rows.walls))
    sizes = np.concatenate([np.full(each.rows, each.memory_bytes // each.rows) for each in some])
    ends = np.cumsum(sizes[order])
    begin = begin_bytes = 0
    while begin < rows.rows:
        end = max(int(np.searchsorted(ends, begin_bytes + BLOCK_BYTES, "right")), begin + 1)
        end_bytes = int(ends[end - 1])
        yield _put(rows.at(order[begin:end])._replace(memory_bytes=end_bytes - begin_bytes), store)
        begin, begin_bytes = end, end_bytes


def take_back(block: SpilledBlock, store: BlockStore) -> RowChunk:
    """Read the rows of a block back. Raises ``SpillLost``."""
    return unpacked(store.pop(block.ticket))


def packed(chunks: Sequence[RowChunk]) -> bytes:
    """Encode the rows of some chunks of one partition as the bytes of a block."""
    keys = [key for chunk in chunks for key in chunk.keys]
    values = [value for chunk in chunks for value in chunk.values]
    columns = [
        np.concatenate(column).astype(_LONG).tobytes()
        for column in zip(*((chunk.offsets, chunk.walls, chunk.logicals) for chunk in chunks), strict=True)
    ]
    key_lengths = np.fromiter(map(len, keys), _LITTLE, len(keys)).tobytes()
    value_lengths = np.fromiter(
        (-1 if value is None else len(value) for value in values), _LITTLE, len(values)
    ).tobytes()
    count = len(keys).to_bytes(4, "little")
    return b"".join((count, *columns, key_lengths, value_lengths, *keys, *filter(None, values)))


def unpacked(block: bytes) -> RowChunk:
    """Return the rows of a block. Their values stay as bytes."""
    count = int.from_bytes(block[:4], "little")
    offsets, walls, logicals = (_longs(block, 4 + 8 * count * at, count) for at in range(3))
    key_lengths, value_lengths = (_lengths(block, 4 + 24 * count + 4 * count * at, count) for at in range(2))
    begin = 4 + 32 * count
    key_ends = list(accumulate(key_lengths.tolist(), initial=begin))
    keys = [block[start:end] for start, end in pairwise(key_ends)]
    value_ends = list(accumulate(np.maximum(value_lengths, 0).tolist(), initial=key_ends[-1]))
    values: list[bytes | None] = [block[start:end] for start, end in pairwise(value_ends)]
    for at in np.flatnonzero(value_lengths < 0).tolist():
        values[at] = None
    return RowChunk(offsets, walls, logicals, keys, values, [None] * count, memory_of(keys, values, 0))


def _put(rows: RowChunk, store: BlockStore) -> SpilledBlock:
    return SpilledBlock(store.put(packed([rows])), rows.first_offset, _lowest(rows), rows.memory_bytes)


def _lowest(chunk: RowChunk) -> Timestamp:
    wall = chunk.walls.min()
    return Timestamp(int(wall), int(chunk.logicals[chunk.walls == wall].min()))


def _longs(block: bytes, begin: int, count: int) -> IntColumn:
    column: IntColumn = np.frombuffer(block, _LONG, count, begin).astype(np.int64)
    return column


def _lengths(block: bytes, begin: int, count: int) -> NDArray[np.int32]:
    column: NDArray[np.int32] = np.frombuffer(block, _LITTLE, count, begin)
    return column
