"""A consumer whose records come by hand."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field

from faust.types import TP

from tidegate.worker.kafka.fetched import FetchedBatch


@dataclass
class Consumer:
    """A partition's consumer: fetches from its position, and what it fetched waits in a queue."""

    first: int = 0
    end: int = 1_000_000
    position: int = 0
    flowing: bool = False
    queue: list[FetchedBatch] = field(default_factory=list)
    seeks: int = 0

    async def open_partition(self, tp: TP, offset: int) -> None:
        await asyncio.sleep(0)
        self.position, self.flowing = max(offset, self.first), True
        self.seeks += 1

    def halt_partition(self, tp: TP) -> None:
        self.flowing = False

    def continue_partition(self, tp: TP) -> None:
        self.flowing = True

    async def earliest_offsets(self, *partitions: TP) -> Mapping[TP, int]:
        await asyncio.sleep(0)
        return dict.fromkeys(partitions, self.first)

    async def highwaters(self, *partitions: TP) -> Mapping[TP, int]:
        await asyncio.sleep(0)
        return dict.fromkeys(partitions, self.end)

    def fetch(self, count: int) -> None:
        end = self.position + count
        self.queue.append(FetchedBatch("log", 0, self.position, end, end, ()))
        self.position = end


async def settled() -> None:
    """Let tasks run that wait for nothing but each other."""
    for _ in range(10):
        await asyncio.sleep(0)
