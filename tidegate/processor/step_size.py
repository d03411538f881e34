"""How much of the log one step takes, so that its rows fit into memory (docs/protocols/batches.md).

A row may have a thousand times the bytes of its entry in the log. Example: a table has 1,000 columns with
names of 20 bytes. An entry that sets two of them has 60 bytes. Its row in JSON names all columns, and has
30,000 bytes. 5,000 such entries are 0.3 MB of log and 150 MB of rows.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from operator import attrgetter
from typing import Final

from tidegate.changefeed.definition.options import Envelope, FeedOptions, Format
from tidegate.processor.batch import LogRecord
from tidegate.processor.feeds.feed_table import PartitionFeeds
from tidegate.processor.feeds.partition_feed import PartitionFeed
from tidegate.processor.feeds.version_rows import PartitionRows
from tidegate.rows import TableDescriptor

#: Hardly any version has fewer bytes in the log: a key, a value, a timestamp, and their tags.
_VERSION_BYTES: Final = 40
#: What JSON writes around a column beside its name: quotes, a colon, ``null``, a comma.
_COLUMN_BYTES: Final = 8
#: What a schema in a record says of a column beside its name.
_SCHEMA_COLUMN_BYTES: Final = 120
_value_of: Final = attrgetter("value")


@dataclass(frozen=True, slots=True)
class RowLimits:
    """How many bytes the rows of one step may have.

    A step takes as much of the log as makes about ``step_bytes`` of rows, and one record at least. A feed
    whose rows of one step have more than ``feed_bytes`` fails.
    """

    step_bytes: int = 64 << 20
    feed_bytes: int = 512 << 20


class StepSize:
    """Says how many bytes of the log the next step of a partition takes."""

    def __init__(self, rows: PartitionRows, feeds: PartitionFeeds, limits: RowLimits) -> None:
        self._rows = rows
        self._feeds = feeds
        self._limits = limits
        self._versions = -1
        self._active: Sequence[PartitionFeed] = ()
        self._log_bytes = limits.step_bytes

    @property
    def log_bytes(self) -> int:
        """The bytes of the log that make about a step's bytes of rows, by the widest table that feeds want.

        This is worked out anew when a descriptor is learnt, and when a feed begins or ends.
        """
        versions, active = self._rows.versions, self._feeds.active
        if versions != self._versions or active is not self._active:
            self._versions, self._active = versions, active
            self._log_bytes = self._limits.step_bytes // (1 + self._widest(active) // _VERSION_BYTES)
        return self._log_bytes

    def _widest(self, feeds: Iterable[PartitionFeed]) -> int:
        """Return how many bytes one version makes for all feeds together, beside its values."""
        by_table: defaultdict[int, int] = defaultdict(int)
        for feed in feeds:
            if feed.emitter is not None:
                for table_id in feed.emitter.destinations:
                    versions = self._rows.catalog.versions(table_id)
                    if versions:
                        by_table[table_id] += fixed_bytes(versions[-1], feed.emitter.options)
        return max(by_table.values(), default=0)


def fixed_bytes(table: TableDescriptor, options: FeedOptions) -> int:
    """Return about how many bytes each row of a table has beside its values, by the names of its columns."""
    if options.format is Format.AVRO:
        return len(table.columns)
    names = sum(len(column.name) + _COLUMN_BYTES for column in table.columns)
    has_both = options.diff or options.envelope in (Envelope.DEBEZIUM, Envelope.ENRICHED)
    copies = 2 if has_both else 1
    if options.connect_schema or options.enriched_schema:
        names += sum(len(column.name) + _SCHEMA_COLUMN_BYTES for column in table.columns)
    return copies * names


def fitting(records: Sequence[LogRecord], log_bytes: int) -> int:
    """Return how many of the first records have up to ``log_bytes`` of values: one at least, if there is
    any.
    """
    sizes = [len(value) if value else 0 for value in map(_value_of, records)]
    if sum(sizes) <= log_bytes:
        return len(records)
    return max(1, sum(size <= log_bytes for size in accumulate(sizes)))
