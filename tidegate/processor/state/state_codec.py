"""Encodes and decodes rows of a partition's state: ranges, their open transactions, and the position.

The table ``ranges`` has these keys:

    POSITION_KEY                the position
    range id (8 bytes)          a range
    range id, ``/t``            what the range tells others: its promises and holes
    range id, number (4 bytes)  a chunk of a snapshot that is not complete

The table ``intents`` has each open transaction under range id and transaction id. Rows of ranges and
transactions name the log position that they reflect, so that a restored state can be checked against itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

from tidegate.errors import KeyTooLong, MalformedEntry, StateMismatch
from tidegate.hlc import MAX, ZERO, ClosedTimestamp, ResolvedTimestamp, Timestamp
from tidegate.processor.batch import StateChange, StateTable
from tidegate.processor.log_clock import ClockState, Voice
from tidegate.processor.state import state_pb2 as pb
from tidegate.processor.state.digest import TableDigests, row_hash
from tidegate.processor.state.exchange_codec import claim_message, hand_off_message, read_claim, read_hand_off
from tidegate.processor.state.gap_codec import gaps_by_feed, gaps_message
from tidegate.processor.state.position_hash import (
    POSITION_KEY,
    damaged_position,
    hash_of_position,
    require_own_hash,
)
from tidegate.processor.state.scan_codec import read_scan, scan_message
from tidegate.processor.state.stored_frame import WRITTEN_VERSION, pack, require_readable, unpack
from tidegate.processor.state.told_codec import read_inline, span_of, told_value
from tidegate.raftlog.decode import decode_entry
from tidegate.raftlog.encode import encode_entry, encode_key
from tidegate.raftlog.entry import (
    Entry,
    Generation,
    Heartbeat,
    Offset,
    RaftIndex,
    RangeId,
    Snapshot,
    TxnId,
)
from tidegate.ranges.accounted import AS_APPLIED, NEVER_NOTED, Accounted
from tidegate.ranges.floors import Floor
from tidegate.ranges.mutated_keys import MutatedKeys
from tidegate.ranges.range_state import Quarantine, RangeState, RangeStatus
from tidegate.ranges.resolver import Resolver
from tidegate.ranges.tracked_txn import TrackedTxn
from tidegate.rows.table_key import shortened
from tidegate.spans import Span

NOWHERE: Final = Offset(-1)
_RANGE_ID_BYTES: Final = 8
_CHUNK_BYTES: Final = 4
_TOLD: Final = b"/t"
_VERSION: Final = bytes([WRITTEN_VERSION])
_RESTORE: Final = "Wipe the data directory to restore the state from its changelogs"


class TableSizes(NamedTuple):
    """The number of ranges in a state, and of rows in the tables ``descriptors`` and ``feeds``.

    All other rows are counted in the row of their range.
    """

    ranges: int = 0
    descriptors: int = 0
    feeds: int = 0


EMPTY: Final = TableSizes()
_START: Final = Offset(0)


@dataclass(slots=True)
class Position:
    """The position of a partition in its log and in its control topic, and what is stored with it.

    ``offset`` and ``control_offset`` are those of the last record that was applied; ``NOWHERE`` if none was.
    ``log_id`` and ``control_id`` are the ids of these topics, empty where they are not known. ``high`` is the
    highest timestamp of a version that was applied. ``sizes`` and ``digests`` are those of the state that was
    stored with the position; earlier versions stored no digests. ``clock`` is the log clock; earlier versions
    stored ``log_time_ms`` alone.
    """

    offset: Offset = NOWHERE
    control_offset: Offset = NOWHERE
    high: Timestamp = ZERO
    log_time_ms: int = 0
    log_id: str = ""
    control_id: str = ""
    sizes: TableSizes = EMPTY
    next_hand_off: Offset = _START
    digests: TableDigests | None = None
    clock: ClockState | None = None


def position_row(position: Position) -> StateChange:
    """Return the row of a position."""
    message = pb.Position(
        offset=position.offset,
        control_offset=position.control_offset,
        high_wall=position.high.wall,
        high_logical=position.high.logical,
        log_time_ms=position.log_time_ms,
        log_id=position.log_id,
        control_id=position.control_id,
        ranges=position.sizes.ranges,
        descriptor_rows=position.sizes.descriptors,
        feed_rows=position.sizes.feeds,
        next_hand_off=position.next_hand_off,
    )
    if position.clock is not None:
        message.clock.CopyFrom(_clock_message(position.clock))
    if position.digests is None:
        return StateChange(StateTable.RANGES, POSITION_KEY, pack(message))
    message.ranges_digest, message.intents_digest, message.descriptors_digest, message.feeds_digest = (
        position.digests
    )
    stored = pack(message)
    own = pb.Position(own_hash=hash_of_position(stored))
    return StateChange(StateTable.RANGES, POSITION_KEY, stored + own.SerializeToString())


def read_position(value: bytes) -> Position:
    """Return the position of a row's value. The hash is checked before the row is parsed.

    Raises ``StateMismatch`` for a damaged row, and ``StateError`` for one of a newer version.
    """
    hashed = require_own_hash(value)
    row = unpack(pb.Position, value, "a partition's position")
    digests = None
    if row.HasField("own_hash") is not hashed or row.HasField("ranges_digest") is not hashed:
        raise damaged_position("its hash is not where it was written")
    if hashed:
        digests = TableDigests(
            row.ranges_digest, row.intents_digest, row.descriptors_digest, row.feeds_digest
        )
    return Position(
        Offset(row.offset),
        Offset(row.control_offset),
        Timestamp(row.high_wall, row.high_logical),
        row.log_time_ms,
        row.log_id,
        row.control_id,
        TableSizes(row.ranges, row.descriptor_rows, row.feed_rows),
        Offset(row.next_hand_off),
        digests,
        _clock(row.clock) if row.HasField("clock") else None,
    )


def _clock_message(clock: ClockState) -> pb.LogClock:
    message = pb.LogClock(
        elapsed_ms=clock.elapsed_ms,
        counted_ms=clock.counted_ms,
        hearings=clock.hearings,
        passed=clock.passed,
        fell_at=clock.fell_at,
        others_ms=clock.others_ms,
        below=clock.below,
    )
    for range_id, shown_ms, closed_ms, counted_ms, heard in clock.voices:
        message.voices.add(
            range_id=range_id, shown_ms=shown_ms, closed_ms=closed_ms, counted_ms=counted_ms, heard=heard
        )
    return message


def _clock(message: pb.LogClock) -> ClockState:
    voices = (
        Voice(RangeId(each.range_id), each.shown_ms, each.closed_ms, each.counted_ms, each.heard)
        for each in message.voices
    )
    fell_at = message.fell_at if message.HasField("fell_at") else None
    return ClockState(
        message.elapsed_ms,
        message.counted_ms,
        message.hearings,
        message.passed,
        fell_at,
        tuple(voices),
        message.others_ms,
        message.below,
    )


def range_row(state: RangeState, offset: Offset) -> StateChange:
    """Return the row of a range, which reflects the log up to ``offset``."""
    resolver, span = state.resolver, state.span
    message = pb.Range(
        offset=offset,
        generation=state.generation,
        applied=state.applied,
        status=state.status.value,
        closed_wall=resolver.closed.wall,
        closed_logical=resolver.closed.logical,
        resolved_wall=resolver.resolved.wall,
        gc_wall=state.gc_threshold.wall,
        gc_logical=state.gc_threshold.logical,
        high_wall=state.high.wall,
        high_logical=state.high.logical,
        awaits_snapshot=state.awaits_snapshot,
        closed_regressions=state.closed_regressions,
        refused_chunks=state.refused_chunks,
        chunks=len(state.chunks),
        open_transactions=len(resolver.queue),
        unseen=state.unseen,
        told_apart=bool(state.promises or state.holes),
    )
    if span is not None:
        message.start, message.end = span
    if state.quarantine is not None:
        cause, at, resolved = state.quarantine
        message.quarantine.cause, message.quarantine.offset = cause, at
        message.quarantine.resolved_wall = resolved.wall
    if state.pending_heartbeat is not None:
        message.pending_heartbeat = encode_entry(state.pending_heartbeat)
    for (start, end), resolved in state.floors:
        message.floors.add(start=start, end=end, resolved_wall=resolved.wall)
    _fill_waiting(message, state)
    return StateChange(StateTable.RANGES, encode_key(state.range_id), pack(message))


def _fill_waiting(message: pb.Range, state: RangeState) -> None:
    """Fill in what the range waits for, and what is kept for other ranges and for feeds."""
    if state.behind is not None:
        message.behind = state.behind
    if state.waits_since_ms is not None:
        message.waits_since_ms = state.waits_since_ms
    if state.heard_ms is not None:
        message.heard_ms = state.heard_ms
    if state.claimed_since_ms is not None:
        message.claimed_since_ms = state.claimed_since_ms
    if state.scan is not None:
        message.scan.CopyFrom(scan_message(state.scan))
    _fill_claims(message, state)
    if state.gaps:
        message.lags.extend(gaps_message(*item) for item in sorted(state.gaps.items()))
    if state.accounted.says_more(state.applied):
        _fill_accounted(message.accounted, state.accounted)
    for (start, end), time, last, first in state.mutated:
        message.mutated.add(
            start=start,
            end=end,
            time_wall=time.wall,
            time_logical=time.logical,
            last_wall=last.wall,
            last_logical=last.logical,
            first_wall=first.wall,
            first_logical=first.logical,
        )


def _fill_claims(message: pb.Range, state: RangeState) -> None:
    """Fill in claims and hand-offs. An idle range has none, and its row is written with each heartbeat."""
    if state.hand_offs:
        message.hand_offs.extend(
            hand_off_message(state.hand_offs[claim]) for claim in sorted(state.hand_offs)
        )
    if state.claims:
        message.claims.extend(map(claim_message, sorted(state.claims)))
    if state.heirs:
        message.heirs.extend(map(claim_message, state.heirs))


def _fill_accounted(message: pb.Accounted, accounted: Accounted) -> None:
    raft_index, noted, span, time, noted_at, passed = accounted
    message.raft_index, message.noted, message.passed = raft_index, noted, passed
    message.start, message.end = span or (b"", b"")
    message.time_wall, message.time_logical = time
    if noted_at != NEVER_NOTED:
        message.noted_at = noted_at


class StoredRange(NamedTuple):
    """A range as its row has it, and how many other rows must be stored for it."""

    state: RangeState
    offset: Offset
    chunks: int
    open_transactions: int
    told_apart: bool


def told_is_stored(state: RangeState) -> bool:
    """Whether a range has stored what it tells others. Nobody changes these lists in place."""
    stored = state.stored_told
    return stored is not None and stored[0] is state.promises and stored[1] is state.holes


def told_rows(state: RangeState, most_bytes: int) -> Iterator[StateChange]:
    """Yield the row of what the range tells others, if that has changed since the last call."""
    if told_is_stored(state):
        return
    before, value = state.stored_told, told_value(state, most_bytes)
    if value is not None or (before is not None and any(before)):
        yield StateChange(StateTable.RANGES, encode_key(state.range_id) + _TOLD, value)
    state.stored_told = (state.promises, state.holes)


def is_range_key(key: bytes) -> bool:
    """Whether a key of the ranges table is that of a range."""
    return len(key) == _RANGE_ID_BYTES


def is_told_key(key: bytes) -> bool:
    """Whether a key of the ranges table is that of a row with what a range tells others."""
    return len(key) == _RANGE_ID_BYTES + len(_TOLD) and key.endswith(_TOLD)


def is_chunk_key(key: bytes) -> bool:
    """Whether a key of the ranges table is that of a snapshot's chunk."""
    return len(key) == _RANGE_ID_BYTES + _CHUNK_BYTES


def chunk_rows(state: RangeState) -> Iterator[StateChange]:
    """Yield the rows of an incomplete snapshot's chunks that came or went since the last call."""
    stored, chunks = state.stored_chunks, state.chunks
    if not stored and not chunks:
        return
    for number, chunk in enumerate(chunks):
        if number >= len(stored) or stored[number] is not chunk:
            yield StateChange(StateTable.RANGES, _chunk_key(state, number), _VERSION + encode_entry(chunk))
    for number in range(len(chunks), len(stored)):
        yield StateChange(StateTable.RANGES, _chunk_key(state, number), None)
    state.stored_chunks = tuple(chunks)


def read_chunk(key: bytes, value: bytes) -> tuple[RangeId, int, Snapshot]:
    """Return the range id, the number and the chunk of a chunk's row.

    Raises ``StateError`` for a chunk of a newer version, and ``StateMismatch`` for one that is damaged.
    """
    range_key, number = key[:_RANGE_ID_BYTES], int.from_bytes(key[_RANGE_ID_BYTES:], "big")
    what = f"a snapshot chunk of range {entry_range(range_key)}"
    require_readable(value, what)
    entry = _entry(range_key, value[len(_VERSION) :])
    if not isinstance(entry, Snapshot):
        raise StateMismatch(f"{what} is damaged. {_RESTORE}")
    return entry_range(range_key), number, entry


def entry_range(key: bytes) -> RangeId:
    """Return the range id that a key begins with."""
    return RangeId(int.from_bytes(key[:_RANGE_ID_BYTES], "big"))


def _chunk_key(state: RangeState, number: int) -> bytes:
    return encode_key(state.range_id) + number.to_bytes(_CHUNK_BYTES, "big")


def read_range(key: bytes, value: bytes) -> StoredRange:
    """Return the range of a row. Its transactions and its snapshot's chunks have rows of their own."""
    row = unpack(pb.Range, value, f"range {int.from_bytes(key, 'big')}")
    state = RangeState(RangeId(int.from_bytes(key, "big")))
    state.generation, state.applied = Generation(row.generation), RaftIndex(row.applied)
    state.span = Span(row.start, row.end) if row.end else None
    state.status = RangeStatus(row.status)
    state.gc_threshold = Timestamp(row.gc_wall, row.gc_logical)
    state.high = Timestamp(row.high_wall, row.high_logical)
    state.awaits_snapshot = row.awaits_snapshot
    state.closed_regressions = row.closed_regressions
    state.refused_chunks = row.refused_chunks
    if row.HasField("quarantine"):
        resolved = ResolvedTimestamp(Timestamp(row.quarantine.resolved_wall, 0))
        state.quarantine = Quarantine(row.quarantine.cause, Offset(row.quarantine.offset), resolved)
    closed = ClosedTimestamp(Timestamp(row.closed_wall, row.closed_logical))
    if state.status is RangeStatus.LIVE:
        resolved = ResolvedTimestamp(Timestamp(row.resolved_wall, 0))
        state.resolver = Resolver.restored(closed, resolved)
    else:
        state.resolver.forward_closed(closed)
    for floor in row.floors:  # rows of earlier versions may have any number, which share keys
        at = ResolvedTimestamp(Timestamp(floor.resolved_wall))
        state.add_floor(Floor(Span(floor.start, floor.end), at))
    _read_waiting(row, state)
    if not row.told_apart:
        read_inline(row, state)
    if row.pending_heartbeat and isinstance(beat := _entry(key, row.pending_heartbeat), Heartbeat):
        state.pending_heartbeat = beat
    return StoredRange(state, Offset(row.offset), row.chunks, row.open_transactions, row.told_apart)


def _read_waiting(row: pb.Range, state: RangeState) -> None:
    state.unseen = RaftIndex(row.unseen)
    if row.HasField("behind"):
        state.behind = Offset(row.behind)
    state.waits_since_ms = row.waits_since_ms if row.HasField("waits_since_ms") else None
    state.heard_ms = row.heard_ms if row.HasField("heard_ms") else None
    state.claimed_since_ms = row.claimed_since_ms if row.HasField("claimed_since_ms") else None
    if row.HasField("scan"):
        state.scan = read_scan(state.range_id, row.scan)
    state.hand_offs = {hand_off.claim: hand_off for hand_off in map(read_hand_off, row.hand_offs)}
    state.claims = set(map(read_claim, row.claims))
    state.heirs = tuple(map(read_claim, row.heirs))
    state.gaps = gaps_by_feed(row.lags)
    if row.HasField("accounted"):
        state.accounted = _accounted(row.accounted)
    state.mutated = tuple(map(_mutated, row.mutated))
    if not row.HasField("accounted") and any(each.time == MAX for each in state.mutated):
        # Earlier versions forgot the noted index when it was applied. So the change is at or below `applied`.
        state.accounted = AS_APPLIED._replace(noted=state.applied)


def _accounted(message: pb.Accounted) -> Accounted:
    return Accounted(
        RaftIndex(message.raft_index),
        RaftIndex(message.noted),
        span_of(message.start, message.end),
        Timestamp(message.time_wall, message.time_logical),
        Offset(message.noted_at) if message.HasField("noted_at") else NEVER_NOTED,
        RaftIndex(message.passed),
    )


def _mutated(message: pb.MutatedKeys) -> MutatedKeys:
    return MutatedKeys(
        Span(message.start, message.end),
        Timestamp(message.time_wall, message.time_logical),
        Timestamp(message.last_wall, message.last_logical),
        Timestamp(message.first_wall, message.first_logical),
    )


def _entry(key: bytes, stored: bytes) -> Entry:
    try:
        return decode_entry(key, stored, is_stored=True)
    except MalformedEntry as error:
        raise StateMismatch(f"range {int.from_bytes(key, 'big')} is damaged: {error}") from None


def intent_rows(state: RangeState, offset: Offset, key_bytes: int) -> Iterator[StateChange]:
    """Yield the rows of the range's transactions that changed since the last call.

    Raises ``KeyTooLong`` for a transaction with an anchor key of more than ``key_bytes``.
    """
    queue, prefix = state.resolver.queue, encode_key(state.range_id)
    for txn_id in sorted(queue.gone - queue.changed):
        yield StateChange(StateTable.INTENTS, prefix + txn_id, None)
    for txn_id in sorted(queue.changed):
        txn = queue.get(txn_id)
        if txn is not None:
            if len(txn.anchor_key) > key_bytes:
                raise KeyTooLong(
                    f"the anchor key of transaction {txn_id.hex()}, {shortened(txn.anchor_key)}, has "
                    f"{len(txn.anchor_key)} bytes, and {key_bytes} can be stored: raise "
                    "TIDEGATE_MAX_RECORD_BYTES"
                )
            key, value = prefix + txn_id, _intent(txn, offset)
            queue.stored_as(txn, row_hash(StateTable.INTENTS, key, value))
            yield StateChange(StateTable.INTENTS, key, value)
    queue.changed.clear()
    queue.gone.clear()


def _intent(txn: TrackedTxn, offset: Offset) -> bytes:
    return pack(
        pb.Intent(
            offset=offset,
            anchor_key=txn.anchor_key,
            min_wall=txn.min_timestamp.wall,
            min_logical=txn.min_timestamp.logical,
            wall=txn.timestamp.wall,
            logical=txn.timestamp.logical,
            refs=txn.refs,
        )
    )


def read_intent(key: bytes, value: bytes) -> tuple[RangeId, TrackedTxn]:
    """Return the range id and the transaction of an intent row."""
    row = unpack(pb.Intent, value, f"transaction {key[_RANGE_ID_BYTES:].hex()}")
    txn = TrackedTxn(
        TxnId(key[_RANGE_ID_BYTES:]),
        row.anchor_key,
        Timestamp(row.min_wall, row.min_logical),
        Timestamp(row.wall, row.logical),
        row.refs,
    )
    txn.row_hash = row_hash(StateTable.INTENTS, key, value)
    return RangeId(int.from_bytes(key[:_RANGE_ID_BYTES], "big")), txn
