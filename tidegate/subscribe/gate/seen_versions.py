"""All versions of one partition that a reader has seen: a repeat is an exact copy of one of them.

It grows with what is read, so it is for readers of a bounded part, such as the loader's tasks.
`RecentVersions` is for readers that go on without end.
"""

from __future__ import annotations

from typing import Any

from tidegate.hlc import Timestamp
from tidegate.subscribe.gate.feed_record import FeedPartition, FeedRecord
from tidegate.subscribe.gate.opened_rows import differs
from tidegate.subscribe.gate.row_chunk import RowChunk


class SeenVersions:
    """Remembers versions by key and timestamp, with a digest of their values."""

    __slots__ = ("_digests", "_place")

    def __init__(self, place: FeedPartition) -> None:
        self._place = place
        self._digests: dict[tuple[bytes | None, Timestamp], int] = {}

    def are_new(self, rows: RowChunk) -> bool:
        """Note the versions of ``rows`` as seen, if all are new. Return whether they are.

        They are new if none was seen before, and none comes twice. Otherwise nothing is noted.
        """
        times = zip(rows.walls.tolist(), rows.logicals.tolist(), strict=True)
        digests: dict[Any, int] = dict(
            zip(zip(rows.keys, times, strict=True), map(hash, rows.values), strict=True)
        )
        if len(digests) != rows.rows or not self._digests.keys().isdisjoint(digests):
            return False
        self._digests.update(digests)
        return True

    def is_repeat(self, record: FeedRecord, updated: Timestamp) -> bool:
        """Note the version as seen. Return whether it was seen before.

        Raises ``RepeatDiffers`` if it was seen with another value.
        """
        version, digest = (record.key, updated), hash(record.value)
        known = self._digests.get(version)
        if known is None:
            self._digests[version] = digest
        elif known != digest:
            raise differs(self._place, record.offset)
        return known is not None
