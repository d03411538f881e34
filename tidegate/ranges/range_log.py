"""Applies the entries of a range's log to its state. Here a Raft op becomes a committed version.

If an entry is not the next one, or cannot be applied, ``RangeError`` is raised. The caller then quarantines
the range (docs/log-contract.md#quarantine): its resolved timestamp stays where it was before that entry, and
the range gives no more rows. ``range_snapshot.py`` takes snapshots.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol

from tidegate.errors import ForbiddenOp, GenerationError, MalformedEntry, MissingEntries, RangeError
from tidegate.hlc import ClosedTimestamp
from tidegate.raftlog.entry import (
    Command,
    CommitIntent,
    Generation,
    Heartbeat,
    RaftIndex,
    RangeEnd,
    Snapshot,
    Trigger,
    WriteIntent,
    WriteValue,
)
from tidegate.ranges.floors import floor_at
from tidegate.ranges.range_snapshot import take_snapshot_chunk
from tidegate.ranges.range_state import RangeState, RangeStatus
from tidegate.ranges.version import Version

#: Ops that make a version. It is a tuple, since `isinstance` with a union would build that anew for every op.
_COMMITTING: Final = (WriteValue, CommitIntent)
_ANEW: Final = "the store began anew, or was restored, and goes on in the log of its former self"


class VersionHorizon(Protocol):
    """Refuses versions whose times are too far ahead to be true.

    ``believed`` is a wall time in nanoseconds since 1970: versions at or below it need no check.
    """

    believed: int

    def require_versions(self, versions: Sequence[Version], record_ms: int) -> None:
        """Raise ``MalformedEntry`` if a version is too far ahead. ``record_ms`` is its record's time."""


def apply_entry(
    state: RangeState,
    entry: Command | Heartbeat | Snapshot | RangeEnd,
    horizon: VersionHorizon | None = None,
    record_ms: int = 0,
) -> list[Version]:
    """Apply the next entry of the range. Returns the versions that it committed, in op order.

    Raises ``RangeError`` for an entry that cannot be followed, and for a command with a version that
    ``horizon`` refuses (``None``: all versions are believed). ``record_ms`` is the record time of the entry.
    A command that was refused is not applied: its index, its trigger and its closed timestamp do not count.
    The caller quarantines the range. A quarantined or ended range commits nothing; a snapshot may heal a
    quarantined one.
    """
    if isinstance(entry, Snapshot):
        take_snapshot_chunk(state, entry)
        return []
    if state.status is RangeStatus.QUARANTINED:
        state.chunks = []  # any other entry between the chunks of a snapshot breaks the snapshot
        if isinstance(entry, Command) and entry.closed is not None:
            state.resolver.forward_closed(entry.closed)  # a quarantined range resolves nothing by it
        if isinstance(entry, RangeEnd):
            state.status, state.scan = RangeStatus.ENDED, None
        return []
    if state.status is RangeStatus.ENDED:
        return []
    if isinstance(entry, Command):
        if entry.raft_index <= state.applied and state.status is RangeStatus.LIVE:
            _require_copy(state, entry)
            return []
        _require_followable(state, entry.generation, "a command")
        return _take_command(state, entry, horizon, record_ms)
    if isinstance(entry, Heartbeat):
        if entry.generation >= state.generation:
            _require_followable(state, entry.generation, "a heartbeat")
            _take_heartbeat(state, entry)
        return []
    _take_end(state, entry)
    return []


def _require_copy(state: RangeState, command: Command) -> None:
    """Raise ``ForbiddenOp`` for a command at an applied index that cannot be a copy of an applied one.

    A copy closes nothing above the range's closed timestamp, and has no version above the newest version of
    the range. If an intent of a copy is above both, it is still open, or it was aborted.

    A command that is no copy may come from a store that began anew, or was restored, and that goes on in the
    same log. If such a command were passed over, the next closed timestamp would cover its versions, though
    nobody has taken them. A copy of an intent that was aborted a moment ago looks like such a command. Then
    the range is scanned though nothing is missing.
    """
    if command.generation != state.generation:
        return
    again = f"index {command.raft_index} was applied already, up to {state.applied}, and comes again"
    if command.closed is not None and command.closed > state.resolver.closed:
        raise ForbiddenOp(
            f"{again} with the closed timestamp {command.closed}, above {state.resolver.closed}: {_ANEW}"
        )
    for op in command.ops or ():
        if isinstance(op, _COMMITTING) and op.timestamp > state.high:
            raise ForbiddenOp(
                f"{again} with a version at {op.timestamp}, above the newest at {state.high}: {_ANEW}"
            )
        if isinstance(op, WriteIntent) and _is_unknown(state, op):
            raise ForbiddenOp(
                f"{again} with an intent at {op.timestamp}, which is neither open nor committed: {_ANEW}, or "
                "the intent was aborted"
            )


def _is_unknown(state: RangeState, intent: WriteIntent) -> bool:
    """Whether an intent is above all that is closed or committed, and its transaction is not open."""
    above = max(state.high, state.resolver.closed)
    return intent.timestamp > above and state.resolver.queue.get(intent.txn_id) is None


def _require_followable(state: RangeState, generation: Generation, what: str) -> None:
    if state.status is RangeStatus.UNINITIALISED:
        raise GenerationError(f"{what} of generation {generation} before the range's first snapshot")
    if state.chunks:
        raise MalformedEntry(f"{what} between the chunks of a snapshot")
    if state.awaits_snapshot:
        raise GenerationError(f"{what} where a snapshot must follow a split or merge")
    if generation < state.generation:
        raise GenerationError(f"the generation fell from {state.generation} to {generation}")
    if generation > state.generation:
        raise GenerationError(f"generation {generation} began without its snapshot")


def _take_command(
    state: RangeState, command: Command, horizon: VersionHorizon | None, record_ms: int
) -> list[Version]:
    if command.raft_index != state.applied + 1:
        raise MissingEntries(
            f"raft indexes {state.applied + 1} to {command.raft_index - 1} are missing: "
            f"index {command.raft_index} follows index {state.applied}"
        )
    if command.ops is None:
        raise MalformedEntry(f"the command at index {command.raft_index} has writes but no op log")
    if state.floors:
        state.floors = [floor for floor in state.floors if floor.resolved > state.resolver.resolved]
    high = state.high
    try:
        versions = _take_ops(state, command)
        # Only the command's own versions are looked at: what was believed before may be far ahead.
        if versions and horizon is not None and state.high[0] > horizon.believed:
            horizon.require_versions(versions, record_ms)
    except RangeError:
        state.high = high
        raise
    state.applied = command.raft_index
    if command.trigger in (Trigger.SPLIT, Trigger.MERGE):
        state.awaits_snapshot = True
        state.note_promise()
    if command.closed is not None:
        _forward_closed(state, command.closed)
    pending = state.pending_heartbeat
    if pending is not None and pending.covers <= state.applied:
        state.pending_heartbeat = None
        _forward_closed(state, pending.closed)
    return versions


def _take_ops(state: RangeState, command: Command) -> list[Version]:
    versions: list[Version] = []
    apply_op = state.resolver.apply
    for ordinal, op in enumerate(command.ops or ()):
        if isinstance(op, _COMMITTING):
            versions.append(_version(state, op, command.raft_index, ordinal))
            if isinstance(op, WriteValue):
                continue  # nothing to do for the resolver: no intent changes, and its rule was checked above
        apply_op(op)
    return versions


def _version(state: RangeState, op: WriteValue | CommitIntent, index: RaftIndex, ordinal: int) -> Version:
    if op.value is None:
        raise MalformedEntry(f"op {ordinal} at index {index} commits a version without its value")
    if state.span is None or not state.span.contains(op.key):
        raise MalformedEntry(f"op {ordinal} at index {index} writes {op.key.hex()}, outside the range")
    if op.timestamp <= state.resolver.resolved:
        raise ForbiddenOp(
            f"op {ordinal} at index {index} commits at {op.timestamp}, at or below the resolved "
            f"timestamp {state.resolver.resolved}"
        )
    floor = floor_at(state.floors, op.key) if state.floors else None
    if floor is not None and op.timestamp <= floor.resolved:
        raise ForbiddenOp(
            f"op {ordinal} at index {index} commits {op.key.hex()} at {op.timestamp}, at or below "
            f"{floor.resolved}, which an earlier generation of the range had resolved"
        )
    if op.timestamp > state.high:
        state.high = op.timestamp
    return Version(
        op.key,
        op.timestamp,
        op.value,
        op.prev_value,
        op.omit_in_rangefeeds,
        state.range_id,
        index,
        ordinal,
    )


def _take_heartbeat(state: RangeState, heartbeat: Heartbeat) -> None:
    """Take the closed timestamp of a heartbeat, now or once the index that it covers is applied.

    Raises ``ForbiddenOp`` for a heartbeat that covers an index below the applied one and closes more than the
    range has closed: it cannot be a copy.
    """
    if heartbeat.covers < state.applied and heartbeat.closed > state.resolver.closed:
        raise ForbiddenOp(
            f"a heartbeat covers index {heartbeat.covers}, and the range has applied {state.applied}, but it "
            f"closes {heartbeat.closed}, above {state.resolver.closed}: {_ANEW}"
        )
    if heartbeat.covers <= state.applied:
        _forward_closed(state, heartbeat.closed)
    elif state.pending_heartbeat is None or heartbeat.covers >= state.pending_heartbeat.covers:
        state.pending_heartbeat = heartbeat


def _forward_closed(state: RangeState, closed: ClosedTimestamp) -> None:
    if closed < state.resolver.closed:
        state.closed_regressions += 1
    state.resolver.forward_closed(closed)


def _take_end(state: RangeState, end: RangeEnd) -> None:
    _require_followable(state, end.generation, "the end of the range")
    if end.last_index != state.applied:
        raise MissingEntries(
            f"the range ended at index {end.last_index}, but index {state.applied} is the last"
        )
    state.end()
