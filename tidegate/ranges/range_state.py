"""One range as its log describes it: its position, its span, its resolver, and whether it is quarantined.

This module has the state of a range, and the changes of it that may come at any moment: a quarantine, the end
of the range, a promise or a floor. ``range_log.py`` applies the range's log, and ``range_snapshot.py`` the
snapshots in the log. ``claim_answer.py`` makes the range's answers to claims.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple, TypeAlias

from tidegate.errors import brief
from tidegate.hlc import NANOS_PER_SECOND, ZERO, ZERO_RESOLVED, ResolvedTimestamp, Timestamp
from tidegate.raftlog.entry import Generation, Heartbeat, Offset, RaftIndex, RangeId, Snapshot
from tidegate.ranges.accounted import AS_APPLIED
from tidegate.ranges.floors import Floor, with_floor
from tidegate.ranges.gap import Gaps, ToldGaps, feed_of
from tidegate.ranges.handoff import Claim, HandOff, Hole, Promise
from tidegate.ranges.mutated_keys import MutatedKeys
from tidegate.ranges.resolver import Resolver
from tidegate.ranges.scan import RangeScan
from tidegate.spans import Span

_PROMISES_MAX: Final = 64  # claims come soon after a split; without the promise a late child has to scan
#: A promise is forgotten when the range has closed a day more than it had closed at the promise. A child
#: claims when its partition reaches the child's first Snapshot, which has about the same log time as the
#: promise. If nobody has read that partition for a day, the child has to scan.
PROMISE_KEPT_NS: Final = 24 * 3_600 * NANOS_PER_SECOND

#: Returns the told names of the feeds that can miss versions and watch keys of a span.
FeedsServing: TypeAlias = Callable[[Span | None], Sequence[str]]


def _nobody(_: Span | None) -> Sequence[str]:
    return ()


class RangeStatus(enum.Enum):
    """The status of a range."""

    UNINITIALISED = 0  # its first snapshot has not come yet, or not all chunks of it
    LIVE = 1
    QUARANTINED = 2
    ENDED = 3  # it is kept, so that a replay does not revive the range


class Quarantine(NamedTuple):
    """The cause of a quarantine, the offset at which it was found, and the timestamp up to which the range is
    complete.
    """

    cause: str
    offset: Offset
    resolved: ResolvedTimestamp


class BytesAtRest(NamedTuple):
    """The bytes of the stored row of a range at rest, before and after the part that heartbeats change.

    They can be used as long as ``marks`` are equal. These are all the other content of the row. ``key`` is
    the key of the row, and ``keys`` are the bytes of ``span``.
    """

    marks: tuple[object, ...]
    span: Span | None
    key: bytes
    keys: bytes
    before: bytes
    behind: bytes


class RangeState:
    """The state of a range: all that its log has told, and what it keeps for feeds and other ranges."""

    __slots__ = (
        "accounted",
        "applied",
        "awaits_snapshot",
        "behind",
        "bytes_at_rest",
        "chunks",
        "claimed_since_ms",
        "claims",
        "closed_regressions",
        "floors",
        "gaps",
        "gc_threshold",
        "generation",
        "hand_offs",
        "heard_ms",
        "heirs",
        "high",
        "holes",
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
        #: The highest MVCC timestamp of any version of the range, including those from before its snapshot.
        self.high: Timestamp = ZERO
        #: Whether a split or merge was applied, and the snapshot that must follow it has not come.
        self.awaits_snapshot = False
        self.pending_heartbeat: Heartbeat | None = None
        #: The leading chunks of a snapshot that is not complete yet.
        self.chunks: list[Snapshot] = []
        #: The chunks that have a row of state.
        self.stored_chunks: tuple[Snapshot, ...] = ()
        self.closed_regressions = 0
        #: The number of ScanChunks of its scans that were refused.
        self.refused_chunks = 0
        #: The floors, in key order: timestamps that earlier generations had resolved, and that the resolver
        #: has not reached yet. A merge may bring keys with a lower one.
        self.floors: list[Floor] = []
        #: The resolved timestamp of the last checkpoint. It is not stored: a repeated checkpoint does no
        #: harm.
        self.published: ResolvedTimestamp = ZERO_RESOLVED
        #: The log offset from which on the range has not applied its entries, though the partition has passed
        #: them; ``None`` if it has applied all.
        self.behind: Offset | None = None
        #: Elapsed log times, as they were when state was last frozen: the time since which the range is
        #: parked, and the time at which the partition last read an entry of it. The second one is kept while
        #: the range has a backlog, or feeds have gaps in it.
        self.waits_since_ms: int | None = None
        self.heard_ms: int | None = None
        #: The scan that the range waits for, or one that became useless and was not replaced yet.
        self.scan: RangeScan | None = None
        #: The answers to the range's own claims. They are kept until the range has taken its snapshot.
        self.hand_offs: dict[Claim, HandOff] = {}
        #: Claims on the range that it has not answered yet.
        self.claims: set[Claim] = set()
        #: Claims that the range answered out of a hole, before its log reached their indexes. One of them may
        #: turn out to be for all keys of the range.
        self.heirs: tuple[Claim, ...] = ()
        #: The elapsed log time at which the wait of step G3 began: other ranges claim entries that have not
        #: come.
        self.claimed_since_ms: int | None = None
        #: The index up to which the range may have split or merged before its first snapshot was seen here.
        self.unseen = RaftIndex(0)
        #: The history mutations that are accounted for, besides those in applied entries.
        self.accounted = AS_APPLIED
        #: Keys that were changed outside the op log, for feeds that go on here after an earlier epoch.
        self.mutated: tuple[MutatedKeys, ...] = ()
        self.holes: list[Hole] = []
        self.promises: list[Promise] = []
        #: The gaps of feeds, by the ids of the feeds. A feed without gaps is not in it.
        self.gaps: dict[str, Gaps] = {}
        #: Returns the feeds that promises have to name, as of the entry that is applied. It is not stored.
        self.serves: FeedsServing = _nobody
        #: The promises and the holes as they were stored last; ``None`` if they never were.
        self.stored_told: tuple[list[Promise], list[Hole]] | None = None
        #: Parts of the range's row of state, from the last row that was written while the range was at rest.
        self.bytes_at_rest: BytesAtRest | None = None
        #: The number of snapshots that the range has taken in this process.
        self.snapshots_taken = 0

    @property
    def resolved(self) -> ResolvedTimestamp:
        """The timestamp up to which the range's output is complete.

        It stands still in a quarantined range.
        """
        return self.quarantine.resolved if self.quarantine is not None else self.resolver.resolved

    @property
    def checkpointable(self) -> bool:
        """Whether the range may give a checkpoint: it is live, and not between a trigger and its snapshot."""
        return self.status is RangeStatus.LIVE and not self.awaits_snapshot and not self.chunks

    @property
    def last_checkpoint(self) -> ResolvedTimestamp:
        """The resolved timestamp for the last checkpoint of a quarantined range; zero if it may give none.

        A range that broke between a split or merge and its snapshot gives none: a part of its span may have
        gone on in another range.
        """
        if self.quarantine is None or self.awaits_snapshot:
            return ZERO_RESOLVED
        return self.quarantine.resolved

    def quarantine_at(self, offset: Offset, cause: str, resolved: ResolvedTimestamp) -> None:
        """Quarantine the range: it is complete up to ``resolved`` and gives no more versions.

        The transactions that the range tracked are forgotten. The snapshot that heals the range brings those
        that are open then.
        """
        self.quarantine = Quarantine(brief(cause), offset, resolved)
        self.status = RangeStatus.QUARANTINED
        self.chunks, self.pending_heartbeat = [], None
        published, closed = self.published, self.resolver.closed
        self.replace_resolver(Resolver())
        self.published = published
        self.resolver.forward_closed(closed)  # what was closed stays closed

    def end(self) -> None:
        """End the range: its keys go on in other ranges."""
        self.status = RangeStatus.ENDED
        self.note_promise()
        self.keep_promise()
        self.replace_resolver(Resolver())

    def replace_resolver(self, resolver: Resolver) -> None:
        """Go on with another resolver. The transactions of the old one are forgotten."""
        resolver.queue.gone |= self.resolver.queue.forget_all()
        self.resolver = resolver
        self.published = ZERO_RESOLVED

    # ---- for children ----

    def note_promise(self) -> None:
        """Note a promise at the index that was applied last, for ranges that go on from that index."""
        promise = self.promise_of_now()
        last = self.promises[-1] if self.promises else promise
        if last.told_gaps == promise.told_gaps:
            # Equal gaps, which may be those of many feeds, are kept in memory only once.
            promise = promise._replace(told_gaps=last.told_gaps)
        self.promises = [*self.promises[1 - _PROMISES_MAX :], promise]

    def forget_old_promises(self) -> None:
        """Forget each promise at which the range had closed `PROMISE_KEPT_NS` less than it has closed now.

        A claim at the index of such a promise is answered without a promise, so its child scans. A range that
        has ended closes nothing more, so it keeps its promises. A quarantined range passes over commands, but
        it still closes the timestamps that they close.
        """
        horizon = self.resolver.closed.wall - PROMISE_KEPT_NS
        if self.promises and self.promises[0].closed_wall < horizon:
            self.promises = [promise for promise in self.promises if promise.closed_wall >= horizon]

    def promise_of_now(self) -> Promise:
        """Return a promise of the range as it is now, at the index that was applied last."""
        resolver = self.resolver
        return Promise(self.applied, resolver.resolved, self.span, self.told_gaps(), resolver.closed.wall)

    def hole_at(self, last_index: RaftIndex) -> Hole:
        """Return the hole that the quarantined range is in, up to ``last_index``."""
        assert self.quarantine is not None
        return Hole(self.applied, last_index, self.span, self.quarantine.resolved, self.told_gaps())

    def told_gaps(self) -> tuple[ToldGaps, ...]:
        """Return the gaps of feeds, in the form that is told to children.

        A feed that can miss versions is named even if it has no gap here. So a child knows that the feed has
        none.
        """
        names = {feed_of(name): name for name in self.serves(self.span)}
        feeds = dict.fromkeys((*names, *self.gaps))
        return tuple(ToldGaps(names.get(feed, feed), self.gaps.get(feed, ())) for feed in feeds)

    # ---- floors ----

    def keep_promise(self) -> None:
        """Keep the range's resolved timestamp as a floor, before its resolver is replaced."""
        if self.span is not None and self.resolved > ZERO_RESOLVED:
            self.add_floor(Floor(self.span, self.resolved))

    def add_floor(self, new: Floor) -> None:
        """Add a floor. From now on, new rows of its keys have to be above its timestamp."""
        self.floors = with_floor(self.floors, new)
