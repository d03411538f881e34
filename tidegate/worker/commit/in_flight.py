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
from tidegate.worker.output.barrier import Barrier


@dataclass(frozen=True, slots=True, eq=False)
class InFlight:
    """A stepped batch, and a barrier for each feed whose rows it waits for.

    ``end`` is the log position after the batch; ``None`` for a step that took no records of the log.
    ``since`` is the monotonic time of the step, in seconds.
    """

    result: StepResult
    barriers: dict[FeedId, Barrier] = field(default_factory=dict)
    end: int | None = None
    since: float = field(default_factory=time.monotonic)

    @property
    def rows(self) -> int:
        """The number of rows of the batch."""
        return sum(map(len, self.result.outputs.values()))

    @property
    def acknowledged(self) -> bool:
        """Whether all rows that the batch waits for are acknowledged."""
        return all(barrier.acknowledged.done() for barrier in self.barriers.values())


class InFlightBatches:
    """The batches of a partition that are stepped and not committed, in order.

    One task adds the batches that it stepped, another takes those that are acknowledged. There is room while
    fewer than ``limit`` batches are in flight (``has_room``). But ``add`` takes a batch even beyond the
    limit, for steps that cannot wait. Inside this class, a batch's number says how many batches were added
    before it, those included that are committed by now.
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
        """The number of rows of all batches in flight."""
        return sum(flight.rows for flight in self._flights)

    @property
    def oldest_s(self) -> float:
        """The age of the oldest batch in seconds; 0 when there is none."""
        return time.monotonic() - self._flights[0].since if self._flights else 0.0

    @property
    def has_room(self) -> bool:
        """Whether there is room for one more batch."""
        return len(self._flights) < self._limit

    def __bool__(self) -> bool:
        """Whether any batch is in flight."""
        return bool(self._flights)

    def add(self, flight: InFlight) -> None:
        """Add a batch after all others."""
        for barrier in flight.barriers.values():
            barrier.when_acknowledged(self._changed.set)
        self._flights.append(flight)
        self._changed.set()

    def drop_uncommitted(self) -> None:
        """Forget the batches that no commit has taken: none is durable, and the next owner repeats them."""
        while len(self._flights) > self._taken:
            self._flights.pop()
        self._changed.set()

    def end(self) -> None:
        """Note that no batch will be added any more."""
        self._ended = True
        self._changed.set()

    # ---- feeds that are detached (docs/protocols/slow-sinks.md, K2)

    @contextmanager
    def uncommitted(self) -> Iterator[list[StepResult]]:
        """Give the results of the batches that no commit has taken.

        No commit takes one of them within the ``with`` block, so they may be changed there.
        """
        self._untouched = True
        try:
            yield [flight.result for flight in islice(self._flights, self._taken, None)]
        finally:
            self._untouched = False
            self._changed.set()

    def release(self, feed_id: FeedId) -> None:
        """Let no uncommitted batch wait for the feed's rows any more.

        A batch that has unacknowledged rows of the feed is committed only together with the batch that is
        added next: that is the step that detaches or fails the feed. This holds even if the rows are
        acknowledged later, or thrown away.
        """
        for number, flight in islice(enumerate(self._flights, self._first), self._taken, None):
            barrier = flight.barriers.pop(feed_id, None)
            if barrier is not None and not barrier.acknowledged.done():
                self._together[number] = self._first + len(self._flights)

    # ---- commits

    async def acknowledged(self) -> list[InFlight]:
        """Wait until the first batch may be committed.

        Returns it, and the batches right after it that may be committed as well. They are acknowledged, and
        no batch is among them without the later batch that it needs (``release``). They stay in flight until
        ``complete``. After ``end``, returns an empty list once all batches are committed.
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
        """Remove the first batches, those that ``acknowledged`` returned: they are durable (step 8)."""
        for _ in group:
            self._flights.popleft()
        for number in range(self._first, self._first + len(group)):
            self._together.pop(number, None)
        self._first += len(group)
        self._taken = 0

    def _ready(self) -> list[InFlight]:
        """Return the first batches that may be committed.

        All of them are acknowledged. A batch that has to be committed together with a later one is only
        among them if the later one is.
        """
        ready = needed = 0
        if not self._untouched:
            complete = takewhile(lambda flight: flight.acknowledged, self._flights)
            for number, _ in enumerate(complete, self._first):
                needed = max(needed, self._together.get(number, 0))
                if number >= needed:
                    ready = number + 1 - self._first
        return list(islice(self._flights, ready))
