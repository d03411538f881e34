"""A spill store in memory, which counts what it was given."""

from __future__ import annotations


class MemorySpill:
    """Gives each block back once."""

    def __init__(self) -> None:
        self.blocks: dict[int, bytes] = {}
        self.puts = 0

    def put(self, block: bytes) -> int:
        """Keep a block."""
        self.puts += 1
        self.blocks[self.puts] = block
        return self.puts

    def pop(self, ticket: int) -> bytes:
        """Give a block back, and forget it."""
        return self.blocks.pop(ticket)
