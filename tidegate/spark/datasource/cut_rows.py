"""The rows of one partition that are above one closed cut and at or below the next, each once."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tidegate.changefeed.encoding.record import RecordDecoder, RowRecord
from tidegate.client.subscribe.feed_term import ALONE, FeedTerm
from tidegate.hlc import ZERO, Timestamp
from tidegate.subscribe.gate.feed_record import FeedPartition, FeedRecord, RecordColumns
from tidegate.subscribe.gate.recent_versions import late_row
from tidegate.subscribe.gate.row_chunk import RowChunk
from tidegate.subscribe.gate.seen_versions import SeenVersions
from tidegate.subscribe.gate.version_reader import VersionReader, require_risen


class CutRows:
    """Takes the records of a partition in the order of their offsets, until it is ``complete``.

    It is complete with the first marker at or above ``closed``: after it no new row at or below ``closed``
    comes. ``above`` is the cut before. Rows of a feed that had the topic before the feed of ``term`` are
    passed over, and so are markers that the earlier feed may have written.
    """

    def __init__(
        self,
        place: FeedPartition,
        decoder: RecordDecoder,
        above: Timestamp,
        closed: Timestamp,
        term: FeedTerm = ALONE,
    ) -> None:
        self.complete = False
        self._place = place
        self._reader = VersionReader({place.topic: decoder})
        self._above = max(above, term.rows_above)
        self._closed = closed
        self._term = term
        self._marker = ZERO
        self._seen = SeenVersions(place)

    def new_rows(self, records: RecordColumns) -> Iterator[RowChunk]:
        """Yield new rows, in the order of their offsets.

        Raises ``UnreadableRow`` for a record that cannot be read, and ``PromiseBroken`` for one that breaks a
        rule of feeds. An example is ``LateRow``: a row is at or below an earlier marker, and is new.
        """
        for rows, marker in records.by_markers():
            if self.complete:
                return
            chunk = self._reader.chunk(self._place, rows)
            if chunk is not None and (new := self._new(chunk)).rows:
                yield new
            if marker is not None:
                self._take_marker(marker)

    def decoded(self, record: FeedRecord) -> RowRecord:
        """Decode a row. Raises ``UnreadableRow`` if that is not possible."""
        return self._reader.row(self._place, record)

    def _new(self, chunk: RowChunk) -> RowChunk:
        wanted = chunk.where(chunk.up_to(self._closed) & ~chunk.up_to(self._above))
        late = wanted.up_to(self._marker)
        if not late.any() and self._seen.are_new(wanted):
            return wanted
        new = np.zeros(wanted.rows, np.bool_)
        columns = zip(
            wanted.walls.tolist(),
            wanted.logicals.tolist(),
            wanted.offsets.tolist(),
            wanted.keys,
            wanted.values,
            strict=True,
        )
        for at, (wall, logical, offset, key, value) in enumerate(columns):
            updated = Timestamp(wall, logical)
            if self._seen.is_repeat(FeedRecord(offset, key, value), updated):
                continue
            if late[at]:
                raise late_row(self._place, offset, updated, f"a marker before it says {self._marker}")
            new[at] = True
        return wanted.where(new)

    def _take_marker(self, record: FeedRecord) -> None:
        resolved = self._reader.marker(self._place, record).resolved
        require_risen(self._place, record.offset, resolved, self._marker)
        if self._term.is_earlier(resolved):
            return
        self._marker = resolved
        self.complete = resolved >= self._closed
