"""Takes snapshots of a range, chunk by chunk. With the last chunk the range's state begins anew.

The timestamps that the range and its parents had resolved still hold. They are kept as floors, and later
versions must be above them.
"""

from __future__ import annotations

from tidegate.errors import GenerationError, MalformedEntry, MissingEntries
from tidegate.hlc import ZERO, ZERO_RESOLVED
from tidegate.raftlog.entry import RaftIndex, Snapshot, WriteIntent
from tidegate.ranges.floors import Floor
from tidegate.ranges.handoff import bounded
from tidegate.ranges.range_state import RangeState, RangeStatus
from tidegate.ranges.resolver import Resolver


def passes_over(state: RangeState, chunk: Snapshot) -> bool:
    """Whether a snapshot has nothing new for the range: an old one, or a periodic one of a healthy range."""
    if state.status is RangeStatus.UNINITIALISED:
        return False
    if state.status is RangeStatus.QUARANTINED:
        return chunk.generation < state.generation or chunk.raft_index < state.applied
    if state.status is RangeStatus.ENDED:
        return True
    if chunk.raft_index < state.applied:
        return True
    same_generation = chunk.generation == state.generation
    return same_generation and chunk.raft_index == state.applied and not state.awaits_snapshot


def require_replaceable(state: RangeState, head: Snapshot) -> None:
    """Raise ``RangeError`` when the range cannot go on with the snapshot that begins with ``head``."""
    if state.status is RangeStatus.UNINITIALISED or state.status is RangeStatus.QUARANTINED:
        return
    if head.generation < state.generation:
        raise GenerationError(f"the generation fell from {state.generation} to {head.generation}")
    if head.raft_index > state.applied:
        raise MissingEntries(
            f"a snapshot at index {head.raft_index} skipped entries: index {state.applied} is the last"
        )
    if head.generation == state.generation:
        raise GenerationError(f"no new generation after a split or merge of generation {state.generation}")
    if _has_new_keys(state, head) and all(parent.range_id == state.range_id for parent in head.parents):
        raise GenerationError(
            f"a snapshot at index {head.raft_index} has keys that the range did not have, and names no range "
            "that they come from: the snapshot that did is missing"
        )


def _has_new_keys(state: RangeState, head: Snapshot) -> bool:
    return state.span is None or state.span.intersect(head.span) != head.span


def begins_again(state: RangeState, head: Snapshot) -> bool:
    """Whether ``head`` is the first chunk of a snapshot of which the range has some chunks already.

    A source writes all chunks again after a crash.
    """
    return bool(state.chunks) and is_chunk_of(state.chunks[0], head)


def take_snapshot_chunk(state: RangeState, chunk: Snapshot) -> None:
    """Take the next chunk of a snapshot. Raises ``RangeError`` for a chunk that cannot be followed."""
    if passes_over(state, chunk):
        _require_old(state, chunk)
        state.gc_threshold = max(state.gc_threshold, chunk.gc_threshold)
        return
    if chunk.chunk == 0 and (state.status is RangeStatus.QUARANTINED or begins_again(state, chunk)):
        state.chunks = []
    if chunk.chunk != len(state.chunks) or (state.chunks and not is_chunk_of(state.chunks[0], chunk)):
        expected, state.chunks = len(state.chunks), []
        raise MalformedEntry(
            f"chunk {chunk.chunk} of {chunk.chunks} of a snapshot where chunk {expected} was expected"
        )
    state.chunks.append(chunk)
    if len(state.chunks) == chunk.chunks:
        chunks, state.chunks = state.chunks, []
        _take_snapshot(state, chunks)


def _require_old(state: RangeState, chunk: Snapshot) -> None:
    """Raise ``GenerationError`` for a snapshot below the applied index that closes more than the range has.

    An old snapshot of the same store closes nothing above the live range. One that does comes from a store
    that began anew.
    """
    of_now = state.status is RangeStatus.LIVE and chunk.generation == state.generation
    if of_now and chunk.raft_index < state.applied and chunk.closed > state.resolver.closed:
        raise GenerationError(
            f"a snapshot at index {chunk.raft_index}, below the applied index {state.applied}, closes "
            f"{chunk.closed}, above {state.resolver.closed}: the store began anew, or was restored, and goes "
            "on in the log of its former self"
        )


def _take_snapshot(state: RangeState, chunks: list[Snapshot]) -> None:
    """Begin the range's state anew from a complete snapshot.

    Everything that can fail comes first, so a snapshot that fails changes nothing.
    """
    head = chunks[0]
    require_replaceable(state, head)
    resolver = _resolver_of(chunks)
    if state.status is RangeStatus.UNINITIALISED:
        state.unseen = _unseen_at(head)
    state.keep_promise()
    _close_hole(state, head)
    state.generation, state.applied, state.span = head.generation, head.raft_index, head.span
    state.high = max(state.high, head.high)
    state.gc_threshold = max(state.gc_threshold, head.gc_threshold)
    state.status, state.awaits_snapshot, state.pending_heartbeat = RangeStatus.LIVE, False, None
    _take_over(state, head)
    told = ZERO if head.last_mutation is None else head.last_mutation.time
    state.accounted = state.accounted._replace(span=None, time=told)
    state.replace_resolver(resolver)


def _close_hole(state: RangeState, head: Snapshot) -> None:
    """End the quarantine, and note its hole, so that claims at an index in the hole are answered rightly."""
    if state.quarantine is not None:
        state.holes = bounded([*state.holes, state.hole_at(head.raft_index)])
        state.quarantine = None


def _take_over(state: RangeState, head: Snapshot) -> None:
    """Keep the timestamps that the parents had resolved as floors, and forget the hand-offs and the scan."""
    for hand_off in state.hand_offs.values():
        part = None if hand_off.span is None else hand_off.span.intersect(head.span)
        if part is not None and hand_off.resolved > ZERO_RESOLVED:
            state.add_floor(Floor(part, hand_off.resolved))
    state.hand_offs, state.scan = {}, None
    state.snapshots_taken += 1


def _unseen_at(head: Snapshot) -> RaftIndex:
    """Return the index up to which a range may have split before tidegate saw it.

    ``head`` begins the first snapshot of the range that was seen. A range that began with ``head`` has not
    split at the index of ``head``. Any other range may have.
    """
    parents = {parent.range_id for parent in head.parents}
    born = bool(parents) and head.range_id not in parents
    return RaftIndex(max(head.raft_index - 1, 0)) if born else head.raft_index


def is_chunk_of(first: Snapshot, chunk: Snapshot) -> bool:
    """Whether a chunk belongs to the snapshot that ``first`` began."""
    return (first.generation, first.raft_index, first.chunks, first.span) == (
        chunk.generation,
        chunk.raft_index,
        chunk.chunks,
        chunk.span,
    )


def _resolver_of(chunks: list[Snapshot]) -> Resolver:
    """Return a resolver with the open intents of a snapshot.

    Raises ``ForbiddenOp`` for an intent at timestamp zero, below which no range can be resolved.
    """
    resolver = Resolver()
    resolver.forward_closed(max(chunk.closed for chunk in chunks))
    for chunk in chunks:
        for intent in chunk.intents:
            resolver.apply(WriteIntent(intent.txn_id, intent.anchor_key, intent.timestamp, intent.timestamp))
    resolver.initialise()
    return resolver
