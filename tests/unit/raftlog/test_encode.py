"""Entries to bytes, and back."""

from __future__ import annotations

import pytest
from hypothesis import example, given

from tests.entries import entries
from tests.unit.raftlog.record_bytes import expected
from tidegate.hlc import Timestamp
from tidegate.raftlog.decode import decode_entry
from tidegate.raftlog.encode import encode_entry, encode_key, partition_of, range_of
from tidegate.raftlog.entry import Command, CommitIntent, Entry, Op, RangeId, Trigger, TxnId, WriteValue
from tidegate.spans import Span

_VERSION = b"k", Timestamp(5, 1), b"v", b"before", True, 3
_NO_VERSION = b"k", Timestamp(5, 1), None, None, False, 0


def _with_ops(*ops: Op, batch: bytes = b"") -> Command:
    return expected()._replace(ops=ops, write_batch=batch)


@given(entries())
@example(_with_ops(WriteValue(*_VERSION), CommitIntent(TxnId(bytes(16)), *_VERSION), batch=b"some"))
@example(_with_ops(WriteValue(*_NO_VERSION), CommitIntent(TxnId(bytes(16)), *_NO_VERSION)))
@example(_with_ops())
@example(_with_ops()._replace(ops=None))
@example(_with_ops()._replace(ops=None, write_batch=b"some"))
def test_every_entry_round_trips(entry: Entry) -> None:
    assert decode_entry(encode_key(range_of(entry)), encode_entry(entry)) == entry


def test_an_sstable_over_two_spans_cannot_be_written() -> None:
    command = expected(trigger=Trigger.ADD_SSTABLE)._replace(mutated=(Span(b"a", b"b"), Span(b"c", b"d")))
    with pytest.raises(ValueError, match="too many"):
        encode_entry(command)


def test_partition_is_the_range_id_modulo_the_count() -> None:
    assert [partition_of(RangeId(i), 3) for i in (3, 4, 8)] == [0, 1, 2]
