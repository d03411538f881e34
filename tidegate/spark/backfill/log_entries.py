"""The entries of the log that tasks of a backfill gather from, in any order."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from tidegate.errors import MalformedEntry
from tidegate.processor.moving.range_entries import RangeEntry
from tidegate.raftlog.decode import decode_entry
from tidegate.raftlog.encode import partition_of
from tidegate.raftlog.entry import DescriptorUpdate


def readable(partitions: int, batch: pa.RecordBatch) -> Iterator[tuple[int, RangeEntry]]:
    """Offset and entry of the records that can be read and are in their place."""
    columns = (batch.column(name).to_pylist() for name in ("partition", "offset", "key", "value"))
    for partition, offset, key, value in zip(*columns, strict=True):
        try:
            entry = decode_entry(key, value)
        except MalformedEntry:
            continue
        if not isinstance(entry, DescriptorUpdate) and partition_of(entry.range_id, partitions) == partition:
            yield offset, entry
