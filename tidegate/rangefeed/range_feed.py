"""The feeds of one range: its log goes in, and each feed's events come out.

A value goes to the feeds before the resolver takes the op that committed it. If the op moves the resolved
timestamp a checkpoint follows at once. So a checkpoint never comes before a value that it covers. All work is
done when a call returns: nothing here waits. The events in a feed's buffer have a bound, and so have the
bytes of all events that wait, if a budget is given. ``WhenFull``, the caller's choice, says what happens at
the bound.

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
    """The answer to an event for which there is no room."""

    #: A feed without room in its buffer ends. If there is no memory all feeds of the range end.
    END_FEEDS = "end feeds"
    #: The event is not taken. The caller keeps it, and offers it again after feeds were read.
    REFUSE = "refuse"


@dataclass(frozen=True, slots=True)
class RangeFeedConfig:
    """The bounds of one range's feeds."""

    #: The most inputs that have been taken and are not processed yet. With ``WhenFull.END_FEEDS``
    #: there never are any.
    pending_events_max: int = BUFFERED_EVENTS_MAX
    #: The most events that wait for one feed's reader.
    buffered_events_max: int = BUFFERED_EVENTS_MAX
    when_full: WhenFull = WhenFull.END_FEEDS
    #: Whether transactions are pushed. If not, one that never ends holds back resolved timestamps for ever.
    push_txns: bool = True
    #: The most transactions that one push names.
    txns_per_push_max: int = TXNS_PER_PUSH_MAX


@dataclass(slots=True)
class RangeFeedCounters:
    """Counts of what has happened to the range's feeds."""

    budget_exhausted: int = 0
    #: The number of feeds that ended because their readers were too slow.
    slow_consumers: int = 0


class RangeFeed:
    """The feeds of one range, and the resolver that decides their checkpoints.

    The methods ``offer_*`` take the range's log in order, and return whether they took the input. They do not
    take it if the range's feeds are over, or if there is no room and ``WhenFull.REFUSE`` is set. They and
    ``run`` raise ``RangeError`` for what the log may not say: a write at or below the resolved timestamp, a
    key outside the range, or a missing value that a feed wants. The feeds are over then. A commit at or below
    the resolved timestamp is passed on and counted, as in CockroachDB: the store has broken its promise.

    When the last feed ends the range's feeds are over. A new ``RangeFeed`` begins with the intents that the
    store names then.
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
        #: The store may have removed versions at or below this timestamp, so no feed may start there.
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
        """The resolver that decides the checkpoints."""
        return self._outputs.resolver

    @property
    def late_commits(self) -> int:
        """The number of commits that came after a checkpoint which already covered their timestamps."""
        return self._outputs.late_commits

    # ---- the log ----

    def offer_ops(self, ops: Sequence[Op]) -> bool:
        """Take the logical ops of one command."""
        return self._accept_input(tuple(ops))

    def offer_closed(self, closed: ClosedTimestamp) -> bool:
        """Take a closed timestamp, after the ops of the command that carried it. Zero means none."""
        return self.ended is None if closed == ZERO else self._accept_input(closed)

    def offer_sstable(self, file: SSTableEvent) -> bool:
        """Take a file of versions that was added to the range. All must be above the resolved timestamp."""
        return self._accept_input(file)

    def initialise(self, intents: Iterable[WriteIntent] = ()) -> bool:
        """Take the intents that are older than the log. From here on the resolved timestamp moves."""
        return self._accept_input(Init(tuple(intents)))

    def run(self) -> None:
        """Process pending inputs as far as there is room. It is called after feeds were read."""
        while self.ended is None and self._resume():
            if not self._pending:
                return
            taken, charge = self._pending.popleft()
            self._under_way = _UnderWay(self._outputs.of(taken), charge)

    # ---- feeds ----

    def register(
        self, request: FeedRequest, catch_up: Iterable[FeedEvent] | None = None
    ) -> Registration | None:
        """Begin a feed. Returns ``None`` if the range's feeds are over.

        The feed gets nothing of inputs that were taken before: ``catch_up`` gives it the stored versions
        above its start (``tidegate.rangefeed.catchup``). Start zero means from now on, without a catch-up.
        Raises ``StartBelowGC`` for a start, other than zero, at or below the GC threshold, and ``ValueError``
        for a span that the range does not hold.
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
        """End the registrations that overlap ``span``, with ``end`` as the reason."""
        self.feeds.disconnect(span, end)

    def stop(self, end: FeedEnd = FINISHED) -> None:
        """End all feeds, and drop pending inputs and the queue of intents."""
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
        """Whether any feed watches ``span``.

        Ops must be offered in any case, since they may change intents.
        """
        return self.feeds.needs_value(span)

    def needs_previous(self, span: Span) -> bool:
        """Whether any feed that watches ``span`` wants previous values."""
        return self.feeds.needs_previous(span)

    # ---- pushes ----

    def begin_push(self, older_than: Timestamp) -> tuple[TrackedTxn, ...]:
        """Begin a push, and return its transactions: the oldest ones strictly below ``older_than``, in order.

        There are ``RangeFeedConfig.txns_per_push_max`` at most; the others are pushed after the answer. There
        are none if pushing is off, before initialisation, and while a push is in flight.
        """
        if not self._config.push_txns or not self.resolver.initialised or self._push_in_flight:
            return ()
        self._push_in_flight = tuple(self.resolver.queue.below(older_than, self._config.txns_per_push_max))
        return self._push_in_flight

    def finish_push(
        self, answer: PushAnswer | None, *, barrier_passed: bool = False
    ) -> tuple[ResolveIntents, ...]:
        """Take the answer to the push in flight. Returns the intents to resolve after it.

        ``None`` means that the push failed; the next push asks again. An answer with an ambiguous abort is
        passed over too. But it counts if ``barrier_passed`` says that all of the range's log from before the
        answer has been offered: then all commits are known. Raises ``ValueError`` for an answer with another
        number of transactions than were pushed.
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

    def _accept_input(self, taken: RangeInput) -> bool:
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
        """Process an input at once. There is always room, since feeds without room end."""
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
        """Go on with the input that is under way. Returns False if its next output has no room."""
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
    """An input that is being processed: the outputs still to come, and the one that has no room yet."""

    __slots__ = ("charge", "held", "outputs")

    def __init__(self, outputs: Iterator[RangeOutput], charge: Charge | None) -> None:
        self.outputs = outputs
        self.charge = charge
        self.held: RangeOutput | None = None

    def peek(self) -> RangeOutput | None:
        """Return the next output; ``None`` when all of them are published."""
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
