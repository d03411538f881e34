"""Batches of one partition between their step and their commit, in order and bounded."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import takewhile

from app.sink import Barrier
from tidegate.processor.batch import StepResult


@dataclass(frozen=True, slots=True)
class InFlight:
    """A stepped batch. ``end`` is the log position behind it, ``since`` the monotonic time of its step."""

    result: StepResult
    barrier: Barrier
    end: int | None = None
    since: float = field(default_factory=time.monotonic)

    @property
    def rows(self) -> int:
        """How many rows it has."""
        return sum(map(len, self.result.outputs.values()))

    @property
    def acknowledged(self) -> bool:
        """Whether every row of it is."""
        return self.barrier.acknowledged.done()


class InFlightBatches:
    """One task adds what it stepped, another takes what is acknowledged; at most ``limit`` lie between."""

    def __init__(self, limit: int) -> None:
        self._slots = asyncio.Semaphore(limit)
        self._flights: deque[InFlight] = deque()
        self._changed = asyncio.Event()
        self._ended = False

    @property
    def rows(self) -> int:
        """Rows of all batches in flight."""
        return sum(flight.rows for flight in self._flights)

    @property
    def oldest_s(self) -> float:
        """Age of the oldest batch, seconds; 0 when there is none."""
        return time.monotonic() - self._flights[0].since if self._flights else 0.0

    async def reserve(self) -> None:
        """Wait until there is room for one more."""
        await self._slots.acquire()

    def add(self, flight: InFlight) -> None:
        """Add a batch, for which room was reserved."""
        self._flights.append(flight)
        self._changed.set()

    def end(self) -> None:
        """Nothing more will be added."""
        self._ended = True
        self._changed.set()

    async def acknowledged(self) -> list[InFlight]:
        """Wait for the first batch; returns it with those behind it that are acknowledged as well.

        They stay in flight until ``complete``. Empty when the last one has been taken.
        """
        while not self._flights:
            if self._ended:
                return []
            self._changed.clear()
            await self._changed.wait()
        await self._flights[0].barrier.acknowledged
        return list(takewhile(lambda flight: flight.acknowledged, self._flights))

    def complete(self, group: Sequence[InFlight]) -> None:
        """The first batches, as ``acknowledged`` gave them, are durable (step 8)."""
        for _ in group:
            self._flights.popleft()
            self._slots.release()
