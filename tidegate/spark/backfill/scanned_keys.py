"""What scans that others have asked for tell of the past that a log has lost (docs/backfill.md).

A chunk of a scan of the newest versions at or below U says of all keys in its span what they were at U. So a
log that is complete above a moment B has all that a scan at S would show, if every key is in such a chunk
with B <= U <= S: B is its *base*.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Final, NamedTuple

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as sql

from tidegate.hlc import NANOS_PER_MS, NANOS_PER_SECOND, ZERO, Timestamp
from tidegate.raftlog.entry import Entry, ScanChunk
from tidegate.ranges.scan import fault_of
from tidegate.rows.table_key import watched_parts, without_tenant
from tidegate.spans import Span, SpanFrontier
from tidegate.spark.backfill.log_entries import readable
from tidegate.spark.platform.python_worker import settle_process

#: More than the clocks of the source's nodes are apart.
_CLOCKS_NS: Final = NANOS_PER_SECOND
_FOUND: Final = "start binary, end binary, wall long, logical int"
_FOUND_SCHEMA: Final = pa.schema(
    [("start", pa.binary()), ("end", pa.binary()), ("wall", pa.int64()), ("logical", pa.int32())]
)


class ScannedKeys(NamedTuple):
    """Keys of which the log says what they were at a moment."""

    span: Span
    at: Timestamp


def is_of_newest(entry: Entry) -> bool:
    """Whether the entry shows the newest version of each key in its span, whatever was before.

    One with rows that it cannot have shows nothing.
    """
    if not isinstance(entry, ScanChunk) or entry.after is not None or entry.all_versions:
        return False
    return not fault_of(entry)


def scanned_keys(
    records: DataFrame, partitions: int, watched: Sequence[Span], shortened: Sequence[int]
) -> list[ScannedKeys]:
    """What the log has of the watched keys, tenant prefixes left out; a pass over all of it.

    Of the ``shortened`` partitions the beginning is lost. Scans at a moment before all of them begin do not
    count: what changed the past of their keys since, beside the op log, may be lost. So a chunk at or above a
    base of those that count is no older either.
    """
    shorter = records.where(sql.col("partition").isin(*shortened))
    firsts = [
        row[1] for row in shorter.groupBy("partition").agg(sql.expr("min(unix_millis(timestamp))")).collect()
    ]
    if len(firsts) < len(shortened):
        return []  # nothing is left of one
    since = Timestamp(max(firsts) * NANOS_PER_MS + _CLOCKS_NS) if firsts else ZERO
    columns = records.select("partition", "offset", "key", "value")
    found = columns.mapInArrow(partial(find_chunks, partitions, watched), _FOUND).distinct().collect()
    return [
        ScannedKeys(Span(bytes(start), bytes(end)), at)
        for start, end, wall, logical in found
        if (at := Timestamp(wall, logical)) > since
    ]


def find_chunks(
    partitions: int, watched: Sequence[Span], batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """The task: of each chunk the parts that are watched, and its moment."""
    settle_process()
    for batch in batches:
        found = [
            (part.start, part.end, entry.upto.wall, entry.upto.logical)
            for _, entry in readable(partitions, batch)
            if isinstance(entry, ScanChunk) and is_of_newest(entry)
            for part in map(without_tenant, watched_parts(entry.span, watched))
        ]
        columns = [list(column) for column in zip(*found, strict=True)] or [[]] * len(_FOUND_SCHEMA)
        yield pa.record_batch(columns, schema=_FOUND_SCHEMA)


def base_of(scanned: Iterable[ScannedKeys], watched: Iterable[Span], upto: Timestamp) -> Timestamp:
    """The highest base of a scan at ``upto``; zero where some watched key was in no scan up to there."""
    newest = SpanFrontier(watched, ZERO)
    newest.forward_all([(each.span, each.at) for each in scanned if each.at <= upto])
    return newest.minimum
