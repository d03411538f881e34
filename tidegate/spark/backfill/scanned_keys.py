"""Earlier scans in the log, which show a past that the log has lost (docs/protocols/backfill.md).

A chunk of a scan of the newest versions at or below U says what every key in its span held at U. Let the log
be complete above a moment B. If every key is in such a chunk with B <= U <= S, the log has all that a scan at
S would show. B is the *base* of that scan. For example, with a chunk of all keys at 12:00 in a log that is
complete above 12:00, scans at 12:00 or later can be made.
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

#: The clocks of the source's nodes differ by less than this.
_CLOCKS_NS: Final = NANOS_PER_SECOND
_FOUND: Final = "start binary, end binary, wall long, logical int"
_FOUND_SCHEMA: Final = pa.schema(
    [("start", pa.binary()), ("end", pa.binary()), ("wall", pa.int64()), ("logical", pa.int32())]
)


class ScannedKeys(NamedTuple):
    """A span of keys that a scan in the log shows as they were at the moment ``at``."""

    span: Span
    at: Timestamp


def is_of_newest(entry: Entry) -> bool:
    """Return whether the entry shows the newest version of each key in its span, however old.

    Return ``False`` for a chunk with rows that it cannot have.
    """
    if not isinstance(entry, ScanChunk) or entry.after is not None or entry.all_versions:
        return False
    return not fault_of(entry)


def scanned_keys(
    records: DataFrame, partitions: int, watched: Sequence[Span], shortened: Sequence[int]
) -> list[ScannedKeys]:
    """Return the watched keys that scans in the log show, with the moments of these scans.

    The keys have no tenant prefixes.
    Reads the whole log once. The ``shortened`` partitions have lost their beginning. A scan counts only if
    its moment is, for each of these partitions, more than a second above the time of the first record that is
    left. A change outside the op log that came after an older scan may be lost. So the base, and each chunk
    that counts with it, are above these times as well.
    """
    shorter = records.where(sql.col("partition").isin(*shortened))
    first_ms = sql.min_by(sql.unix_millis("timestamp"), "offset")
    firsts = [row[1] for row in shorter.groupBy("partition").agg(first_ms).collect()]
    if len(firsts) < len(shortened):
        return []  # a partition has no record left
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
    """Yield, in a task, the watched parts of each chunk's span and the chunk's moment."""
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
    """Return the highest base of a scan at ``upto``.

    Return zero if some watched key is in none of the scans at or below ``upto``.
    """
    newest = SpanFrontier(watched, ZERO)
    newest.forward_all([(each.span, each.at) for each in scanned if each.at <= upto])
    return newest.minimum
