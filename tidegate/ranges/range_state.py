"""One range as its log describes it: position, span, resolver, and whether it can be trusted.

This module has the state of a range, and what may be done to it at any moment: quarantine it, end it, note or
keep its promises. ``range_log.py`` applies its log, and ``range_snapshot.py`` the snapshots in the log.
``claim_answer.py`` has its answers to claims.
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

_PROMISES_MAX: Final = 64  # claims come soon after a split; without its promise a late child has to scan
#: A promise is forgotten when the range has closed so much more time, a day. A child claims when its
#: partition comes to its first Snapshot, which has about the same log time. A child scans if nobody has read
#: its partition for a day.
PROMISE_KEPT_NS: Final = 24 * 3_600 * NANOS_PER_SECOND

#: Returns the told names of the feeds that can miss versions and watch keys of a span.
FeedsServing: TypeAlias = Callable[[Span | None], Sequence[str]]


def _nobody(_: Span | None) -> Sequence[str]:
    return ()


class RangeStatus(enum.Enum):
    """The status of a range."""

    UNINITIALISED = 0  # its first snapshot has not come, or not all of it
    LIVE = 1
    QUARANTINED = 2
    ENDED = 3  # a tombstone, so that a replay does not revive it


class Quarantine(NamedTuple):
    """The cause of a quarantine, the offset at which it was found, and how far the range is complete."""

    cause: str
    offset: Offset
    resolved: ResolvedTimestamp


class BytesAtRest(NamedTuple):
    """The bytes of a stored row, of a range at rest, before and after the part that heartbeats change.

    It holds while ``marks``, the rest of what stands in the row, are the same. ``key`` is the row's, and
    ``keys`` are the bytes of ``span``.
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
        #: The highest MVCC timestamp of any version of the range, those from before its snapshot included.
        self.high: Timestamp = ZERO
        #: Set between a split or merge trigger and the snapshot that must follow it.
        self.awaits_snapshot = False
        self.pending_heartbeat: Heartbeat | None = None
        #: The leading chunks of a snapshot that is not complete yet.
        self.chunks: list[Snapshot] = []
        #: The chunks that have a row of state.
        self.stored_chunks: tuple[Snapshot, ...] = ()
        self.closed_regressions = 0
        #: The number of ScanChunks of its scans that were refused.
        self.refused_chunks = 0
        #: The floors: what earlier generations had resolved, and the resolver has not reached yet, by keys: a
        #: merge may bring keys that were resolved less far.
        self.floors: list[Floor] = []
        #: The resolved timestamp of the last checkpoint. It is not stored: a repeated checkpoint does no
        #: harm.
        self.published: ResolvedTimestamp = ZERO_RESOLVED
        #: The log offset from which on the range has not applied its entries, though the partition has passed
        #: them; ``None`` if it has applied all.
        self.behind: Offset | None = None
        #: Elapsed log times, as of the last freeze: since when the range is parked, and when the partition
        #: read an entry of it last. The second one is kept while it has a backlog, or feeds have gaps in it.
        self.waits_since_ms: int | None = None
        self.heard_ms: int | None = None
        #: The scan that the range waits for, or one that it has left behind and not replaced yet.
        self.scan: RangeScan | None = None
        #: The answers to its own claims; kept until it has taken its snapshot.
        self.hand_offs: dict[Claim, HandOff] = {}
        #: Claims on the range that it has not answered yet.
        self.claims: set[Claim] = set()
        #: Claims that the range answered out of a hole, before its log came to their indexes. One of them may
        #: turn out to be for all of its keys.
        self.heirs: tuple[Claim, ...] = ()
        #: The elapsed log time at which the wait of step G3 began: entries that others claim have not come.
        self.claimed_since_ms: int | None = None
        #: The index up to which the range may have split or merged unnoticed, before its first snapshot here.
        self.unseen = RaftIndex(0)
        #: The history mutations that are accounted for, beside those in applied entries.
        self.accounted = AS_APPLIED
        #: Keys that were changed outside the op log, for feeds that go on here after an earlier epoch.
        self.mutated: tuple[MutatedKeys, ...] = ()
        self.holes: list[Hole] = []
        self.promises: list[Promise] = []
        #: The gaps of feeds, by their ids. A feed without gaps is not in it.
        self.gaps: dict[str, Gaps] = {}
        #: Tells which feeds promises name, as of the entry that is applied. It is not stored.
        self.serves: FeedsServing = _nobody
        #: The promises and the holes as they were stored last; ``None`` if they never were.
        self.stored_told: tuple[list[Promise], list[Hole]] | None = None
        #: Parts of its row of state, kept from the last one that was written at rest.
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

        The transactions that it tracked are forgotten: the snapshot that heals it brings the open ones.
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

    # ---- what children are told ----

    def note_promise(self) -> None:
        """Note a promise for the index that was applied last, for ranges that go on from there."""
        promise = self.promise_of_now()
        last = self.promises[-1] if self.promises else promise
        if last.told_gaps == promise.told_gaps:
            # Equal gaps of many feeds are in memory once.
            promise = promise._replace(told_gaps=last.told_gaps)
        self.promises = [*self.promises[1 - _PROMISES_MAX :], promise]

    def forget_old_promises(self) -> None:
        """Forget the promises at which the range had closed `PROMISE_KEPT_NS` less than it has by now.

        A claim at such an index is answered without a promise, so its child scans. A range that has ended
        closes nothing more, so it keeps its promises. A quarantined range still closes what the commands
        close that it passes over.
        """
        horizon = self.resolver.closed.wall - PROMISE_KEPT_NS
        if self.promises and self.promises[0].closed_wall < horizon:
            self.promises = [promise for promise in self.promises if promise.closed_wall >= horizon]

    def promise_of_now(self) -> Promise:
        """Return a promise of the range as it is, for the index that was applied last."""
        resolver = self.resolver
        return Promise(self.applied, resolver.resolved, self.span, self.told_gaps(), resolver.closed.wall)

    def hole_at(self, last_index: RaftIndex) -> Hole:
        """Return the hole that the quarantined range is in, up to ``last_index``."""
        assert self.quarantine is not None
        return Hole(self.applied, last_index, self.span, self.quarantine.resolved, self.told_gaps())

    def told_gaps(self) -> tuple[ToldGaps, ...]:
        """Return the gaps of feeds to tell to children.

        A feed that can miss versions, and has no gap here, is named too: then a child knows that it has none.
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
        """Add a floor: from now on new rows of its keys have to be above it."""
        self.floors = with_floor(self.floors, new)
