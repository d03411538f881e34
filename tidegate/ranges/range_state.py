"""One range as its log describes it: position, span, resolver, and whether it can be trusted.

Here is what a range knows, and what it can be told at any moment: to stop, to end, to note or to keep a
promise. Its log is applied in ``range_log.py``, snapshots among it in ``range_snapshot.py``; what it says to
ranges that go on from it is in ``claim_answer.py``.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple, TypeAlias

from tidegate.errors import brief
from tidegate.hlc import NANOS_PER_SECOND, ZERO, ZERO_RESOLVED, ResolvedTimestamp, Timestamp
from tidegate.raftlog.entry import Generation, Heartbeat, Offset, RaftIndex, RangeId, Snapshot
from tidegate.ranges.accounted import AS_APPLIED
from tidegate.ranges.gap import Gaps, Lag, feed_of
from tidegate.ranges.handoff import Claim, HandOff, Hole, Promise
from tidegate.ranges.mutated_keys import MutatedKeys
from tidegate.ranges.resolver import Resolver
from tidegate.ranges.scan import RangeScan
from tidegate.spans import Span

_PROMISES_MAX: Final = 64  # claims come soon after a split; one that comes later has a lower floor
#: A promise is forgotten when the range has closed so much more time. Its child claims when the child's
#: partition comes to its first Snapshot, which stands in the log at about the same time. One whose partition
#: nobody has read for a day scans.
PROMISE_KEPT_NS: Final = 24 * 3_600 * NANOS_PER_SECOND

#: The feeds that can lag and watch keys of a span.
FeedsServing: TypeAlias = Callable[[Span | None], Sequence[str]]


def _nobody(_: Span | None) -> Sequence[str]:
    return ()


class RangeStatus(enum.Enum):
    """What a range is good for."""

    UNINITIALISED = 0  # nothing but parts of its first snapshot seen yet
    LIVE = 1
    QUARANTINED = 2
    ENDED = 3  # a tombstone, so that a replay does not revive it


class Quarantine(NamedTuple):
    """Why a range is not followed any more, where that was found, and how far it is complete."""

    cause: str
    offset: Offset
    resolved: ResolvedTimestamp


class Floor(NamedTuple):
    """What an earlier generation promised: no row of the span at or below ``resolved``."""

    span: Span
    resolved: ResolvedTimestamp


class RangeState:
    """What a range knows of itself; see the module's docstring."""

    __slots__ = (
        "accounted",
        "applied",
        "awaits_snapshot",
        "behind",
        "chunks",
        "claimed_since_ms",
        "claims",
        "closed_regressions",
        "floors",
        "gc_threshold",
        "generation",
        "hand_offs",
        "heard_ms",
        "heirs",
        "high",
        "holes",
        "lags",
        "mutated",
        "pending_heartbeat",
        "promises",
        "published",
        "quarantine",
        "range_id",
        "refused_chunks",
        "resolver",
        "scan",
        "serves",
        "snapshots_taken",
        "span",
        "status",
        "stored_chunks",
        "stored_told",
        "unseen",
        "waits_since_ms",
    )

    def __init__(self, range_id: RangeId) -> None:
        self.range_id = range_id
        self.generation = Generation(0)
        self.applied = RaftIndex(0)
        self.span: Span | None = None
        self.status = RangeStatus.UNINITIALISED
        self.resolver = Resolver()
        self.quarantine: Quarantine | None = None
        self.gc_threshold: Timestamp = ZERO
        #: The highest MVCC timestamp of any version applied, those before the snapshot included.
        self.high: Timestamp = ZERO
        #: Set between a split or merge trigger and the snapshot that must follow it.
        self.awaits_snapshot = False
        self.pending_heartbeat: Heartbeat | None = None
        #: The leading chunks of a snapshot that is not complete yet.
        self.chunks: list[Snapshot] = []
        #: Those of them that have a row of state.
        self.stored_chunks: tuple[Snapshot, ...] = ()
        self.closed_regressions = 0
        #: Pieces of answers to its scans that could not be taken.
        self.refused_chunks = 0
        #: Promises of earlier generations that the resolver has not reached yet. They bind key by key: a
        #: merge brings in keys that were promised less.
        self.floors: list[Floor] = []
        #: The resolved timestamp of the last checkpoint; not stored, a repeated checkpoint is harmless.
        self.published: ResolvedTimestamp = ZERO_RESOLVED
        #: Entries from this log offset on are not applied, though the partition has passed them.
        self.behind: Offset | None = None
        #: While it is behind, as of the last freeze, by elapsed log time: since when it waits, if it does,
        #: and when its log was heard last.
        self.waits_since_ms: int | None = None
        self.heard_ms: int | None = None
        #: The scan that it waits for, or one that it has left behind and has not replaced yet.
        self.scan: RangeScan | None = None
        #: The answers to its claims; kept until it has taken its snapshot.
        self.hand_offs: dict[Claim, HandOff] = {}
        #: Claims on it that have no answer yet.
        self.claims: set[Claim] = set()
        #: Claims that it answered out of a hole, before its log came to their indexes. One of them may turn
        #: out to be for all of its keys.
        self.heirs: tuple[Claim, ...] = ()
        #: The elapsed log time at which the wait of step G3 began: one of the claims is for all of its keys.
        self.claimed_since_ms: int | None = None
        #: Up to this index it never saw what ranges that come from it may go on from.
        self.unseen = RaftIndex(0)
        #: Which changes outside the op log are dealt with, beside those of applied entries.
        self.accounted = AS_APPLIED
        #: Keys that were changed outside the op log, for feeds that go on here after an earlier epoch.
        self.mutated: tuple[MutatedKeys, ...] = ()
        self.holes: list[Hole] = []
        self.promises: list[Promise] = []
        #: What feeds lack, by their ids; a feed that lacks nothing is not in it.
        self.lags: dict[str, Gaps] = {}
        #: The feeds that can lag, by their told names, as of the entry that is applied; not stored.
        self.serves: FeedsServing = _nobody
        #: The promises and the holes that have a row of state.
        self.stored_told: tuple[list[Promise], list[Hole]] | None = None
        #: Counts the snapshots that it was initialised by, in this process.
        self.snapshots_taken = 0

    @property
    def resolved(self) -> ResolvedTimestamp:
        """Up to here the range's output is complete; a quarantined range stands still."""
        return self.quarantine.resolved if self.quarantine is not None else self.resolver.resolved

    @property
    def checkpointable(self) -> bool:
        """Whether a checkpoint may be given: none in quarantine, none between a trigger and its snapshot."""
        return self.status is RangeStatus.LIVE and not self.awaits_snapshot and not self.chunks

    @property
    def last_checkpoint(self) -> ResolvedTimestamp:
        """What a quarantined range may still say of itself: how far it had come; zero for nothing.

        A range that stopped between a split or merge and its snapshot says nothing: part of its span may
        have moved on elsewhere.
        """
        if self.quarantine is None or self.awaits_snapshot:
            return ZERO_RESOLVED
        return self.quarantine.resolved

    def quarantine_at(self, offset: Offset, cause: str, resolved: ResolvedTimestamp) -> None:
        """Stop following the range: it is complete up to ``resolved`` and gives nothing more.

        The transactions that it tracked are forgotten: the snapshot that heals it brings its own.
        """
        self.quarantine = Quarantine(brief(cause), offset, resolved)
        self.status = RangeStatus.QUARANTINED
        self.chunks, self.pending_heartbeat = [], None
        published, closed = self.published, self.resolver.closed
        self.replace_resolver(Resolver())
        self.published = published
        self.resolver.forward_closed(closed)  # which stays closed

    def end(self) -> None:
        """The range is over: its keys go on elsewhere."""
        self.status = RangeStatus.ENDED
        self.note_promise()
        self.keep_promise()
        self.replace_resolver(Resolver())

    def replace_resolver(self, resolver: Resolver) -> None:
        """Go on with another resolver; the transactions of the one before are forgotten."""
        resolver.queue.gone |= self.resolver.queue.forget_all()
        self.resolver = resolver
        self.published = ZERO_RESOLVED

    # ---- what ranges that go on from here are told ----

    def note_promise(self) -> None:
        """Note what was resolved here, for the ranges that go on from this index."""
        promise = self.promise_of_now()
        last = self.promises[-1] if self.promises else promise
        if last.lags == promise.lags:
            promise = promise._replace(lags=last.lags)  # which are many feeds, and so in memory once
        self.promises = [*self.promises[1 - _PROMISES_MAX :], promise]

    def forget_old_promises(self) -> None:
        """Forget what the range promised more than `PROMISE_KEPT_NS` ago, as it has closed time since.

        A claim on it is then answered from nothing: its child scans. A range that has ended closes nothing,
        and keeps what it has; a quarantined one closes what the commands close that it passes.
        """
        horizon = self.resolver.closed.wall - PROMISE_KEPT_NS
        if self.promises and self.promises[0].closed_wall < horizon:
            self.promises = [promise for promise in self.promises if promise.closed_wall >= horizon]

    def promise_of_now(self) -> Promise:
        """What there is to note at the index that was applied last."""
        resolver = self.resolver
        return Promise(self.applied, resolver.resolved, self.span, self.told_lags(), resolver.closed.wall)

    def hole_at(self, last_index: RaftIndex) -> Hole:
        """The hole that it is in, as it is at ``last_index``."""
        assert self.quarantine is not None
        return Hole(self.applied, last_index, self.span, self.quarantine.resolved, self.told_lags())

    def told_lags(self) -> tuple[Lag, ...]:
        """What to say of feeds to ranges that go on from here."""
        names = {feed_of(name): name for name in self.serves(self.span)}
        feeds = dict.fromkeys((*names, *self.lags))
        return tuple(Lag(names.get(feed, feed), self.lags.get(feed, ())) for feed in feeds)

    # ---- what binds it ----

    def keep_promise(self) -> None:
        """Before the resolver goes: what it resolved stays resolved, whatever the next one says."""
        if self.span is not None and self.resolved > ZERO_RESOLVED:
            self.add_floor(Floor(self.span, self.resolved))

    def add_floor(self, new: Floor) -> None:
        """Keep a promise, unless others say as much; those that it covers are kept no more."""
        if not any(_covers(floor, new) for floor in self.floors):
            self.floors = [*(floor for floor in self.floors if not _covers(new, floor)), new]


def _covers(floor: Floor, other: Floor) -> bool:
    return floor.resolved >= other.resolved and floor.span.intersect(other.span) == other.span
