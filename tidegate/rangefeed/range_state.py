"""One range as its log describes it: position, span, resolver, and whether it can be trusted.

``RangeState.apply`` takes the range's entries in log order and returns the versions that became
committed. An entry that cannot be followed raises ``RangeError``; the caller then quarantines the range
(docs/log-contract.md#quarantine): its resolved timestamp stays where it was before that entry, and nothing
more comes out.
"""

from __future__ import annotations

import enum
from typing import Final, NamedTuple

from tidegate.errors import ForbiddenOp, GenerationError, IndexGap, MalformedEntry
from tidegate.hlc import ZERO, ZERO_RESOLVED, ClosedTimestamp, ResolvedTimestamp, Timestamp
from tidegate.raftlog.entry import (
    Command,
    CommitIntent,
    Generation,
    Heartbeat,
    Offset,
    RaftIndex,
    RangeEnd,
    RangeId,
    Snapshot,
    Trigger,
    WriteIntent,
    WriteValue,
)
from tidegate.rangefeed.gap import Gaps, Lag, remainder
from tidegate.rangefeed.handoff import Claim, HandOff, Hole, Promise, bounded
from tidegate.rangefeed.resolver import Resolver
from tidegate.rangefeed.scan import RangeScan
from tidegate.spans import Span

#: Ops that make a version; a tuple, for `isinstance` with a union builds it anew for every op.
_COMMITTING: Final = (WriteValue, CommitIntent)
_NO_PROMISE: Final = Promise(RaftIndex(0), ZERO_RESOLVED, None)
_PROMISES_MAX: Final = 64  # claims come soon after a split; one that comes later has a lower floor


class RangeStatus(enum.Enum):
    """What a range is good for."""

    UNINITIALISED = 0  # nothing but parts of its first snapshot seen yet
    LIVE = 1
    QUARANTINED = 2
    ENDED = 3  # a tombstone, so that a replay does not revive it


class Version(NamedTuple):
    """A committed version of a key, and where in the log it became one.

    ``value`` empty is a deletion. (``range_id``, ``raft_index``, ``ordinal``) name the op; a version that a
    scan found has no op, and raft index 0.
    """

    key: bytes
    timestamp: Timestamp
    value: bytes
    prev_value: bytes | None
    omit_in_rangefeeds: bool
    range_id: RangeId
    raft_index: RaftIndex
    ordinal: int


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
    """The state machine of one range; see the module's docstring."""

    __slots__ = (
        "applied",
        "awaits_snapshot",
        "behind",
        "chunks",
        "claims",
        "closed_regressions",
        "floors",
        "gc_threshold",
        "generation",
        "hand_offs",
        "high",
        "holes",
        "inherited",
        "inherited_lags",
        "lags",
        "pending_heartbeat",
        "promises",
        "published",
        "quarantine",
        "range_id",
        "resolver",
        "scan",
        "serves",
        "snapshots_taken",
        "span",
        "status",
        "stored_chunks",
        "unseen",
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
        #: Promises of earlier generations that the resolver has not reached yet. They bind key by key: a
        #: merge brings in keys that were promised less.
        self.floors: list[Floor] = []
        #: The resolved timestamp of the last checkpoint; not stored, a repeated checkpoint is harmless.
        self.published: ResolvedTimestamp = ZERO_RESOLVED
        #: Entries from this log offset on are not applied, though the partition has passed them.
        self.behind: Offset | None = None
        #: The scan that it waits for, or one that it has left behind and has not replaced yet.
        self.scan: RangeScan | None = None
        #: The answers to its claims; kept until it has taken its snapshot.
        self.hand_offs: dict[Claim, HandOff] = {}
        #: Claims on it that have no answer yet.
        self.claims: set[Claim] = set()
        #: Up to this index it never saw what ranges that come from it may go on from.
        self.unseen = RaftIndex(0)
        self.holes: list[Hole] = []
        self.promises: list[Promise] = []
        #: What feeds lack, by their ids; a feed that lacks nothing is not in it.
        self.lags: dict[str, Gaps] = {}
        #: What the ranges had resolved that it has ever gone on from, the lowest of them; not stored.
        self.inherited: ResolvedTimestamp | None = None
        #: The feeds that ever lacked keys of those ranges; not stored.
        self.inherited_lags: set[str] = set()
        #: The feeds that can lag, as of the entry that is applied; not stored.
        self.serves: tuple[str, ...] = ()
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

    def apply(self, entry: Command | Heartbeat | Snapshot | RangeEnd) -> list[Version]:
        """Take the next entry of the range; returns the versions that it committed, in op order.

        Raises ``RangeError`` for an entry that cannot be followed. Entries of a quarantined or ended
        range are passed over.
        """
        if isinstance(entry, Snapshot):
            self._take_snapshot_chunk(entry)
            return []
        if self.status is RangeStatus.QUARANTINED:
            self.chunks = []  # whatever stands between the chunks of a snapshot breaks it
            if isinstance(entry, RangeEnd):
                self.status, self.scan = RangeStatus.ENDED, None
            return []
        if self.status is RangeStatus.ENDED:
            return []
        if isinstance(entry, Command):
            if entry.raft_index <= self.applied and self.status is RangeStatus.LIVE:
                return []
            self._require_followable(entry.generation, "a command")
            return self._take_command(entry)
        if isinstance(entry, Heartbeat):
            if entry.generation >= self.generation:
                self._require_followable(entry.generation, "a heartbeat")
                self._take_heartbeat(entry)
            return []
        self._take_end(entry)
        return []

    def quarantine_at(self, offset: Offset, cause: str, resolved: ResolvedTimestamp) -> None:
        """Stop following the range: it is complete up to ``resolved`` and gives nothing more.

        The transactions that it tracked are forgotten: the snapshot that heals it brings its own.
        """
        self.quarantine = Quarantine(cause, offset, resolved)
        self.status = RangeStatus.QUARANTINED
        self.chunks, self.pending_heartbeat = [], None
        published = self.published
        self._replace_resolver(Resolver())
        self.published = published

    def answer(self, claim: Claim) -> HandOff | None:
        """What there is to say to a range that came from this one; ``None`` as long as it must wait."""
        index = claim.last_index
        for hole in self.holes:
            if hole.before < index <= hole.last_index:
                complete = hole.complete_for(claim.span)
                return HandOff(claim, complete, complete=False, span=hole.span, lags=hole.lags)
        if index <= self.unseen:
            return HandOff(claim, ZERO_RESOLVED, complete=False)
        if self.awaits_snapshot and index == self.applied:
            # The trigger may be that of a merge, whose other side has not handed off yet.
            return None if self.quarantine is None else self._hand_off_of_a_hole(claim)
        if index <= self.applied:
            promised = self._promised(claim)
            return HandOff(claim, promised.resolved, complete=True, span=promised.span, lags=promised.lags)
        if self.quarantine is not None:
            return self._hand_off_of_a_hole(claim)
        if self.status is RangeStatus.ENDED or self._is_taken_over_by(claim.span):
            return HandOff(claim, ZERO_RESOLVED, complete=False)
        return None

    def _hand_off_of_a_hole(self, claim: Claim) -> HandOff:
        complete = self._hole(claim.last_index).complete_for(claim.span)
        return HandOff(claim, complete, complete=False, span=self.span, lags=self._told_lags())

    def _promised(self, claim: Claim) -> Promise:
        """What it had promised at an index that it has applied; at the last one it is as it was.

        Of several at one index, as of a range that merges and is merged away at once, the last one counts
        that has keys of the claim: what it has none of went elsewhere before.
        """
        at = [promise for promise in self.promises if promise.at == claim.last_index]
        shared = (promise for promise in at if promise.span is not None and promise.span.overlaps(claim.span))
        kept = next(reversed([*shared]), None) or next(iter(at), None)
        if kept is None and claim.last_index == self.applied and self.status is RangeStatus.LIVE:
            return self._promise_of_now()
        return kept or _NO_PROMISE

    def give_up(self, claim: Claim) -> None:
        """Its child goes on from it: it has ended when all of its keys are the child's.

        Its log may bring nothing that says so, to a range in a hole; or what says so may be lost.
        """
        if self._is_taken_over_by(claim.span):
            self.status = RangeStatus.ENDED
        elif self.checkpointable and claim.last_index == self.applied and self._is_within(claim.span):
            self._end()

    def _is_within(self, span: Span) -> bool:
        return self.span is not None and self.span.intersect(span) == self.span

    def _is_taken_over_by(self, heir: Span) -> bool:
        """Whether it is in a hole, or waits for a scan, and all of its keys are those of ``heir``."""
        if self.scan is None and self.status is not RangeStatus.QUARANTINED:
            return False
        span = self.span if self.scan is None else self.scan.span
        return span is not None and heir.intersect(span) == span

    def _hole(self, last_index: RaftIndex) -> Hole:
        """The hole that it is in, as it is at ``last_index``."""
        assert self.quarantine is not None
        return Hole(self.applied, last_index, self.span, self.quarantine.resolved, self._told_lags())

    def _told_lags(self) -> tuple[Lag, ...]:
        """What to say of feeds to ranges that go on from here."""
        feeds = dict.fromkeys((*self.serves, *self.lags))
        return tuple(Lag(feed, self.lags.get(feed, ())) for feed in feeds)

    # ---- commands, heartbeats, the end ----

    def _require_followable(self, generation: Generation, what: str) -> None:
        if self.status is RangeStatus.UNINITIALISED:
            raise GenerationError(f"{what} of generation {generation} before the range's first snapshot")
        if self.chunks:
            raise MalformedEntry(f"{what} between the chunks of a snapshot")
        if self.awaits_snapshot:
            raise GenerationError(f"{what} where a snapshot must follow a split or merge")
        if generation < self.generation:
            raise GenerationError(f"the generation fell from {self.generation} to {generation}")
        if generation > self.generation:
            raise GenerationError(f"generation {generation} began without its snapshot")

    def _take_command(self, command: Command) -> list[Version]:
        if command.raft_index != self.applied + 1:
            raise IndexGap(
                f"raft indexes {self.applied + 1} to {command.raft_index - 1} are missing: "
                f"index {command.raft_index} follows index {self.applied}"
            )
        if command.ops is None:
            raise MalformedEntry(f"the command at index {command.raft_index} has writes but no op log")
        if self.floors:
            self.floors = [floor for floor in self.floors if floor.resolved > self.resolver.resolved]
        versions = self._take_ops(command)
        self.applied = command.raft_index
        if command.trigger in (Trigger.SPLIT, Trigger.MERGE):
            self.awaits_snapshot = True
            self._promise()
        if command.closed is not None:
            self._forward_closed(command.closed)
        pending = self.pending_heartbeat
        if pending is not None and pending.covers <= self.applied:
            self.pending_heartbeat = None
            self._forward_closed(pending.closed)
        return versions

    def _take_ops(self, command: Command) -> list[Version]:
        versions: list[Version] = []
        apply_op = self.resolver.apply
        for ordinal, op in enumerate(command.ops or ()):
            if isinstance(op, _COMMITTING):
                versions.append(self._version(op, command.raft_index, ordinal))
                if isinstance(op, WriteValue):
                    continue  # it touches no intent, and stands above the resolved timestamp
            apply_op(op)
        return versions

    def _version(self, op: WriteValue | CommitIntent, index: RaftIndex, ordinal: int) -> Version:
        if op.value is None:
            raise MalformedEntry(f"op {ordinal} at index {index} commits a version without its value")
        if self.span is None or not self.span.contains(op.key):
            raise MalformedEntry(f"op {ordinal} at index {index} writes {op.key.hex()}, outside the range")
        if op.timestamp <= self.resolver.resolved:
            raise ForbiddenOp(
                f"op {ordinal} at index {index} commits at {op.timestamp}, at or below the resolved "
                f"timestamp {self.resolver.resolved}"
            )
        for floor in self.floors:
            if op.timestamp <= floor.resolved and floor.span.contains(op.key):
                raise ForbiddenOp(
                    f"op {ordinal} at index {index} commits {op.key.hex()} at {op.timestamp}, at or below "
                    f"{floor.resolved}, which an earlier generation of the range had resolved"
                )
        if op.timestamp > self.high:
            self.high = op.timestamp
        return Version(
            op.key,
            op.timestamp,
            op.value,
            op.prev_value,
            op.omit_in_rangefeeds,
            self.range_id,
            index,
            ordinal,
        )

    def _take_heartbeat(self, heartbeat: Heartbeat) -> None:
        if heartbeat.covers <= self.applied:
            self._forward_closed(heartbeat.closed)
        elif self.pending_heartbeat is None or heartbeat.covers >= self.pending_heartbeat.covers:
            self.pending_heartbeat = heartbeat

    def _forward_closed(self, closed: ClosedTimestamp) -> None:
        if closed < self.resolver.closed:
            self.closed_regressions += 1
        self.resolver.forward_closed(closed)

    def _take_end(self, end: RangeEnd) -> None:
        self._require_followable(end.generation, "the end of the range")
        if end.last_index != self.applied:
            raise IndexGap(f"the range ended at index {end.last_index}, but index {self.applied} is the last")
        self._end()

    def _end(self) -> None:
        self.status = RangeStatus.ENDED
        self._promise()
        self._keep_promise()
        self._replace_resolver(Resolver())

    def _promise(self) -> None:
        """Note what was resolved here, for the ranges that go on from this index."""
        self.promises = [*self.promises[1 - _PROMISES_MAX :], self._promise_of_now()]

    def _promise_of_now(self) -> Promise:
        return Promise(self.applied, self.resolver.resolved, self.span, self._told_lags())

    # ---- snapshots ----

    def passes_over(self, chunk: Snapshot) -> bool:
        """Whether a snapshot says nothing that counts: old ones, and periodic ones of a healthy range."""
        if self.status is RangeStatus.UNINITIALISED:
            return False
        if self.status is RangeStatus.QUARANTINED:
            return chunk.generation < self.generation or chunk.raft_index < self.applied
        if chunk.generation <= self.generation and self.status is RangeStatus.ENDED:
            return True
        if chunk.raft_index < self.applied:
            return True
        same_generation = chunk.generation == self.generation
        return same_generation and chunk.raft_index == self.applied and not self.awaits_snapshot

    def require_replaceable(self, head: Snapshot) -> None:
        """Raise ``RangeError`` when the range cannot go on with the snapshot that begins with ``head``."""
        if self.status is RangeStatus.UNINITIALISED or self.status is RangeStatus.QUARANTINED:
            return
        if head.generation < self.generation:
            raise GenerationError(f"the generation fell from {self.generation} to {head.generation}")
        if head.raft_index > self.applied:
            raise IndexGap(
                f"a snapshot at index {head.raft_index} skipped entries: index {self.applied} is the last"
            )
        if head.generation == self.generation:
            raise GenerationError(f"no new generation after a split or merge of generation {self.generation}")

    def _take_snapshot_chunk(self, chunk: Snapshot) -> None:
        if self.passes_over(chunk):
            self.gc_threshold = max(self.gc_threshold, chunk.gc_threshold)
            return
        if self.status is RangeStatus.QUARANTINED and chunk.chunk == 0:
            self.chunks = []
        if chunk.chunk != len(self.chunks) or (self.chunks and not _continues(self.chunks[0], chunk)):
            expected, self.chunks = len(self.chunks), []
            raise MalformedEntry(
                f"chunk {chunk.chunk} of {chunk.chunks} of a snapshot where chunk {expected} was expected"
            )
        self.chunks.append(chunk)
        if len(self.chunks) == chunk.chunks:
            chunks, self.chunks = self.chunks, []
            self._take_snapshot(chunks)

    def _take_snapshot(self, chunks: list[Snapshot]) -> None:
        head = chunks[0]
        self.require_replaceable(head)
        if self.status is RangeStatus.UNINITIALISED:
            self.unseen = _unseen_at(head)
        self._keep_promise()
        self._close_hole(head)
        new = remainder(head.span, () if self.span is None else (self.span,))
        self.generation, self.applied, self.span = head.generation, head.raft_index, head.span
        self.high = max(self.high, head.high)
        self.gc_threshold = max(self.gc_threshold, head.gc_threshold)
        self.status, self.awaits_snapshot, self.pending_heartbeat = RangeStatus.LIVE, False, None
        self._take_over(head, new)
        self._replace_resolver(_resolver_of(chunks))

    def _close_hole(self, head: Snapshot) -> None:
        """What was missed is not applied any more; who asks for it is told so."""
        if self.quarantine is not None:
            self.holes = bounded([*self.holes, self._hole(head.raft_index)])
            self.quarantine = None

    def _take_over(self, head: Snapshot, new: list[Span]) -> None:
        """What parents had promised binds this range; nothing is waited for any more. It had not the keys of
        ``new`` before."""
        for hand_off in self.hand_offs.values():
            part = None if hand_off.span is None else hand_off.span.intersect(head.span)
            if part is not None and hand_off.resolved > ZERO_RESOLVED:
                self._add_floor(Floor(part, hand_off.resolved))
        resolved = [hand_off.resolved for hand_off in self.hand_offs.values()]
        if new:
            told = [hand_off.span for hand_off in self.hand_offs.values() if hand_off.span is not None]
            if any(remainder(span, told) for span in new):
                resolved.append(ZERO_RESOLVED)  # out of a hole nobody hands off
        if resolved:
            self.inherited = min(resolved if self.inherited is None else (*resolved, self.inherited))
        self.hand_offs, self.scan = {}, None
        self.snapshots_taken += 1

    def _keep_promise(self) -> None:
        """Before the resolver goes: what it resolved stays resolved, whatever the next one says."""
        if self.span is not None and self.resolved > ZERO_RESOLVED:
            self._add_floor(Floor(self.span, self.resolved))

    def _add_floor(self, new: Floor) -> None:
        """Keep a promise, unless others say as much; those that it covers are kept no more."""
        if not any(_covers(floor, new) for floor in self.floors):
            self.floors = [*(floor for floor in self.floors if not _covers(new, floor)), new]

    def _replace_resolver(self, resolver: Resolver) -> None:
        resolver.queue.gone |= self.resolver.queue.forget_all()
        self.resolver = resolver
        self.published = ZERO_RESOLVED


def _covers(floor: Floor, other: Floor) -> bool:
    return floor.resolved >= other.resolved and floor.span.intersect(other.span) == other.span


def _unseen_at(head: Snapshot) -> RaftIndex:
    """Up to where ranges may have left a range that is first seen by ``head``.

    One that is born at that index has lost no keys; any other may have split just there.
    """
    parents = {parent.range_id for parent in head.parents}
    born = bool(parents) and head.range_id not in parents
    return RaftIndex(head.raft_index - 1) if born else head.raft_index


def _continues(first: Snapshot, chunk: Snapshot) -> bool:
    """Whether a chunk belongs to the snapshot that ``first`` began."""
    return (first.generation, first.raft_index, first.chunks, first.span) == (
        chunk.generation,
        chunk.raft_index,
        chunk.chunks,
        chunk.span,
    )


def _resolver_of(chunks: list[Snapshot]) -> Resolver:
    resolver = Resolver()
    resolver.forward_closed(max(chunk.closed for chunk in chunks))
    for chunk in chunks:
        for intent in chunk.intents:
            resolver.apply(WriteIntent(intent.txn_id, intent.anchor_key, intent.timestamp, intent.timestamp))
    resolver.initialise()
    return resolver
