"""Reckons how many bytes of rows versions make, before they are made."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tidegate.changefeed.definition.options import FeedOptions
from tidegate.changefeed.encoding.row_width import NO_ROWS, RowWidth, row_width, table_lengths
from tidegate.errors import EncodingError
from tidegate.processor.feeds.feed_table import PartitionFeeds
from tidegate.processor.feeds.partition_feed import PartitionFeed
from tidegate.processor.feeds.version_rows import PartitionRows
from tidegate.raftlog.entry import KeyValue
from tidegate.rows import TableDescriptor, table_id_of

#: Most versions have more bytes in the log: a key, a value, a timestamp, and their tags.
_VERSION_BYTES: Final = 40


class RowReckoning:
    """How long rows of each table are for all feeds together, by the names and labels of its descriptors.

    A wrong guess costs time, and memory for one portion of rows; it changes no row.
    """

    __slots__ = ("_active", "_feeds", "_longest", "_options", "_rows", "_seen", "_widths")

    def __init__(self, rows: PartitionRows, feeds: PartitionFeeds) -> None:
        self._rows = rows
        self._feeds = feeds
        self._active: Sequence[PartitionFeed] = ()
        #: By table: the options of its feeds, and the widest of the versions that have been looked at.
        self._options: dict[int, list[FeedOptions]] = {}
        self._widths: dict[int, RowWidth] = {}
        self._seen = 0
        self._longest = 0.0

    @property
    def longest(self) -> float:
        """About how many bytes of rows a byte of the log may make, in the worst of the tables."""
        self._look()
        return self._longest

    def of(self, key: bytes, size: int) -> int:
        """Return about how many bytes of rows a version of a key makes that has ``size`` bytes in the log."""
        self._look()
        try:
            return self._widths.get(table_id_of(key), NO_ROWS).of(size)
        except EncodingError:  # it is the store's own data
            return 0

    def fitting(self, row_bytes: int, rows: Sequence[KeyValue]) -> int:
        """Return how many of a scan's rows, from the first one on, make about so many bytes of rows."""
        for number, row in enumerate(rows):
            row_bytes -= self.of(row.key, len(row.key) + len(row.value) + len(row.prev_value or b""))
            if row_bytes < 0:
                return number
        return len(rows)

    def _look(self) -> None:
        """Take in descriptors that were learnt, and feeds that have begun or ended."""
        if self._feeds.active is not self._active:
            self._active, self._seen, self._longest = self._feeds.active, 0, 0.0
            self._options, self._widths = {}, {}
            for emitter in (feed.emitter for feed in self._active if feed.emitter is not None):
                for table_id in emitter.destinations:
                    self._options.setdefault(table_id, []).append(emitter.options)
        if self._seen < len(self._rows.learnt):
            for table in self._rows.learnt[self._seen :]:
                if wanted := self._options.get(table.id):
                    self._widen(table, wanted)
            self._seen = len(self._rows.learnt)

    def _widen(self, table: TableDescriptor, wanted: Sequence[FeedOptions]) -> None:
        """Look at a version. Rows of older versions may come behind it, so a table only gets wider."""
        lengths, before = table_lengths(table), self._widths.get(table.id, NO_ROWS)
        widths = [row_width(lengths, options) for options in wanted]
        widest = RowWidth(
            max(before.fixed, sum(each.fixed for each in widths)),
            max(before.times, sum(each.times for each in widths)),
        )
        self._widths[table.id] = widest
        self._longest = max(self._longest, widest.fixed / _VERSION_BYTES + widest.times)
