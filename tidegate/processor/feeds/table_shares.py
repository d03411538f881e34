"""Sorts the rows of a batch by table, so that a feed looks only at rows of its own tables."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

from tidegate.processor.feeds.version_rows import Decoded, table_of
from tidegate.ranges.version import Version


class Share(NamedTuple):
    """Versions of a batch in the order of the log, and their rows."""

    versions: Sequence[Version]
    rows: Sequence[Decoded]


class TableShares:
    """The rows of a batch, by table. A row goes only to the feeds that want its table.

    Feeds with the same tables get the same share.
    """

    def __init__(self, versions: Sequence[Version], rows: Sequence[Decoded]) -> None:
        self._versions = versions
        self._rows = rows
        #: The places of each table's rows.
        self._places: dict[int, list[int]] = {}
        for place, row in enumerate(rows):
            if row is not None:
                self._places.setdefault(table_of(row), []).append(place)
        self._whole = Share(versions, rows)
        self._shares: dict[tuple[int, ...], Share] = {}

    def of(self, table_ids: Collection[int]) -> Share | None:
        """Return the rows of these tables; ``None`` if there are none."""
        found = tuple(table_id for table_id in table_ids if table_id in self._places)
        if not found:
            return None
        if len(found) == len(self._places):
            return self._whole
        if found not in self._shares:
            places = sorted(place for table_id in found for place in self._places[table_id])
            self._shares[found] = Share(
                [self._versions[place] for place in places], [self._rows[place] for place in places]
            )
        return self._shares[found]
