"""Entries of the log."""

from __future__ import annotations

from typing import Final

from tests.hand_log import HandRange, at
from tests.hostile.corpus.case import Ends, Hostile, Stage
from tests.hostile.write_batches import batch, delete_range, set_version
from tidegate.hlc import ClosedTimestamp, Timestamp
from tidegate.raftlog import raftlog_pb2 as pb
from tidegate.raftlog.encode import encode_key
from tidegate.raftlog.entry import (
    CommitIntent,
    DescriptorUpdate,
    Generation,
    Parent,
    RaftIndex,
    RangeId,
    SnapshotReason,
    Trigger,
    TxnId,
    WriteIntent,
)
from tidegate.rows import Column, Family, KeyPart, Kind, SqlType, TableDescriptor, encode_descriptor
from tidegate.spans import Span

_TXN: Final = TxnId(b"x" * 16)
_LAST: Final = Timestamp(2**63 - 1, 2**31 - 1)


def _parents(*range_ids: int) -> tuple[Parent, ...]:
    return tuple(Parent(RangeId(each), Generation(1), RaftIndex(5)) for each in range_ids)


def _anchored(size: str, anchor_bytes: int) -> Hostile:
    return Hostile(
        f"an intent whose anchor key has {size} MB",
        "No record of state had room for the open transaction.",
        lambda stage: stage.range.apply(WriteIntent(_TXN, b"a" * anchor_bytes, at(5), at(5))),
        Ends.QUARANTINED,
        "the anchor key of transaction",
    )


def _merged(stage: Stage, *range_ids: int) -> None:
    stage.range.generation += 1
    stage.range.snapshot(reason=SnapshotReason.MERGE, parents=_parents(*range_ids))


def _many_children(stage: Stage) -> None:
    """Ranges that claim the keys of range 1, at an index that it never reaches; and a row of its own."""
    parent = Parent(stage.range.id, Generation(1), RaftIndex(1_000_000))
    for number in range(10_000):
        key = stage.table.key(1_000 + number)
        child = HandRange(stage.log, RangeId(1_000_000_000 + number), Span(key, key + b"\x00"))
        child.generation = Generation(2)
        child.snapshot(reason=SnapshotReason.SPLIT, parents=(parent,))
    stage.row("kept")


def _born_at_index_0(stage: Stage) -> None:
    """A split whose right half begins at raft index 0, which the contract allows."""
    left, key, end = stage.range, stage.table.key(1), stage.range.span.end
    left.apply(trigger=Trigger.SPLIT)
    parent = left.as_parent()
    left.span = Span(left.span.start, key)
    left.generation += 1
    left.snapshot(reason=SnapshotReason.SPLIT, parents=(parent,))
    child = HandRange(stage.log, RangeId(left.id + 2), Span(key, end))
    child.index, child.generation = 0, left.generation
    child.snapshot(reason=SnapshotReason.SPLIT, parents=(parent,))
    child.apply(stage.table.put(5, 1, "born"))


def _far_ahead(stage: Stage) -> None:
    row = stage.table.put(5, 1, "far")._replace(timestamp=_LAST)
    stage.range.index += 1
    stage.log.write(stage.range.command(row))


def _closed_far_ahead(stage: Stage) -> None:
    stage.range.index += 1
    command = stage.range.command()
    stage.log.write(command._replace(closed=ClosedTimestamp(_LAST)))


def _long_transaction_id(stage: Stage) -> None:
    range_id = stage.range.id
    message = pb.LogEntry(range_id=range_id, generation=1, raft_index=stage.range.index + 1)
    message.command.logical_op_log.ops.add().abort_txn.txn_id = b"x" * 600_000
    partition = stage.log.partition_of(range_id)
    stage.log.write_bytes(partition, encode_key(range_id), message.SerializeToString())


def _deleted_ranges(stage: Stage) -> None:
    """A row that stands in its command's write batch alone, among 2,000 versions and 2,000 deleted ranges."""
    op = stage.table.put(5, 1, "kept")
    assert op.value is not None
    sets = [set_version(b"k%06d" % number, Timestamp(5), b"") for number in range(2_000)]
    ranges = [delete_range(b"z%06d" % number, b"z%06d" % (number + 1)) for number in range(2_000)]
    data = batch(*sets, *ranges, set_version(op.key, op.timestamp, op.value))
    stage.range.index += 1
    stage.log.wait_for(op.timestamp)
    stage.log.write(stage.range.command(op._replace(value=None))._replace(write_batch=data))


def _many_descriptors(stage: Stage) -> None:
    columns = (Column(1, "id", SqlType(Kind.INT, 64), nullable=False),)
    tables = [
        TableDescriptor(
            104, "hostile", version, Timestamp(version), columns, (KeyPart(1),), (Family(0, "p", (1,)),)
        )
        for version in range(2, 10_002)
    ]
    updates = [
        DescriptorUpdate(204_000 + table.version, table.version, table.modified, b"")
        if table.version % 2
        else DescriptorUpdate(104_000 + table.version, 1, table.modified, _stored(table))
        for table in tables
    ]
    stage.range.snapshot(descriptors=tuple(updates))
    stage.range.apply(stage.table.put(7, 1, "kept"))


def _stored(table: TableDescriptor) -> bytes:
    return encode_descriptor(
        TableDescriptor(
            104_000 + table.version,
            "other",
            1,
            table.modified,
            table.columns,
            table.primary_key,
            table.families,
        )
    )


ENTRIES: Final = (
    Hostile(
        "a Snapshot whose parent is range -1",
        "The claim on that range has no key: OverflowError ended every worker, again at each start.",
        lambda stage: _merged(stage, -1),
        Ends.QUARANTINED,
        "parent is range -1",
    ),
    Hostile(
        "a Snapshot whose parent is range 0",
        "Range 0 is none: nobody would ever have answered the claim.",
        lambda stage: _merged(stage, 0),
        Ends.QUARANTINED,
        "parent is range 0",
    ),
    Hostile(
        "a Snapshot with 10,000 parents",
        "Each was a hand-off to wait for, and the range's row had no room in a record of state.",
        lambda stage: _merged(stage, *range(10, 10_010)),
        Ends.QUARANTINED,
        "parents",
    ),
    Hostile(
        "10,000 ranges that claim the keys of one",
        "Each claim was kept in the range's row: no record of state had room for it.",
        _many_children,
        Ends.WRITTEN,
    ),
    Hostile(
        "a range that is born at raft index 0",
        "Index -1 was stored as what nobody has seen: ValueError broke the step, and the range was given up.",
        _born_at_index_0,
        Ends.WRITTEN,
    ),
    Hostile(
        "a descriptor of table -5",
        "State has no key for it: OverflowError ended every worker, again at each start.",
        lambda stage: stage.log.write(DescriptorUpdate(-5, 1, at(4), b"junk")),
        Ends.REPORTED,
        "-5 is no table id",
    ),
    Hostile(
        "a key of 600 KB outside of its range",
        "The cause had the key in hexadecimal, 1.2 MB, and no record of state had room for it.",
        lambda stage: stage.range.apply(CommitIntent(_TXN, b"\x00" + b"k" * 600_000, at(5), b"")),
        Ends.QUARANTINED,
        "op 0 at index",
    ),
    Hostile(
        "a transaction id of 600 KB",
        "As the key.",
        _long_transaction_id,
        Ends.QUARANTINED,
        "a transaction id has 16 bytes, not 600000",
    ),
    _anchored("1.0", 1_000_000),
    _anchored("1.02", 1_020_000),
    _anchored("1.048", 1_048_000),
    Hostile(
        "a version at the end of time",
        "Every feed that was created later began there, and was given nothing.",
        _far_ahead,
        Ends.QUARANTINED,
        "ahead of its record's time",
    ),
    Hostile(
        "a closed timestamp at the end of time",
        "The range was complete for ever, and a marker said so.",
        _closed_far_ahead,
        Ends.QUARANTINED,
        "ahead of its record's time",
    ),
    Hostile(
        "2,000 deleted ranges in a write batch",
        "All versions were looked at for each range: 92 KB took 1.8 s.",
        _deleted_ranges,
        Ends.WRITTEN,
    ),
    Hostile(
        "a Snapshot with 10,000 descriptors",
        "All known descriptors were looked at for each one, twice: minutes for a megabyte.",
        _many_descriptors,
        Ends.WRITTEN,
    ),
)
