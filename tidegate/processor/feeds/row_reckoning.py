"""Reckons how many bytes of rows versions make, before they are made."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tidegate.changefeed.definition.feed import FeedId
from tidegate.changefeed.encoding.row_width import (
    NO_LENGTHS,
    NO_ROWS,
    RowWidth,
    TableLengths,
    row_width,
)
from tidegate.errors import EncodingError
from tidegate.processor.feeds.feed_table import PartitionFeeds
from tidegate.processor.feeds.partition_feed import PartitionFeed
from tidegate.processor.feeds.version_rows import PartitionRows
from tidegate.raftlog.entry import KeyValue
from tidegate.rows import table_id_of

#: Most versions have more bytes than this in the log: a key, a value, a timestamp, and their tags.
_VERSION_BYTES: Final = 40


class RowReckoning:
    """Estimates how long rows of each table are for its feeds, by names, types and labels of its descriptors.

    Rows of older versions of a table may come after a newer one, so a table only gets wider. A wrong guess
    costs time, and memory for one portion of rows; it changes no row.
    """

    __slots__ = ("_active", "_by_feed", "_by_table", "_feeds", "_lengths", "_longest", "_rows", "_seen")

    def __init__(self, rows: PartitionRows, feeds: PartitionFeeds) -> None:
        self._rows = rows
        self._feeds = feeds
        self._active: Sequence[PartitionFeed] = ()
        self._lengths: dict[int, TableLengths] = {}
        self._seen = 0
        #: The widths of rows of all feeds on a table together, and of single feeds.
        self._by_table: dict[int, RowWidth] = {}
        self._by_feed: dict[tuple[FeedId, int], RowWidth] = {}
        self._longest = 0.0

    @property
    def longest(self) -> float:
        """About how many bytes of rows one byte of the log may make, in the worst of the tables."""
        self._look()
        return self._longest

    def of_feed(self, feed: PartitionFeed, key: bytes, size: int) -> int:
        """Return about how many bytes of rows a feed gets from a version with ``size`` bytes in the log."""
        return self._width(feed, key).of(size)

    def fitting(
        self, row_bytes: int, feed: PartitionFeed | None, rows: Sequence[KeyValue], first: int
    ) -> int:
        """Return the end, excluded, of the scan's rows from ``first`` on that make about ``row_bytes`` of
        rows.

        The rows are for ``feed``; ``None`` means for all feeds together.
        """
        for number in range(first, len(rows)):
            key, _, value, prev_value, *_ = rows[number]
            row_bytes -= self._width(feed, key).of(len(key) + len(value) + len(prev_value or b""))
            if row_bytes < 0:
                return number
        return len(rows)

    def _width(self, feed: PartitionFeed | None, key: bytes) -> RowWidth:
        self._look()
        try:
            table_id = table_id_of(key)
        except EncodingError:  # it is the store's own data
            return NO_ROWS
        if feed is None:
            return self._by_table.get(table_id, NO_ROWS)
        found = self._by_feed.get((feed.id, table_id))
        if found is None:
            lengths = self._lengths.get(table_id, NO_LENGTHS)
            found = NO_ROWS if feed.emitter is None else row_width(lengths, feed.emitter.options)
            self._by_feed[feed.id, table_id] = found
        return found

    def _look(self) -> None:
        """Take in descriptors that were learnt, and feeds that have begun or ended."""
        rows = self._rows
        if self._seen == rows.versions and self._feeds.active is self._active:
            return
        changed = set(self._lengths) if self._feeds.active is not self._active else set[int]()
        self._active = self._feeds.active
        emitters = (feed.emitter for feed in self._active if feed.emitter is not None)
        for table_id in {table_id for emitter in emitters for table_id in emitter.destinations}:
            lengths = rows.lengths(table_id)
            if lengths != self._lengths.get(table_id, NO_LENGTHS):
                self._lengths[table_id] = lengths
                changed.add(table_id)
        self._seen = rows.versions
        if changed:
            self._reckon(changed)

    def _reckon(self, changed: set[int]) -> None:
        self._by_feed = {}
        for table_id in changed:
            self._by_table.pop(table_id, None)
        for emitter in (feed.emitter for feed in self._active if feed.emitter is not None):
            for table_id in changed.intersection(emitter.destinations):
                fixed, times = row_width(self._lengths[table_id], emitter.options)
                before = self._by_table.get(table_id, NO_ROWS)
                self._by_table[table_id] = RowWidth(before.fixed + fixed, before.times + times)
        self._longest = max(
            (each.fixed / _VERSION_BYTES + each.times for each in self._by_table.values()), default=0.0
        )
