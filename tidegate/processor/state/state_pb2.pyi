from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Position(_message.Message):
    __slots__ = ("offset", "control_offset", "high_wall", "high_logical", "log_time_ms", "log_id", "control_id", "ranges", "descriptor_rows", "feed_rows", "next_hand_off", "clock", "ranges_digest", "intents_digest", "descriptors_digest", "feeds_digest", "own_hash")
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    CONTROL_OFFSET_FIELD_NUMBER: _ClassVar[int]
    HIGH_WALL_FIELD_NUMBER: _ClassVar[int]
    HIGH_LOGICAL_FIELD_NUMBER: _ClassVar[int]
    LOG_TIME_MS_FIELD_NUMBER: _ClassVar[int]
    LOG_ID_FIELD_NUMBER: _ClassVar[int]
    CONTROL_ID_FIELD_NUMBER: _ClassVar[int]
    RANGES_FIELD_NUMBER: _ClassVar[int]
    DESCRIPTOR_ROWS_FIELD_NUMBER: _ClassVar[int]
    FEED_ROWS_FIELD_NUMBER: _ClassVar[int]
    NEXT_HAND_OFF_FIELD_NUMBER: _ClassVar[int]
    CLOCK_FIELD_NUMBER: _ClassVar[int]
    RANGES_DIGEST_FIELD_NUMBER: _ClassVar[int]
    INTENTS_DIGEST_FIELD_NUMBER: _ClassVar[int]
    DESCRIPTORS_DIGEST_FIELD_NUMBER: _ClassVar[int]
    FEEDS_DIGEST_FIELD_NUMBER: _ClassVar[int]
    OWN_HASH_FIELD_NUMBER: _ClassVar[int]
    offset: int
    control_offset: int
    high_wall: int
    high_logical: int
    log_time_ms: int
    log_id: str
    control_id: str
    ranges: int
    descriptor_rows: int
    feed_rows: int
    next_hand_off: int
    clock: LogClock
    ranges_digest: int
    intents_digest: int
    descriptors_digest: int
    feeds_digest: int
    own_hash: int
    def __init__(self, offset: _Optional[int] = ..., control_offset: _Optional[int] = ..., high_wall: _Optional[int] = ..., high_logical: _Optional[int] = ..., log_time_ms: _Optional[int] = ..., log_id: _Optional[str] = ..., control_id: _Optional[str] = ..., ranges: _Optional[int] = ..., descriptor_rows: _Optional[int] = ..., feed_rows: _Optional[int] = ..., next_hand_off: _Optional[int] = ..., clock: _Optional[_Union[LogClock, _Mapping]] = ..., ranges_digest: _Optional[int] = ..., intents_digest: _Optional[int] = ..., descriptors_digest: _Optional[int] = ..., feeds_digest: _Optional[int] = ..., own_hash: _Optional[int] = ...) -> None: ...

class LogClock(_message.Message):
    __slots__ = ("elapsed_ms", "counted_ms", "hearings", "fell_at", "voices", "passed", "others_ms", "below")
    ELAPSED_MS_FIELD_NUMBER: _ClassVar[int]
    COUNTED_MS_FIELD_NUMBER: _ClassVar[int]
    HEARINGS_FIELD_NUMBER: _ClassVar[int]
    FELL_AT_FIELD_NUMBER: _ClassVar[int]
    VOICES_FIELD_NUMBER: _ClassVar[int]
    PASSED_FIELD_NUMBER: _ClassVar[int]
    OTHERS_MS_FIELD_NUMBER: _ClassVar[int]
    BELOW_FIELD_NUMBER: _ClassVar[int]
    elapsed_ms: int
    counted_ms: int
    hearings: int
    fell_at: int
    voices: _containers.RepeatedCompositeFieldContainer[ClockVoice]
    passed: int
    others_ms: int
    below: int
    def __init__(self, elapsed_ms: _Optional[int] = ..., counted_ms: _Optional[int] = ..., hearings: _Optional[int] = ..., fell_at: _Optional[int] = ..., voices: _Optional[_Iterable[_Union[ClockVoice, _Mapping]]] = ..., passed: _Optional[int] = ..., others_ms: _Optional[int] = ..., below: _Optional[int] = ...) -> None: ...

class ClockVoice(_message.Message):
    __slots__ = ("range_id", "shown_ms", "closed_ms", "counted_ms", "heard")
    RANGE_ID_FIELD_NUMBER: _ClassVar[int]
    SHOWN_MS_FIELD_NUMBER: _ClassVar[int]
    CLOSED_MS_FIELD_NUMBER: _ClassVar[int]
    COUNTED_MS_FIELD_NUMBER: _ClassVar[int]
    HEARD_FIELD_NUMBER: _ClassVar[int]
    range_id: int
    shown_ms: int
    closed_ms: int
    counted_ms: int
    heard: int
    def __init__(self, range_id: _Optional[int] = ..., shown_ms: _Optional[int] = ..., closed_ms: _Optional[int] = ..., counted_ms: _Optional[int] = ..., heard: _Optional[int] = ...) -> None: ...

class Range(_message.Message):
    __slots__ = ("offset", "generation", "applied", "start", "end", "status", "closed_wall", "closed_logical", "resolved_wall", "gc_wall", "gc_logical", "high_wall", "high_logical", "awaits_snapshot", "closed_regressions", "quarantine", "pending_heartbeat", "chunks", "floors", "open_transactions", "behind", "hand_offs", "claims", "scan", "holes", "promises", "unseen", "lags", "accounted", "refused_chunks", "waits_since_ms", "heard_ms", "claimed_since_ms", "heirs", "told_apart", "mutated")
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    APPLIED_FIELD_NUMBER: _ClassVar[int]
    START_FIELD_NUMBER: _ClassVar[int]
    END_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    CLOSED_WALL_FIELD_NUMBER: _ClassVar[int]
    CLOSED_LOGICAL_FIELD_NUMBER: _ClassVar[int]
    RESOLVED_WALL_FIELD_NUMBER: _ClassVar[int]
    GC_WALL_FIELD_NUMBER: _ClassVar[int]
    GC_LOGICAL_FIELD_NUMBER: _ClassVar[int]
    HIGH_WALL_FIELD_NUMBER: _ClassVar[int]
    HIGH_LOGICAL_FIELD_NUMBER: _ClassVar[int]
    AWAITS_SNAPSHOT_FIELD_NUMBER: _ClassVar[int]
    CLOSED_REGRESSIONS_FIELD_NUMBER: _ClassVar[int]
    QUARANTINE_FIELD_NUMBER: _ClassVar[int]
    PENDING_HEARTBEAT_FIELD_NUMBER: _ClassVar[int]
    CHUNKS_FIELD_NUMBER: _ClassVar[int]
    FLOORS_FIELD_NUMBER: _ClassVar[int]
    OPEN_TRANSACTIONS_FIELD_NUMBER: _ClassVar[int]
    BEHIND_FIELD_NUMBER: _ClassVar[int]
    HAND_OFFS_FIELD_NUMBER: _ClassVar[int]
    CLAIMS_FIELD_NUMBER: _ClassVar[int]
    SCAN_FIELD_NUMBER: _ClassVar[int]
    HOLES_FIELD_NUMBER: _ClassVar[int]
    PROMISES_FIELD_NUMBER: _ClassVar[int]
    UNSEEN_FIELD_NUMBER: _ClassVar[int]
    LAGS_FIELD_NUMBER: _ClassVar[int]
    ACCOUNTED_FIELD_NUMBER: _ClassVar[int]
    REFUSED_CHUNKS_FIELD_NUMBER: _ClassVar[int]
    WAITS_SINCE_MS_FIELD_NUMBER: _ClassVar[int]
    HEARD_MS_FIELD_NUMBER: _ClassVar[int]
    CLAIMED_SINCE_MS_FIELD_NUMBER: _ClassVar[int]
    HEIRS_FIELD_NUMBER: _ClassVar[int]
    TOLD_APART_FIELD_NUMBER: _ClassVar[int]
    MUTATED_FIELD_NUMBER: _ClassVar[int]
    offset: int
    generation: int
    applied: int
    start: bytes
    end: bytes
    status: int
    closed_wall: int
    closed_logical: int
    resolved_wall: int
    gc_wall: int
    gc_logical: int
    high_wall: int
    high_logical: int
    awaits_snapshot: bool
    closed_regressions: int
    quarantine: Quarantine
    pending_heartbeat: bytes
    chunks: int
    floors: _containers.RepeatedCompositeFieldContainer[Floor]
    open_transactions: int
    behind: int
    hand_offs: _containers.RepeatedCompositeFieldContainer[HandOff]
    claims: _containers.RepeatedCompositeFieldContainer[Claim]
    scan: Scan
    holes: _containers.RepeatedCompositeFieldContainer[Hole]
    promises: _containers.RepeatedCompositeFieldContainer[Promise]
    unseen: int
    lags: _containers.RepeatedCompositeFieldContainer[Lag]
    accounted: Accounted
    refused_chunks: int
    waits_since_ms: int
    heard_ms: int
    claimed_since_ms: int
    heirs: _containers.RepeatedCompositeFieldContainer[Claim]
    told_apart: bool
    mutated: _containers.RepeatedCompositeFieldContainer[MutatedKeys]
    def __init__(self, offset: _Optional[int] = ..., generation: _Optional[int] = ..., applied: _Optional[int] = ..., start: _Optional[bytes] = ..., end: _Optional[bytes] = ..., status: _Optional[int] = ..., closed_wall: _Optional[int] = ..., closed_logical: _Optional[int] = ..., resolved_wall: _Optional[int] = ..., gc_wall: _Optional[int] = ..., gc_logical: _Optional[int] = ..., high_wall: _Optional[int] = ..., high_logical: _Optional[int] = ..., awaits_snapshot: _Optional[bool] = ..., closed_regressions: _Optional[int] = ..., quarantine: _Optional[_Union[Quarantine, _Mapping]] = ..., pending_heartbeat: _Optional[bytes] = ..., chunks: _Optional[int] = ..., floors: _Optional[_Iterable[_Union[Floor, _Mapping]]] = ..., open_transactions: _Optional[int] = ..., behind: _Optional[int] = ..., hand_offs: _Optional[_Iterable[_Union[HandOff, _Mapping]]] = ..., claims: _Optional[_Iterable[_Union[Claim, _Mapping]]] = ..., scan: _Optional[_Union[Scan, _Mapping]] = ..., holes: _Optional[_Iterable[_Union[Hole, _Mapping]]] = ..., promises: _Optional[_Iterable[_Union[Promise, _Mapping]]] = ..., unseen: _Optional[int] = ..., lags: _Optional[_Iterable[_Union[Lag, _Mapping]]] = ..., accounted: _Optional[_Union[Accounted, _Mapping]] = ..., refused_chunks: _Optional[int] = ..., waits_since_ms: _Optional[int] = ..., heard_ms: _Optional[int] = ..., claimed_since_ms: _Optional[int] = ..., heirs: _Optional[_Iterable[_Union[Claim, _Mapping]]] = ..., told_apart: _Optional[bool] = ..., mutated: _Optional[_Iterable[_Union[MutatedKeys, _Mapping]]] = ...) -> None: ...

class MutatedKeys(_message.Message):
    __slots__ = ("start", "end", "time_wall", "time_logical", "last_wall", "last_logical", "first_wall", "first_logical")
    START_FIELD_NUMBER: _ClassVar[int]
    END_FIELD_NUMBER: _ClassVar[int]
    TIME_WALL_FIELD_NUMBER: _ClassVar[int]
    TIME_LOGICAL_FIELD_NUMBER: _ClassVar[int]
    LAST_WALL_FIELD_NUMBER: _ClassVar[int]
    LAST_LOGICAL_FIELD_NUMBER: _ClassVar[int]
    FIRST_WALL_FIELD_NUMBER: _ClassVar[int]
    FIRST_LOGICAL_FIELD_NUMBER: _ClassVar[int]
    start: bytes
    end: bytes
    time_wall: int
    time_logical: int
    last_wall: int
    last_logical: int
    first_wall: int
    first_logical: int
    def __init__(self, start: _Optional[bytes] = ..., end: _Optional[bytes] = ..., time_wall: _Optional[int] = ..., time_logical: _Optional[int] = ..., last_wall: _Optional[int] = ..., last_logical: _Optional[int] = ..., first_wall: _Optional[int] = ..., first_logical: _Optional[int] = ...) -> None: ...

class Told(_message.Message):
    __slots__ = ("feed_sets", "lags", "promises", "holes")
    FEED_SETS_FIELD_NUMBER: _ClassVar[int]
    LAGS_FIELD_NUMBER: _ClassVar[int]
    PROMISES_FIELD_NUMBER: _ClassVar[int]
    HOLES_FIELD_NUMBER: _ClassVar[int]
    feed_sets: _containers.RepeatedCompositeFieldContainer[FeedSet]
    lags: _containers.RepeatedCompositeFieldContainer[Lags]
    promises: _containers.RepeatedCompositeFieldContainer[Promise]
    holes: _containers.RepeatedCompositeFieldContainer[Hole]
    def __init__(self, feed_sets: _Optional[_Iterable[_Union[FeedSet, _Mapping]]] = ..., lags: _Optional[_Iterable[_Union[Lags, _Mapping]]] = ..., promises: _Optional[_Iterable[_Union[Promise, _Mapping]]] = ..., holes: _Optional[_Iterable[_Union[Hole, _Mapping]]] = ...) -> None: ...

class FeedSet(_message.Message):
    __slots__ = ("feed_ids",)
    FEED_IDS_FIELD_NUMBER: _ClassVar[int]
    feed_ids: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, feed_ids: _Optional[_Iterable[str]] = ...) -> None: ...

class Accounted(_message.Message):
    __slots__ = ("raft_index", "noted", "start", "end", "time_wall", "time_logical", "noted_at", "passed")
    RAFT_INDEX_FIELD_NUMBER: _ClassVar[int]
    NOTED_FIELD_NUMBER: _ClassVar[int]
    START_FIELD_NUMBER: _ClassVar[int]
    END_FIELD_NUMBER: _ClassVar[int]
    TIME_WALL_FIELD_NUMBER: _ClassVar[int]
    TIME_LOGICAL_FIELD_NUMBER: _ClassVar[int]
    NOTED_AT_FIELD_NUMBER: _ClassVar[int]
    PASSED_FIELD_NUMBER: _ClassVar[int]
    raft_index: int
    noted: int
    start: bytes
    end: bytes
    time_wall: int
    time_logical: int
    noted_at: int
    passed: int
    def __init__(self, raft_index: _Optional[int] = ..., noted: _Optional[int] = ..., start: _Optional[bytes] = ..., end: _Optional[bytes] = ..., time_wall: _Optional[int] = ..., time_logical: _Optional[int] = ..., noted_at: _Optional[int] = ..., passed: _Optional[int] = ...) -> None: ...

class Lag(_message.Message):
    __slots__ = ("feed_id", "gaps")
    FEED_ID_FIELD_NUMBER: _ClassVar[int]
    GAPS_FIELD_NUMBER: _ClassVar[int]
    feed_id: str
    gaps: _containers.RepeatedCompositeFieldContainer[Gap]
    def __init__(self, feed_id: _Optional[str] = ..., gaps: _Optional[_Iterable[_Union[Gap, _Mapping]]] = ...) -> None: ...

class Lags(_message.Message):
    __slots__ = ("lags", "feed_set", "lacking")
    LAGS_FIELD_NUMBER: _ClassVar[int]
    FEED_SET_FIELD_NUMBER: _ClassVar[int]
    LACKING_FIELD_NUMBER: _ClassVar[int]
    lags: _containers.RepeatedCompositeFieldContainer[Lag]
    feed_set: int
    lacking: _containers.RepeatedCompositeFieldContainer[Lacking]
    def __init__(self, lags: _Optional[_Iterable[_Union[Lag, _Mapping]]] = ..., feed_set: _Optional[int] = ..., lacking: _Optional[_Iterable[_Union[Lacking, _Mapping]]] = ...) -> None: ...

class Lacking(_message.Message):
    __slots__ = ("feeds", "gaps")
    FEEDS_FIELD_NUMBER: _ClassVar[int]
    GAPS_FIELD_NUMBER: _ClassVar[int]
    feeds: _containers.RepeatedScalarFieldContainer[int]
    gaps: _containers.RepeatedCompositeFieldContainer[Gap]
    def __init__(self, feeds: _Optional[_Iterable[int]] = ..., gaps: _Optional[_Iterable[_Union[Gap, _Mapping]]] = ...) -> None: ...

class Gap(_message.Message):
    __slots__ = ("start", "end", "complete_wall", "complete_logical")
    START_FIELD_NUMBER: _ClassVar[int]
    END_FIELD_NUMBER: _ClassVar[int]
    COMPLETE_WALL_FIELD_NUMBER: _ClassVar[int]
    COMPLETE_LOGICAL_FIELD_NUMBER: _ClassVar[int]
    start: bytes
    end: bytes
    complete_wall: int
    complete_logical: int
    def __init__(self, start: _Optional[bytes] = ..., end: _Optional[bytes] = ..., complete_wall: _Optional[int] = ..., complete_logical: _Optional[int] = ...) -> None: ...

class Claim(_message.Message):
    __slots__ = ("child", "parent", "last_index", "start", "end", "told_ms")
    CHILD_FIELD_NUMBER: _ClassVar[int]
    PARENT_FIELD_NUMBER: _ClassVar[int]
    LAST_INDEX_FIELD_NUMBER: _ClassVar[int]
    START_FIELD_NUMBER: _ClassVar[int]
    END_FIELD_NUMBER: _ClassVar[int]
    TOLD_MS_FIELD_NUMBER: _ClassVar[int]
    child: int
    parent: int
    last_index: int
    start: bytes
    end: bytes
    told_ms: int
    def __init__(self, child: _Optional[int] = ..., parent: _Optional[int] = ..., last_index: _Optional[int] = ..., start: _Optional[bytes] = ..., end: _Optional[bytes] = ..., told_ms: _Optional[int] = ...) -> None: ...

class HandOff(_message.Message):
    __slots__ = ("claim", "resolved_wall", "complete", "start", "end", "lags")
    CLAIM_FIELD_NUMBER: _ClassVar[int]
    RESOLVED_WALL_FIELD_NUMBER: _ClassVar[int]
    COMPLETE_FIELD_NUMBER: _ClassVar[int]
    START_FIELD_NUMBER: _ClassVar[int]
    END_FIELD_NUMBER: _ClassVar[int]
    LAGS_FIELD_NUMBER: _ClassVar[int]
    claim: Claim
    resolved_wall: int
    complete: bool
    start: bytes
    end: bytes
    lags: Lags
    def __init__(self, claim: _Optional[_Union[Claim, _Mapping]] = ..., resolved_wall: _Optional[int] = ..., complete: _Optional[bool] = ..., start: _Optional[bytes] = ..., end: _Optional[bytes] = ..., lags: _Optional[_Union[Lags, _Mapping]] = ...) -> None: ...

class Exchange(_message.Message):
    __slots__ = ("claim", "hand_off")
    CLAIM_FIELD_NUMBER: _ClassVar[int]
    HAND_OFF_FIELD_NUMBER: _ClassVar[int]
    claim: Claim
    hand_off: HandOff
    def __init__(self, claim: _Optional[_Union[Claim, _Mapping]] = ..., hand_off: _Optional[_Union[HandOff, _Mapping]] = ...) -> None: ...

class Scan(_message.Message):
    __slots__ = ("snapshot_offset", "start", "end", "after_wall", "after_logical", "upto_wall", "upto_logical", "with_prev", "next_key", "request_id", "asked_ms", "first_request_id", "lacking", "part_end", "later")
    SNAPSHOT_OFFSET_FIELD_NUMBER: _ClassVar[int]
    START_FIELD_NUMBER: _ClassVar[int]
    END_FIELD_NUMBER: _ClassVar[int]
    AFTER_WALL_FIELD_NUMBER: _ClassVar[int]
    AFTER_LOGICAL_FIELD_NUMBER: _ClassVar[int]
    UPTO_WALL_FIELD_NUMBER: _ClassVar[int]
    UPTO_LOGICAL_FIELD_NUMBER: _ClassVar[int]
    WITH_PREV_FIELD_NUMBER: _ClassVar[int]
    NEXT_KEY_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    ASKED_MS_FIELD_NUMBER: _ClassVar[int]
    FIRST_REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    LACKING_FIELD_NUMBER: _ClassVar[int]
    PART_END_FIELD_NUMBER: _ClassVar[int]
    LATER_FIELD_NUMBER: _ClassVar[int]
    snapshot_offset: int
    start: bytes
    end: bytes
    after_wall: int
    after_logical: int
    upto_wall: int
    upto_logical: int
    with_prev: bool
    next_key: bytes
    request_id: int
    asked_ms: int
    first_request_id: int
    lacking: bool
    part_end: bytes
    later: _containers.RepeatedCompositeFieldContainer[ScanPart]
    def __init__(self, snapshot_offset: _Optional[int] = ..., start: _Optional[bytes] = ..., end: _Optional[bytes] = ..., after_wall: _Optional[int] = ..., after_logical: _Optional[int] = ..., upto_wall: _Optional[int] = ..., upto_logical: _Optional[int] = ..., with_prev: _Optional[bool] = ..., next_key: _Optional[bytes] = ..., request_id: _Optional[int] = ..., asked_ms: _Optional[int] = ..., first_request_id: _Optional[int] = ..., lacking: _Optional[bool] = ..., part_end: _Optional[bytes] = ..., later: _Optional[_Iterable[_Union[ScanPart, _Mapping]]] = ...) -> None: ...

class ScanPart(_message.Message):
    __slots__ = ("start", "end", "after_wall", "after_logical")
    START_FIELD_NUMBER: _ClassVar[int]
    END_FIELD_NUMBER: _ClassVar[int]
    AFTER_WALL_FIELD_NUMBER: _ClassVar[int]
    AFTER_LOGICAL_FIELD_NUMBER: _ClassVar[int]
    start: bytes
    end: bytes
    after_wall: int
    after_logical: int
    def __init__(self, start: _Optional[bytes] = ..., end: _Optional[bytes] = ..., after_wall: _Optional[int] = ..., after_logical: _Optional[int] = ...) -> None: ...

class Hole(_message.Message):
    __slots__ = ("before", "last_index", "resolved_wall", "start", "end", "lags", "told")
    BEFORE_FIELD_NUMBER: _ClassVar[int]
    LAST_INDEX_FIELD_NUMBER: _ClassVar[int]
    RESOLVED_WALL_FIELD_NUMBER: _ClassVar[int]
    START_FIELD_NUMBER: _ClassVar[int]
    END_FIELD_NUMBER: _ClassVar[int]
    LAGS_FIELD_NUMBER: _ClassVar[int]
    TOLD_FIELD_NUMBER: _ClassVar[int]
    before: int
    last_index: int
    resolved_wall: int
    start: bytes
    end: bytes
    lags: Lags
    told: int
    def __init__(self, before: _Optional[int] = ..., last_index: _Optional[int] = ..., resolved_wall: _Optional[int] = ..., start: _Optional[bytes] = ..., end: _Optional[bytes] = ..., lags: _Optional[_Union[Lags, _Mapping]] = ..., told: _Optional[int] = ...) -> None: ...

class Promise(_message.Message):
    __slots__ = ("index", "resolved_wall", "start", "end", "lags", "told", "closed_wall")
    INDEX_FIELD_NUMBER: _ClassVar[int]
    RESOLVED_WALL_FIELD_NUMBER: _ClassVar[int]
    START_FIELD_NUMBER: _ClassVar[int]
    END_FIELD_NUMBER: _ClassVar[int]
    LAGS_FIELD_NUMBER: _ClassVar[int]
    TOLD_FIELD_NUMBER: _ClassVar[int]
    CLOSED_WALL_FIELD_NUMBER: _ClassVar[int]
    index: int
    resolved_wall: int
    start: bytes
    end: bytes
    lags: Lags
    told: int
    closed_wall: int
    def __init__(self, index: _Optional[int] = ..., resolved_wall: _Optional[int] = ..., start: _Optional[bytes] = ..., end: _Optional[bytes] = ..., lags: _Optional[_Union[Lags, _Mapping]] = ..., told: _Optional[int] = ..., closed_wall: _Optional[int] = ...) -> None: ...

class Floor(_message.Message):
    __slots__ = ("start", "end", "resolved_wall")
    START_FIELD_NUMBER: _ClassVar[int]
    END_FIELD_NUMBER: _ClassVar[int]
    RESOLVED_WALL_FIELD_NUMBER: _ClassVar[int]
    start: bytes
    end: bytes
    resolved_wall: int
    def __init__(self, start: _Optional[bytes] = ..., end: _Optional[bytes] = ..., resolved_wall: _Optional[int] = ...) -> None: ...

class Quarantine(_message.Message):
    __slots__ = ("cause", "offset", "resolved_wall")
    CAUSE_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    RESOLVED_WALL_FIELD_NUMBER: _ClassVar[int]
    cause: str
    offset: int
    resolved_wall: int
    def __init__(self, cause: _Optional[str] = ..., offset: _Optional[int] = ..., resolved_wall: _Optional[int] = ...) -> None: ...

class Intent(_message.Message):
    __slots__ = ("offset", "anchor_key", "min_wall", "min_logical", "wall", "logical", "refs")
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    ANCHOR_KEY_FIELD_NUMBER: _ClassVar[int]
    MIN_WALL_FIELD_NUMBER: _ClassVar[int]
    MIN_LOGICAL_FIELD_NUMBER: _ClassVar[int]
    WALL_FIELD_NUMBER: _ClassVar[int]
    LOGICAL_FIELD_NUMBER: _ClassVar[int]
    REFS_FIELD_NUMBER: _ClassVar[int]
    offset: int
    anchor_key: bytes
    min_wall: int
    min_logical: int
    wall: int
    logical: int
    refs: int
    def __init__(self, offset: _Optional[int] = ..., anchor_key: _Optional[bytes] = ..., min_wall: _Optional[int] = ..., min_logical: _Optional[int] = ..., wall: _Optional[int] = ..., logical: _Optional[int] = ..., refs: _Optional[int] = ...) -> None: ...

class UnfitTable(_message.Message):
    __slots__ = ("version", "reason")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    version: int
    reason: str
    def __init__(self, version: _Optional[int] = ..., reason: _Optional[str] = ...) -> None: ...

class TableHigh(_message.Message):
    __slots__ = ("wall", "logical")
    WALL_FIELD_NUMBER: _ClassVar[int]
    LOGICAL_FIELD_NUMBER: _ClassVar[int]
    wall: int
    logical: int
    def __init__(self, wall: _Optional[int] = ..., logical: _Optional[int] = ...) -> None: ...

class RefusedVersions(_message.Message):
    __slots__ = ("wall", "logical", "lowest")
    WALL_FIELD_NUMBER: _ClassVar[int]
    LOGICAL_FIELD_NUMBER: _ClassVar[int]
    LOWEST_FIELD_NUMBER: _ClassVar[int]
    wall: int
    logical: int
    lowest: int
    def __init__(self, wall: _Optional[int] = ..., logical: _Optional[int] = ..., lowest: _Optional[int] = ...) -> None: ...

class TablePast(_message.Message):
    __slots__ = ("version", "indexes")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    INDEXES_FIELD_NUMBER: _ClassVar[int]
    version: int
    indexes: _containers.RepeatedCompositeFieldContainer[PastIndex]
    def __init__(self, version: _Optional[int] = ..., indexes: _Optional[_Iterable[_Union[PastIndex, _Mapping]]] = ...) -> None: ...

class PastIndex(_message.Message):
    __slots__ = ("wall", "logical", "index_id")
    WALL_FIELD_NUMBER: _ClassVar[int]
    LOGICAL_FIELD_NUMBER: _ClassVar[int]
    INDEX_ID_FIELD_NUMBER: _ClassVar[int]
    wall: int
    logical: int
    index_id: int
    def __init__(self, wall: _Optional[int] = ..., logical: _Optional[int] = ..., index_id: _Optional[int] = ...) -> None: ...

class Feed(_message.Message):
    __slots__ = ("feed_id", "epoch", "status", "registered", "message", "reason")
    FEED_ID_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    REGISTERED_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    feed_id: str
    epoch: int
    status: int
    registered: bytes
    message: bytes
    reason: str
    def __init__(self, feed_id: _Optional[str] = ..., epoch: _Optional[int] = ..., status: _Optional[int] = ..., registered: _Optional[bytes] = ..., message: _Optional[bytes] = ..., reason: _Optional[str] = ...) -> None: ...

class Checkpoint(_message.Message):
    __slots__ = ("partition", "offset", "feeds", "ranges", "log_time_ms", "ended", "elapsed_ms")
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    FEEDS_FIELD_NUMBER: _ClassVar[int]
    RANGES_FIELD_NUMBER: _ClassVar[int]
    LOG_TIME_MS_FIELD_NUMBER: _ClassVar[int]
    ENDED_FIELD_NUMBER: _ClassVar[int]
    ELAPSED_MS_FIELD_NUMBER: _ClassVar[int]
    partition: int
    offset: int
    feeds: _containers.RepeatedCompositeFieldContainer[ActiveFeed]
    ranges: _containers.RepeatedCompositeFieldContainer[RangeCheckpoint]
    log_time_ms: int
    ended: _containers.RepeatedScalarFieldContainer[int]
    elapsed_ms: int
    def __init__(self, partition: _Optional[int] = ..., offset: _Optional[int] = ..., feeds: _Optional[_Iterable[_Union[ActiveFeed, _Mapping]]] = ..., ranges: _Optional[_Iterable[_Union[RangeCheckpoint, _Mapping]]] = ..., log_time_ms: _Optional[int] = ..., ended: _Optional[_Iterable[int]] = ..., elapsed_ms: _Optional[int] = ...) -> None: ...

class ActiveFeed(_message.Message):
    __slots__ = ("feed_id", "epoch")
    FEED_ID_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    feed_id: str
    epoch: int
    def __init__(self, feed_id: _Optional[str] = ..., epoch: _Optional[int] = ...) -> None: ...

class RangeCheckpoint(_message.Message):
    __slots__ = ("range_id", "generation", "start", "end", "resolved_wall")
    RANGE_ID_FIELD_NUMBER: _ClassVar[int]
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    START_FIELD_NUMBER: _ClassVar[int]
    END_FIELD_NUMBER: _ClassVar[int]
    RESOLVED_WALL_FIELD_NUMBER: _ClassVar[int]
    range_id: int
    generation: int
    start: bytes
    end: bytes
    resolved_wall: int
    def __init__(self, range_id: _Optional[int] = ..., generation: _Optional[int] = ..., start: _Optional[bytes] = ..., end: _Optional[bytes] = ..., resolved_wall: _Optional[int] = ...) -> None: ...
