"""The feeds of one range: its log goes in, and each feed's events come out.

Values go to the feeds before the op that committed them counts, and a checkpoint follows at once when the op
moved the resolved timestamp: so a checkpoint never comes before a value that it covers. All is done when a
call returns; nothing here waits, and nothing is without a bound: a feed's buffer holds so many events, all
that wait together so many bytes. What happens at the bound is the caller's choice (``WhenFull``).

Source: CockroachDB ``rangefeed/processor.go`` and ``rangefeed/scheduled_processor.go``.
"""

from __future__ import annotations

import enum
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from tidegate.errors import RangeError, StartBelowGC
from tidegate.hlc import ZERO, ClosedTimestamp, Timestamp
from tidegate.raftlog.entry import Op, WriteIntent
from tidegate.rangefeed.event import FeedEvent, SSTableEvent
from tidegate.rangefeed.feed_end import FINISHED, EndReason, FeedEnd
from tidegate.rangefeed.memory_budget import Charge, MemoryBudget
from tidegate.rangefeed.range_outputs import (
    Init,
    RangeInput,
    RangeOutput,
    RangeOutputs,
    routed_output,
    size_bytes,
    span_text,
)
from tidegate.rangefeed.registration import BUFFERED_EVENTS_MAX, FeedRequest, Registration
from tidegate.rangefeed.routing import Registrations
from tidegate.ranges.intent_queue import TrackedTxn
from tidegate.ranges.push_attempt import (
    TXNS_PER_PUSH_MAX,
    PushAnswer,
    ResolveIntents,
    ops_of,
    resolutions_of,
)
from tidegate.ranges.resolver import Resolver
from tidegate.spans import Span


class WhenFull(enum.Enum):
    """What happens when there is no room for an event."""

    #: Without room in a feed's buffer that feed ends; without memory all feeds of the range do.
    END_FEEDS = "end feeds"
    #: The event is not taken: the caller keeps it, and offers it again once feeds were read.
    REFUSE = "refuse"


@dataclass(frozen=True, slots=True)
class RangeFeedConfig:
    """The bounds of one range's feeds."""

    #: Events that are taken in but not processed; with ``WhenFull.END_FEEDS`` there never are any.
    pending_events_max: int = BUFFERED_EVENTS_MAX
    #: Events that wait for one feed's reader.
    buffered_events_max: int = BUFFERED_EVENTS_MAX
    when_full: WhenFull = WhenFull.END_FEEDS
    #: Off, resolved timestamps may lag without a bound behind transactions that nobody ends.
    push_txns: bool = True
    #: Transactions that one push names.
    txns_per_push_max: int = TXNS_PER_PUSH_MAX


@dataclass(slots=True)
class RangeFeedCounters:
    """What happened to the range's feeds so far."""

    budget_exhausted: int = 0
    #: Feeds that ended because their readers did not follow.
    slow_consumers: int = 0


class RangeFeed:
    """The feeds of one range and the resolver behind their checkpoints.

    ``offer_*`` take the range's log in order and return whether they did: not when the range's feeds are
    over, and not when there is no room and ``WhenFull.REFUSE`` is set. They raise ``RangeError`` for what
    the log may not say (a write at or below the resolved timestamp, a key outside the range, a value that is
    missing and that a feed wants), and so does ``run``; the feeds are over then. A commit at or below the
    resolved timestamp is passed on and counted, as in the source: the store has promised too much.

    When the last feed ends, the range's feeds are over: a new ``RangeFeed`` begins with what the store says
    of its intents.
    """

    def __init__(
        self,
        span: Span,
        *,
        resolver: Resolver | None = None,
        config: RangeFeedConfig | None = None,
        budget: MemoryBudget | None = None,
        gc_threshold: Timestamp = ZERO,
    ) -> None:
        self.span = span
        self.feeds = Registrations()
        self.counters = RangeFeedCounters()
        #: Versions at or below it may be collected; no feed may start there.
        self.gc_threshold = gc_threshold
        self.ended: FeedEnd | None = None
        self.budget = budget
        self._config = config or RangeFeedConfig()
        self._waits = self._config.when_full is WhenFull.REFUSE
        self._outputs = RangeOutputs(span, resolver or Resolver(), self.feeds)
        self._pending: deque[tuple[RangeInput, Charge | None]] = deque()
        self._under_way: _UnderWay | None = None
        self._push_in_flight: tuple[TrackedTxn, ...] = ()

    @property
    def resolver(self) -> Resolver:
        """What decides the checkpoints."""
        return self._outputs.resolver

    @property
    def late_commits(self) -> int:
        """Commits at or below the resolved timestamp: their values came after a checkpoint over them."""
        return self._outputs.late_commits

    # ---- the log ----

    def offer_ops(self, ops: Sequence[Op]) -> bool:
        """Take the logical ops of one command."""
        return self._offer(tuple(ops))

    def offer_closed(self, closed: ClosedTimestamp) -> bool:
        """Take a closed timestamp; behind the ops of the command that carried it. Zero says nothing."""
        return self.ended is None if closed == ZERO else self._offer(closed)

    def offer_sstable(self, file: SSTableEvent) -> bool:
        """Take a file of versions that was added to the range; nothing in it may be at or below resolved."""
        return self._offer(file)

    def initialise(self, intents: Iterable[WriteIntent] = ()) -> bool:
        """Take the intents that predate the log, and let the resolved timestamp begin to move."""
        return self._offer(Init(tuple(intents)))

    def run(self) -> None:
        """Process what is pending as far as there is room; call it when feeds were read."""
        while self.ended is None and self._resume():
            if not self._pending:
                return
            taken, charge = self._pending.popleft()
            self._under_way = _UnderWay(self._outputs.of(taken), charge)

    # ---- feeds ----

    def register(
        self, request: FeedRequest, catch_up: Iterable[FeedEvent] | None = None
    ) -> Registration | None:
        """Begin a feed; ``None`` when the range's feeds are over.

        What was taken in before is for the ``catch_up`` alone, which gives the stored versions above the
        feed's start (``tidegate.rangefeed.catchup``); a feed that starts at zero has none. Raises
        ``StartBelowGC``, and ``ValueError`` for a span that the range does not hold.
        """
        if self.ended is not None:
            return None
        self._require_admissible(request)
        past = iter(catch_up) if catch_up is not None and request.start > ZERO else None
        feed = Registration(
            request, past, capacity=self._config.buffered_events_max, on_end=self._on_feed_end
        )
        self._pending.append((feed, None))
        self.run()
        return feed

    def disconnect(self, span: Span, end: FeedEnd) -> None:
        """End the feeds that overlap ``span``."""
        self.feeds.disconnect(span, end)

    def stop(self, end: FeedEnd = FINISHED) -> None:
        """End all feeds; what is pending is thrown away, and so is the queue of intents."""
        if self.ended is not None:
            return
        self.ended = end
        waiting = [taken for taken, _ in self._pending if isinstance(taken, Registration)]
        for feed in (*self.feeds, *waiting):
            feed.end(end)
        if self._under_way is not None:
            _let_go(self._under_way.charge)
            self._under_way = None
        while self._pending:
            _let_go(self._pending.popleft()[1])
        self._outputs.resolver = Resolver()

    def needs_value(self, span: Span) -> bool:
        """Whether a feed looks at ``span``. Ops are to be offered in any case: they may be of intents."""
        return self.feeds.needs_value(span)

    def needs_previous(self, span: Span) -> bool:
        """Whether a feed looks at ``span`` that wants to see previous values."""
        return self.feeds.needs_previous(span)

    # ---- pushes ----

    def begin_push(self, older_than: Timestamp) -> tuple[TrackedTxn, ...]:
        """The transactions to push now: the oldest of those strictly below ``older_than``, in their order.

        At most ``RangeFeedConfig.txns_per_push_max``; the others when these are answered. None while pushing
        is off, before initialisation, and while a push is in flight.
        """
        if not self._config.push_txns or not self.resolver.initialised or self._push_in_flight:
            return ()
        self._push_in_flight = tuple(self.resolver.queue.below(older_than, self._config.txns_per_push_max))
        return self._push_in_flight

    def finish_push(
        self, answer: PushAnswer | None, *, barrier_passed: bool = False
    ) -> tuple[ResolveIntents, ...]:
        """Take the answer to the push in flight; returns the intents that are to be resolved after it.

        ``None`` is a push that failed: the next one asks again. So does one with an ambiguous abort, unless
        ``barrier_passed`` says that all of the range's log was offered that was written before the answer:
        what had committed is known then. Raises ``ValueError`` for an answer to another number of
        transactions than were pushed.
        """
        pushed, self._push_in_flight = self._push_in_flight, ()
        if answer is None or (answer.ambiguous_abort and not barrier_passed):
            return ()
        if len(answer.txns) != len(pushed):
            raise ValueError(f"{len(pushed)} transactions were pushed, the answer has {len(answer.txns)}")
        if not self.offer_ops(ops_of(answer)):
            return ()
        return tuple(resolutions_of(answer.txns, self.span))

    # ---- inside ----

    def _offer(self, taken: RangeInput) -> bool:
        if self._under_way is not None:
            self.run()
        if self.ended is not None or len(self._pending) >= self._config.pending_events_max:
            return False
        charge = None
        if self.budget is not None:
            charge = self.budget.charge(size_bytes(taken))
            if charge is None:
                self._on_budget_exhausted()
                return False
        if self._waits:
            self._pending.append((taken, charge))
            self.run()
        else:
            self._process(taken, charge)
        return True

    def _process(self, taken: RangeInput, charge: Charge | None) -> None:
        """Work the input off at once: without waiting there is always room."""
        publish = self._outputs.publish
        try:
            for output in self._outputs.of(taken):
                publish(output, charge)
        except RangeError as error:
            self.stop(FeedEnd(EndReason.FAILED, str(error)))
            raise
        finally:
            _let_go(charge)

    def _resume(self) -> bool:
        """Go on with the input under way; False when there is no room for what it gives next."""
        way = self._under_way
        if way is None:
            return True
        try:
            while (output := way.peek()) is not None:
                if not self.feeds.have_room(routed_output(output)):
                    return False
                self._outputs.publish(output, way.charge)
                way.held = None
        except RangeError as error:
            self.stop(FeedEnd(EndReason.FAILED, str(error)))
            raise
        self._under_way = None
        _let_go(way.charge)
        return True

    def _on_budget_exhausted(self) -> None:
        self.counters.budget_exhausted += 1
        if self._config.when_full is WhenFull.END_FEEDS:
            self.stop(FeedEnd(EndReason.SLOW_CONSUMER, _NO_MEMORY))

    def _require_admissible(self, request: FeedRequest) -> None:
        if not (self.span.start <= request.span.start < request.span.end <= self.span.end):
            raise ValueError(
                f"the feed's span {span_text(request.span)} is not within the range {span_text(self.span)}"
            )
        if ZERO < request.start <= self.gc_threshold:
            raise StartBelowGC(
                f"a feed cannot start at {request.start}: what is at or below the GC threshold "
                f"{self.gc_threshold} may be collected. Start above it, or with an initial scan"
            )

    def _on_feed_end(self, feed: Registration) -> None:
        end = feed.ended
        assert end is not None
        if end.reason is EndReason.SLOW_CONSUMER:
            self.counters.slow_consumers += 1
        if self.feeds.discard(feed) and len(self.feeds) == 0:
            self.stop(end)


class _UnderWay:
    """An input that is being processed: what it still gives, and the output that has no room yet."""

    __slots__ = ("charge", "held", "outputs")

    def __init__(self, outputs: Iterator[RangeOutput], charge: Charge | None) -> None:
        self.outputs = outputs
        self.charge = charge
        self.held: RangeOutput | None = None

    def peek(self) -> RangeOutput | None:
        """The next output; ``None`` when all of them are published."""
        if self.held is None:
            self.held = next(self.outputs, None)
        return self.held


_NO_MEMORY: Final = (
    "the feeds of the range did not follow: what waits for them has used up the memory budget. "
    "Begin the feed again from its last checkpoint"
)


def _let_go(charge: Charge | None) -> None:
    if charge is not None:
        charge.release()
