"""One feed of a range: what it asked for, and the events that wait for its reader.

A feed that starts in the past gives its missing versions first, then the events that were published
meanwhile. Nobody waits for its reader. Events that do not fit into its buffer are dropped, and the feed ends
with ``SLOW_CONSUMER`` after those that did fit. Source: CockroachDB ``rangefeed/buffered_registration.go``.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Final, NamedTuple, TypeAlias

from tidegate.errors import FeedError
from tidegate.hlc import ZERO, Timestamp
from tidegate.rangefeed.event import CheckpointEvent, FeedEvent
from tidegate.rangefeed.feed_end import EndReason, FeedEnd
from tidegate.rangefeed.memory_budget import Charge
from tidegate.spans import Span

#: The most events that wait for one feed's reader.
BUFFERED_EVENTS_MAX: Final = 4096

#: An event that waits, with its charge. Feeds that want the same event share this pair.
Buffered: TypeAlias = tuple[FeedEvent, Charge | None]


class FeedRequest(NamedTuple):
    """The request of a feed: the versions in ``span`` above ``start`` (exclusive; zero is from now on).

    ``with_diff`` asks for previous values. ``with_filtering`` leaves out versions that their writer wants
    omitted from changefeeds. ``omit_remote`` leaves out versions that were replicated from another cluster
    (origin id other than 0).
    """

    span: Span
    start: Timestamp = ZERO
    with_diff: bool = False
    with_filtering: bool = False
    omit_remote: bool = False


class Registration:
    """A feed that is registered with a range. ``RangeFeed.register`` makes it.

    ``ended`` is set when no event follows any more. ``steady`` says that its reader has taken the first
    checkpoint. ``overflowed`` says that an event had no room, so that nothing more is added.
    """

    __slots__ = ("_catch_up", "_on_end", "buffer", "capacity", "ended", "overflowed", "request", "steady")

    def __init__(
        self,
        request: FeedRequest,
        catch_up: Iterator[FeedEvent] | None = None,
        *,
        capacity: int = BUFFERED_EVENTS_MAX,
        on_end: Callable[[Registration], object] | None = None,
    ) -> None:
        self.request = request
        self.capacity = capacity
        self.buffer: deque[Buffered] = deque()
        self.overflowed = False
        self.ended: FeedEnd | None = None
        self.steady = False
        self._catch_up = catch_up
        self._on_end = on_end

    def put(self, item: Buffered) -> None:
        """Add an event to the buffer. If there is no room the feed has ``overflowed``.

        ``Registrations`` has the same code once more, where time matters.
        """
        if self.ended is not None or self.overflowed:
            return
        if len(self.buffer) >= self.capacity:
            self.overflowed = True
            return
        self.buffer.append(item)
        if item[1] is not None:
            item[1].holders += 1

    def take(self, limit: int) -> list[FeedEvent]:
        """Return the next events, ``limit`` at most; none if no event waits, or the feed has ended.

        The reader has these events now, so their memory is no longer charged.
        """
        events: list[FeedEvent] = []
        if self._catch_up is not None:
            events = self._take_catch_up(limit)
        if self._catch_up is None and self.ended is None:
            self._take_live(limit - len(events), events)
        return events

    def end(self, end: FeedEnd) -> None:
        """End the feed, and drop the events that wait. Only the first end counts."""
        if self.ended is not None:
            return
        self.ended = end
        self._catch_up = None
        while self.buffer:
            _let_go(self.buffer.popleft()[1])
        if self._on_end is not None:
            self._on_end(self)

    def _take_catch_up(self, limit: int) -> list[FeedEvent]:
        catch_up = self._catch_up
        assert catch_up is not None
        events: list[FeedEvent] = []
        try:
            events.extend(islice(catch_up, limit))
        except FeedError as error:
            self.end(FeedEnd(EndReason.FAILED, str(error)))
        else:
            if len(events) < limit:
                self._catch_up = None
        return events

    def _take_live(self, limit: int, into: list[FeedEvent]) -> None:
        buffer = self.buffer
        taken = [buffer.popleft() for _ in range(min(limit, len(buffer)))]
        into += [event for event, _ in taken]
        for _, charge in taken:
            if charge is not None:
                charge.release()
        if not self.steady:
            self.steady = any(isinstance(event, CheckpointEvent) for event in into)
        if self.overflowed and not buffer:
            self.end(FeedEnd(EndReason.SLOW_CONSUMER, _SLOW.format(self.capacity)))


_SLOW: Final = (
    "the feed's reader did not follow: more than {} events waited for it. "
    "Begin the feed again from its last checkpoint"
)


def _let_go(charge: Charge | None) -> None:
    if charge is not None:
        charge.release()
