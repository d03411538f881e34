from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Timestamp(_message.Message):
    __slots__ = ("wall_time", "logical")
    WALL_TIME_FIELD_NUMBER: _ClassVar[int]
    LOGICAL_FIELD_NUMBER: _ClassVar[int]
    wall_time: int
    logical: int
    def __init__(self, wall_time: _Optional[int] = ..., logical: _Optional[int] = ...) -> None: ...

class Span(_message.Message):
    __slots__ = ("start", "end")
    START_FIELD_NUMBER: _ClassVar[int]
    END_FIELD_NUMBER: _ClassVar[int]
    start: bytes
    end: bytes
    def __init__(self, start: _Optional[bytes] = ..., end: _Optional[bytes] = ...) -> None: ...

class LogEntry(_message.Message):
    __slots__ = ("range_id", "generation", "raft_index", "command", "snapshot", "heartbeat", "scan", "descriptor", "end")
    RANGE_ID_FIELD_NUMBER: _ClassVar[int]
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    RAFT_INDEX_FIELD_NUMBER: _ClassVar[int]
    COMMAND_FIELD_NUMBER: _ClassVar[int]
    SNAPSHOT_FIELD_NUMBER: _ClassVar[int]
    HEARTBEAT_FIELD_NUMBER: _ClassVar[int]
    SCAN_FIELD_NUMBER: _ClassVar[int]
    DESCRIPTOR_FIELD_NUMBER: _ClassVar[int]
    END_FIELD_NUMBER: _ClassVar[int]
    range_id: int
    generation: int
    raft_index: int
    command: RaftCommand
    snapshot: Snapshot
    heartbeat: Heartbeat
    scan: ScanChunk
    descriptor: DescriptorUpdate
    end: RangeEnd
    def __init__(self, range_id: _Optional[int] = ..., generation: _Optional[int] = ..., raft_index: _Optional[int] = ..., command: _Optional[_Union[RaftCommand, _Mapping]] = ..., snapshot: _Optional[_Union[Snapshot, _Mapping]] = ..., heartbeat: _Optional[_Union[Heartbeat, _Mapping]] = ..., scan: _Optional[_Union[ScanChunk, _Mapping]] = ..., descriptor: _Optional[_Union[DescriptorUpdate, _Mapping]] = ..., end: _Optional[_Union[RangeEnd, _Mapping]] = ...) -> None: ...

class RaftCommand(_message.Message):
    __slots__ = ("max_lease_index", "proposer_lease_sequence", "replicated_eval_result", "write_batch", "logical_op_log", "closed_timestamp")
    MAX_LEASE_INDEX_FIELD_NUMBER: _ClassVar[int]
    PROPOSER_LEASE_SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    REPLICATED_EVAL_RESULT_FIELD_NUMBER: _ClassVar[int]
    WRITE_BATCH_FIELD_NUMBER: _ClassVar[int]
    LOGICAL_OP_LOG_FIELD_NUMBER: _ClassVar[int]
    CLOSED_TIMESTAMP_FIELD_NUMBER: _ClassVar[int]
    max_lease_index: int
    proposer_lease_sequence: int
    replicated_eval_result: ReplicatedEvalResult
    write_batch: WriteBatch
    logical_op_log: LogicalOpLog
    closed_timestamp: Timestamp
    def __init__(self, max_lease_index: _Optional[int] = ..., proposer_lease_sequence: _Optional[int] = ..., replicated_eval_result: _Optional[_Union[ReplicatedEvalResult, _Mapping]] = ..., write_batch: _Optional[_Union[WriteBatch, _Mapping]] = ..., logical_op_log: _Optional[_Union[LogicalOpLog, _Mapping]] = ..., closed_timestamp: _Optional[_Union[Timestamp, _Mapping]] = ...) -> None: ...

class ReplicatedEvalResult(_message.Message):
    __slots__ = ("split", "merge", "write_timestamp", "add_sstable", "mvcc_history_mutation", "link_external_sstable", "excise")
    SPLIT_FIELD_NUMBER: _ClassVar[int]
    MERGE_FIELD_NUMBER: _ClassVar[int]
    WRITE_TIMESTAMP_FIELD_NUMBER: _ClassVar[int]
    ADD_SSTABLE_FIELD_NUMBER: _ClassVar[int]
    MVCC_HISTORY_MUTATION_FIELD_NUMBER: _ClassVar[int]
    LINK_EXTERNAL_SSTABLE_FIELD_NUMBER: _ClassVar[int]
    EXCISE_FIELD_NUMBER: _ClassVar[int]
    split: Split
    merge: Merge
    write_timestamp: Timestamp
    add_sstable: AddSSTable
    mvcc_history_mutation: MVCCHistoryMutation
    link_external_sstable: LinkExternalSSTable
    excise: Excise
    def __init__(self, split: _Optional[_Union[Split, _Mapping]] = ..., merge: _Optional[_Union[Merge, _Mapping]] = ..., write_timestamp: _Optional[_Union[Timestamp, _Mapping]] = ..., add_sstable: _Optional[_Union[AddSSTable, _Mapping]] = ..., mvcc_history_mutation: _Optional[_Union[MVCCHistoryMutation, _Mapping]] = ..., link_external_sstable: _Optional[_Union[LinkExternalSSTable, _Mapping]] = ..., excise: _Optional[_Union[Excise, _Mapping]] = ...) -> None: ...

class Split(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class Merge(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class AddSSTable(_message.Message):
    __slots__ = ("data", "crc32", "span", "at_write_timestamp")
    DATA_FIELD_NUMBER: _ClassVar[int]
    CRC32_FIELD_NUMBER: _ClassVar[int]
    SPAN_FIELD_NUMBER: _ClassVar[int]
    AT_WRITE_TIMESTAMP_FIELD_NUMBER: _ClassVar[int]
    data: bytes
    crc32: int
    span: Span
    at_write_timestamp: bool
    def __init__(self, data: _Optional[bytes] = ..., crc32: _Optional[int] = ..., span: _Optional[_Union[Span, _Mapping]] = ..., at_write_timestamp: _Optional[bool] = ...) -> None: ...

class MVCCHistoryMutation(_message.Message):
    __slots__ = ("spans",)
    SPANS_FIELD_NUMBER: _ClassVar[int]
    spans: _containers.RepeatedCompositeFieldContainer[Span]
    def __init__(self, spans: _Optional[_Iterable[_Union[Span, _Mapping]]] = ...) -> None: ...

class LinkExternalSSTable(_message.Message):
    __slots__ = ("span",)
    SPAN_FIELD_NUMBER: _ClassVar[int]
    span: Span
    def __init__(self, span: _Optional[_Union[Span, _Mapping]] = ...) -> None: ...

class Excise(_message.Message):
    __slots__ = ("span",)
    SPAN_FIELD_NUMBER: _ClassVar[int]
    span: Span
    def __init__(self, span: _Optional[_Union[Span, _Mapping]] = ...) -> None: ...

class WriteBatch(_message.Message):
    __slots__ = ("data",)
    DATA_FIELD_NUMBER: _ClassVar[int]
    data: bytes
    def __init__(self, data: _Optional[bytes] = ...) -> None: ...

class LogicalOpLog(_message.Message):
    __slots__ = ("ops",)
    OPS_FIELD_NUMBER: _ClassVar[int]
    ops: _containers.RepeatedCompositeFieldContainer[MVCCLogicalOp]
    def __init__(self, ops: _Optional[_Iterable[_Union[MVCCLogicalOp, _Mapping]]] = ...) -> None: ...

class MVCCWriteValueOp(_message.Message):
    __slots__ = ("key", "timestamp", "value", "prev_value", "origin_id", "omit_in_rangefeeds")
    KEY_FIELD_NUMBER: _ClassVar[int]
    TIMESTAMP_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    PREV_VALUE_FIELD_NUMBER: _ClassVar[int]
    ORIGIN_ID_FIELD_NUMBER: _ClassVar[int]
    OMIT_IN_RANGEFEEDS_FIELD_NUMBER: _ClassVar[int]
    key: bytes
    timestamp: Timestamp
    value: bytes
    prev_value: bytes
    origin_id: int
    omit_in_rangefeeds: bool
    def __init__(self, key: _Optional[bytes] = ..., timestamp: _Optional[_Union[Timestamp, _Mapping]] = ..., value: _Optional[bytes] = ..., prev_value: _Optional[bytes] = ..., origin_id: _Optional[int] = ..., omit_in_rangefeeds: _Optional[bool] = ...) -> None: ...

class MVCCWriteIntentOp(_message.Message):
    __slots__ = ("txn_id", "txn_key", "timestamp", "txn_min_timestamp", "txn_iso_level")
    TXN_ID_FIELD_NUMBER: _ClassVar[int]
    TXN_KEY_FIELD_NUMBER: _ClassVar[int]
    TIMESTAMP_FIELD_NUMBER: _ClassVar[int]
    TXN_MIN_TIMESTAMP_FIELD_NUMBER: _ClassVar[int]
    TXN_ISO_LEVEL_FIELD_NUMBER: _ClassVar[int]
    txn_id: bytes
    txn_key: bytes
    timestamp: Timestamp
    txn_min_timestamp: Timestamp
    txn_iso_level: int
    def __init__(self, txn_id: _Optional[bytes] = ..., txn_key: _Optional[bytes] = ..., timestamp: _Optional[_Union[Timestamp, _Mapping]] = ..., txn_min_timestamp: _Optional[_Union[Timestamp, _Mapping]] = ..., txn_iso_level: _Optional[int] = ...) -> None: ...

class MVCCUpdateIntentOp(_message.Message):
    __slots__ = ("txn_id", "timestamp")
    TXN_ID_FIELD_NUMBER: _ClassVar[int]
    TIMESTAMP_FIELD_NUMBER: _ClassVar[int]
    txn_id: bytes
    timestamp: Timestamp
    def __init__(self, txn_id: _Optional[bytes] = ..., timestamp: _Optional[_Union[Timestamp, _Mapping]] = ...) -> None: ...

class MVCCCommitIntentOp(_message.Message):
    __slots__ = ("txn_id", "key", "timestamp", "value", "prev_value", "omit_in_rangefeeds", "origin_id")
    TXN_ID_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    TIMESTAMP_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    PREV_VALUE_FIELD_NUMBER: _ClassVar[int]
    OMIT_IN_RANGEFEEDS_FIELD_NUMBER: _ClassVar[int]
    ORIGIN_ID_FIELD_NUMBER: _ClassVar[int]
    txn_id: bytes
    key: bytes
    timestamp: Timestamp
    value: bytes
    prev_value: bytes
    omit_in_rangefeeds: bool
    origin_id: int
    def __init__(self, txn_id: _Optional[bytes] = ..., key: _Optional[bytes] = ..., timestamp: _Optional[_Union[Timestamp, _Mapping]] = ..., value: _Optional[bytes] = ..., prev_value: _Optional[bytes] = ..., omit_in_rangefeeds: _Optional[bool] = ..., origin_id: _Optional[int] = ...) -> None: ...

class MVCCAbortIntentOp(_message.Message):
    __slots__ = ("txn_id",)
    TXN_ID_FIELD_NUMBER: _ClassVar[int]
    txn_id: bytes
    def __init__(self, txn_id: _Optional[bytes] = ...) -> None: ...

class MVCCAbortTxnOp(_message.Message):
    __slots__ = ("txn_id",)
    TXN_ID_FIELD_NUMBER: _ClassVar[int]
    txn_id: bytes
    def __init__(self, txn_id: _Optional[bytes] = ...) -> None: ...

class MVCCDeleteRangeOp(_message.Message):
    __slots__ = ("start_key", "end_key", "timestamp")
    START_KEY_FIELD_NUMBER: _ClassVar[int]
    END_KEY_FIELD_NUMBER: _ClassVar[int]
    TIMESTAMP_FIELD_NUMBER: _ClassVar[int]
    start_key: bytes
    end_key: bytes
    timestamp: Timestamp
    def __init__(self, start_key: _Optional[bytes] = ..., end_key: _Optional[bytes] = ..., timestamp: _Optional[_Union[Timestamp, _Mapping]] = ...) -> None: ...

class MVCCValueHeader(_message.Message):
    __slots__ = ("omit_in_rangefeeds", "origin_id")
    OMIT_IN_RANGEFEEDS_FIELD_NUMBER: _ClassVar[int]
    ORIGIN_ID_FIELD_NUMBER: _ClassVar[int]
    omit_in_rangefeeds: bool
    origin_id: int
    def __init__(self, omit_in_rangefeeds: _Optional[bool] = ..., origin_id: _Optional[int] = ...) -> None: ...

class MVCCLogicalOp(_message.Message):
    __slots__ = ("write_value", "write_intent", "update_intent", "commit_intent", "abort_intent", "abort_txn", "delete_range")
    WRITE_VALUE_FIELD_NUMBER: _ClassVar[int]
    WRITE_INTENT_FIELD_NUMBER: _ClassVar[int]
    UPDATE_INTENT_FIELD_NUMBER: _ClassVar[int]
    COMMIT_INTENT_FIELD_NUMBER: _ClassVar[int]
    ABORT_INTENT_FIELD_NUMBER: _ClassVar[int]
    ABORT_TXN_FIELD_NUMBER: _ClassVar[int]
    DELETE_RANGE_FIELD_NUMBER: _ClassVar[int]
    write_value: MVCCWriteValueOp
    write_intent: MVCCWriteIntentOp
    update_intent: MVCCUpdateIntentOp
    commit_intent: MVCCCommitIntentOp
    abort_intent: MVCCAbortIntentOp
    abort_txn: MVCCAbortTxnOp
    delete_range: MVCCDeleteRangeOp
    def __init__(self, write_value: _Optional[_Union[MVCCWriteValueOp, _Mapping]] = ..., write_intent: _Optional[_Union[MVCCWriteIntentOp, _Mapping]] = ..., update_intent: _Optional[_Union[MVCCUpdateIntentOp, _Mapping]] = ..., commit_intent: _Optional[_Union[MVCCCommitIntentOp, _Mapping]] = ..., abort_intent: _Optional[_Union[MVCCAbortIntentOp, _Mapping]] = ..., abort_txn: _Optional[_Union[MVCCAbortTxnOp, _Mapping]] = ..., delete_range: _Optional[_Union[MVCCDeleteRangeOp, _Mapping]] = ...) -> None: ...

class Heartbeat(_message.Message):
    __slots__ = ("closed_timestamp", "covers")
    CLOSED_TIMESTAMP_FIELD_NUMBER: _ClassVar[int]
    COVERS_FIELD_NUMBER: _ClassVar[int]
    closed_timestamp: Timestamp
    covers: int
    def __init__(self, closed_timestamp: _Optional[_Union[Timestamp, _Mapping]] = ..., covers: _Optional[int] = ...) -> None: ...

class Snapshot(_message.Message):
    __slots__ = ("span", "closed_timestamp", "high", "gc_threshold", "intents", "descriptors", "parents", "reason", "chunk", "chunks", "last_mutation")
    class Reason(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        UNKNOWN: _ClassVar[Snapshot.Reason]
        INITIAL: _ClassVar[Snapshot.Reason]
        SPLIT: _ClassVar[Snapshot.Reason]
        MERGE: _ClassVar[Snapshot.Reason]
        RAFT_SNAPSHOT: _ClassVar[Snapshot.Reason]
        PERIODIC: _ClassVar[Snapshot.Reason]
    UNKNOWN: Snapshot.Reason
    INITIAL: Snapshot.Reason
    SPLIT: Snapshot.Reason
    MERGE: Snapshot.Reason
    RAFT_SNAPSHOT: Snapshot.Reason
    PERIODIC: Snapshot.Reason
    SPAN_FIELD_NUMBER: _ClassVar[int]
    CLOSED_TIMESTAMP_FIELD_NUMBER: _ClassVar[int]
    HIGH_FIELD_NUMBER: _ClassVar[int]
    GC_THRESHOLD_FIELD_NUMBER: _ClassVar[int]
    INTENTS_FIELD_NUMBER: _ClassVar[int]
    DESCRIPTORS_FIELD_NUMBER: _ClassVar[int]
    PARENTS_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    CHUNK_FIELD_NUMBER: _ClassVar[int]
    CHUNKS_FIELD_NUMBER: _ClassVar[int]
    LAST_MUTATION_FIELD_NUMBER: _ClassVar[int]
    span: Span
    closed_timestamp: Timestamp
    high: Timestamp
    gc_threshold: Timestamp
    intents: _containers.RepeatedCompositeFieldContainer[OpenIntent]
    descriptors: _containers.RepeatedCompositeFieldContainer[DescriptorUpdate]
    parents: _containers.RepeatedCompositeFieldContainer[Parent]
    reason: Snapshot.Reason
    chunk: int
    chunks: int
    last_mutation: HistoryMutation
    def __init__(self, span: _Optional[_Union[Span, _Mapping]] = ..., closed_timestamp: _Optional[_Union[Timestamp, _Mapping]] = ..., high: _Optional[_Union[Timestamp, _Mapping]] = ..., gc_threshold: _Optional[_Union[Timestamp, _Mapping]] = ..., intents: _Optional[_Iterable[_Union[OpenIntent, _Mapping]]] = ..., descriptors: _Optional[_Iterable[_Union[DescriptorUpdate, _Mapping]]] = ..., parents: _Optional[_Iterable[_Union[Parent, _Mapping]]] = ..., reason: _Optional[_Union[Snapshot.Reason, str]] = ..., chunk: _Optional[int] = ..., chunks: _Optional[int] = ..., last_mutation: _Optional[_Union[HistoryMutation, _Mapping]] = ...) -> None: ...

class HistoryMutation(_message.Message):
    __slots__ = ("raft_index", "time")
    RAFT_INDEX_FIELD_NUMBER: _ClassVar[int]
    TIME_FIELD_NUMBER: _ClassVar[int]
    raft_index: int
    time: Timestamp
    def __init__(self, raft_index: _Optional[int] = ..., time: _Optional[_Union[Timestamp, _Mapping]] = ...) -> None: ...

class OpenIntent(_message.Message):
    __slots__ = ("txn_id", "anchor_key", "key", "timestamp")
    TXN_ID_FIELD_NUMBER: _ClassVar[int]
    ANCHOR_KEY_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    TIMESTAMP_FIELD_NUMBER: _ClassVar[int]
    txn_id: bytes
    anchor_key: bytes
    key: bytes
    timestamp: Timestamp
    def __init__(self, txn_id: _Optional[bytes] = ..., anchor_key: _Optional[bytes] = ..., key: _Optional[bytes] = ..., timestamp: _Optional[_Union[Timestamp, _Mapping]] = ...) -> None: ...

class Parent(_message.Message):
    __slots__ = ("range_id", "generation", "last_index")
    RANGE_ID_FIELD_NUMBER: _ClassVar[int]
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    LAST_INDEX_FIELD_NUMBER: _ClassVar[int]
    range_id: int
    generation: int
    last_index: int
    def __init__(self, range_id: _Optional[int] = ..., generation: _Optional[int] = ..., last_index: _Optional[int] = ...) -> None: ...

class RangeEnd(_message.Message):
    __slots__ = ("last_index",)
    LAST_INDEX_FIELD_NUMBER: _ClassVar[int]
    last_index: int
    def __init__(self, last_index: _Optional[int] = ...) -> None: ...

class DescriptorUpdate(_message.Message):
    __slots__ = ("table_id", "version", "modification_time", "descriptor")
    TABLE_ID_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    MODIFICATION_TIME_FIELD_NUMBER: _ClassVar[int]
    DESCRIPTOR_FIELD_NUMBER: _ClassVar[int]
    table_id: int
    version: int
    modification_time: Timestamp
    descriptor: bytes
    def __init__(self, table_id: _Optional[int] = ..., version: _Optional[int] = ..., modification_time: _Optional[_Union[Timestamp, _Mapping]] = ..., descriptor: _Optional[bytes] = ...) -> None: ...

class ScanChunk(_message.Message):
    __slots__ = ("request_id", "span", "after", "upto", "all_versions", "rows", "last")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    SPAN_FIELD_NUMBER: _ClassVar[int]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    UPTO_FIELD_NUMBER: _ClassVar[int]
    ALL_VERSIONS_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    LAST_FIELD_NUMBER: _ClassVar[int]
    request_id: int
    span: Span
    after: Timestamp
    upto: Timestamp
    all_versions: bool
    rows: _containers.RepeatedCompositeFieldContainer[KeyValue]
    last: bool
    def __init__(self, request_id: _Optional[int] = ..., span: _Optional[_Union[Span, _Mapping]] = ..., after: _Optional[_Union[Timestamp, _Mapping]] = ..., upto: _Optional[_Union[Timestamp, _Mapping]] = ..., all_versions: _Optional[bool] = ..., rows: _Optional[_Iterable[_Union[KeyValue, _Mapping]]] = ..., last: _Optional[bool] = ...) -> None: ...

class KeyValue(_message.Message):
    __slots__ = ("key", "timestamp", "value", "prev_value", "omit_in_rangefeeds")
    KEY_FIELD_NUMBER: _ClassVar[int]
    TIMESTAMP_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    PREV_VALUE_FIELD_NUMBER: _ClassVar[int]
    OMIT_IN_RANGEFEEDS_FIELD_NUMBER: _ClassVar[int]
    key: bytes
    timestamp: Timestamp
    value: bytes
    prev_value: bytes
    omit_in_rangefeeds: bool
    def __init__(self, key: _Optional[bytes] = ..., timestamp: _Optional[_Union[Timestamp, _Mapping]] = ..., value: _Optional[bytes] = ..., prev_value: _Optional[bytes] = ..., omit_in_rangefeeds: _Optional[bool] = ...) -> None: ...

class Request(_message.Message):
    __slots__ = ("version", "range_id", "push", "scan", "admin_split", "admin_merge")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    RANGE_ID_FIELD_NUMBER: _ClassVar[int]
    PUSH_FIELD_NUMBER: _ClassVar[int]
    SCAN_FIELD_NUMBER: _ClassVar[int]
    ADMIN_SPLIT_FIELD_NUMBER: _ClassVar[int]
    ADMIN_MERGE_FIELD_NUMBER: _ClassVar[int]
    version: int
    range_id: int
    push: PushRequest
    scan: ScanRequest
    admin_split: AdminSplitRequest
    admin_merge: AdminMergeRequest
    def __init__(self, version: _Optional[int] = ..., range_id: _Optional[int] = ..., push: _Optional[_Union[PushRequest, _Mapping]] = ..., scan: _Optional[_Union[ScanRequest, _Mapping]] = ..., admin_split: _Optional[_Union[AdminSplitRequest, _Mapping]] = ..., admin_merge: _Optional[_Union[AdminMergeRequest, _Mapping]] = ...) -> None: ...

class PushRequest(_message.Message):
    __slots__ = ("txns", "push_to")
    TXNS_FIELD_NUMBER: _ClassVar[int]
    PUSH_TO_FIELD_NUMBER: _ClassVar[int]
    txns: _containers.RepeatedCompositeFieldContainer[PushedTxn]
    push_to: Timestamp
    def __init__(self, txns: _Optional[_Iterable[_Union[PushedTxn, _Mapping]]] = ..., push_to: _Optional[_Union[Timestamp, _Mapping]] = ...) -> None: ...

class PushedTxn(_message.Message):
    __slots__ = ("txn_id", "anchor_key")
    TXN_ID_FIELD_NUMBER: _ClassVar[int]
    ANCHOR_KEY_FIELD_NUMBER: _ClassVar[int]
    txn_id: bytes
    anchor_key: bytes
    def __init__(self, txn_id: _Optional[bytes] = ..., anchor_key: _Optional[bytes] = ...) -> None: ...

class ScanRequest(_message.Message):
    __slots__ = ("request_id", "span", "after", "upto", "all_versions", "with_prev")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    SPAN_FIELD_NUMBER: _ClassVar[int]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    UPTO_FIELD_NUMBER: _ClassVar[int]
    ALL_VERSIONS_FIELD_NUMBER: _ClassVar[int]
    WITH_PREV_FIELD_NUMBER: _ClassVar[int]
    request_id: int
    span: Span
    after: Timestamp
    upto: Timestamp
    all_versions: bool
    with_prev: bool
    def __init__(self, request_id: _Optional[int] = ..., span: _Optional[_Union[Span, _Mapping]] = ..., after: _Optional[_Union[Timestamp, _Mapping]] = ..., upto: _Optional[_Union[Timestamp, _Mapping]] = ..., all_versions: _Optional[bool] = ..., with_prev: _Optional[bool] = ...) -> None: ...

class AdminSplitRequest(_message.Message):
    __slots__ = ("split_key",)
    SPLIT_KEY_FIELD_NUMBER: _ClassVar[int]
    split_key: bytes
    def __init__(self, split_key: _Optional[bytes] = ...) -> None: ...

class AdminMergeRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...
