"""Batches of one partition between their step and their commit, in order and bounded."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice, takewhile

from tidegate.changefeed.definition.feed import FeedId
from tidegate.processor.batch import StepResult
from tidegate.worker.output.row_producer import Barrier


@dataclass(frozen=True, slots=True, eq=False)
class InFlight:
    """A stepped batch, and the barriers of the feeds that it waits for.

    ``end`` is the log position behind it, ``since`` the monotonic time of its step.
    """

    result: StepResult
    barriers: dict[FeedId, Barrier] = field(default_factory=dict)
    end: int | None = None
    since: float = field(default_factory=time.monotonic)

    @property
    def rows(self) -> int:
        """How many rows it has."""
        return sum(map(len, self.result.outputs.values()))

    @property
    def acknowledged(self) -> bool:
        """Whether all rows are that it waits for."""
        return all(barrier.acknowledged.done() for barrier in self.barriers.values())


class InFlightBatches:
    """One task adds what it stepped, another takes what is acknowledged.

    There is room for ``limit``; who must add one more can. Numbers count all batches that ever were here.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._flights: deque[InFlight] = deque()
        self._first = 0
        self._taken = 0
        self._together: dict[int, int] = {}
        self._changed = asyncio.Event()
        self._untouched = False
        self._ended = False

    @property
    def rows(self) -> int:
        """Rows of all batches in flight."""
        return sum(flight.rows for flight in self._flights)

    @property
    def oldest_s(self) -> float:
        """Age of the oldest batch, seconds; 0 when there is none."""
        return time.monotonic() - self._flights[0].since if self._flights else 0.0

    @property
    def has_room(self) -> bool:
        """Whether there is room for one more."""
        return len(self._flights) < self._limit

    def __bool__(self) -> bool:
        """Whether there are any."""
        return bool(self._flights)

    def add(self, flight: InFlight) -> None:
        """Add a batch behind all others."""
        for barrier in flight.barriers.values():
            barrier.when_acknowledged(self._changed.set)
        self._flights.append(flight)
        self._changed.set()

    def drop_uncommitted(self) -> None:
        """Forget the batches that were not taken: nothing of them is durable, the next owner repeats them."""
        while len(self._flights) > self._taken:
            self._flights.pop()
        self._changed.set()

    def end(self) -> None:
        """Nothing more will be added."""
        self._ended = True
        self._changed.set()

    # ---- feeds that are detached (docs/catch-up.md, K2)

    @contextmanager
    def uncommitted(self) -> Iterator[list[StepResult]]:
        """The results of the batches that were not taken; none is taken meanwhile, so they may be changed."""
        self._untouched = True
        try:
            yield [flight.result for flight in islice(self._flights, self._taken, None)]
        finally:
            self._untouched = False
            self._changed.set()

    def release(self, feed_id: FeedId) -> None:
        """No batch here waits for the feed's rows any more, but those that lack some are taken only together
        with the one that is added next.

        That stays so when the rows are acknowledged later, or thrown away.
        """
        for number, flight in islice(enumerate(self._flights, self._first), self._taken, None):
            barrier = flight.barriers.pop(feed_id, None)
            if barrier is not None and not barrier.acknowledged.done():
                self._together[number] = self._first + len(self._flights)

    # ---- commits

    async def acknowledged(self) -> list[InFlight]:
        """Wait for the first batch; returns it with those behind it that are acknowledged as well.

        They stay in flight until ``complete``. Empty when the last one has been taken.
        """
        while True:
            if group := self._ready():
                self._taken = len(group)
                return group
            if self._ended and not self._flights:
                return []
            self._changed.clear()
            await self._changed.wait()

    def complete(self, group: Sequence[InFlight]) -> None:
        """The first batches, as ``acknowledged`` gave them, are durable (step 8)."""
        for _ in group:
            self._flights.popleft()
        for number in range(self._first, self._first + len(group)):
            self._together.pop(number, None)
        self._first += len(group)
        self._taken = 0

    def _ready(self) -> list[InFlight]:
        """The first batches that may be taken: none lacks rows, and what belongs together is there."""
        ready = needed = 0
        if not self._untouched:
            complete = takewhile(lambda flight: flight.acknowledged, self._flights)
            for number, _ in enumerate(complete, self._first):
                needed = max(needed, self._together.get(number, 0))
                if number >= needed:
                    ready = number + 1 - self._first
        return list(islice(self._flights, ready))
