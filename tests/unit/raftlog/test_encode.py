"""Entries to bytes, and back."""

from __future__ import annotations

import pytest
from hypothesis import given

from tests.entries import entries
from tests.unit.raftlog.record_bytes import expected
from tidegate.raftlog.decode import decode_entry
from tidegate.raftlog.encode import encode_entry, encode_key, partition_of, range_of
from tidegate.raftlog.entry import Entry, RangeId, Trigger
from tidegate.spans import Span


@given(entries())
def test_every_entry_round_trips(entry: Entry) -> None:
    assert decode_entry(encode_key(range_of(entry)), encode_entry(entry)) == entry


def test_an_sstable_over_two_spans_cannot_be_written() -> None:
    command = expected(trigger=Trigger.ADD_SSTABLE)._replace(mutated=(Span(b"a", b"b"), Span(b"c", b"d")))
    with pytest.raises(ValueError, match="too many"):
        encode_entry(command)


def test_partition_is_the_range_id_modulo_the_count() -> None:
    assert [partition_of(RangeId(i), 3) for i in (3, 4, 8)] == [0, 1, 2]
