"""Entries of the log for tasks of a backfill, which take them in any order."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from tidegate.errors import MalformedEntry
from tidegate.processor.moving.range_entries import RangeEntry
from tidegate.raftlog.decode import decode_entry
from tidegate.raftlog.encode import partition_of
from tidegate.raftlog.entry import DescriptorUpdate


def readable(partitions: int, batch: pa.RecordBatch) -> Iterator[tuple[int, RangeEntry]]:
    """Yield offset and entry of each record that can be read and stands in its range's partition.

    Descriptors are left out.
    """
    columns = (batch.column(name).to_pylist() for name in ("partition", "offset", "key", "value"))
    for partition, offset, key, value in zip(*columns, strict=True):
        try:
            entry = decode_entry(key, value)
        except MalformedEntry:
            continue
        if not isinstance(entry, DescriptorUpdate) and partition_of(entry.range_id, partitions) == partition:
            yield offset, entry
