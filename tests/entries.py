"""Hypothesis strategies for single log entries, unrelated to each other."""

from __future__ import annotations

from hypothesis import strategies as st

from tidegate.hlc import MAX_LOGICAL, ZERO, ClosedTimestamp, Timestamp
from tidegate.raftlog.entry import (
    NEVER_MUTATED,
    AbortIntent,
    AbortTxn,
    Command,
    CommitIntent,
    DeleteRange,
    DescriptorUpdate,
    Entry,
    Generation,
    Heartbeat,
    HistoryMutation,
    KeyValue,
    Op,
    OpenIntent,
    Parent,
    RaftIndex,
    RangeEnd,
    RangeId,
    ScanChunk,
    Snapshot,
    SnapshotReason,
    Trigger,
    TxnId,
    UpdateIntent,
    WriteIntent,
    WriteValue,
)
from tidegate.spans import Span

range_ids = st.integers(1, 2**63 - 1).map(RangeId)
generations = st.integers(0, 2**64 - 1).map(Generation)
indexes = st.integers(0, 2**64 - 1).map(RaftIndex)
timestamps = st.builds(Timestamp, st.integers(0, 2**63 - 1), st.integers(0, MAX_LOGICAL))
closed = timestamps.map(ClosedTimestamp)
keys = st.binary(max_size=12)
values = st.none() | st.binary(max_size=20)
txn_ids = st.binary(min_size=16, max_size=16).map(TxnId)
origins = st.integers(0, 2**32 - 1)


@st.composite
def spans(draw: st.DrawFn) -> Span:
    """A span with at least one key."""
    start = draw(keys)
    return Span(start, draw(keys.filter(lambda end: end > start) | st.just(start + b"\xff")))


def ops() -> st.SearchStrategy[Op]:
    """Any logical op."""
    return st.one_of(
        st.builds(WriteValue, keys, timestamps, values, values, st.booleans(), origins),
        st.builds(WriteIntent, txn_ids, keys, timestamps, timestamps),
        st.builds(UpdateIntent, txn_ids, timestamps),
        st.builds(CommitIntent, txn_ids, keys, timestamps, values, values, st.booleans(), origins),
        st.builds(AbortIntent, txn_ids),
        st.builds(AbortTxn, txn_ids),
        spans().flatmap(
            lambda span: st.builds(DeleteRange, st.just(span.start), st.just(span.end), timestamps)
        ),
    )


_MUTATIONS = (Trigger.ADD_SSTABLE, Trigger.HISTORY_MUTATION)
_write_times = timestamps.filter(lambda at: at.wall > 0)
#: A write batch without records; it holds the value of no op.
_EMPTY_BATCH = bytes(12)


@st.composite
def _commands_with_ops(draw: st.DrawFn) -> Command:
    made = tuple(draw(st.lists(ops(), max_size=4)))
    whole = all(op.value is not None for op in made if isinstance(op, WriteValue | CommitIntent))
    trigger = draw(st.sampled_from(Trigger))
    moves = trigger in (Trigger.SPLIT, Trigger.MERGE)
    also = draw(st.sampled_from([Trigger.NONE, *_MUTATIONS])) if moves else Trigger.NONE
    change = also if moves else trigger
    most = {Trigger.HISTORY_MUTATION: 3, Trigger.ADD_SSTABLE: 1}.get(change, 0)
    return Command(
        draw(range_ids),
        draw(generations),
        draw(indexes),
        made,
        draw(st.none() | closed),
        trigger,
        # Read only where an op lacks its value; bytes that are no batch would be refused there.
        draw(st.binary(max_size=20) if whole else st.sampled_from([b"", _EMPTY_BATCH])),
        tuple(draw(st.lists(spans(), max_size=most, unique=True))),
        change is Trigger.ADD_SSTABLE and draw(st.booleans()),
        draw(st.none() | _write_times) if change in _MUTATIONS else None,
        also,
    )


def commands() -> st.SearchStrategy[Command]:
    """Any command; one without an op log has a write batch."""
    no_trigger, nothing, no, never = (st.just(each) for each in (Trigger.NONE, (), False, None))
    without_ops = st.builds(
        Command,
        range_ids,
        generations,
        indexes,
        st.none(),
        closed,
        no_trigger,
        st.binary(),
        nothing,
        no,
        never,
        no_trigger,
    )
    return _commands_with_ops() | without_ops


def descriptor_updates() -> st.SearchStrategy[DescriptorUpdate]:
    """Any descriptor update."""
    return st.builds(DescriptorUpdate, st.integers(1, 2**31), st.integers(0, 2**32), timestamps, st.binary())


_mutations = st.builds(HistoryMutation, indexes, timestamps.filter(lambda timestamp: timestamp > ZERO))


@st.composite
def snapshots(draw: st.DrawFn) -> Snapshot:
    """Any snapshot chunk."""
    chunks = draw(st.integers(1, 5))
    intents = st.builds(
        OpenIntent, txn_ids, keys, keys, timestamps.filter(lambda timestamp: timestamp > ZERO)
    )
    parents = st.builds(Parent, range_ids, generations, indexes)
    return Snapshot(
        draw(range_ids),
        draw(generations),
        draw(indexes),
        draw(spans()),
        draw(closed),
        draw(timestamps),
        draw(timestamps),
        tuple(draw(st.lists(intents, max_size=3))),
        tuple(draw(st.lists(descriptor_updates(), max_size=2))),
        tuple(draw(st.lists(parents, max_size=2))),
        draw(st.sampled_from(SnapshotReason)),
        draw(st.integers(0, chunks - 1)),
        chunks,
        draw(st.none() | st.just(NEVER_MUTATED) | _mutations),
    )


def scan_chunks() -> st.SearchStrategy[ScanChunk]:
    """Any chunk of a scan's answer."""
    values = st.binary(max_size=8)
    rows = st.builds(KeyValue, keys, timestamps, values, st.none() | values, st.booleans())
    return st.builds(
        ScanChunk,
        range_ids,
        generations,
        indexes,
        st.integers(0, 2**64 - 1),
        spans(),
        st.none() | timestamps,
        timestamps,
        st.booleans(),
        st.lists(rows, max_size=3).map(tuple),
        st.booleans(),
    )


def entries() -> st.SearchStrategy[Entry]:
    """Any entry."""
    return st.one_of(
        commands(),
        snapshots(),
        descriptor_updates(),
        scan_chunks(),
        st.builds(Heartbeat, range_ids, generations, closed, indexes),
        st.builds(RangeEnd, range_ids, generations, indexes),
    )
