"""The newest row of each key, as bytes: a snapshot in the making."""

from __future__ import annotations

import numpy as np

from tidegate.changefeed.encoding.record import RowRecord
from tidegate.subscribe.gate.feed_record import FeedPartition
from tidegate.subscribe.gate.opened_rows import OpenedRows
from tidegate.subscribe.gate.row_chunk import int_column


class NewestRows:
    """Takes the rows of one topic in the order of their timestamps, and keeps the last of each key."""

    __slots__ = ("_rows",)

    def __init__(self) -> None:
        self._rows: dict[bytes, tuple[int, int, FeedPartition, int, bytes | None, RowRecord | None]] = {}

    def take(self, rows: OpenedRows) -> None:
        """Take rows that are not below those that were taken before."""
        columns = (rows.walls.tolist(), rows.logicals.tolist(), rows.places, rows.offsets)
        self._rows.update(zip(rows.keys, zip(*columns, rows.values, rows.records, strict=True), strict=True))

    @property
    def count(self) -> int:
        """How many keys it has."""
        return len(self._rows)

    def rows(self) -> OpenedRows:
        """Return the rows that are left, deletions too, in the order in which their keys first came."""
        kept = list(self._rows.values())
        return OpenedRows(
            int_column([each[0] for each in kept]),
            int_column([each[1] for each in kept]),
            [each[2] for each in kept],
            [each[3] for each in kept],
            list(self._rows),
            [each[4] for each in kept],
            [each[5] for each in kept],
            np.zeros(len(kept), np.int64),
        )
